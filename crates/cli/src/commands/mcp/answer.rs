//! The answers of the tools. Reading never claims the data folder: it may be in use by a chat or a server.

use longhaul::recall::RecallSource;
use longhaul::session::{Runtime, whole_log};
use longhaul_core::history::History;
use longhaul_core::truncate::TextLimit;
use longhaul_store::SessionRecord;
use serde_json::{Value, json};

use crate::args::CompactArgs;
use crate::commands::compact::{check_length, previewed};
use crate::commands::{compact, reading};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::session_lookup;

use super::history;
use super::tool_request::{McpCompactArgs, McpRecallArgs, McpSearchArgs, McpStatusArgs, McpToolRequest};

/// The maximum size of one answer. Clients truncate longer ones.
const ROOM: TextLimit = TextLimit { max_chars: 60_000, max_tokens: 15_000 };

/// The answer of a tool.
#[derive(Debug, Default)]
pub(super) struct McpToolAnswer {
    pub(super) texts: Vec<String>,
    pub(super) structured: Option<Value>,
}

/// Performs a tool call.
///
/// # Errors
/// The reason for the call's failure, for the model.
pub(super) async fn answer(place: &CliEnvironment, asked: McpToolRequest) -> Outcome<McpToolAnswer> {
    match asked {
        McpToolRequest::Recall(asked) => recalled(place, asked).await,
        McpToolRequest::Status(asked) => status(place, asked).await,
        McpToolRequest::Compact(asked) => compacted(place, asked).await,
        McpToolRequest::Search(asked) => searched(place, asked).await,
    }
}

/// Returns the name of the requested session. Without a name it is the newest session.
fn session_or_last(session: Option<&String>) -> &str {
    session.map_or("last", String::as_str)
}

/// Returns a line about the session of an answer. It is a text of its own, so that an original stays unchanged.
fn about(record: &SessionRecord) -> String {
    format!("(session {} · {})", record.id, record.title.as_deref().unwrap_or("no title"))
}

async fn recalled(place: &CliEnvironment, asked: McpRecallArgs) -> Outcome<McpToolAnswer> {
    let data = reading::usual(place).await?;
    let record = session_lookup::session(place, &data.store, session_or_last(asked.session.as_ref())).await?;
    let history = History::fold(&whole_log(&data.store, &record.id).await?)?;
    let McpRecallArgs { handle, range, query, limit, .. } = asked;
    // The text form of the tool's arguments, because the agent's own `recall` reads and checks just that.
    let mut call = json!({});
    for (key, value) in [("handle", handle), ("range", range), ("query", query)] {
        if let Some(value) = value {
            call[key] = value.into();
        }
    }
    if let Some(limit) = limit {
        call["limit"] = limit.into();
    }
    let found =
        longhaul::recall::recall(&call.to_string(), &RecallSource::of(&history), &data.blobs, &ROOM).await;
    // The store is closed before the result is looked at, so that errors close it too.
    data.store.close().await;
    Ok(McpToolAnswer { texts: vec![found.map_err(CommandError::new)?, about(&record)], structured: None })
}

async fn status(place: &CliEnvironment, asked: McpStatusArgs) -> Outcome<McpToolAnswer> {
    let (runtime, record) = reading::session(place, session_or_last(asked.session.as_ref())).await?;
    let report = report(&runtime, &record).await;
    runtime.close().await;
    // Looked at after the close, so that the store is closed on errors too.
    let report = report?;
    Ok(McpToolAnswer { texts: vec![report.to_string()], structured: Some(report) })
}

async fn report(runtime: &Runtime, record: &SessionRecord) -> Outcome<Value> {
    let run = runtime.read_run(&record.id).await?;
    let mut report = serde_json::to_value(runtime.context(&run))?;
    report["session"] = record.id.as_str().into();
    report["title"] = json!(record.title);
    report["model"] = json!(run.history().model().map(|origin| &origin.model));
    report["queued"] = record.queued.into();
    Ok(report)
}

async fn compacted(place: &CliEnvironment, asked: McpCompactArgs) -> Outcome<McpToolAnswer> {
    check_length(asked.instructions.as_deref())?;
    let session = session_or_last(asked.session.as_ref()).to_owned();
    let text = if asked.dry_run {
        let (runtime, record) = reading::session(place, &session).await?;
        let run = runtime.read_run(&record.id).await;
        runtime.close().await;
        previewed(&run?, None, asked.instructions)
    } else {
        let instructions = asked.instructions;
        let args = CompactArgs { session, dry_run: false, strategy: None, instructions };
        // Boxed: the future is large, and most calls do not need it.
        Box::pin(compact::compact_closed_session(args, place)).await?
    };
    Ok(McpToolAnswer { texts: vec![text], structured: None })
}

async fn searched(place: &CliEnvironment, asked: McpSearchArgs) -> Outcome<McpToolAnswer> {
    let data = reading::usual(place).await?;
    let found = history::search(&data.store, &asked.query, asked.limit).await;
    data.store.close().await;
    Ok(McpToolAnswer { texts: vec![found?], structured: None })
}
