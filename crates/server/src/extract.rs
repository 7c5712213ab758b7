//! Requests taken apart; what does not fit is a problem document.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::ids::SessionId;
use serde::de::DeserializeOwned;

use crate::app::AppState;
use crate::error_messages::plain;
use crate::problem::{ApiProblem, sentence};

/// A body that is not wanted is read on beside its answer for this long, up to this many times the limit: a connection
/// that is closed with something unread may lose the answer, and some senders read it only when they have sent all.
const DRAIN_TIME: Duration = Duration::from_secs(10);
const DRAIN_TIMES: usize = 8;

/// Room that is made for a body that says how long it is, before it comes.
const AT_ONCE_BYTES: usize = 1 << 20;

/// The largest body of somebody who has shown no token yet.
const BRIEF_BYTES: usize = 4_096;

/// Characters of an idempotency key at most.
const KEY_CHARS: usize = 255;

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON body, or none.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

/// A small JSON body of somebody who has shown no token yet.
pub(crate) struct PreAuthJsonBody<T>(pub(crate) T);

/// A body as it is.
pub(crate) struct RawBody(pub(crate) Bytes);

/// The part of the address behind `?`.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The names in the address.
pub(crate) struct PathParams<T>(pub(crate) T);

/// The caller's key for a request that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiProblem> {
        let (headers, body) = read(request, app).await?;
        json(&headers, &body).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiProblem> {
        let (headers, body) = read(request, app).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        json(&headers, &body).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<AppState> for PreAuthJsonBody<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiProblem> {
        let (parts, body) = request.into_parts();
        let body =
            tokio::time::timeout(app.config().body_patience, axum::body::to_bytes(body, BRIEF_BYTES)).await;
        let body = body.map_err(|_| ApiProblem::too_slow())?;
        let body = body.map_err(|_| ApiProblem::too_large(BRIEF_BYTES as u64))?;
        json(&parts.headers, &body).map(Self)
    }
}

impl FromRequest<AppState> for RawBody {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiProblem> {
        read(request, app).await.map(|(_, body)| Self(body))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for QueryParams<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _app: &AppState) -> Result<Self, ApiProblem> {
        if !parts.uri.query().is_none_or(is_text) {
            return Err(ApiProblem::invalid("What is behind the `?` is not UTF-8."));
        }
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(ApiProblem::invalid(sentence(&plain(&error.body_text())))),
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for PathParams<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiProblem> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(error) => Err(ApiProblem::invalid(sentence(&plain(&error.body_text())))),
        }
    }
}

impl FromRequestParts<AppState> for IdempotencyKey {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _app: &AppState) -> Result<Self, ApiProblem> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let key = value.to_str().unwrap_or_default();
        if key.is_empty() || key.len() > KEY_CHARS {
            let detail = format!("An Idempotency-Key has 1 to {KEY_CHARS} visible ASCII characters.");
            return Err(ApiProblem::invalid(detail));
        }
        Ok(Self(Some(key.to_owned())))
    }
}

impl IdempotencyKey {
    /// The id of the session that this request creates: the same for the same key, also after a restart.
    pub(crate) fn session_id(&self, purpose: &str) -> Option<SessionId> {
        let key = self.0.as_deref()?;
        let hash = blake3::hash(format!("{purpose}\0{key}").as_bytes());
        Some(SessionId::new(format!("k{}", &hash.to_hex()[..32])))
    }
}

pub(crate) async fn read(request: Request, app: &AppState) -> Result<(HeaderMap, Bytes), ApiProblem> {
    let limit = app.config().max_body_bytes;
    let (parts, body) = request.into_parts();
    let length =
        parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        leave(Request::from_parts(parts, body), app);
        return Err(ApiProblem::too_large(limit as u64));
    }
    let body = collect(body, length, limit, app).await?.ok_or_else(|| ApiProblem::too_large(limit as u64))?;
    Ok((parts.headers, body))
}

/// Answers without the body.
pub(crate) fn leave(request: Request, app: &AppState) {
    // Who asks first has sent nothing of it yet, and will not.
    if !asks_first(request.headers()) {
        drain(request.into_body().into_data_stream(), app);
    }
}

/// Returns whether the sender waits to hear that its body is welcome.
fn asks_first(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The whole body, `None` if it has more than `limit` bytes. For each piece of it there is so much patience.
async fn collect(
    body: Body,
    length: Option<u64>,
    limit: usize,
    app: &AppState,
) -> Result<Option<Bytes>, ApiProblem> {
    let patience = app.config().body_patience;
    let mut pieces = body.into_data_stream();
    let room = length.map_or(0, |length| length.min(limit.min(AT_ONCE_BYTES) as u64));
    let mut whole = BytesMut::with_capacity(room as usize);
    let stuck = |_| ApiProblem::too_slow();
    while let Some(piece) = tokio::time::timeout(patience, pieces.next()).await.map_err(stuck)? {
        let piece = piece.map_err(|_| ApiProblem::invalid("The body broke off."))?;
        if whole.len() + piece.len() > limit {
            drain(pieces, app);
            return Ok(None);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Some(whole.freeze()))
}

/// Reads what nobody wants, beside whatever else is done.
fn drain(mut pieces: axum::body::BodyDataStream, app: &AppState) {
    let most = app.config().max_body_bytes.max(1 << 25) * DRAIN_TIMES;
    let closing = app.closing().clone();
    let all = async move {
        let mut drained = 0;
        while let Some(Ok(piece)) = pieces.next().await {
            drained += piece.len();
            if drained > most {
                return;
            }
        }
    };
    app.spawn(async move {
        tokio::select! {
            _ = tokio::time::timeout(DRAIN_TIME, all) => {}
            () = closing.cancelled() => {}
        }
    });
}

fn json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, ApiProblem> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    if !kind.is_none_or(is_json) {
        let detail = "The body must be JSON: Content-Type: application/json.";
        return Err(ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::InvalidRequest, detail));
    }
    // Without this a list would do for an object: its items are taken for the fields.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiProblem::invalid("The body must be a JSON object."));
    }
    serde_json::from_slice(body).map_err(|error| {
        ApiProblem::invalid(format!("The body is not as expected: {}.", plain(&error.to_string())))
    })
}

/// Returns whether a percent-encoded text is UTF-8.
fn is_text(encoded: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let encoded = encoded.as_bytes();
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        match (byte, digit(encoded.get(at + 1)), digit(encoded.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    std::str::from_utf8(&decoded).is_ok()
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}
