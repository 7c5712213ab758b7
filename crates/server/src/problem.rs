//! The errors of the API: problem documents (RFC 9457) with a stable code.
//!
//! Problem documents are public: no path, no secret and nothing of the database. Details go to the log.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::session::SessionError;
use longhaul_core::error::ErrorCode;
use longhaul_core::orders::StandingOrderError;
use longhaul_store::{BlobError, StoreError};
use serde_json::{Map, Value, json};

use crate::cluster_proxy::RemoteSessionMarker;

/// The codes of conflicts with an earlier change of an edit, beside the common codes.
pub(crate) const EDIT_CODES: [&str; 3] = [ALREADY_UNDONE, ALREADY_RELEASED, NOT_UNDONE];
const ALREADY_UNDONE: &str = "already-undone";
const ALREADY_RELEASED: &str = "already-released";
const NOT_UNDONE: &str = "not-undone";

/// The detail of a server in shutdown.
pub(crate) const ENDING: &str = "The server is shutting down: running work may finish, and new work is \
                                 refused. Start it again with `longhaul` (as it was started before) and \
                                 send this once more.";

/// The detail of a node in shutdown beside others.
pub(crate) const ENDING_HERE: &str = "This node is shutting down: running work may finish, and new work is \
                                      refused. Send this to another node.";

/// The time in which another node takes over the sessions of a dead one, in seconds: a lease and a check.
const TAKEN_OVER_S: u32 = 13;

/// The time after which a client may ask again whether a run has ended, in seconds.
const ENDED_S: u32 = 5;

/// The reason why a request was not done.
#[derive(Clone, Debug)]
pub(crate) struct ApiProblem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    more: Map<String, Value>,
    retry_after_s: Option<u32>,
    /// The session of another node, if any.
    elsewhere: Option<RemoteSessionMarker>,
    is_damage: bool,
}

