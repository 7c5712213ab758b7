//! A server over streamable HTTP: the requests, with their bytes unchanged. `rmcp` handles sessions and broken streams.
//!
//! `rmcp` gets neither the address nor the headers, because it writes the values it knows into the log.

mod limit;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use longhaul_providers::http::connection_fault_text;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream_of_rmcp::{Sse, SseStream};

use super::connection::McpConnectionError;
use super::wire::{MAX_MESSAGE_BYTES, McpExchangeRegistry, UnreadableMcpMessage, words};
use crate::config::McpHttpEndpoint;
use crate::ssrf_guard;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of redirects within one origin, as from `/mcp` to `/mcp/`.
const MAX_REDIRECTS: usize = 3;

/// The bytes of an error's body that are read at most, and the characters that are shown.
const MAX_ERROR_BYTES: usize = 16 << 10;
const SHOWN_CHARS: usize = 300;

/// Shorter header values are words of a protocol, not secrets: hiding them would garble errors.
const MIN_HIDDEN_BYTES: usize = 8;

/// The reason that a request has no answer. The texts leave out user, path and query, which may hold a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpHttpError {
    #[error("{place} cannot be reached: {why}")]
    Unreachable { place: String, why: String },
    #[error("the connection to {place} broke: {why}")]
    Broken { place: String, why: String },
    #[error("{place} answered HTTP {status}{said}")]
    Status { place: String, status: u16, said: String },
    #[error("{place} sent an answer of more than {} MiB", MAX_MESSAGE_BYTES >> 20)]
    TooLong { place: String },
    #[error("{place} sent something that is not a message: {why}")]
    NoMessage { place: String, why: String },
}

type McpTransportError = StreamableHttpError<McpHttpError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The requests to one server.
#[derive(Clone)]
pub(super) struct McpHttpClient(Arc<McpHttpState>);

struct McpHttpState {
    client: Client,
    url: Url,
    place: String,
    headers: HeaderMap,
    secrets: Vec<String>,
    wire: Arc<McpExchangeRegistry>,
    was_initialized: AtomicBool,
    /// The last request for which a new session was begun. The request is repeated once, never a third time.
    renewed_for: Mutex<Option<RequestId>>,
}

/// Makes the configuration for `rmcp`, without address and headers.
pub(super) fn transport_config() -> StreamableHttpClientTransportConfig {
    // `rmcp` requires an address and hands it to the client, which ignores it and uses its own.
    StreamableHttpClientTransportConfig::with_uri("mcp:")
}

