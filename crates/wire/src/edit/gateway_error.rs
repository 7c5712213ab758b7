//! Errors of the gateway before they are written in a dialect: kinds, statuses and codes.
//!
//! Sources of the tables: Anthropic's errors (<https://docs.claude.com/en/api/errors>, `ErrorType` and
//! `GatewayTimeoutError` of its SDKs), OpenAI's error codes (<https://platform.openai.com/docs/guides/error-codes>).

use std::time::Duration;

use http::StatusCode;
use longhaul_core::error::ErrorCode;
use serde_json::Value;

use super::{Dialect, ParseError};
use crate::ProviderError;
use crate::server_error::error_codes;

/// Anthropic's status for an overload.
const OVERLOADED: u16 = 529;

/// The places of a status in the body of an error.
const STATUS_PLACES: [&str; 6] =
    ["/error/code", "/error/status", "/error/status_code", "/code", "/status", "/status_code"];

/// Codes of a valid key without the right: Anthropic, Google.
const PERMISSION_CODES: &[&str] = &["permission_error", "permission_denied"];

/// Codes of an overload: Anthropic, Moonshot (`engine_overloaded_error`), OpenAI, Google, llama.cpp, Amazon, LiteLLM.
const OVERLOAD_CODES: &[&str] = &[
    "overloaded_error",
    "overloaded",
    "engine_overloaded_error",
    "engine_overloaded",
    "slow_down",
    "service_unavailable",
    "service_unavailable_error",
    "unavailable",
    "unavailable_error",
    "serviceunavailableexception",
    "serviceunavailableerror",
];

/// An error of the gateway, not yet written in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayError {
    /// The HTTP status of an answer with only the error.
    pub status: StatusCode,
    /// The kind of error.
    pub kind: GatewayErrorKind,
    /// The message for the client: plain, with numbers.
    pub message: String,
    /// The field with the mistake, if the mistake is in a single field.
    pub param: Option<String>,
    /// The time after which the upstream wants the next request, if named.
    pub retry_after: Option<Duration>,
}

/// Kinds of errors, as far as the dialects distinguish kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatewayErrorKind {
    /// The request has a mistake.
    Invalid,
    /// The request cannot be made to fit the window.
    ContextOverflow,
    /// Nothing can be left out to make the request fit. Clients with their own compaction must not take the error for
    /// [`ContextOverflow`](Self::ContextOverflow): such clients would shorten and retry without end.
    DoesNotFit,
    /// No credential, or a wrong credential.
    Auth,
    /// The caller lacks the permission.
    Forbidden,
    /// The quota is used up or the account has no credit, so only a payment helps.
    Billing,
    /// No such model.
    NotFound,
    /// Another named thing is absent.
    Absent,
    /// No such path.
    NoSuchPath,
    /// The path takes another method.
    WrongMethod,
    /// The body's encoding or media type is not supported.
    Unsupported,
    /// The request continues an answer unknown to the server.
    NoSuchAnswer,
    /// The body is too large.
    TooLarge,
    /// The body stopped before its end.
    TooSlow,
    /// Too many requests.
    RateLimit,
    /// The upstream cannot be reached, or broke off.
    Unreachable,
    /// The upstream did not answer in time.
    Timeout,
    /// The upstream has too much to do for now.
    Overloaded,
    /// The upstream's answer makes no sense.
    Upstream,
    /// The operation is not possible here now, but may be soon.
    Unavailable,
    /// A fault of the gateway itself.
    Internal,
}

impl GatewayErrorKind {
    /// Returns the usual HTTP status.
    pub fn status(self) -> StatusCode {
        match self {
            // OpenAI and Anthropic answer an overflow with 400 and not with 413, and clients look for 400.
            Self::Invalid | Self::ContextOverflow | Self::DoesNotFit | Self::NoSuchAnswer => {
                StatusCode::BAD_REQUEST
            }
            Self::Auth => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::Absent | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::RateLimit | Self::Billing => StatusCode::TOO_MANY_REQUESTS,
            Self::Unreachable | Self::Upstream => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns our own stable name of the error: `code` in dialects with such a field. OpenAI's clients know
    /// `context_length_exceeded` and `insufficient_quota`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_request",
            Self::ContextOverflow => "context_length_exceeded",
            Self::DoesNotFit => "prompt_does_not_fit",
            Self::Auth => "invalid_api_key",
            Self::Forbidden => "permission_denied",
            Self::Billing => "insufficient_quota",
            Self::NotFound => "model_not_found",
            Self::Absent => "not_found",
            Self::NoSuchPath => "unknown_url",
            Self::WrongMethod => "method_not_supported",
            Self::Unsupported => "unsupported_media_type",
            Self::NoSuchAnswer => "previous_response_not_found",
            Self::TooLarge => "request_too_large",
            Self::TooSlow => "request_timeout",
            Self::RateLimit => "rate_limit_exceeded",
            Self::Unreachable => "upstream_unreachable",
            Self::Timeout => "upstream_timeout",
            Self::Overloaded => "upstream_overloaded",
            Self::Upstream => "upstream_error",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal_error",
        }
    }

