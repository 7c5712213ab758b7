//! Cross-origin requests: allowed pages may send the token and read the answers.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::app::HttpServerConfig;

const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID";
// A page reads only the headers named here, beside a few common ones.
const EXPOSED: &str = "ETag, Retry-After";

/// The time for which a browser may remember a preflight answer, in seconds.
const AGE_S: u32 = 600;

/// Returns the origin of a request from an allowed page.
pub(crate) fn allowed(headers: &HeaderMap, config: &HttpServerConfig) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let text = origin.to_str().ok()?;
    let is_allowed = config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text));
    is_allowed.then(|| origin.clone())
}

/// Returns whether the request is a browser's preflight.
pub(crate) fn is_question(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the answer to a preflight. No token is needed, because a preflight grants nothing without one.
pub(crate) fn answer() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS)),
        (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS)),
        (ACCESS_CONTROL_MAX_AGE, AGE_S.into()),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets the page of the origin read an answer.
pub(crate) fn mark(headers: &mut HeaderMap, origin: Option<HeaderValue>, config: &HttpServerConfig) {
    if config.allowed_origins.is_empty() {
        return;
    }
    // A cache must not give the answer for one origin to another.
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}
