//! A message for the agent: at once, or as soon as it can take one.

use axum::Json;
use axum::extract::State;
use longhaul::session::{NewMessage, Sent, Session, SessionError};
use longhaul_core::ids::SessionId;
use longhaul_core::metadata::MessageMetadata;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents;
use crate::app::App;
use crate::content::{Content, message_metadata};
use crate::extract::{Input, Key};
use crate::once;
use crate::openapi::answer;
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Body {
    session_id: Option<String>,
    agent: Option<String>,
    content: Content,
    metadata: Option<Value>,
}

impl Body {
    /// Names the request with all that it asks for.
    fn what(&self) -> String {
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

/// Sends a message; to a busy session it waits
#[utoipa::path(post, path = "/api/message", operation_id = "sendMessage", tag = "messages",  request_body = answer::NewMessage,
    responses((status = 200, body = answer::Sent, description = "Taken, or queued")))]
pub(crate) async fn send(
    State(app): State<App>,
    key: Key,
    Input(body): Input<Body>,
) -> Result<Json<Value>, Problem> {
    app.takes_work()?;
    body.content.check()?;
    let metadata = message_metadata(body.metadata.clone())?;
    if body.session_id.is_some() && body.agent.is_some() {
        return Err(Problem::invalid("`agent` is for a new session; `POST …/llm` switches another."));
    }
    agents::check(&app, body.agent.as_deref())?;
    let work = {
        let app = app.clone();
        async move { accept(&app, key, body, metadata).await }
    };
    app.to_end(work).await.map(Json)
}

async fn accept(
    app: &App,
    key: Key,
    body: Body,
    metadata: Option<MessageMetadata>,
) -> Result<Value, Problem> {
    let what = body.what();
    let session = match body.session_id {
        Some(id) => app.open(&id).await?,
        None => {
            // What would be refused begins no session.
            body.content.check_for_new()?;
            begin(app, &key, &body.content, body.agent.as_deref()).await?
        }
    };
    let send = take(app, &session, &key, body.content, metadata);
    let sent = once::same(app, session.id(), &key, &what, send).await?;
    Ok(answer(session.id(), &sent))
}

/// Leaves a message in the queue of a session that another node has.
pub(crate) async fn leave(app: &App, session: &SessionId, key: Key, body: &[u8]) -> Result<Value, Problem> {
    app.takes_work()?;
    let body: Body = serde_json::from_slice(body).map_err(|error| Problem::invalid(error.to_string()))?;
    let what = body.what();
    let metadata = message_metadata(body.metadata)?;
    let queue = async {
        let parts = body.content.parts(app, session).await?;
        let mut message = NewMessage::new(parts);
        (message.key, message.metadata) = (key.0.clone(), metadata);
        Ok(app.runtime().leave_message(session, message).await?)
    };
    let accepted = once::same(app, session, &key, &what, queue).await?;
    Ok(answer(session, &Sent { id: accepted.id, queued: true, position: accepted.position }))
}

pub(crate) async fn take(
    app: &App,
    session: &Session,
    key: &Key,
    content: Content,
    metadata: Option<MessageMetadata>,
) -> Result<Sent, Problem> {
    let parts = content.parts(app, session.id()).await?;
    match session.adopt_model().await {
        Ok(_) | Err(SessionError::Busy) => {}
        Err(error) => return Err(error.into()),
    }
    let mut message = NewMessage::new(parts);
    (message.key, message.metadata) = (key.0.clone(), metadata);
    Ok(session.send_message(message).await?)
}

async fn begin(app: &App, key: &Key, content: &Content, agent: Option<&str>) -> Result<Session, Problem> {
    let title = Some(content.title());
    Ok(match key.session_id("message") {
        Some(id) => app.runtime().create_as_in(id, title, agent).await?,
        None => app.runtime().create_in(title, agent).await?,
    })
}

fn answer(session_id: &SessionId, sent: &Sent) -> Value {
    // A repeated message that was taken since waits no more.
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