    /// Returns whether the same request may succeed at the same upstream a little later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimit | Self::Unreachable | Self::Timeout | Self::Overloaded | Self::Upstream
        )
    }

    /// Returns the kind of a failed model call.
    pub fn from_server_error(error: &ProviderError) -> Self {
        let body = error.body.as_deref().unwrap_or_default();
        // A sentence may speak of an overload or of a permission that is not the error's own.
        let has_code = |codes: &[&str]| error_codes(body).iter().any(|code| codes.contains(&code.as_str()));
        // An error inside an answer has no status but the number that it names.
        let status = error.status.or_else(|| named_status(body));
        match error.code {
            _ if error.is_payment_due => Self::Billing,
            ErrorCode::RateLimitExceeded => Self::RateLimit,
            ErrorCode::Timeout => Self::Timeout,
            ErrorCode::ContextOverflow => Self::ContextOverflow,
            ErrorCode::Auth if status == Some(403) || has_code(PERMISSION_CODES) => Self::Forbidden,
            ErrorCode::Auth => Self::Auth,
            ErrorCode::InvalidRequest if status == Some(413) => Self::TooLarge,
            ErrorCode::InvalidRequest | ErrorCode::Refused => Self::Invalid,
            ErrorCode::Network => Self::Unreachable,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::ThirdParty if matches!(status, Some(503 | OVERLOADED)) || has_code(OVERLOAD_CODES) => {
                Self::Overloaded
            }
            _ => Self::Upstream,
        }
    }
}

impl GatewayError {
    /// Creates an error with the usual status.
    pub fn new(kind: GatewayErrorKind, message: impl Into<String>) -> Self {
        Self { status: kind.status(), kind, message: message.into(), param: None, retry_after: None }
    }

    /// Returns the status in the dialect's own table, for an error whose server named none. An overload is 529 at Anthropic and 503 at OpenAI. A used-up quota
    /// is 402 at Anthropic and 429 at OpenAI.
    pub fn status_in(&self, dialect: Dialect) -> StatusCode {
        let overloaded = StatusCode::from_u16(OVERLOADED).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        match (dialect, self.kind, self.status) {
            (Dialect::Messages, GatewayErrorKind::Overloaded, StatusCode::SERVICE_UNAVAILABLE) => overloaded,
            (Dialect::Messages, GatewayErrorKind::Billing, StatusCode::TOO_MANY_REQUESTS) => {
                StatusCode::PAYMENT_REQUIRED
            }
            (Dialect::Chat | Dialect::Responses, GatewayErrorKind::Overloaded, own) if own == overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            (_, _, own) => own,
        }
    }
}

impl From<ParseError> for GatewayError {
    fn from(bad: ParseError) -> Self {
        Self { param: bad.param, ..Self::new(GatewayErrorKind::Invalid, bad.message) }
    }
}

impl From<&ProviderError> for GatewayError {
    fn from(error: &ProviderError) -> Self {
        let fault = Self::new(GatewayErrorKind::from_server_error(error), error.message.clone());
        // An error status of the server is more precise than the kind's default.
        let own = error.status.and_then(|status| StatusCode::from_u16(status).ok());
        let own = own.filter(|status| says_as_much(*status, error.retryable));
        Self { status: own.unwrap_or(fault.status), retry_after: error.retry_after, ..fault }
    }
}

/// Returns whether a status tells a client as much as is known of the error. Some servers report passing trouble as a
/// bad request, and a client does not repeat a bad request.
fn says_as_much(status: StatusCode, is_retryable: bool) -> bool {
    let is_repeated = status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429);
    is_repeated || status.is_client_error() && !is_retryable
}

/// Returns the status that an error's body names as a number.
fn named_status(body: &str) -> Option<u16> {
    let body: Value = serde_json::from_str(body).ok()?;
    // Gemini puts the error object of a stream into a list.
    let object = body.get(0).unwrap_or(&body);
    let mut named = STATUS_PLACES.iter().filter_map(|place| status_number(object.pointer(place)?));
    named.find(|status| (400..=599).contains(status))
}

