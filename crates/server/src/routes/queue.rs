//! The routes of waiting messages: list, edit, remove.

use axum::Json;
use axum::extract::State;
use longhaul::session::Session;
use longhaul_core::ids::QueueId;
use longhaul_core::queue::QueuedMessage;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::AppState;
use crate::content::{ClientContent, message_metadata};
use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::openapi::answer;
use crate::problem::ApiProblem;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueParams {
    session_id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueEntryParams {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditQueuedRequestBody {
    content: ClientContent,
    metadata: Option<Value>,
}

/// List the queued messages
#[utoipa::path(get, path = "/api/message/queue", operation_id = "listQueue", tag = "messages", params(QueueParams), 
    responses((status = 200, body = answer::QueueListResponse, description = "In their order")))]
pub(crate) async fn list(
    State(app): State<AppState>,
    QueryParams(which): QueryParams<QueueParams>,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&which.session_id).await?;
    let waiting = session.queue().await?;
    Ok(Json(json!({ "sessionId": session.id(), "count": waiting.len(), "entries": entries(&waiting) })))
}

/// Clear the queue
#[utoipa::path(delete, path = "/api/message/queue", operation_id = "clearQueue", tag = "messages", params(QueueParams), 
    responses((status = 200, body = answer::ClearQueueResponse, description = "Removed")))]
pub(crate) async fn clear(
    State(app): State<AppState>,
    QueryParams(which): QueryParams<QueueParams>,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&which.session_id).await?;
    let removed = session.clear_queue().await?;
    tracing::info!(session = %session.id(), ?removed, "the queue was cleared by request");
    Ok(Json(json!({ "ok": true, "sessionId": session.id(), "removed": removed })))
}

/// Edit a queued message
#[utoipa::path(patch, path = "/api/message/queue/{id}", operation_id = "editQueued", tag = "messages", params(("id" = String, Path), QueueEntryParams), request_body = answer::EditQueuedSchema,
    responses((status = 200, body = answer::ChangeQueueResponse, description = "Changed")))]
pub(crate) async fn edit(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(which): QueryParams<QueueEntryParams>,
    JsonBody(edit): JsonBody<EditQueuedRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    // The content is checked before the session is looked for, which may take many reads.
    edit.content.check()?;
    let metadata = message_metadata(edit.metadata)?;
    let session = holder(&app, &id, which.session_id.as_deref()).await?;
    let parts = edit.content.parts(&app, session.id()).await?;
    session.edit_queued_message(QueueId::from(id.as_str()), parts, metadata).await?;
    Ok(Json(json!({ "ok": true, "id": id, "sessionId": session.id() })))
}

/// Remove a queued message
#[utoipa::path(delete, path = "/api/message/queue/{id}", operation_id = "removeQueued", tag = "messages", params(("id" = String, Path), QueueEntryParams), 
    responses((status = 200, body = answer::ChangeQueueResponse, description = "Removed")))]
pub(crate) async fn remove(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(which): QueryParams<QueueEntryParams>,
) -> Result<Json<Value>, ApiProblem> {
    let session = holder(&app, &id, which.session_id.as_deref()).await?;
    session.remove_queued(QueueId::from(id.as_str())).await?;
    tracing::info!(session = %session.id(), message = %id, "a waiting message was removed by request");
    Ok(Json(json!({ "ok": true, "id": id, "sessionId": session.id() })))
}

/// Returns the session of the waiting message.
async fn holder(app: &AppState, id: &str, session_id: Option<&str>) -> Result<Session, ApiProblem> {
    if let Some(session_id) = session_id {
        return app.open(session_id).await;
    }
    // Only sessions with waiting messages are read, and these are few. The limit fits the signed integers of a
    // database.
    for record in app.runtime().sessions(usize::MAX >> 1).await? {
        if record.queued > 0
            && app.runtime().store().queue(&record.id).await?.iter().any(|entry| entry.id.as_str() == id)
        {
            return app.open(record.id.as_str()).await;
        }
    }
    Err(ApiProblem::not_found(format!("waiting message {id}")))
}

/// Returns the waiting messages with their positions.
pub(crate) fn entries(waiting: &[QueuedMessage]) -> Value {
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
