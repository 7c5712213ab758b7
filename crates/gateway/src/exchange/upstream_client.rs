//! The calls of an upstream on the client's wire: posting, time-outs, and new tries.

use std::future::ready;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode, header};
use longhaul_core::attempt::{SendOutcome, SendTries};
use longhaul_providers::http::{connection_fault_text, retry_after};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse};
use longhaul_wire::overflow;
use tokio::time::{Instant, sleep, timeout};

use super::attempts::FailedAttempt;
use super::flow::UpstreamBody;
use super::request_log::whole_ms;
use super::send::{kind_of, whole};
use super::targeted_request::TargetedRequest;

/// The largest body that can be a mere "no such path" message, in bytes.
const MAX_NO_PATH_BYTES: u64 = 1_000;

/// The largest body of a busy server that is read before the request is sent again, in bytes.
const MAX_BUSY_BYTES: u64 = 10_000;

/// The time for such a body. It comes with the status, as a rule.
const BUSY_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of one upstream, for one request.
pub(super) struct UpstreamClient<'a> {
    pub(super) request: &'a TargetedRequest,
    /// Set once the upstream has begun an answer.
    pub(super) is_answered: &'a AtomicBool,
}

impl UpstreamClient<'_> {
    /// Posts the request and waits for the status line. A request that did not arrive or met a busy server is tried
    /// again. One that the upstream may have read is not.
    ///
    /// A 404 at the base URL leads to one request below the base URL with a version segment.
    pub(super) async fn send(&self, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let base = self.request.target.server.base();
        // The clone shares the memory of the body.
        let response = self.send_below(base.current(), body.clone()).await?;
        let Some(versioned) = base.alternative() else { return Ok(response) };
        let (response, is_elsewhere) = check_missing_path(response).await;
        if !is_elsewhere {
            return Ok(response);
        }
        match check_missing_path(self.send_below(&versioned, body).await?).await {
            // Both addresses lack the path, so the client gets the answer of the configured one.
            (_, true) => Ok(response),
            (found, false) => {
                tracing::info!(
                    upstream = self.request.target.server.upstream.name,
                    "the upstream's API is below its base URL with a version segment"
                );
                // Later requests go there at once and are not sent twice.
                base.adopt_alternative();
                Ok(found)
            }
        }
    }

    /// Posts the request below a base URL, with new tries as [`SendTries`] decides.
    async fn send_below(&self, base: &str, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let mut tries = SendTries::new(self.request.proxied.inner.config.attempts);
        loop {
            let begun = Instant::now();
            // The clone of the body is a reference to the same bytes.
            let (result, failed) = match self.send_once(base, body.clone()).await {
                Ok(response) => {
                    let (response, outcome) = check_busy(response).await;
                    (Ok(response), outcome)
                }
                Err(failure) => {
                    let outcome = match &failure {
                        SendFailure::Unreached(_) => SendOutcome::Unreached,
                        SendFailure::BrokenOff(_) => {
                            SendOutcome::BrokenOff { after_ms: whole_ms(begun.elapsed()) }
                        }
                        SendFailure::Other(_) => SendOutcome::Final,
                    };
                    (Err(failure), outcome)
                }
            };
            let Some(wait_ms) = tries.next_wait_ms(failed) else { return result };
            sleep(Duration::from_millis(wait_ms)).await;
            let waited_ms = whole_ms(begun.elapsed());
            tracing::info!(
                upstream = self.request.target.server.upstream.name,
                ?failed,
                waited_ms,
                "an unanswered request is sent again"
            );
        }
    }

    /// Posts the request once and waits for the status line.
    async fn send_once(&self, base: &str, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let (exchange, server) = (&self.request.proxied, &self.request.target.server);
        let own = exchange.inner.config.credentials == crate::gateway::CredentialSource::Own;
        let request = server.post(base, exchange.wire.dialect().path(), &exchange.headers, own, body);
        let request = request.map_err(SendFailure::Other)?;
        let limit = server.timeouts().first_byte_limit();
        let name = &server.upstream.name;
        match timeout(limit, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                // Only a request that did not arrive is safe to repeat: see `SendTries`.
                if error.is_connect() {
                    let message = server.unreached_message(base, &error);
                    return Err(SendFailure::Unreached(GatewayError::new(
                        GatewayErrorKind::Unreachable,
                        message,
                    )));
                }
                let url = reqwest::Url::parse(base).ok();
                let hint = url.and_then(|url| server.upstream.endpoint.variables.hint(&url, &error));
                let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                let message =
                    format!("the upstream `{name}` broke off before it answered: {}{hint}", cause(&error));
                Err(SendFailure::BrokenOff(GatewayError::new(GatewayErrorKind::Unreachable, message)))
            }
            Err(_) => {
                let message =
                    format!("the upstream `{name}` gave no answer within {} s", limit.as_secs_f64());
                // After a time-out the model may still be at work on the request, and a repetition would double
                // the load.
                Err(SendFailure::Other(GatewayError::new(GatewayErrorKind::Timeout, message)))
            }
        }
    }

    /// Returns the content of a complete answer with a success status.
    pub(super) async fn read(&self, status: StatusCode, bytes: &[u8]) -> Option<PartialResponse> {
        let wire = self.request.proxied.wire;
        if status.is_success() {
            self.request.proxied.inner.work_limiter.work(bytes.len(), || wire.parse_answer(bytes)).await
        } else {
            None
        }
    }

    /// Returns the error of an upstream's refusal to continue an answer.
    pub(super) async fn refusal(&self, response: reqwest::Response) -> GatewayError {
        // The headers are read first, because the body's reader consumes the response.
        let (status, retry_after) = (response.status(), retry_after(response.headers(), SystemTime::now()));
        let read =
            async { whole(UpstreamBody::new(response, self.request.target.server.timeouts().idle)?).await };
        let bytes = match read.await {
            Ok(bytes) => self.request.target.server.hide_secrets(bytes),
            Err(fault) => return fault,
        };
        let said = String::from_utf8_lossy(&bytes);
        let quote: String = said.chars().take(500).collect();
        let message = format!("the upstream would not go on: status {status}: {quote}");
        // The upstream's wait survives, because the retry of the continuation keeps to it.
        GatewayError { status, retry_after, ..GatewayError::new(kind_of(status, &said), message) }
    }
}

