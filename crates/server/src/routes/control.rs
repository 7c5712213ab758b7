//! Stopping a run, and going on.

use axum::Json;
use axum::extract::State;
use longhaul::session::CancelledAt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::extract::{Named, Optional};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(default)]
    clear_queue: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

pub(super) async fn cancel(
    State(app): State<App>,
    Named(id): Named<String>,
    Optional(how): Optional<Cancel>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&id).await?;
    let work = async move { Ok(session.cancel(how.clear_queue).await?) };
    let met = app.to_end(work).await?;
    let persisted = match met {
        CancelledAt::PartialAssistant => Value::from("partial_assistant"),
        CancelledAt::ToolsInProgress => Value::from("tools_in_progress"),
        CancelledAt::Idle => Value::Null,
    };
    Ok(Json(json!({ "ok": true, "cancelled": met != CancelledAt::Idle, "persisted": persisted })))
}

pub(super) async fn resume(
    State(app): State<App>,
    Named(id): Named<String>,
    Optional(Nothing {}): Optional<Nothing>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&id).await?;
    session.resume()?;
    // Whether there was anything to go on with is known once the loop has looked.
    session.look(|_| ()).await?;
    let status = *session.status().borrow();
    Ok(Json(json!({ "ok": true, "sessionId": session.id(), "status": super::sessions::status_name(status) })))
}