impl ApiProblem {
    pub(crate) fn new(status: StatusCode, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.as_str(),
            detail: detail.into(),
            more: Map::new(),
            retry_after_s: None,
            elsewhere: None,
            is_damage: false,
        }
    }

    /// Returns the problem of an invalid request.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, detail)
    }

    /// Returns whether an event of the session is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Returns code and detail in the form of answers and events.
    pub(crate) fn named(&self) -> Value {
        json!({ "code": self.code, "message": self.detail })
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, format!("There is no {what}."))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, ErrorCode::Conflict, detail)
    }

    /// Returns the problem of a key used by another request.
    pub(crate) fn reused_key() -> Self {
        let detail = "This Idempotency-Key was used for another request. Send this one with a new key.";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidRequest, detail)
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "This needs the server's token: Authorization: Bearer TOKEN.";
        Self::new(StatusCode::UNAUTHORIZED, ErrorCode::Auth, detail)
    }

    /// Returns the problem of a token that is not the server's.
    pub(crate) fn wrong_token() -> Self {
        let detail = "The token is wrong. The server names the file with the right one when it starts.";
        Self::new(StatusCode::UNAUTHORIZED, ErrorCode::Auth, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorCode::Auth, detail)
    }

    pub(crate) fn too_large(limit_bytes: u64) -> Self {
        let detail = format!("This is too large: at most {limit_bytes} bytes are accepted.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidRequest, detail)
    }

    /// Returns the problem of an interrupted body.
    pub(crate) fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            ErrorCode::Timeout,
            "The rest of the body did not arrive in time, and nothing was done. Send the request again.",
        )
    }

    /// Returns the problem of a client above the rate limit.
    pub(crate) fn too_many(wait: Duration) -> Self {
        let detail = "This client has sent too many requests (server.rateLimit). Try again after the time \
                      in Retry-After.";
        let many = Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimitExceeded, detail);
        // Rounded up, because `Retry-After` has whole seconds and an early request is refused again.
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Self { retry_after_s: Some(seconds), ..many }
    }

    pub(crate) fn internal() -> Self {
        let detail = "The server failed at this request. Its log has the cause.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Storage, detail)
    }

    /// Returns the problem of a session at a living but unreachable node.
    pub(crate) fn unreached() -> Self {
        let detail = "This node cannot reach the node that has the session. If that node has died, another \
                      takes the session over within 13 s: try again then.";
        Self { retry_after_s: Some(TAKEN_OVER_S), ..Self::unavailable(ErrorCode::Interrupted, detail) }
    }

    /// Returns the problem of a node lost in the middle of an answer.
    pub(crate) fn broke_off() -> Self {
        let detail = "The connection to the node that has the session broke; all messages are kept. If that \
                      node has died, another takes the session over within 13 s: try again then.";
        Self { retry_after_s: Some(TAKEN_OVER_S), ..Self::unavailable(ErrorCode::Interrupted, detail) }
    }

    /// Returns the problem of a session at another node in shutdown.
    pub(crate) fn ending_there() -> Self {
        let detail = "The node that has this session is shutting down: running work may finish there, then \
                      another node takes the session over. Send this again in a moment.";
        Self { retry_after_s: Some(ENDED_S), ..Self::unavailable(ErrorCode::Interrupted, detail) }
    }

    /// Returns the problem of this node, one of several, shutting down.
    pub(crate) fn ending_here() -> Self {
        Self::unavailable(ErrorCode::Interrupted, ENDING_HERE)
    }

    fn unavailable(code: ErrorCode, detail: &str) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail) }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns the session of another node, if any.
    pub(crate) fn elsewhere(&self) -> Option<&RemoteSessionMarker> {
        self.elsewhere.as_ref()
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_s.map(|seconds| Duration::from_secs(seconds.into()))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Replaces the code, where programs must tell more cases apart.
    fn coded(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Adds a figure or a name for programs.
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.to_owned(), value.into());
        self
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => Self::not_found(what),
            StoreError::Conflict(_) => Self::conflict(
                "Another change came first, and this one was not made. Read the current state and try \
                 again.",
            ),
            // The mark makes the cluster proxy look for the session at another node.
            StoreError::Busy(session) => {
                let busy = Self::conflict("Another process uses the session: try again when it is done.");
                Self { elsewhere: Some(RemoteSessionMarker(session)), ..busy }
            }
            // The session was just taken over, or another node had it all along.
            StoreError::Fenced(session) | StoreError::Elsewhere { session, .. } => {
                let detail = "Another node has the session: try again in a moment.";
                let elsewhere = Self::unavailable(ErrorCode::Interrupted, detail);
                Self { elsewhere: Some(RemoteSessionMarker(session)), ..elsewhere }
            }
            StoreError::QueueFull(waiting) => {
                let detail = format!(
                    "The queue is full: {waiting} messages wait, and this one was not taken. Send it again \
                     later, or raise run.queueLimit."
                );
                let full = Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::QueueFull, detail);
                Self { retry_after_s: Some(5), ..full }
            }
            StoreError::Closed => Self::unavailable(ErrorCode::Interrupted, ENDING),
            StoreError::Damaged { seq, .. } => {
                tracing::error!(%error, "storage");
                let detail = format!(
                    "Event {seq} of this session is damaged, so it cannot go on. Its messages and its export show the \
                     rest; a backup may have the event."
                );
                let damage = Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Storage, detail);
                Self { is_damage: true, ..damage }
            }
            _ => {
                tracing::error!(%error, "storage");
                Self::unavailable(ErrorCode::Storage, "The store failed. The server's log has the cause.")
            }
        }
    }
}

