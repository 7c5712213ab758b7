//! Extractors for requests; a malformed request becomes a problem document.

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

/// The time and the multiple of the limit up to which an unwanted body is still read. A closed connection with
/// unread bytes may lose the answer, and some clients read the answer only after sending everything.
const DRAIN_TIME: Duration = Duration::from_secs(10);
const DRAIN_TIMES: usize = 8;

/// The largest buffer allocated in advance for a declared length, in bytes.
const AT_ONCE_BYTES: usize = 1 << 20;

/// The largest body of a client without the token.
const BRIEF_BYTES: usize = 4_096;

/// The maximum length of an idempotency key, in characters.
const KEY_CHARS: usize = 255;

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// An optional JSON body.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

/// A small JSON body of a client without the token yet.
pub(crate) struct PreAuthJsonBody<T>(pub(crate) T);

/// A raw body.
pub(crate) struct RawBody(pub(crate) Bytes);

/// The query parameters of the address.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The parameters in the path.
pub(crate) struct PathParams<T>(pub(crate) T);

/// The caller's key for a repeatable request.
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
        // Some HTTP libraries send an empty body with `Content-Type: application/json`.
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
            // One time-out for the whole body: anybody can send one, and byte by byte it would never end.
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
        // The query parser would replace invalid bytes, and the search would look for other words.
        if !parts.uri.query().is_none_or(is_text) {
            return Err(ApiProblem::invalid("The query string is not UTF-8."));
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
            let detail = format!("An Idempotency-Key must have 1 to {KEY_CHARS} visible ASCII characters.");
            return Err(ApiProblem::invalid(detail));
        }
        Ok(Self(Some(key.to_owned())))
    }
}

impl IdempotencyKey {
    /// Returns the id of the session created by the request. The same key gives the same id, also after a
    /// restart.
    pub(crate) fn session_id(&self, purpose: &str) -> Option<SessionId> {
        let key = self.0.as_deref()?;
        // The purpose keeps equal keys of different routes apart.
        let hash = blake3::hash(format!("{purpose}\0{key}").as_bytes());
        Some(SessionId::new(format!("k{}", &hash.to_hex()[..32])))
    }
}

pub(crate) async fn read(request: Request, app: &AppState) -> Result<(HeaderMap, Bytes), ApiProblem> {
    let limit = app.config().max_body_bytes;
    let (parts, body) = request.into_parts();
    let length =
        parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // Refused by its declared length, before any of it is read.
    if length.is_some_and(|length| length > limit as u64) {
        // The answer may be lost if the connection closes with unread bytes, so the body is read away.
        leave(Request::from_parts(parts, body), app);
        return Err(ApiProblem::too_large(limit as u64));
    }
    let body = collect(body, length, limit, app).await?.ok_or_else(|| ApiProblem::too_large(limit as u64))?;
    Ok((parts.headers, body))
}

/// Prepares for an answer without the body.
pub(crate) fn leave(request: Request, app: &AppState) {
    // A client that waits for `100 Continue` has sent no body, and will not send one.
    if !asks_first(request.headers()) {
        drain(request.into_body().into_data_stream(), app);
    }
}

/// Returns whether the client waits for `100 Continue` before sending the body.
fn asks_first(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Returns the whole body; `None` above `limit` bytes. The time-out applies to each chunk.
async fn collect(
    body: Body,
    length: Option<u64>,
    limit: usize,
    app: &AppState,
) -> Result<Option<Bytes>, ApiProblem> {
    let patience = app.config().body_patience;
    let mut pieces = body.into_data_stream();
    // The length is only what the client declares, so little memory is allocated for it in advance.
    let room = length.map_or(0, |length| length.min(limit.min(AT_ONCE_BYTES) as u64));
    let mut whole = BytesMut::with_capacity(room as usize);
    while let Some(piece) =
        // The limit is for each piece: a large upload may take long, but it must not stand still.
        tokio::time::timeout(patience, pieces.next()).await.map_err(|_| ApiProblem::too_slow())?
    {
        let piece = piece.map_err(|_| {
            ApiProblem::invalid(
                "The connection broke before the whole body had arrived, and nothing was done. Send the \
                 request again.",
            )
        })?;
        if whole.len() + piece.len() > limit {
            drain(pieces, app);
            return Ok(None);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Some(whole.freeze()))
}

/// Reads an unwanted body to its end in the background.
fn drain(mut pieces: axum::body::BodyDataStream, app: &AppState) {
    let most = app.config().max_body_bytes.max(1 << 25) * DRAIN_TIMES;
    let closing = app.closing().clone();
    let all = async move {
        let mut drained = 0;
        while let Some(Ok(piece)) = pieces.next().await {
            drained += piece.len();
            // A client that never stops sending is cut off, whatever becomes of the answer.
            if drained > most {
                return;
            }
        }
    };
    // In a task of its own, because the answer must not wait for an unused body.
    app.spawn(async move {
        tokio::select! {
            _ = tokio::time::timeout(DRAIN_TIME, all) => {}
            // The server must not wait for unwanted bodies when it ends.
            () = closing.cancelled() => {}
        }
    });
}

fn json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, ApiProblem> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    // A missing type is accepted: some programs set none.
    if !kind.is_none_or(is_json) {
        let detail = "The body must be JSON: Content-Type: application/json.";
        return Err(ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::InvalidRequest, detail));
    }
    // Serde also accepts a list for a struct, field by field. The API must not.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiProblem::invalid("The body must be a JSON object."));
    }
    serde_json::from_slice(body).map_err(|error| {
        ApiProblem::invalid(format!("The body is not as expected: {}.", plain(&error.to_string())))
    })
}

fn hex_digit(text: &[u8], at: usize) -> Option<u32> {
    char::from(*text.get(at)?).to_digit(16)
}

/// Returns whether a percent-encoded text is UTF-8.
fn is_text(encoded: &str) -> bool {
    let encoded = encoded.as_bytes();
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        // A `%` that is no escape stands for itself, as the query parser reads it.
        match (byte, hex_digit(encoded, at + 1), hex_digit(encoded, at + 2)) {
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
