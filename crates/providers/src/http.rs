//! The HTTP base of every adapter's client. A connection has three timeouts and no total one. Errors keep status,
//! body, `Retry-After` and the request's id. Keys never show.

pub(crate) mod answer;
mod arguments;
pub(crate) mod base_url;
mod body_idle_timeout;
mod byte_counts;
mod client;
mod coding;
mod joined_events;
mod key;
mod network;
mod progress_deadline;
mod proxy_answer;
mod redirect;
mod request_id;
mod retry_after;
mod secret;

use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use longhaul_core::error::ErrorCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio::time::timeout;

use crate::{ModelEndpoint, ProviderError};
use longhaul_wire::{refused_part, server_error};

use body_idle_timeout::BodyIdleTimeout;
use client::is_loopback;
use proxy_answer::RefusalOrigin;

pub(crate) use base_url::base_without_operation;
#[doc(hidden)]
pub use base_url::{BaseUrl, is_page, operation_hint, take_base_url_hints, warn_of_base_url};
#[doc(hidden)]
pub use client::builder;
#[doc(hidden)]
pub use coding::{BodyDecompressor, ContentCodingError};
pub use network::{NetworkVariables, connection_fault_text};
#[doc(hidden)]
pub use proxy_answer::proxy_answer_hint;
#[doc(hidden)]
pub use retry_after::retry_after;
pub use secret::Secret;

/// The largest kept size of an error's body, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The largest size of an answer, in bytes. Most of the size is the wire's frame around each token: an answer of
/// 256,000 tokens stays far below.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The largest size of a server's own description, in bytes.
const MAX_INFO_BYTES: usize = 8 << 20;

/// The pause before a second attempt at a local server after a refused connection.
const BEFORE_RECONNECT: Duration = Duration::from_millis(300);

/// An arriving body.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ProviderError>> + Send>>;

/// The longest waits of a call. A whole answer has no limit: a long answer is not broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// The wait for the connection, TLS included.
    pub connect: Duration,
    /// The wait for the first byte of the answer; `None` waits without end, because a local server may read a long
    /// prompt for minutes. Until the answer has content, comments, pings and blank lines restart the wait.
    pub first_byte: Option<Duration>,
    /// The wait between two reads of an answer with content. A server with only comments and pings gets the same
    /// time.
    pub idle: Duration,
    /// The wait for the first content while comments, pings and blank lines come. `None` waits without end, for
    /// callers under a person's control.
    pub signs_of_life: Option<Duration>,
}

/// The default wait for the first byte of a public server.
const FIRST_BYTE_ELSEWHERE: Duration = Duration::from_secs(600);

/// The wait in place of no limit. [`Duration::MAX`] would overflow in a sum with a time.
const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

impl HttpTimeouts {
    /// Returns the default waits for the server at `base_url`. On the local machine and in private networks the first
    /// byte has no limit.
    pub fn for_server(base_url: &str) -> Self {
        let is_near = Url::parse(base_url).is_ok_and(|url| client::is_private(&url));
        Self { first_byte: (!is_near).then_some(FIRST_BYTE_ELSEWHERE), ..Self::default() }
    }

    /// Returns the wait for the first byte as a duration; decades represent no limit.
    pub fn first_byte_limit(&self) -> Duration {
        self.first_byte.unwrap_or(ENDLESS)
    }
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Some(FIRST_BYTE_ELSEWHERE),
            idle: Duration::from_secs(600),
            signs_of_life: None,
        }
    }
}

/// A client for a server.
#[derive(Clone)]
pub(crate) struct ProviderHttpClient {
    client: Client,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    /// The description of the key for errors.
    key: String,
    timeouts: HttpTimeouts,
    variables: NetworkVariables,
}

