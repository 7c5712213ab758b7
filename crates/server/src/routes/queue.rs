//! The messages that wait: listed, edited, removed.

use axum::Json;
use axum::extract::State;
use longhaul::session::Session;
use longhaul_core::ids::QueueId;
use longhaul_core::queue::Queued;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::App;
use crate::content::{Content, message_metadata};
use crate::extract::{Input, Named, Params};
use crate::openapi::answer;
use crate::problem::Problem;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Which {
    session_id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Perhaps {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    content: Content,
    metadata: Option<Value>,
}

/// The messages that wait
#[utoipa::path(get, path = "/api/message/queue", operation_id = "listQueue", tag = "messages", params(Which), 
    responses((status = 200, body = answer::Queue, description = "In their order")))]
pub(crate) async fn list(
    State(app): State<App>,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&which.session_id).await?;
    let waiting = session.queue().await?;
    Ok(Json(json!({ "sessionId": session.id(), "count": waiting.len(), "entries": entries(&waiting) })))
}

/// Removes all messages that wait
#[utoipa::path(delete, path = "/api/message/queue", operation_id = "clearQueue", tag = "messages", params(Which), 
    responses((status = 200, body = answer::QueueCleared, description = "Removed")))]
pub(crate) async fn clear(
    State(app): State<App>,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    let session = app.open(&which.session_id).await?;
    let removed = session.clear_queue().await?;
    Ok(Json(json!({ "ok": true, "sessionId": session.id(), "removed": removed })))
}

/// Changes a message that waits
#[utoipa::path(patch, path = "/api/message/queue/{id}", operation_id = "editQueued", tag = "messages", params(("id" = String, Path), Perhaps), request_body = answer::QueuedContent,
    responses((status = 200, body = answer::QueueChanged, description = "Changed")))]
pub(crate) async fn edit(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(which): Params<Perhaps>,
    Input(edit): Input<Edit>,
) -> Result<Json<Value>, Problem> {
    edit.content.check()?;
    let metadata = message_metadata(edit.metadata)?;
    let session = holder(&app, &id, which.session_id.as_deref()).await?;
    let parts = edit.content.parts(&app, session.id()).await?;
    session.edit_queued_message(QueueId::from(id.as_str()), parts, metadata).await?;
    Ok(Json(json!({ "ok": true, "id": id, "sessionId": session.id() })))
}

/// Removes a message that waits
#[utoipa::path(delete, path = "/api/message/queue/{id}", operation_id = "removeQueued", tag = "messages", params(("id" = String, Path), Perhaps), 
    responses((status = 200, body = answer::QueueChanged, description = "Removed")))]
pub(crate) async fn remove(
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
        let mut shown =
            json!({ "id": entry.id, "position": position, "queuedAt": entry.queued_at, "parts": entry.parts });
        if let Some(metadata) = &entry.metadata {
            shown["metadata"] = json!(metadata);
        }
        shown
    });
    shown.collect()
}