/// Returns whether a request with such an answer is worth another try.
pub(super) fn outcome_of_status(status: StatusCode) -> SendOutcome {
    match status {
        // A status 429 is left to the next upstream, or to the client with its `Retry-After`.
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => SendOutcome::Busy,
        _ => SendOutcome::Final,
    }
}

/// Returns the response, and whether another try is worthwhile. Some servers tell an overflow with the status of a busy
/// server, and the same request would overflow again.
async fn check_busy(response: reqwest::Response) -> (reqwest::Response, SendOutcome) {
    let (status, outcome) = (response.status(), outcome_of_status(response.status()));
    let is_short = response.content_length().is_some_and(|length| length <= MAX_BUSY_BYTES);
    if outcome != SendOutcome::Busy || !is_short {
        return (response, outcome);
    }
    let headers = response.headers().clone();
    let (body, is_overflow) = match timeout(BUSY_BODY_TIMEOUT, response.bytes()).await {
        Ok(Ok(body)) => {
            let said = String::from_utf8_lossy(&body);
            let is_overflow = overflow::recognise(Some(status.as_u16()), &said).is_some();
            (reqwest::Body::from(body.clone()), is_overflow)
        }
        // The reader of the answer meets the same break.
        Ok(Err(error)) => (reqwest::Body::wrap_stream(stream::once(ready(Err::<Bytes, _>(error)))), false),
        Err(_) => (reqwest::Body::from(Bytes::new()), false),
    };
    let outcome = if is_overflow { SendOutcome::Final } else { outcome };
    (with_head(status, headers, body), outcome)
}

/// Returns a response with the head of one whose body was read.
fn with_head(status: StatusCode, headers: HeaderMap, body: reqwest::Body) -> reqwest::Response {
    let mut whole = http::Response::new(body);
    (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
    whole.into()
}

/// The reason why a request has no answer.
pub(super) enum SendFailure {
    /// The upstream has not read the request.
    Unreached(GatewayError),
    /// The upstream may have read the request.
    BrokenOff(GatewayError),
    /// Another try would not help.
    Other(GatewayError),
}

impl From<SendFailure> for GatewayError {
    fn from(unanswered: SendFailure) -> Self {
        match unanswered {
            SendFailure::Unreached(fault) | SendFailure::BrokenOff(fault) | SendFailure::Other(fault) => {
                fault
            }
        }
    }
}

impl From<SendFailure> for FailedAttempt {
    fn from(unanswered: SendFailure) -> Self {
        let broke_off = matches!(unanswered, SendFailure::BrokenOff(_));
        Self { fault: unanswered.into(), broke_off }
    }
}

/// Returns the response, and whether there is no API at its address: no such path, or a web page. LM Studio reports an
/// unknown path with status 200, so the text of a short response counts, too.
async fn check_missing_path(response: reqwest::Response) -> (reqwest::Response, bool) {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // Web servers with one page for all paths answer with status 200.
    let is_page = kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"));
    // A static web server answers a POST to an unknown path with 405.
    if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
        return (response, true);
    }
    // Only a short body of known length is read here. A stream must not be collected.
    let is_short = response.content_length().is_some_and(|length| length <= MAX_NO_PATH_BYTES);
    if !response.status().is_success() || is_page || !is_short {
        let is_elsewhere = is_page && response.status().is_success();
        return (response, is_elsewhere);
    }
    // Reading the body consumes the response, so another one is built with the same head.
    let (status, headers) = (response.status(), response.headers().clone());
    let (body, says_so) = match response.bytes().await {
        Ok(body) => {
            let says_so = String::from_utf8_lossy(&body).to_lowercase().contains("unexpected endpoint");
            (reqwest::Body::from(body), says_so)
        }
        // The reader of the answer meets the same break, and decides whether the request is sent again.
        Err(error) => (reqwest::Body::wrap_stream(stream::once(ready(Err::<Bytes, _>(error)))), false),
    };
    (with_head(status, headers, body), says_so)
}

/// Returns the innermost cause: the outer errors repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    if let Some(text) = connection_fault_text(error) {
        return text;
    }
    let mut newest: &dyn std::error::Error = error;
    while let Some(source) = newest.source() {
        newest = source;
    }
    newest.to_string()
}
