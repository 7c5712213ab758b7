//! The route for sending a message to the agent, at once or in the queue of a busy one.

use axum::Json;
use axum::extract::State;
use longhaul::session::{NewMessage, SendReceipt, Session, SessionError};
use longhaul_core::ids::SessionId;
use longhaul_core::metadata::MessageMetadata;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents;
use crate::app::AppState;
use crate::content::{ClientContent, message_metadata};
use crate::extract::{IdempotencyKey, JsonBody};
use crate::idempotency;
use crate::openapi::answer;
use crate::problem::ApiProblem;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SendMessageRequestBody {
    session_id: Option<String>,
    agent: Option<String>,
    content: ClientContent,
    metadata: Option<Value>,
}

impl SendMessageRequestBody {
    /// Returns a fingerprint of the request with all its parameters.
    fn what(&self) -> String {
        // Fields that are absent add nothing, so that keys of requests from before these fields still match.
        let mut what = format!("message {:?}", self.content);
        if let Some(agent) = &self.agent {
            what.push_str(&format!(" agent {agent:?}"));
        }
        if let Some(metadata) = &self.metadata {
            what.push_str(&format!(" metadata {metadata}"));
        }
        what
    }
}

/// Send a message; a busy session queues it
#[utoipa::path(post, path = "/api/message", operation_id = "sendMessage", tag = "messages",  request_body = answer::SendMessageSchema,
    responses((status = 200, body = answer::SendMessageResponse, description = "The message was taken or queued.")))]
pub(crate) async fn send(
    State(app): State<AppState>,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<SendMessageRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    app.takes_work()?;
    body.content.check()?;
    let metadata = message_metadata(body.metadata.clone())?;
    if body.session_id.is_some() && body.agent.is_some() {
        return Err(ApiProblem::invalid("`agent` is for a new session; `POST …/llm` switches another."));
    }
    agents::check(&app, body.agent.as_deref())?;
    let work = {
        let app = app.clone();
        async move { accept(&app, key, body, metadata).await }
    };
    app.to_end(work).await.map(Json)
}

async fn accept(
    app: &AppState,
    key: IdempotencyKey,
    body: SendMessageRequestBody,
    metadata: Option<MessageMetadata>,
) -> Result<Value, ApiProblem> {
    let what = body.what();
    let session = match body.session_id {
        Some(id) => app.open(&id).await?,
        None => {
            // A message that would be refused must not create a session.
            body.content.check_for_new()?;
            begin(app, &key, &body.content, body.agent.as_deref()).await?
        }
    };
    let send = take(app, &session, &key, body.content, metadata);
    let sent = idempotency::same(app, session.id(), &key, &what, send).await?;
    tracing::info!(
        session = %session.id(),
        message = %sent.id,
        queued = sent.queued,
        position = sent.position,
        "a message was accepted"
    );
    Ok(answer(session.id(), &sent))
}

/// Leaves a message in the queue of a session at another node.
pub(crate) async fn leave(
    app: &AppState,
    session: &SessionId,
    key: IdempotencyKey,
    body: &[u8],
) -> Result<Value, ApiProblem> {
    app.takes_work()?;
    let body: SendMessageRequestBody =
        serde_json::from_slice(body).map_err(|error| ApiProblem::invalid(error.to_string()))?;
    let what = body.what();
    let metadata = message_metadata(body.metadata)?;
    let queue = async {
        let parts = body.content.parts(app, session).await?;
        let mut message = NewMessage::new(parts);
        // The session keeps a record of keys of its own, so that a repeated message has no effect.
        (message.key, message.metadata) = (key.0.clone(), metadata);
        Ok(app.runtime().leave_message(session, message).await?)
    };
    let accepted = idempotency::same(app, session, &key, &what, queue).await?;
    tracing::info!(
        %session,
        message = %accepted.id,
        position = accepted.position,
        "a message was left in the queue of a session at another node"
    );
    Ok(answer(session, &SendReceipt { id: accepted.id, queued: true, position: accepted.position }))
}

pub(crate) async fn take(
    app: &AppState,
    session: &Session,
    key: &IdempotencyKey,
    content: ClientContent,
    metadata: Option<MessageMetadata>,
) -> Result<SendReceipt, ApiProblem> {
    let parts = content.parts(app, session.id()).await?;
    // A busy session keeps its model until its run ends. The message is taken all the same.
    match session.adopt_model().await {
        Ok(_) => {}
        Err(SessionError::Busy) => {
            tracing::debug!(session = %session.id(), "the session is busy and keeps its model until its run ends");
        }
        Err(error) => return Err(error.into()),
    }
    let mut message = NewMessage::new(parts);
    (message.key, message.metadata) = (key.0.clone(), metadata);
    Ok(session.send_message(message).await?)
}

async fn begin(
    app: &AppState,
    key: &IdempotencyKey,
    content: &ClientContent,
    agent: Option<&str>,
) -> Result<Session, ApiProblem> {
    let title = Some(content.title());
    Ok(match key.session_id("message") {
        // The id follows from the key, so a repeated request finds the session that the first one created.
        Some(id) => app.runtime().create_as_in(id, title, agent).await?,
        None => app.runtime().create_in(title, agent).await?,
    })
}

fn answer(session_id: &SessionId, sent: &SendReceipt) -> Value {
    // A repeated message may have been taken in the meantime.
    if sent.queued && sent.position > 0 {
        let message = format!("Message queued at position {}", sent.position);
        json!({
            "ok": true, "queued": true, "position": sent.position, "id": sent.id,
            "sessionId": session_id, "message": message,
        })
    } else {
        json!({ "ok": true, "queued": false, "sessionId": session_id, "messageId": sent.id })
    }
}