impl From<SessionError> for ApiProblem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Busy => Self::conflict("The session is busy: wait until it rests, or cancel."),
            SessionError::NotFound(what) => Self::not_found(what),
            SessionError::Conflict(why) => Self::conflict(sentence(&why)),
            SessionError::AlreadyUndone(_) => {
                Self::conflict(sentence(&error.to_string())).coded(ALREADY_UNDONE)
            }
            SessionError::AlreadyReleased(_) => {
                Self::conflict(sentence(&error.to_string())).coded(ALREADY_RELEASED)
            }
            SessionError::NotUndone(_) => Self::conflict(sentence(&error.to_string())).coded(NOT_UNDONE),
            SessionError::DoesNotFit { tokens, usable } => {
                let detail = format!(
                    "This does not fit: the view would have {tokens} tokens, and {usable} are usable. \
                     Nothing was changed."
                );
                let misfit = Self::new(StatusCode::CONFLICT, ErrorCode::ContextOverflow, detail);
                misfit.with("tokens", tokens).with("usable", usable)
            }
            SessionError::Order(error) => error.into(),
            SessionError::Refused(_) => {
                let detail = sentence(&error.to_string());
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::Refused, detail)
            }
            SessionError::Stopped => Self::unavailable(
                ErrorCode::Interrupted,
                "The session has stopped; everything stored is kept. Send the request again to open it.",
            ),
            SessionError::Log(..) => {
                tracing::error!(%error, "log");
                let detail = "The session's log cannot be read. The server's log has the cause.";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Storage, detail)
            }
            _ => {
                tracing::error!(%error, "session");
                let detail = "The session failed. The server's log has the cause.";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.code(), detail)
            }
        }
    }
}

impl From<StandingOrderError> for ApiProblem {
    fn from(error: StandingOrderError) -> Self {
        let detail = sentence(&error.to_string());
        match error {
            StandingOrderError::NotFound(id) => Self::not_found(format!("standing order {id}")),
            StandingOrderError::Empty | StandingOrderError::TooLong { .. } => Self::invalid(detail),
            StandingOrderError::TooLarge { tokens, most } => {
                let misfit = Self::new(StatusCode::CONFLICT, ErrorCode::ContextOverflow, detail);
                misfit.with("tokens", tokens).with("usable", most)
            }
            _ => Self::conflict(detail),
        }
    }
}

impl From<BlobError> for ApiProblem {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound(_) => Self::not_found("such content"),
            BlobError::BadHash(_) => Self::invalid("Content is named by 64 hexadecimal digits."),
            BlobError::TooLarge { limit, .. } => Self::too_large(limit),
            BlobError::OutOfRange { .. } => Self::invalid("The range lies outside the content."),
            _ => {
                tracing::error!(%error, "blobs");
                Self::unavailable(
                    ErrorCode::Storage,
                    "Stored content cannot be read or written. The server's log has the cause.",
                )
            }
        }
    }
}

/// Returns the text with a capital and a full stop. A name at the beginning (`e26`, `atSeq`, a field before a
/// colon) stays unchanged.
pub(crate) fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default().trim_end_matches([',', ';', '.']);
    // A code, a handle or a field has other characters than lower-case letters.
    let is_name = !word.chars().all(char::is_lowercase);
    let mut chars = text.chars();
    let first: String = match chars.next() {
        Some(first) if !is_name => first.to_uppercase().collect(),
        first => first.into_iter().collect(),
    };
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        // The form of problem details (RFC 9457).
        let mut body = json!({
            "type": format!("urn:longhaul:problem:{}", self.code), "title": title,
            "status": self.status.as_u16(), "detail": self.detail, "code": self.code,
        });
        // Always an object, as built above.
        if let Value::Object(body) = &mut body {
            body.extend(self.more);
        }
        let mut response = (self.status, body.to_string()).into_response();
        if let Some(elsewhere) = self.elsewhere {
            // The cluster proxy looks for this mark, and sends the request to the node that has the session.
            response.extensions_mut().insert(elsewhere);
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            // HTTP demands a challenge with status 401 (RFC 9110, 15.5.2).
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_sentence_begins_with_a_capital_but_names_stay() {
        assert_eq!(sentence("no such session"), "No such session.");
        assert_eq!(sentence("nothing, it seems"), "Nothing, it seems.");
        assert_eq!(sentence("Done."), "Done.");
        for name in
            ["e26 is already undone", "after: invalid digit", "atSeq is too large", "`x` is unknown", ""]
        {
            assert_eq!(sentence(name), format!("{name}."));
        }
    }
}
