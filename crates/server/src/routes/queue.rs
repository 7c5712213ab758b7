//! The messages that wait: listed, edited, removed.

use axum::Json;
use axum::extract::State;
use longhaul::session::Session;
use longhaul_core::ids::QueueId;
use longhaul_core::queue::Queued;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::content::Content;
use crate::extract::{Input, Named, Params};
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Which {
    session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Perhaps {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    content: Content,
}

pub(super) async fn list(
    State(app): State<App>,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&which.session_id).await?;
    let waiting = session.queue().await?;
    Ok(Json(json!({ "sessionId": session.id(), "count": waiting.len(), "entries": entries(&waiting) })))
}

pub(super) async fn clear(
    State(app): State<App>,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&which.session_id).await?;
    let removed = session.clear_queue().await?;
    Ok(Json(json!({ "ok": true, "sessionId": session.id(), "removed": removed })))
}

pub(super) async fn edit(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(which): Params<Perhaps>,
    Input(edit): Input<Edit>,
) -> Result<Json<Value>, Problem> {
    edit.content.check()?;
    let session = holder(&app, &id, which.session_id.as_deref()).await?;
    let parts = edit.content.parts(&app, session.id()).await?;
    session.edit_queued(QueueId::from(id.as_str()), parts).await?;
    Ok(Json(json!({ "ok": true, "id": id, "sessionId": session.id() })))
}

pub(super) async fn remove(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(which): Params<Perhaps>,
) -> Result<Json<Value>, Problem> {
    let session = holder(&app, &id, which.session_id.as_deref()).await?;
    session.remove_queued(QueueId::from(id.as_str())).await?;
    Ok(Json(json!({ "ok": true, "id": id, "sessionId": session.id() })))
}

/// The session in which that message waits.
async fn holder(app: &App, id: &str, session_id: Option<&str>) -> Result<Session, Problem> {
    if let Some(session_id) = session_id {
        return app.open(session_id).await;
    }
    for record in app.runtime().sessions(usize::MAX >> 1).await? {
        if record.queued > 0
            && app.runtime().store().queue(&record.id).await?.iter().any(|entry| entry.id.as_str() == id)
        {
            return app.open(record.id.as_str()).await;
        }
    }
    Err(Problem::not_found(format!("waiting message {id}")))
}

/// The waiting messages with their positions.
pub(crate) fn entries(waiting: &[Queued]) -> Value {
    let shown = (1..).zip(waiting).map(|(position, entry): (usize, _)| {
        json!({ "id": entry.id, "position": position, "queuedAt": entry.queued_at, "parts": entry.parts })
    });
    shown.collect()
}
