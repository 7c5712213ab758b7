//! A client of the server.

use std::time::Duration;

use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use super::server::PATIENCE;
use longhaul_core::event::Event;

/// How long a server that is asked whether it takes work may be silent.
const SOON: Duration = Duration::from_secs(1);

/// The way to one running server.
#[derive(Clone)]
pub(crate) struct Api {
    http: Client,
    base: String,
    token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// The server was gone before it had answered: what was asked may be done, or not.
#[derive(Debug)]
pub(crate) struct Lost;

impl Answer {
    /// The body of an answer that must be a good one.
    #[track_caller]
    pub(crate) fn good(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }
}

impl Api {
    pub(crate) fn new(http: Client, base: &str, token: &str) -> Self {
        Self { http, base: base.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    async fn answer(request: reqwest::RequestBuilder) -> Result<Answer, Lost> {
        let response = request.timeout(PATIENCE).send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let body = response.bytes().await.map_err(lost)?;
        Ok(Answer { status, retry_after, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Lost> {
        Self::answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Answer, Lost> {
        Self::answer(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Answer, Lost> {
        Self::answer(self.request(Method::POST, path).json(&body)).await
    }

    /// Stores a text for a session.
    pub(crate) async fn upload(&self, session: &str, text: &str) -> Result<Answer, Lost> {
        let request = self.request(Method::POST, &format!("/api/sessions/{session}/blobs"));
        Self::answer(request.header("content-type", "text/plain").body(text.to_owned())).await
    }

    /// A stream of the agent's answer in a session.
    pub(crate) async fn asks_agent(&self, path: &str, session: &str, body: &Value) -> Response {
        let request = self.request(Method::POST, path).header("x-longhaul-session", session);
        request.json(body).send().await.unwrap().error_for_status().unwrap()
    }

    /// A good answer as it is.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Lost> {
        let response = self.request(Method::GET, path).timeout(PATIENCE).send().await.map_err(lost)?;
        let status = response.status();
        let text = response.text().await.map_err(lost)?;
        assert!(status.is_success(), "{path}: {status} {text}");
        Ok(text)
    }

    /// Sends a message under a key; without a session it begins one.
    pub(crate) async fn send(&self, session: Option<&str>, text: &str, key: &str) -> Result<Answer, Lost> {
        let mut body = json!({ "content": text });
        if let Some(session) = session {
            body["sessionId"] = session.into();
        }
        let request = self.request(Method::POST, "/api/message").header("idempotency-key", key);
        Self::answer(request.json(&body)).await
    }

    /// Whether the server says, soon, that it takes work.
    pub(crate) async fn is_ready(&self) -> bool {
        let asked = self.request(Method::GET, "/readyz").timeout(SOON).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    }

    pub(crate) async fn session(&self, id: &str) -> Result<Answer, Lost> {
        self.get(&format!("/api/sessions/{id}")).await
    }

    pub(crate) async fn resume(&self, id: &str) -> Result<Answer, Lost> {
        self.post(&format!("/api/sessions/{id}/resume"), json!({})).await
    }

    /// The names of the messages that wait.
    pub(crate) async fn queue(&self, id: &str) -> Vec<String> {
        let queue = self.get(&format!("/api/message/queue?sessionId={id}")).await.unwrap().good();
        let entries = queue["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The stream of events after a position.
    pub(crate) async fn events(&self, id: &str, after: u64) -> Result<Response, Lost> {
        let request = self.request(Method::GET, &format!("/api/sessions/{id}/events"));
        let response = request.header("last-event-id", after).send().await.map_err(lost)?;
        if response.status().is_success() { Ok(response) } else { Err(Lost) }
    }

    /// The whole log. The server has checked the content of every blob that it names.
    pub(crate) async fn log(&self, id: &str) -> Result<Vec<Event>, String> {
        let request = self.request(Method::GET, &format!("/api/sessions/{id}/export")).timeout(PATIENCE);
        let response = request.send().await.map_err(|error| error.to_string())?;
        let status = response.status();
        let text = response.text().await.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("{status} {text}"));
        }
        let mut lines = text.lines();
        let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        let count = header["events"].as_u64().unwrap() as usize;
        Ok(lines.take(count).map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

fn lost(error: reqwest::Error) -> Lost {
    // A killed server breaks the connection. Silence is a fault of its own, and must not pass for a kill.
    assert!(!error.is_timeout(), "the server does not answer: {error}");
    Lost
}
