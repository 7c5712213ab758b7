//! `longhaul context`: what fills a session's window.

use crate::args::ContextArgs;
use crate::failure::{DONE, Outcome};
use crate::place::Place;
use crate::term::{out, table};

use super::reading;

pub(crate) async fn run(args: ContextArgs, place: &Place) -> Outcome {
    let (runtime, record) = reading::session(place, &args.session).await?;
    let run = runtime.glance(&record.id).await?;
    let report = runtime.context(&run);
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        let model = run.history().model().map(|origin| origin.model.clone());
        table::table(
            &report,
            &table::Beside::of(&run),
            &model.unwrap_or_else(|| runtime.agent().provider.origin().model),
        )
    };
    runtime.close().await;
    out::data(&text)?;
    Ok(DONE)
}