impl ProviderHttpClient {
    /// Creates a client without connecting. `headers` are sent with every request; their values are treated as
    /// secret.
    ///
    /// # Errors
    /// `invalid-request` for a header that cannot be sent; `network` if TLS cannot be set up.
    pub(crate) fn new(
        base: &Url,
        headers: &[(String, Secret)],
        timeouts: HttpTimeouts,
    ) -> Result<Self, ProviderError> {
        let mut builder = client::builder(base, timeouts.connect)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            // llama.cpp announces keep-alive and closes the connection after each stream: the next request would
            // be lost with the connection. Without TLS a new connection costs next to nothing (decision 0013).
            builder = builder.pool_max_idle_per_host(0);
        }
        let client = builder.build().map_err(|error| network("cannot set up the HTTP client", &error))?;
        // Any configured header may hold a key, so the values of all headers are hidden in errors.
        let secrets = headers.iter().flat_map(|(_, value)| value.forms()).collect();
        let key = key::describe(headers);
        let variables = NetworkVariables::default();
        Ok(Self { client, headers: header_map(headers)?, secrets, key, timeouts, variables })
    }

    /// Gives errors the environment variables of the key and of the way to the server.
    pub(crate) fn with_variables(self, endpoint: &ModelEndpoint) -> Self {
        let key = key::with_variable(self.key, endpoint);
        Self { key, variables: endpoint.variables.clone(), ..self }
    }

    /// Returns the same client with another header, without a secret value.
    ///
    /// # Errors
    /// `invalid-request` for a header that cannot be sent.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, ProviderError> {
        let value = HeaderValue::from_str(value).map_err(|_| unsendable(name))?;
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(self)
    }

    /// Posts JSON and waits for the status line.
    ///
    /// # Errors
    /// The error of an answer outside 2xx, as [`server_error::from_response`] reads it; `network` or `timeout` if
    /// the server did not answer.
    pub(crate) async fn post(&self, url: Url, body: Bytes) -> Result<Response, ProviderError> {
        let limit = self.timeouts.first_byte_limit();
        // The refusal's reader looks for the refused part in the body. A clone of `Bytes` shares its memory.
        let (sent, begun) = (body.clone(), Instant::now());
        let response = match timeout(limit, self.send(&url, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::debug!(
                    url = %shown(&url),
                    is_connect = error.is_connect(),
                    is_certificate = network::is_certificate(&error),
                    elapsed_ms = begun.elapsed().as_millis() as u64,
                    "the model server cannot be reached"
                );
                return Err(self.hide_secrets(self.unreachable(&url, &error)));
            }
            Err(_) => {
                tracing::debug!(
                    url = %shown(&url),
                    limit_ms = limit.as_millis() as u64,
                    "the model server sent no answer in time; it is not asked again, because it may still work"
                );
                return Err(slow_start_error(&place(&url), limit));
            }
        };
        tracing::debug!(
            url = %shown(&url),
            status = response.status().as_u16(),
            request_bytes = sent.len(),
            elapsed_ms = begun.elapsed().as_millis() as u64,
            "the model server answered"
        );
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response, &sent).await) }
    }

    /// Sends the request. A server has received nothing over a refused connection. A local server may be restarting
    /// then, and is asked once more after a pause.
    async fn send(&self, url: &Url, body: Bytes) -> reqwest::Result<Response> {
        let request = self.client.post(url.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        // `send` consumes the request. The clone shares the body's memory.
        let again = request.try_clone().filter(|_| is_loopback(url));
        match (request.send().await, again) {
            (Err(error), Some(again)) if is_refused(&error) => {
                tracing::debug!(
                    server = %place(url),
                    pause = ?BEFORE_RECONNECT,
                    "nothing listens on this machine's port: the server may be restarting and is asked once more"
                );
                tokio::time::sleep(BEFORE_RECONNECT).await;
                again.send().await
            }
            (sent, _) => sent,
        }
    }

    /// Gets JSON, best effort: `None` on any failure or after `limit`.
    pub(crate) async fn get_json(&self, url: Url, limit: Duration) -> Option<serde_json::Value> {
        let page = shown(&url);
        let request = self.client.get(url).headers(self.headers.clone());
        let read = async {
            let response = request.send().await.ok()?;
            // The body is read in any case: only a connection whose body was read to the end can be reused.
            let status = response.status();
            let body = collect(self.bytes(response), MAX_INFO_BYTES).await.ok()?;
            let json = status.is_success().then(|| serde_json::from_slice(&body).ok()).flatten();
            let is_json = json.is_some();
            tracing::debug!(page, status = status.as_u16(), bytes = body.len(), is_json, "a page was read");
            json
        };
        let Ok(read) = timeout(limit, read).await else {
            tracing::debug!(page, limit_ms = limit.as_millis() as u64, "a page did not come in time");
            return None;
        };
        read
    }

    /// Returns the arriving body of a response without a model's answer, decompressed if needed.
    pub(crate) fn bytes(&self, response: Response) -> ByteStream {
        self.bytes_with_idle_timeout(response, BodyIdleTimeout::after_start(self.timeouts))
    }

    /// Returns the arriving body, decompressed if needed.
    pub(crate) fn bytes_with_idle_timeout(&self, response: Response, silence: BodyIdleTimeout) -> ByteStream {
        let coding = match BodyDecompressor::of(response.headers()) {
            Ok(coding) => coding,
            // The error is the stream's only item, so callers handle all failures of a body in one place.
            Err(error) => return Box::pin(futures_util::stream::iter([Err(unreadable(&error))])),
        };
        let plain = with_idle_timeout(response, silence);
        let Some(coding) = coding else { return with_size_limit(plain) };
        let decoded =
            futures_util::stream::try_unfold((plain, coding), |(mut coded, mut coding)| async move {
                let Some(chunk) = coded.next().await.transpose()? else { return Ok(None) };
                let chunk = coding.decode(&chunk).map_err(|error| unreadable(&error))?;
                Ok(Some((chunk, (coded, coding))))
            });
        // The limit counts decompressed bytes, so a small body that expands without end is stopped too.
        with_size_limit(Box::pin(decoded))
    }

    /// Returns the error for an unreachable server. The server or its proxy may be restarting, so the call may be
    /// repeated. A setting that a person must change stays as it is.
    fn unreachable(&self, url: &Url, error: &reqwest::Error) -> ProviderError {
        let words = self.variables.explain(url, error);
        let failed = ProviderError::new(ErrorCode::Network, words);
        // Only a connection that was never made proves that the server received nothing.
        ProviderError { unsent: error.is_connect(), retryable: !network::is_permanent(url, error), ..failed }
    }

    /// Removes every secret from an error's texts.
    pub(crate) fn hide_secrets(&self, mut error: ProviderError) -> ProviderError {
        // Some servers repeat the key in the text of their refusal.
        for secret in &self.secrets {
            error.message = secret.hide_in(error.message);
            error.body = error.body.map(|body| secret.hide_in(body));
        }
        error
    }

    async fn refused(&self, response: Response, sent: &Bytes) -> ProviderError {
        let status = response.status().as_u16();
        // The headers are read first, because `bytes` consumes the response.
        let now = SystemTime::now();
        let wait = retry_after(response.headers(), now);
        let reset = retry_after::rate_limit_reset(response.headers(), now);
        let id = request_id::read(response.headers());
        let redirect = redirect::read(&response);
        let (url, origin) = (response.url().clone(), RefusalOrigin::of(response.headers()));
        let said = match collect_lossy(self.bytes(response), MAX_ERROR_BYTES).await {
            // An unreadable body must not pass for an empty one: its error is the message then.
            (body, Some(error)) if body.is_empty() => error.message,
            (body, _) => String::from_utf8_lossy(&body).into_owned(),
        };
        let mut error = server_error::from_response(status, wait, said);
        // Servers send the resets of all their limits with every answer. Only a refusal for a limit waits for one.
        if error.code == ErrorCode::RateLimitExceeded && error.retry_after.is_none() {
            let body = error.body.as_deref().unwrap_or_default();
            // The error's own moment is that of the limit that was reached. The headers tell of every limit.
            error.retry_after = server_error::wait_of_body(body, now)
                .or(reset)
                .or_else(|| retry_after::rate_limit_reset_in(body, now));
        }
        if let (Some(refusal), Some(said)) = (&mut error.refusal, &error.body) {
            refusal.part = refused_part::locate(refusal, said, sent);
        }
        let error = redirect::explain(redirect, error);
        let error = origin.explain(&url, &self.variables, error);
        let error = base_url::with_address(&url, error);
        tracing::debug!(
            status,
            code = %error.code,
            retryable = error.retryable,
            retry_after_ms = error.retry_after.map(|wait| wait.as_millis() as u64),
            request_id = id.as_deref(),
            used_tokens = error.used_tokens,
            limit_tokens = error.limit_tokens,
            refuses_tools = error.refuses_tools,
            refuses_part = error.refusal.is_some(),
            "the model server refused the request"
        );
        self.hide_secrets(request_id::with_request_id(id.as_deref(), key::explain(&self.key, error)))
    }
}

