//! AG-UI: the protocol of CopilotKit and of the user interfaces of agent frameworks.

mod events;
#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use self::events::AgUiEventWriter;
use super::ui_stream::media;
use crate::app::AppState;
use crate::content::{ClientContent, message_metadata};
use crate::extract::{IdempotencyKey, JsonBody};
use crate::openapi::answer::MessageMetadataSchema;
use crate::problem::ApiProblem;
use crate::ui_protocol::{self, UiAnswerSubscription, UiApprovalDecision, UiTurnRequest};

/// The request of an AG-UI client: `RunAgentInput`. Other fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AgUiInput)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgUiRunInput {
    /// The conversation: a session's id, or any name of up to 500 characters.
    thread_id: String,
    /// The client's name for the run.
    run_id: String,
    /// The messages of the client. Only the newest one is used.
    #[schema(value_type = Vec<AgUiMessage>)]
    messages: Vec<AgUiMessage>,
    /// The client's state. The server writes to its key `longhaul`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    state: Value,
    /// `agent`: for a new conversation, a configured agent by name.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    forwarded_props: Value,
    /// Answers to questions that ended a run.
    #[serde(default)]
    resume: Vec<AgUiResume>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AgUiMessage {
    #[serde(default)]
    id: String,
    role: String,
    /// A text, or a list of parts.
    #[serde(default)]
    #[schema(value_type = Object)]
    content: Value,
    /// The metadata of the newest message is stored: an object of at most 16 KiB.
    #[schema(value_type = Option<MessageMetadataSchema>)]
    metadata: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgUiResume {
    interrupt_id: String,
    /// `resolved`, or `cancelled`, which denies.
    status: String,
    /// `{approved, reason?}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    payload: Value,
}

/// An event of the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape that is described, never held")]
pub(crate) struct AgUiEvent {
    r#type: String,
}

/// Run the agent on the newest message of a conversation (AG-UI)
#[utoipa::path(post, path = "/api/ag-ui", operation_id = "agUiRun", tag = "front ends", request_body = AgUiRunInput,
    responses((status = 200, body = AgUiEvent, content_type = "text/event-stream", description = "A stream in which each `data:` is one AG-UI event.")))]
pub(crate) async fn run(
    State(app): State<AppState>,
    key: IdempotencyKey,
    JsonBody(input): JsonBody<AgUiRunInput>,
) -> Result<Response, ApiProblem> {
    let AgUiRunInput { thread_id, run_id, messages, state, forwarded_props, resume } = input;
    let agent = forwarded_props["agent"].as_str().map(str::to_owned);
    let wish = wish(messages, resume)?;
    let events = AgUiEventWriter::of(&thread_id, &run_id, &state);
    let turn = UiAnswerSubscription::take(&app, &thread_id, agent, key, wish).await?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // nginx buffers answers, and would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(ui_protocol::answer(&app, turn, events))).into_response())
}

/// Returns the request of a run. The session has the history, so only the end of the client's list counts.
fn wish(mut messages: Vec<AgUiMessage>, resume: Vec<AgUiResume>) -> Result<UiTurnRequest, ApiProblem> {
    if !resume.is_empty() {
        return Ok(UiTurnRequest::Decide(resume.into_iter().map(decision).collect()));
    }
    match messages.pop() {
        Some(newest) if newest.role == "user" => {
            let (content, metadata) = (content(newest.content)?, message_metadata(newest.metadata)?);
            Ok(UiTurnRequest::Say { content, metadata, name: newest.id, again: false })
        }
        // The newest message is the agent's, so the client only wants to see the rest.
        Some(_) => Ok(UiTurnRequest::GoOn),
        None => Err(ApiProblem::invalid("The request has no message.")),
    }
}

fn decision(resume: AgUiResume) -> UiApprovalDecision {
    let AgUiResume { interrupt_id, status, payload } = resume;
    let reason = payload["reason"].as_str().map(str::to_owned);
    // Anything but a clear yes is a no.
    let allowed = status == "resolved" && payload["approved"] == true;
    UiApprovalDecision { approval: interrupt_id, allowed, reason }
}

fn content(content: Value) -> Result<ClientContent, ApiProblem> {
    let parts = match content {
        Value::Array(parts) => parts,
        Value::String(text) => return Ok(ClientContent::Text(text)),
        _ => return Err(ApiProblem::invalid("`content` is a text or a list of parts.")),
    };
    let parts = parts.iter().map(part).collect::<Result<_, _>>()?;
    Ok(ClientContent::Parts(parts))
}

fn part(part: &Value) -> Result<Value, ApiProblem> {
    if part["type"] == "text" {
        return Ok(json!({ "type": "text", "text": part["text"] }));
    }
    // The older form of a part holds its bytes in itself.
    let (source, key) = if part["type"] == "binary" { (part, "data") } else { (&part["source"], "value") };
    match (source["mimeType"].as_str(), source[key].as_str()) {
        (Some(kind), Some(data)) if key == "data" || source["type"] == "data" => {
            Ok(media(kind, data, part["filename"].as_str()))
        }
        _ => Err(ApiProblem::invalid(
            "Files must come in base64 (`source.type: data`), because the server fetches no address.",
        )),
    }
}
