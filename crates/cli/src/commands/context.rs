//! `longhaul context`: what fills a session's window.

use crate::args::ContextArgs;
use crate::failure::{DONE, Outcome};
use crate::place::Place;
use crate::term::{out, table};

use super::Need;

pub(crate) async fn run(args: ContextArgs, place: &Place) -> Outcome {
    let runtime = super::open(place, Need::View).await?;
    let session = super::find(&runtime, &args.session).await?;
    let report = session.context().await?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        let model = session.look(|run| run.history().model().map(|origin| origin.model.clone())).await?;
        table::table(&report, &model.unwrap_or_else(|| runtime.agent().provider.origin().model))
    };
    runtime.close().await;
    out::data(&text)?;
    Ok(DONE)
}