/// Returns the bytes of a body, until the body is silent for too long.
fn with_idle_timeout(response: Response, silence: BodyIdleTimeout) -> ByteStream {
    let server = place(response.url());
    // Boxed, because a stream must be pinned to be polled from a state that moves.
    let start = (Box::pin(response.bytes_stream()), silence, server);
    Box::pin(futures_util::stream::try_unfold(start, |(mut body, silence, server)| async move {
        // The limit is read for each chunk, because the first content changes it.
        let limit = silence.limit();
        match timeout(limit, body.next()).await {
            Err(_) if !silence.has_begun() => Err(slow_start_error(&server, limit)),
            Err(_) => Err(timeout_error("the answer stalled: no data".to_owned(), limit)),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(network("the connection broke in the middle of the answer", &error)),
            Ok(Some(Ok(chunk))) => Ok(Some((chunk, (body, silence, server)))),
        }
    }))
}

/// Returns the bytes, with an error once an answer exceeds the largest size.
fn with_size_limit(bytes: ByteStream) -> ByteStream {
    Box::pin(futures_util::stream::try_unfold((bytes, 0_usize), |(mut bytes, seen)| async move {
        match bytes.next().await.transpose()? {
            None => Ok(None),
            // The chunk that crossed the limit was delivered already. Only an answer that goes on is stopped.
            Some(_) if seen > MAX_ANSWER_BYTES => Err(too_large_error("the answer", MAX_ANSWER_BYTES)),
            Some(chunk) => {
                let seen = seen + chunk.len();
                Ok(Some((chunk, (bytes, seen))))
            }
        }
    }))
}