/// Returns a status that stands as a number or as a text of digits.
fn status_number(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_error::{from_answer, from_response};

    fn refused(status: u16, body: &str) -> GatewayError {
        GatewayError::from(&from_response(status, None, body.to_owned()))
    }

    fn in_answer(body: &str) -> GatewayError {
        GatewayError::from(&from_answer(body))
    }

    #[test]
    fn a_servers_status_has_a_kind_of_its_own() {
        for (status, kind) in [
            (400, GatewayErrorKind::Invalid),
            (401, GatewayErrorKind::Auth),
            (402, GatewayErrorKind::Billing),
            (403, GatewayErrorKind::Forbidden),
            (404, GatewayErrorKind::NotFound),
            (413, GatewayErrorKind::TooLarge),
            (422, GatewayErrorKind::Invalid),
            (429, GatewayErrorKind::RateLimit),
            (500, GatewayErrorKind::Upstream),
            (502, GatewayErrorKind::Upstream),
            (503, GatewayErrorKind::Overloaded),
            (504, GatewayErrorKind::Upstream),
            (529, GatewayErrorKind::Overloaded),
        ] {
            let fault = refused(status, r#"{"error":{"message":"no"}}"#);
            assert_eq!((fault.kind, fault.status.as_u16()), (kind, status), "{status}");
        }
    }

    #[test]
    fn an_error_inside_an_answer_has_the_kind_that_it_names() {
        for (body, kind) in [
            (r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, GatewayErrorKind::Overloaded),
            (r#"{"error":{"code":529,"message":"busy"}}"#, GatewayErrorKind::Overloaded),
            (r#"{"error":{"type":"billing_error","message":"pay"}}"#, GatewayErrorKind::Billing),
            (r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, GatewayErrorKind::Billing),
            (r#"{"error":{"type":"permission_error","message":"no"}}"#, GatewayErrorKind::Forbidden),
            (r#"{"error":{"code":403,"message":"no"}}"#, GatewayErrorKind::Forbidden),
            (r#"{"error":{"type":"authentication_error","message":"no"}}"#, GatewayErrorKind::Auth),
            (r#"{"error":{"type":"rate_limit_error","message":"no"}}"#, GatewayErrorKind::RateLimit),
            (
                r#"[{"error":{"code":503,"status":"UNAVAILABLE","message":"no"}}]"#,
                GatewayErrorKind::Overloaded,
            ),
            (r#"{"error":{"type":"invalid_request_error","message":"no"}}"#, GatewayErrorKind::Invalid),
            (r#"{"error":{"type":"api_error","message":"no"}}"#, GatewayErrorKind::Upstream),
        ] {
            let fault = in_answer(body);
            assert_eq!((fault.kind, fault.status), (kind, kind.status()), "{body}");
        }
    }

    #[test]
    fn a_code_counts_only_in_a_field_for_codes() {
        for (body, kind) in [
            (
                r#"{"error":{"type":"authentication_error","message":"no permission_error, no billing_error"}}"#,
                GatewayErrorKind::Auth,
            ),
            (
                r#"{"error":{"type":"authentication_error","message":"m","param":"insufficient_quota"}}"#,
                GatewayErrorKind::Auth,
            ),
            (
                r#"{"error":{"type":"api_error","message":"the answer to \"overloaded\" was lost"}}"#,
                GatewayErrorKind::Upstream,
            ),
            (
                r#"{"error":{"type":"server_error","message":"m"},"request":{"tool":"slow_down"}}"#,
                GatewayErrorKind::Upstream,
            ),
            (r#"{"error":{"code":"slow_down","message":"m"}}"#, GatewayErrorKind::Overloaded),
            (
                r#"{"error":{"code":"slow_down","type":"service_unavailable_error","message":"m"}}"#,
                GatewayErrorKind::Overloaded,
            ),
            (
                r#"{"type":"error","error":{"type":"permission_error","message":"m"}}"#,
                GatewayErrorKind::Forbidden,
            ),
        ] {
            assert_eq!(in_answer(body).kind, kind, "{body}");
        }
    }

    #[test]
    fn passing_trouble_does_not_look_like_a_bad_request() {
        let busy = refused(400, r#"{"error":{"message":"The server is busy, try again later"}}"#);
        assert!(busy.kind.is_transient() && busy.status.is_server_error(), "{busy:?}");
        assert_eq!(refused(400, r#"{"error":{"message":"no such field"}}"#).status, StatusCode::BAD_REQUEST);
    }

    /// Returns the statuses of an error for the Messages, the Chat and the Responses API.
    fn statuses(fault: &GatewayError) -> [u16; 3] {
        [Dialect::Messages, Dialect::Chat, Dialect::Responses]
            .map(|dialect| fault.status_in(dialect).as_u16())
    }

    #[test]
    fn a_dialect_has_its_own_status_for_overloads_and_quotas() {
        for overload in [refused(503, ""), refused(529, "")] {
            assert_eq!(statuses(&overload), [529, 503, 503]);
        }
        assert_eq!(statuses(&GatewayError::new(GatewayErrorKind::Billing, "")), [402, 429, 429]);
        assert_eq!(statuses(&refused(429, "")), [429, 429, 429]);
    }
}
