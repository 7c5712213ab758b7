//! Relays requests without a conversation: embeddings and text completions. Request and answer pass unchanged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, StatusCode, header};
use longhaul_providers::connect::Kind;
use longhaul_providers::http::is_page;

use crate::exchange::{GatewayState, reword_error};
use crate::gateway::{BrokenAnswerError, CredentialSource, GatewayReply, ReplyBody};
use crate::headers;
use crate::upstream::{UpstreamServer, UpstreamTarget};
use longhaul_wire::edit::patch::RequestPatch;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, ParseError, is_error_of};
use longhaul_wire::raw_json::{field, fields, place, quote, string};

/// The longest upstream error that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A path of OpenAI's API, below the base URL, for requests that are only relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayEndpoint {
    /// `/embeddings`
    Embeddings,
    /// `/completions`: a text for a model to continue.
    Completions,
}

impl RelayEndpoint {
    fn path(self) -> &'static str {
        match self {
            Self::Embeddings => "/embeddings",
            Self::Completions => "/completions",
        }
    }
}

/// Relays a request to the first reachable server of its model.
///
/// # Errors
/// [`GatewayError`] if the request names no known model, or no server of the model can be asked.
pub(crate) async fn relay_to_upstream(
    inner: &GatewayState,
    passed: RelayEndpoint,
    call_headers: &http::HeaderMap,
    body: Bytes,
) -> Result<GatewayReply, GatewayError> {
    if body.len() > inner.config.max_body_bytes {
        let (has, most) = (body.len(), inner.config.max_body_bytes);
        let message = format!("the request has {has} bytes; {most} are the most that is read");
        return Err(GatewayError::new(GatewayErrorKind::TooLarge, message));
    }
    let text = std::str::from_utf8(&body).map_err(|_| ParseError::new("the request is not UTF-8"))?;
    let all = fields(text).ok_or_else(|| ParseError::new("the request is not a JSON object"))?;
    // The overrides have no effect here. They are read so that a misspelt header is refused on every path.
    headers::RequestOverrides::read(call_headers)
        .map_err(|why| GatewayError::new(GatewayErrorKind::Invalid, why))?;
    let named = field(&all, "model");
    let model_at = named.map(|raw| place(text, raw));
    // A missing model may still be the configured one, so it is looked up as an empty name.
    let model = named.filter(|raw| *raw != "null").map_or(Some(String::new()), string);
    let model = model.ok_or_else(|| ParseError::field("model", "`model` is no string"))?;
    let targets = inner.targets.find(&model)?;
    let (able, others): (Vec<&Arc<UpstreamTarget>>, Vec<&Arc<UpstreamTarget>>) =
        targets.iter().partition(|target| has_path(&target.server));
    if able.is_empty() {
        let names: Vec<&str> = others.iter().map(|target| target.server.upstream.name.as_str()).collect();
        let message = format!("the upstream `{}` has no {}", names.join("`, `"), passed.path());
        return Err(GatewayError::new(GatewayErrorKind::NoSuchPath, message));
    }
    let own = inner.config.credentials == CredentialSource::Own;
    let headers = headers::for_upstream(call_headers, !own);
    let mut newest = Err(GatewayError::new(GatewayErrorKind::Internal, "there is no upstream"));
    for target in able {
        let server = &target.server;
        // Each server may have its own name for the model, so the body is patched for each server.
        let mut patch = RequestPatch::default();
        match &model_at {
            Some(at) if target.model != model => patch.replace(at.clone(), quote(&target.model)),
            // A server with several models refuses a request that names none.
            None => patch.add("model", &quote(&target.model)),
            Some(_) => {}
        }
        match server.send(passed.path(), &headers, own, patch.apply(&body)).await {
            Ok(response) => {
                let status = response.status();
                // Another server of the model may have room or be healthy, so these two are not final.
                let may_do_better = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                tracing::info!(
                    upstream = server.upstream.name,
                    path = passed.path(),
                    bytes = body.len(),
                    status = status.as_u16(),
                    may_do_better,
                    "a request was relayed"
                );
                // The last refusal is kept, so that a client sees a server's own words if none does better.
                newest = reply(server, response).await;
                if !may_do_better {
                    break;
                }
            }
            Err(fault) => newest = Err(fault),
        }
    }
    newest
}

/// Returns whether servers of this kind have the paths of OpenAI's API.
fn has_path(server: &UpstreamServer) -> bool {
    matches!(server.upstream.kind, Kind::OpenAi | Kind::OpenAiCompatible)
}

async fn reply(
    server: &Arc<UpstreamServer>,
    response: reqwest::Response,
) -> Result<GatewayReply, GatewayError> {
    let status = response.status();
    server.check_place(status, response.headers())?;
    let mut headers = server.headers_for_caller(response.headers());
    headers::set_header(&mut headers, "x-longhaul-upstream", &server.upstream.name);
    let idle = server.timeouts().idle;
    let is_web_page = is_web_page(response.headers());
    let origin = response.headers().clone();
    let pieces = response.bytes_stream();
    // The beginning of a page is enough to know it, and no client of the API can read it.
    if status.is_success() && !is_web_page {
        let name = server.upstream.name.clone();
        let pieces = until_idle(pieces, idle)
            .map(move |piece| piece.map_err(|why| BrokenAnswerError(format!("the upstream `{name}` {why}"))));
        return Ok(GatewayReply { status, headers, body: ReplyBody::Stream(Box::pin(pieces)) });
    }
    // Some servers quote a refused API key in their error.
    let mut said = Vec::new();
    let mut pieces = Box::pin(until_idle(pieces, idle));
    // If the error's text breaks off, the received part is better than no text.
    while let Some(Ok(piece)) = pieces.next().await {
        said.extend_from_slice(&piece);
        // A longer body is no error of an API. An answer that only calls itself a page is read to its end.
        if said.len() > MAX_ERROR_BYTES && (!status.is_success() || is_page(&said)) {
            break;
        }
    }
    if let Some(fault) = server.proxy_fault(status, &origin, &said) {
        return Err(fault);
    }
    let said = server.hide_secrets(said.into());
    if status.is_success() || is_error_of(Dialect::Chat, &said) {
        return Ok(GatewayReply { status, headers, body: ReplyBody::Whole(said) });
    }
    // Clients of OpenAI's API read errors of its form only.
    let fault = reword_error(status, &String::from_utf8_lossy(&said));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = ReplyBody::Whole(crate::gateway::wire(Dialect::Chat).error_body(&fault));
    Ok(GatewayReply { status, headers, body })
}

/// Returns whether a response calls itself a page for people.
fn is_web_page(headers: &http::HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// Returns the pieces of a body, and ends with an error if a piece takes longer than `idle`.
fn until_idle(
    pieces: impl futures_util::Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    idle: Duration,
) -> impl futures_util::Stream<Item = Result<Bytes, String>> + Send {
    futures_util::stream::unfold(Some(Box::pin(pieces)), move |pieces| async move {
        // After an error the stream has no pieces any more and ends.
        let mut pieces = pieces?;
        match tokio::time::timeout(idle, pieces.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            // The next call ends the stream, because a broken body has no further pieces.
            Ok(Some(Err(error))) => Some((Err(format!("broke off in its answer: {error}")), None)),
            Err(_) => Some((Err(format!("was silent for {} s", idle.as_secs_f64())), None)),
        }
    })
}
