//! A server over streamable HTTP: the requests, with bytes as they are; sessions and streams that break are
//! rmcp's.
//!
//! Neither the address nor the headers are given to rmcp, which writes what it knows into the log.

mod limit;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream_of_rmcp::{Sse, SseStream};

use super::link::Fault;
use super::wire::{MAX_MESSAGE_BYTES, Unreadable, Wire};
use crate::config::McpRemote;
use crate::reach;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Redirects within one origin that are followed: `/mcp` to `/mcp/`.
const MAX_REDIRECTS: usize = 3;

/// The most of an error's body that is read, and that is shown.
const MAX_ERROR_BYTES: usize = 16 << 10;
const SHOWN_CHARS: usize = 300;

/// Shorter header values are words of a protocol, not secrets: hiding them would garble errors.
const MIN_HIDDEN_BYTES: usize = 8;

/// Why a request has no answer. Without address, path and query, which may hold a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{place} cannot be reached: {why}")]
    Unreachable { place: String, why: String },
    #[error("the connection to {place} broke: {why}")]
    Broken { place: String, why: String },
    #[error("{place} answered HTTP {status}{said}")]
    Status { place: String, status: u16, said: String },
    #[error("{place} sent an answer of more than {} MiB", MAX_MESSAGE_BYTES >> 20)]
    TooLong { place: String },
    #[error("{place} sent what is no message: {why}")]
    NoMessage { place: String, why: String },
}

type Failed = StreamableHttpError<HttpError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The requests to one server.
#[derive(Clone)]
pub(super) struct HttpClient(Arc<Inner>);

struct Inner {
    client: Client,
    url: Url,
    place: String,
    headers: HeaderMap,
    secrets: Vec<String>,
    wire: Arc<Wire>,
    was_initialized: AtomicBool,
}

/// What rmcp is told: no address, no headers.
pub(super) fn transport_config() -> StreamableHttpClientTransportConfig {
    StreamableHttpClientTransportConfig::with_uri("mcp:")
}

