//! `longhaul context`: the contents of a session's window.

use crate::agent_file;
use crate::args::ContextArgs;
use crate::environment::CliEnvironment;
use crate::failure::{DONE, Outcome};
use crate::term::{out, table};

use super::reading;

pub(crate) async fn run(args: ContextArgs, place: &CliEnvironment) -> Outcome {
    let (runtime, record) = reading::session(place, &args.session).await?;
    let run = runtime.read_run(&record.id).await?;
    let report = runtime.context(&run);
    let loaded = agent_file::load(place)?;
    let configured = runtime.agent().provider.origin().model;
    let model = match run.history().model().map(|origin| origin.model.clone()) {
        Some(own) if loaded.names_a_model && own == loaded.config.model.name => own,
        Some(own) => format!("{own} (the session's own)"),
        None if loaded.names_a_model => configured,
        None => "a model without a name".to_owned(),
    };
    runtime.close().await;
    if args.json {
        out::print_line(&serde_json::to_string_pretty(&report)?)?;
    } else {
        out::rows(&table::table(&report, &table::PlannerSummary::of_stored(&run), &model))?;
    }
    Ok(DONE)
}