/// Translates a transport's error into the fault of a call.
pub(super) fn fault(error: &(dyn StdError + Send + Sync + 'static)) -> McpConnectionError {
    match error.downcast_ref::<McpTransportError>() {
        Some(McpTransportError::Client(error)) => {
            let words = error.to_string();
            match error {
                McpHttpError::Unreachable { .. } => McpConnectionError::NotSent(words),
                // A server that refuses the caller or the rate has not looked at the request.
                McpHttpError::Status { status: 401 | 403 | 429, .. } => McpConnectionError::NotSent(words),
                McpHttpError::Status { status: 400..500, .. } => McpConnectionError::Refused(words),
                _ => McpConnectionError::Lost(words),
            }
        }
        Some(McpTransportError::TransportChannelClosed) => McpConnectionError::Closed,
        _ => McpConnectionError::Lost(error.to_string()),
    }
}

impl McpHttpClient {
    /// Makes a client that has not connected yet.
    ///
    /// # Errors
    /// [`McpConnectionError::NotSent`] for an address or a header that cannot be used. The error does not repeat their
    /// values.
    pub(super) fn new(
        remote: &McpHttpEndpoint,
        wire: Arc<McpExchangeRegistry>,
    ) -> Result<Self, McpConnectionError> {
        let url = Url::parse(&remote.url)
            .map_err(|error| McpConnectionError::NotSent(format!("its url: {error}")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.headers {
            let (Ok(key), Ok(mut value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            else {
                return Err(McpConnectionError::NotSent(format!("the header `{name}` cannot be sent")));
            };
            // Sensitive values are left out of debug texts of the HTTP client.
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let builder = ssrf_guard::client(&url)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(within_one_origin())
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let client = builder.build().map_err(|error| McpConnectionError::NotSent(causes(&error)))?;
        Ok(Self(Arc::new(McpHttpState {
            client,
            place: place(&url),
            url,
            headers,
            secrets: secrets(remote),
            wire,
            was_initialized: AtomicBool::new(false),
            renewed_for: Mutex::default(),
        })))
    }

    fn request(
        &self,
        request: RequestBuilder,
        session: Option<&str>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> RequestBuilder {
        let mut headers = self.0.headers.clone();
        headers.extend(protocol);
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let request = request.headers(headers).header(ACCEPT, accepted);
        match session {
            Some(session) => request.header(HEADER_SESSION_ID, session),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, McpTransportError> {
        request.send().await.map_err(|error| self.unsent(&error))
    }

    fn unsent(&self, error: &reqwest::Error) -> McpTransportError {
        let (place, why) = (self.0.place.clone(), self.hidden(causes(error)));
        // Without a connection nothing was sent, so such a call may be made again. After any other failure the server
        // may have run the call.
        McpTransportError::Client(if error.is_connect() {
            McpHttpError::Unreachable { place, why }
        } else {
            McpHttpError::Broken { place, why }
        })
    }

    fn no_message(&self, why: String) -> McpTransportError {
        McpTransportError::Client(McpHttpError::NoMessage { place: self.0.place.clone(), why })
    }

    /// Returns the text with every secret removed, because servers repeat the values they were sent.
    fn hidden(&self, text: String) -> String {
        self.0.secrets.iter().fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }

    async fn body(&self, response: Response, most: usize) -> Result<String, McpTransportError> {
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.unsent(&error))?;
            // The body is read in chunks, because a server may leave out or misstate its length.
            if body.len() + chunk.len() > most {
                return Err(McpTransportError::Client(McpHttpError::TooLong { place: self.0.place.clone() }));
            }
            body.extend_from_slice(&chunk);
        }
        String::from_utf8(body).map_err(|_| self.no_message("it is not UTF-8".to_owned()))
    }

    /// Interprets an unsuccessful answer. A JSON-RPC error for this request is the request's answer. An error for
    /// another request, or for none, would leave `rmcp` waiting, so it ends the request with the server's words.
    async fn refused(
        &self,
        response: Response,
        asked: Option<&RequestId>,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, McpTransportError> {
        let status = response.status();
        tracing::debug!(place = %self.0.place, status = status.as_u16(), has_session, "an MCP server refused a request");
        let body = self.body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        // A refused caller needs another key. A new session would be refused in the same way.
        let is_about_the_caller = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let error = match serde_json::from_str(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) if !is_about_the_caller => Some(error),
            _ => None,
        };
        let Some(asked) = asked else {
            // A notification has no id and so no answer: the status alone tells that the session is gone.
            let is_lost = has_session && status == StatusCode::NOT_FOUND;
            return Err(if is_lost {
                McpTransportError::SessionExpired
            } else {
                self.status_error(status, &body)
            });
        };
        let is_answer = error.as_ref().is_some_and(|error| error.id.as_ref() == Some(asked));
        let words = error.as_ref().map_or(body, |error| words(&error.error));
        // An error answer with this request's id may mean that the server has begun the request.
        let has_not_begun = status.is_client_error() || (error.is_some() && !is_answer);
        let is_lost =
            has_session && has_not_begun && !is_about_the_caller && names_a_lost_session(status, &words);
        match error {
            _ if is_lost && self.may_renew(asked) => {
                tracing::info!(place = %self.0.place, "an MCP server has lost the session; a new one is begun");
                Err(McpTransportError::SessionExpired)
            }
            Some(error) if is_answer => {
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None))
            }
            _ => Err(self.status_error(status, &words)),
        }
    }

    /// Reports whether a new session may be begun for a request, which is allowed once.
    fn may_renew(&self, asked: &RequestId) -> bool {
        let mut renewed = self.0.renewed_for.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.replace(asked.clone()).as_ref() != Some(asked)
    }

    fn status_error(&self, status: StatusCode, body: &str) -> McpTransportError {
        let shown: String = self.hidden(body.trim().to_owned()).chars().take(SHOWN_CHARS).collect();
        let said = if shown.is_empty() { String::new() } else { format!(": {shown}") };
        McpTransportError::Client(McpHttpError::Status {
            place: self.0.place.clone(),
            status: status.as_u16(),
            said,
        })
    }

    /// Returns the events of a body. Each event passes through the registry. `asked` is the request that the body
    /// answers.
    fn events(&self, response: Response, asked: Option<RequestId>) -> Events {
        let wire = Arc::clone(&self.0.wire);
        let bytes = limit::events(response.bytes_stream(), MAX_MESSAGE_BYTES);
        SseStream::from_bytes_stream(bytes)
            .map(move |event| event.map(|event| readable(&wire, event, asked.as_ref())))
            .boxed()
    }

    async fn message(
        &self,
        response: Response,
        asked: Option<&RequestId>,
    ) -> Result<StreamableHttpPostResponse, McpTransportError> {
        let session = header(&response, HEADER_SESSION_ID);
        let status = response.status();
        let text = self.body(response, MAX_MESSAGE_BYTES).await?;
        // A request needs an answer, and `rmcp` would wait for one without end.
        if let Some(asked) = asked.filter(|_| text.trim().is_empty()) {
            let words = format!("the server answered HTTP {} without a body", status.as_u16());
            let error =
                ServerJsonRpcMessage::error(ErrorData::internal_error(words, None), Some(asked.clone()));
            return Ok(StreamableHttpPostResponse::Json(error, session));
        }
        match (self.0.wire.read(&text), asked) {
            (Ok(message), None) => Ok(StreamableHttpPostResponse::Json(message, session)),
            (Ok(message), Some(asked)) => {
                let message = answer_to(asked, message).unwrap_or_else(|| no_answer_to(asked));
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            // The message was no request, so the body in place of 202 does not matter.
            (Err(_), None) => Ok(StreamableHttpPostResponse::Accepted),
            (Err(UnreadableMcpMessage { stand_in: Some(message), .. }), Some(asked)) => {
                let message = answer_to(asked, *message).unwrap_or_else(|| no_answer_to(asked));
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            (Err(unreadable), Some(_)) => Err(self.no_message(unreadable.why)),
        }
    }

    /// Notes a second session. It may reach another server, whose tools may differ, so the tools are listed again.
    fn note(&self, message: &ClientJsonRpcMessage) {
        let initializes = matches!(message, ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if initializes && self.0.was_initialized.swap(true, Ordering::Relaxed) {
            self.0.wire.list_changed.notify_one();
        }
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = McpHttpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpTransportError> {
        self.note(&message);
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let body = self.0.wire.outgoing(&message)?;
        let request = self.0.client.post(self.0.url.clone()).header(CONTENT_TYPE, JSON_MIME_TYPE).body(body);
        let response = self.send(self.request(request, session.as_deref(), protocol)).await?;
        let status = response.status();
        if !status.is_success() {
            return self.refused(response, asked.as_ref(), session.is_some()).await;
        }
        let is_accepted = matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        if is_accepted && asked.is_none() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if is_of_type(&response, EVENT_STREAM_MIME_TYPE) {
            let session = header(&response, HEADER_SESSION_ID);
            return Ok(StreamableHttpPostResponse::Sse(self.events(response, asked), session));
        }
        self.message(response, asked.as_ref()).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpTransportError> {
        let request = self.0.client.delete(self.0.url.clone());
        // A server without this method, or without the session, has nothing to delete; both are fine.
        self.send(self.request(request, Some(&session), protocol)).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, McpTransportError> {
        let mut request = self.request(self.0.client.get(self.0.url.clone()), session.as_deref(), protocol);
        if let Some(id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let response = self.send(request).await?;
        let status = response.status();
        // The stream is optional. The protocol has 405 for servers without one, but not every server keeps to that.
        if status.is_client_error() || (status.is_success() && !is_of_type(&response, EVENT_STREAM_MIME_TYPE))
        {
            tracing::debug!(
                place = %self.0.place,
                status = status.as_u16(),
                "the MCP server has no stream of its own messages: changes of its tools are not heard"
            );
            return Err(McpTransportError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(self.status_error(status, ""));
        }
        Ok(self.events(response, None))
    }
}

/// Returns an event that `rmcp` can read. An unreadable answer is replaced by a failure of its request.
fn readable(wire: &McpExchangeRegistry, mut event: Sse, asked: Option<&RequestId>) -> Sse {
    let Some(data) = &event.data else { return event };
    let instead = match (wire.read(data), asked) {
        // `rmcp` takes any answer as the last event of this body, so the caller would never see this error.
        (Ok(ServerJsonRpcMessage::Error(error)), Some(asked)) if error.id.as_ref() != Some(asked) => {
            answer_to(asked, ServerJsonRpcMessage::Error(error))
        }
        (Ok(ServerJsonRpcMessage::Response(response)), Some(asked)) if response.id != *asked => {
            let answer = answer_to(asked, ServerJsonRpcMessage::Response(response));
            Some(answer.unwrap_or_else(|| no_answer_to(asked)))
        }
        (Ok(_), _) => None,
        (Err(UnreadableMcpMessage { stand_in, .. }), _) => stand_in.map(|message| *message),
    };
    if let Some(text) = instead.and_then(|message| serde_json::to_string(&message).ok()) {
        event.data = Some(text);
    }
    event
}

/// Reports whether an answer's id is that of a request. Some servers turn a number into a string.
fn is_same(id: &RequestId, asked: &RequestId) -> bool {
    id.to_string() == asked.to_string()
}

/// Returns the only message of a body as the answer to the request, under the request's own id. The result is `None` if
/// the message answers another request or none. An error without an id, or with a foreign one, concerns the request it
/// came for.
fn answer_to(asked: &RequestId, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
    match message {
        ServerJsonRpcMessage::Response(mut response) if is_same(&response.id, asked) => {
            response.id = asked.clone();
            Some(ServerJsonRpcMessage::Response(response))
        }
        ServerJsonRpcMessage::Error(mut error) => {
            error.id = Some(asked.clone());
            Some(ServerJsonRpcMessage::Error(error))
        }
        _ => None,
    }
}

fn no_answer_to(asked: &RequestId) -> ServerJsonRpcMessage {
    let words = "the server answered something else than what it was asked";
    ServerJsonRpcMessage::error(ErrorData::internal_error(words, None), Some(asked.clone()))
}

/// Reports whether a refusal says that the server has lost the session, after a restart or by forgetting it. The
/// protocol has 404 for this case. Servers of the official TypeScript SDK answer 400 with an error that names no
/// request.
fn names_a_lost_session(status: StatusCode, words: &str) -> bool {
    let words = words.to_lowercase();
    status == StatusCode::NOT_FOUND || words.contains("session") || words.contains("not initialized")
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn is_of_type(response: &Response, wanted: &str) -> bool {
    header(response, CONTENT_TYPE.as_str()).is_some_and(|found| found.starts_with(wanted))
}

/// Follows redirects within one origin only: a secret header must not reach another host.
fn within_one_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// Returns scheme, host and port of an address, never user, path or query.
fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Returns the header values, each also without its scheme (`Bearer …`).
fn secrets(remote: &McpHttpEndpoint) -> Vec<String> {
    // A server may quote the token alone, as in "invalid token abc". Both forms are hidden.
    let forms = remote.headers.values().flat_map(|value| {
        let bare = value.rsplit(' ').next().unwrap_or_default();
        [value.as_str(), bare]
    });
    forms.filter(|form| form.len() >= MIN_HIDDEN_BYTES).map(str::to_owned).collect()
}

/// Returns the causes of an error. The error's own first sentence is left out, because it repeats the address.
fn causes(error: &reqwest::Error) -> String {
    if let Some(text) = connection_fault_text(error) {
        return text;
    }
    let mut words: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
        cause = next.source();
    }
    if words.is_empty() { "no answer".to_owned() } else { words.join(": ") }
}