/// What an error of a transport means for a call.
pub(super) fn fault(error: &(dyn StdError + Send + Sync + 'static)) -> Fault {
    match error.downcast_ref::<Failed>() {
        Some(Failed::Client(error)) => {
            let words = error.to_string();
            match error {
                HttpError::Unreachable { .. } => Fault::NotSent(words),
                // It has not looked at what was asked.
                HttpError::Status { status: 401 | 403 | 429, .. } => Fault::NotSent(words),
                HttpError::Status { status: 400..500, .. } => Fault::Refused(words),
                _ => Fault::Lost(words),
            }
        }
        Some(Failed::TransportChannelClosed) => Fault::Closed,
        _ => Fault::Lost(error.to_string()),
    }
}

impl HttpClient {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// [`Fault::NotSent`] for an address or a header that cannot be used. Their values are not repeated.
    pub(super) fn new(remote: &McpRemote, wire: Arc<Wire>) -> Result<Self, Fault> {
        let unusable = |what: &str| Fault::NotSent(what.to_owned());
        let url = Url::parse(&remote.url).map_err(|error| unusable(&format!("its url: {error}")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.headers {
            let wrong = || unusable(&format!("the header `{name}` cannot be sent"));
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let builder = reach::client(&url)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(within_one_origin())
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let client = builder.build().map_err(|error| unusable(&causes(&error)))?;
        Ok(Self(Arc::new(Inner {
            client,
            place: place(&url),
            url,
            headers,
            secrets: secrets(remote),
            wire,
            was_initialized: AtomicBool::new(false),
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

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failed> {
        request.send().await.map_err(|error| self.unsent(&error))
    }

    fn unsent(&self, error: &reqwest::Error) -> Failed {
        let (place, why) = (self.0.place.clone(), self.hidden(causes(error)));
        Failed::Client(match error.is_connect() {
            true => HttpError::Unreachable { place, why },
            false => HttpError::Broken { place, why },
        })
    }

    fn no_message(&self, why: String) -> Failed {
        Failed::Client(HttpError::NoMessage { place: self.0.place.clone(), why })
    }

    /// The text with every secret taken out of it: servers repeat what they were sent.
    fn hidden(&self, text: String) -> String {
        self.0.secrets.iter().fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }

    async fn body(&self, response: Response, most: usize) -> Result<String, Failed> {
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.unsent(&error))?;
            if body.len() + chunk.len() > most {
                return Err(Failed::Client(HttpError::TooLong { place: self.0.place.clone() }));
            }
            body.extend_from_slice(&chunk);
        }
        String::from_utf8(body).map_err(|_| self.no_message("it is not UTF-8".to_owned()))
    }

    /// What an answer that is no success says. A JSON-RPC error in its body is an answer to the request.
    async fn refused(
        &self,
        response: Response,
        is_request: bool,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let status = response.status();
        let body = self.body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let is_about_the_caller = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_request
            && !is_about_the_caller
            && let Ok(error @ ServerJsonRpcMessage::Error(_)) = serde_json::from_str(&body)
        {
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        Err(self.status_error(status, &body))
    }

    fn status_error(&self, status: StatusCode, body: &str) -> Failed {
        let shown: String = self.hidden(body.trim().to_owned()).chars().take(SHOWN_CHARS).collect();
        let said = if shown.is_empty() { String::new() } else { format!(": {shown}") };
        Failed::Client(HttpError::Status { place: self.0.place.clone(), status: status.as_u16(), said })
    }

    /// The events of a body, each seen on its way.
    fn events(&self, response: Response) -> Events {
        let wire = Arc::clone(&self.0.wire);
        let bytes = limit::events(response.bytes_stream(), MAX_MESSAGE_BYTES);
        SseStream::from_bytes_stream(bytes)
            .map(move |event| event.map(|event| readable(&wire, event)))
            .boxed()
    }

    async fn message(
        &self,
        response: Response,
        is_request: bool,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let session = header(&response, HEADER_SESSION_ID);
        let text = self.body(response, MAX_MESSAGE_BYTES).await?;
        match self.0.wire.read(&text) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            // Nothing was asked; whatever came instead of 202 is no matter.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(Unreadable { stand_in: Some(message), .. }) => {
                Ok(StreamableHttpPostResponse::Json(*message, session))
            }
            Err(unreadable) => Err(self.no_message(unreadable.why)),
        }
    }

    /// A session that is begun a second time is another server's, for all we know: its tools may differ.
    fn note(&self, message: &ClientJsonRpcMessage) {
        let initializes = matches!(message, ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if initializes && self.0.was_initialized.swap(true, Ordering::Relaxed) {
            self.0.wire.list_changed.notify_one();
        }
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.note(&message);
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = self.0.wire.outgoing(&message)?;
        let request = self.0.client.post(self.0.url.clone()).header(CONTENT_TYPE, JSON_MIME_TYPE).body(body);
        let response = self.send(self.request(request, session.as_deref(), protocol)).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Failed::SessionExpired);
        }
        if !status.is_success() {
            return self.refused(response, is_request).await;
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if is_of_type(&response, EVENT_STREAM_MIME_TYPE) {
            let session = header(&response, HEADER_SESSION_ID);
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        self.message(response, is_request).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let request = self.0.client.delete(self.0.url.clone());
        // A server that knows no such request, or no such session any more, is as good.
        self.send(self.request(request, Some(&session), protocol)).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failed> {
        let mut request = self.request(self.0.client.get(self.0.url.clone()), session.as_deref(), protocol);
        if let Some(id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let response = self.send(request).await?;
        let status = response.status();
        if status.is_client_error() || (status.is_success() && !is_of_type(&response, EVENT_STREAM_MIME_TYPE))
        {
            return Err(Failed::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(self.status_error(status, ""));
        }
        Ok(self.events(response))
    }
}

/// An event that rmcp can read: in its place the failure of the request that it answers, if need be.
fn readable(wire: &Wire, mut event: Sse) -> Sse {
    if let Some(data) = &event.data
        && let Err(Unreadable { stand_in: Some(message), .. }) = wire.read(data)
        && let Ok(text) = serde_json::to_string(&message)
    {
        event.data = Some(text);
    }
    event
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn is_of_type(response: &Response, wanted: &str) -> bool {
    header(response, CONTENT_TYPE.as_str()).is_some_and(|found| found.starts_with(wanted))
}

/// A secret header must not follow a redirect to somebody else.
fn within_one_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// Scheme, host and port: never user, path or query.
fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Header values, also without their scheme (`Bearer …`).
fn secrets(remote: &McpRemote) -> Vec<String> {
    let bare = |value: &String| value.rsplit(' ').next().unwrap_or_default().to_owned();
    let forms = remote.headers.values().flat_map(|value| [value.clone(), bare(value)]);
    forms.filter(|form| form.len() >= MIN_HIDDEN_BYTES).collect()
}

/// The causes of an error without its own first sentence, which repeats the address.
fn causes(error: &reqwest::Error) -> String {
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