/// Returns the error for a body with an unreadable coding. A repeated call would fail again.
fn unreadable(error: &ContentCodingError) -> ProviderError {
    ProviderError { retryable: false, ..ProviderError::new(ErrorCode::ThirdParty, error.to_string()) }
}

/// Collects at most `limit` bytes of the body.
///
/// # Errors
/// The stream's.
pub(crate) async fn collect(bytes: ByteStream, limit: usize) -> Result<Bytes, ProviderError> {
    match collect_lossy(bytes, limit).await {
        (all, None) => Ok(all),
        (_, Some(error)) => Err(error),
    }
}

/// Collects the received part of the body, with the error at the break.
async fn collect_lossy(mut bytes: ByteStream, limit: usize) -> (Bytes, Option<ProviderError>) {
    let mut all = BytesMut::new();
    while all.len() < limit {
        match bytes.next().await {
            Some(Ok(chunk)) => all.extend_from_slice(&chunk[..chunk.len().min(limit - all.len())]),
            Some(Err(error)) => return (all.freeze(), Some(error)),
            None => break,
        }
    }
    (all.freeze(), None)
}

/// Returns `base` with path segments added; a query in `base` stays.
///
/// # Errors
/// `invalid-request` if `base` is no URL, or cannot have a path.
pub(crate) fn endpoint(base: &str, segments: &[&str]) -> Result<Url, ProviderError> {
    let mut url = Url::parse(base).map_err(|error| base_url_error(base, &error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(base_url_error(base, "it must begin with http:// or https://"));
    }
    base_url::trim_slashes(&mut url);
    let mut path = url.path_segments_mut().map_err(|()| base_url_error(base, "it cannot have a path"))?;
    // A base URL without a path has one empty segment.
    path.pop_if_empty().extend(segments);
    drop(path);
    Ok(url)
}

fn base_url_error(base: &str, why: &str) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, format!("base URL `{base}`: {why}"))
}

/// Returns scheme, host, port and path for people. User and query are left out, because both may hold a key.
fn shown(url: &Url) -> String {
    format!("{}{}", place(url), url.path().trim_end_matches('/'))
}

fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, ProviderError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        // The error names the header and never its value, which may be a key.
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(name))?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| unsendable(name))?;
        // A sensitive value stays out of debug output and out of HTTP/2's compression tables.
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

fn unsendable(name: &str) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, format!("header `{name}` cannot be sent"))
}

/// Returns the server of a base URL for people.
pub(crate) fn server(base: &str) -> String {
    Url::parse(base).map_or_else(|_| "no URL".to_owned(), |url| place(&url))
}

/// Returns scheme, host and port. User, path and query are left out, because all may hold a key.
fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

fn is_refused(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

/// Returns the error for `what` on the network, with the causes.
fn network(what: &str, error: &reqwest::Error) -> ProviderError {
    let mut words = what.to_owned();
    network::push_causes(&mut words, error);
    ProviderError::new(ErrorCode::Network, words)
}

fn timeout_error(what: String, limit: Duration) -> ProviderError {
    ProviderError::new(ErrorCode::Timeout, format!("{what} for {}", in_words(limit)))
}

/// Returns the error for a live server without the beginning of an answer. A repeated call would only restart the
/// server's work, so the call is not repeated.
fn slow_start_error(server: &str, limit: Duration) -> ProviderError {
    let message = format!(
        "{server} sent no answer for {}; it was not asked again, because it may still read the prompt. `model.timeout` \
         (for an upstream of the gateway its `timeout`) limits this wait, and `none` takes the limit away",
        in_words(limit)
    );
    ProviderError { retryable: false, ..ProviderError::new(ErrorCode::Timeout, message) }
}

/// Returns a duration in words for people.
fn in_words(time: Duration) -> String {
    match (time.as_millis(), time.as_secs()) {
        (millis @ 0..=9_999, _) if millis % 1_000 != 0 => format!("{millis} ms"),
        (_, seconds @ 0..=119) => format!("{seconds} s"),
        (_, seconds) => format!("{} min", seconds / 60),
    }
}

/// Returns the error for data beyond a limit. A repeated call would fail again.
pub(crate) fn too_large_error(what: &str, limit: usize) -> ProviderError {
    let message = format!("{what} was given up after {} MiB", limit >> 20);
    ProviderError { retryable: false, ..ProviderError::new(ErrorCode::ThirdParty, message) }
}
