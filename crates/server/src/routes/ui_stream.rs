//! The AI SDK's UI message stream (version 1), which `useChat` reads.

mod parts;
#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use self::parts::UiPartWriter;
use crate::app::AppState;
use crate::content::{ClientContent, message_metadata};
use crate::extract::{IdempotencyKey, JsonBody, PathParams};
use crate::openapi::answer::MessageMetadataSchema;
use crate::problem::ApiProblem;
use crate::ui_protocol::{self, UiAnswerSubscription, UiApprovalDecision, UiTurnRequest};

/// The header with the stream's version.
const VERSION: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");

/// The request of the AI SDK's `DefaultChatTransport`. Other fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiChat)]
pub(crate) struct UiChatRequestBody {
    /// The chat: a session's id, or any name of up to 500 characters.
    id: String,
    /// The messages of the client. Only the newest one is used.
    #[serde(default)]
    messages: Vec<UiMessage>,
    /// The newest message, if the client sends it alone.
    message: Option<UiMessage>,
    /// `submit-message`, or `regenerate-message` to continue after an error.
    trigger: Option<String>,
    /// For a new chat: the name of a configured agent. Without it, the default agent.
    agent: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct UiMessage {
    #[serde(default)]
    id: String,
    role: String,
    /// Parts of the AI SDK's `UIMessage`.
    #[serde(default)]
    #[schema(value_type = Vec<UiPart>)]
    parts: Vec<Value>,
    /// The metadata of the newest message is stored: an object of at most 16 KiB.
    #[schema(value_type = Option<MessageMetadataSchema>)]
    metadata: Option<Value>,
}

/// A part of a message, or of the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape that is described, never held")]
pub(crate) struct UiPart {
    r#type: String,
}

/// Send the newest message of a chat and stream the answer (AI SDK UI message stream)
#[utoipa::path(post, path = "/api/ui/chat", operation_id = "uiChat", tag = "front ends", request_body = UiChatRequestBody,
    responses((status = 200, body = UiPart, content_type = "text/event-stream", description = "A stream in which each `data:` is one part, and the last is `[DONE]`.")))]
pub(crate) async fn chat(
    State(app): State<AppState>,
    key: IdempotencyKey,
    JsonBody(chat): JsonBody<UiChatRequestBody>,
) -> Result<Response, ApiProblem> {
    let UiChatRequestBody { id, mut messages, message, trigger, agent } = chat;
    // The single message comes last, because it is the newest.
    messages.extend(message);
    let wish = wish(messages, trigger.as_deref() == Some("regenerate-message"))?;
    let turn = UiAnswerSubscription::take(&app, &id, agent, key, wish).await?;
    Ok(stream(&app, turn))
}

/// Stream the current answer of a chat from its beginning
#[utoipa::path(get, path = "/api/ui/chat/{id}/stream", operation_id = "uiChatStream", tag = "front ends", params(("id" = String, Path)),
    responses(
        (status = 200, body = UiPart, content_type = "text/event-stream", description = "A stream in which each `data:` is one part, and the last is `[DONE]`."),
        (status = 204, description = "No answer is being written."),
    ))]
pub(crate) async fn reconnect(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiProblem> {
    let session = match ui_protocol::conversation(&app, &id).await {
        Ok(session) => session,
        // The chat does not exist yet, so there is no answer to stream.
        Err(problem) if problem.is_not_found() => return Ok(StatusCode::NO_CONTENT.into_response()),
        Err(problem) => return Err(problem),
    };
    Ok(match ui_protocol::running(&app, session).await? {
        Some(turn) => stream(&app, turn),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

fn stream(app: &AppState, turn: UiAnswerSubscription) -> Response {
    let parts = UiPartWriter::of(turn.session.id().as_str());
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // nginx buffers answers, and would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
        (VERSION, "v1"),
    ];
    (headers, Body::from_stream(ui_protocol::answer(app, turn, parts))).into_response()
}

/// Returns the request of a chat. The session has the history, so only the end of the client's list counts.
fn wish(mut messages: Vec<UiMessage>, again: bool) -> Result<UiTurnRequest, ApiProblem> {
    let newest = messages.pop().ok_or_else(|| ApiProblem::invalid("The request has no message."))?;
    if newest.role == "user" {
        return said(newest, again);
    }
    let decisions: Vec<UiApprovalDecision> = newest.parts.iter().filter_map(decision).collect();
    Ok(if decisions.is_empty() { UiTurnRequest::GoOn } else { UiTurnRequest::Decide(decisions) })
}

fn said(message: UiMessage, again: bool) -> Result<UiTurnRequest, ApiProblem> {
    let mut parts = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        match part["type"].as_str() {
            Some("text") => parts.push(json!({ "type": "text", "text": part["text"] })),
            Some("file") => parts.push(file(part)?),
            // Front ends send steps and reasoning back as well. The session has both already.
            _ => {}
        }
    }
    let metadata = message_metadata(message.metadata)?;
    Ok(UiTurnRequest::Say { content: ClientContent::Parts(parts), metadata, name: message.id, again })
}

/// Returns a file part with inline content.
fn file(part: &Value) -> Result<Value, ApiProblem> {
    let url = part["url"].as_str().unwrap_or_default();
    let brought = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    // A server that fetched any address would reach hosts that only this machine can reach.
    let Some((kind, data)) = brought else {
        let detail = "Files must come as `data:` addresses in base64, because the server fetches no other \
                      address.";
        return Err(ApiProblem::invalid(detail));
    };
    Ok(media(part["mediaType"].as_str().unwrap_or(kind), data, part["filename"].as_str()))
}

/// Returns inline content in the form of the server's own API.
pub(super) fn media(media_type: &str, data: &str, name: Option<&str>) -> Value {
    let kind = if media_type.starts_with("image/") { "image" } else { "file" };
    let mut media = json!({ "type": kind, "data": data });
    if !media_type.trim().is_empty() {
        media["mediaType"] = media_type.into();
    }
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        media["name"] = name.into();
    }
    media
}

fn decision(part: &Value) -> Option<UiApprovalDecision> {
    let approval = part.get("approval").filter(|_| part["state"] == "approval-responded")?;
    Some(UiApprovalDecision {
        approval: approval["id"].as_str()?.to_owned(),
        // Anything but a clear yes is a no.
        allowed: approval["approved"] == true,
        reason: approval["reason"].as_str().map(str::to_owned),
    })
}
