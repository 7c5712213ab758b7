//! The expansion of a request that continues an answer by name, for servers without kept answers. The request
//! becomes the whole conversation.

use std::sync::Arc;

use bytes::Bytes;
use longhaul_providers::connect::Kind;

use super::ProxiedRequest;
use crate::response_store::{ResponseEntry, StoredTurn, closing, items};
use crate::upstream::UpstreamTarget;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, RequestEnvelope, WireCodec};
use longhaul_wire::raw_json::{fields, quote, string};
use longhaul_wire::responses::edit as responses;

/// The field with the name of the previous answer.
const PREVIOUS: &str = "previous_response_id";

/// The retention of an answer, so that a later request can continue it.
#[derive(Clone)]
pub(super) struct ResponseRetention {
    before: Option<Arc<StoredTurn>>,
    /// The request's input as written.
    asked: Bytes,
}

/// Returns whether the gateway keeps the answers of these upstreams. OpenAI's own server keeps answers itself.
fn is_kept_here(wire: &dyn WireCodec, targets: &[Arc<UpstreamTarget>]) -> bool {
    wire.dialect() == Dialect::Responses && !targets.iter().any(keeps_itself)
}

fn keeps_itself(target: &Arc<UpstreamTarget>) -> bool {
    target.server.upstream.kind == Kind::OpenAi
}

/// Returns the error of a request whose previous answer cannot be used.
fn previous_response_error(kind: GatewayErrorKind, message: String) -> GatewayError {
    GatewayError { param: Some(PREVIOUS.to_owned()), ..GatewayError::new(kind, message) }
}

/// Returns the request with other items, and without the name of the previous answer.
fn with_input(request: &str, items: &str) -> Option<String> {
    let all = fields(request)?;
    let kept = all.iter().filter(|(name, _)| name != PREVIOUS && name != "input");
    let kept = kept.map(|(name, value)| format!("{}:{value},", quote(name)));
    Some(format!(r#"{{{}"input":{items}}}"#, kept.collect::<String>()))
}

/// Returns the request with the whole conversation before it, if the gateway keeps answers.
///
/// # Errors
/// [`GatewayError`] if the previous answer is unknown, the conversation is too long, or the request names a
/// `conversation`.
pub(crate) async fn with_previous_response(
    mut request: ProxiedRequest,
) -> Result<ProxiedRequest, GatewayError> {
    let envelope = Arc::clone(&request.envelope);
    if !is_kept_here(request.wire, &request.targets) {
        if request.wire.dialect() == Dialect::Responses && responses::check_whole(&envelope).is_err() {
            // Only OpenAI's server has the kept items. Most others would silently answer without them.
            request.targets.retain(keeps_itself);
        }
        return Ok(request);
    }
    responses::check_no_conversation(&envelope)?;
    // A slice shares the memory of the request's bytes.
    let asked = envelope.bytes.slice(envelope.items_at.clone());
    // `store` is true by default in the Responses API.
    let is_kept = envelope.other("store") != Some("false");
    let Some(previous) = envelope.other(PREVIOUS).filter(|raw| *raw != "null") else {
        request.response_retention = is_kept.then_some(ResponseRetention { before: None, asked });
        return Ok(request);
    };
    let id = string(previous).ok_or_else(|| {
        previous_response_error(GatewayErrorKind::Invalid, format!("`{PREVIOUS}` must be a string"))
    })?;
    let before = request.inner.answers.find(request.caller, &id, (request.inner.parts.now)()).await;
    let before = before.ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        let message = format!(
            "Previous response with id '{id}' not found. This gateway keeps answers for 30 days, the newest as far \
             as there is room, unless `store` is false: send the whole input instead."
        );
        previous_response_error(GatewayErrorKind::NoSuchAnswer, message)
    })?;
    let all = [before.items(), items(&asked)].into_iter().filter(|items| !items.is_empty());
    let all = format!("[{}]", all.collect::<Vec<_>>().join(","));
    // A short request may stand for a conversation of any length, so the limit applies to the whole.
    let bytes = envelope.bytes.len() + all.len();
    let most = request.inner.config.max_body_bytes;
    if bytes > most {
        let message = format!("the whole conversation has {bytes} bytes; {most} are the most that is read");
        return Err(GatewayError::new(GatewayErrorKind::TooLarge, message));
    }
    // A long conversation is parsed under the work limiter, like a long request.
    request.envelope = request.inner.work_limiter.read(bytes, || read_with_input(&request, &all)).await?;
    tracing::debug!(
        input_bytes = all.len(),
        bytes,
        "a request was completed with the conversation before it"
    );
    // The completed request differs from the client's bytes, so it is never sent unread.
    request.is_new = false;
    request.response_retention = is_kept.then_some(ResponseRetention { before: Some(before), asked });
    Ok(request)
}

/// Returns the request with these items as its input.
fn read_with_input(request: &ProxiedRequest, items: &str) -> Result<Arc<RequestEnvelope>, GatewayError> {
    let body = with_input(request.envelope.text(&(0..request.envelope.bytes.len())), items)
        .ok_or_else(|| GatewayError::new(GatewayErrorKind::Internal, "the request cannot be completed"))?;
    Ok(request.inner.parse_cache.read(request.wire, &request.caller, body.into())?)
}

/// Keeps the answer for a request that continues it, also after a restart.
pub(super) async fn store_response(request: &ProxiedRequest, response: &str) {
    if let Some(entry) = remember_answer(request, response) {
        request.inner.answers.write(entry).await;
    }
}

/// Keeps the answer at the end of a stream, and stores it in the background.
pub(super) fn keep_end(request: &ProxiedRequest, events: &Bytes) {
    let response = request.response_retention.as_ref().and_then(|_| closing(events));
    if let Some(entry) = response.and_then(|response| remember_answer(request, &response)) {
        request.inner.answers.write_beside(entry);
    }
}

fn remember_answer(request: &ProxiedRequest, response: &str) -> Option<ResponseEntry> {
    let ResponseRetention { before, asked } = request.response_retention.as_ref()?;
    let now = (request.inner.parts.now)();
    request.inner.answers.keep(request.caller, before.clone(), asked.clone(), response, now)
}
