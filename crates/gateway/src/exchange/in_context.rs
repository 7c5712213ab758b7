//! A request for a summary in the client's own bytes: the newest request up to the last item to be summarised, with the
//! instructions as a last message. The upstream has read everything before that message and takes it from its prompt
//! cache.
//!
//! Later items are excluded, so the summary is valid for every branch that begins with the summarised items.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use longhaul_core::error::ErrorCode;
use longhaul_core::ids::Seq;
use longhaul_core::message::{ModelAnswer, ModelStopReason};
use longhaul_core::plan::SummaryRequest;
use longhaul_providers::{ProviderError, ToolChoice};
use longhaul_wire::overflow;

use super::flow::UpstreamBody;
use super::log::ConversationLog;
use super::part_refusals;
use super::render_ops;
use super::send::{is_wordless, whole};
use super::targeted_request::TargetedRequest;
use crate::gateway::CredentialSource;
use longhaul_wire::edit::{GatewayError, PartialResponse, RenderOp, RequestEdit, SseEvent, SseReader};
use longhaul_wire::raw_json::{field, fields};

/// The fields with side effects, and the fields that keep an answer from being a summary.
const UNFIT_FIELDS: &[&str] = &[
    "stop",
    "stop_sequences",
    "grammar",
    "json_schema",
    "guided_json",
    "guided_choice",
    "guided_regex",
    "guided_grammar",
    "structured_outputs",
    "modalities",
    "audio",
    "prediction",
    "min_tokens",
    "ignore_eos",
    "logprobs",
    "conversation",
    "previous_response_id",
    "background",
    "prompt",
    "function_call",
];

/// The maximum number of characters of an error's text.
const MAX_ERROR_CHARS: usize = 500;

/// The headers that identify one request. A summary is another request.
const REQUEST_NAMES: &[&str] = &["idempotency-key", "x-request-id", "x-client-request-id"];

/// Requests a summary of everything up to `last` in the client's bytes, and reads until `is_enough` says so. `None`
/// if the form is not possible or was refused: another form may still work.
///
/// # Errors
/// The provider's error, if there is no answer for now or the answer broke off.
pub(super) async fn ask_in_context(
    request: &TargetedRequest,
    log: &ConversationLog,
    asked: &SummaryRequest,
    last: Seq,
    mut is_enough: impl FnMut(&PartialResponse) -> bool,
) -> Option<Result<PartialResponse, ProviderError>> {
    let body = riding_body(request, log, asked, last).await?;
    let (server, wire) = (&request.target.server, request.proxied.wire);
    let own = request.proxied.inner.config.credentials == CredentialSource::Own;
    let sent = server.send(wire.dialect().path(), &riding_headers(request), own, body).await;
    let response = match sent {
        Ok(response) => response,
        // An unreachable server would not be reached in the second form either.
        Err(fault) => return Some(Err(ProviderError::new(ErrorCode::Network, fault.message))),
    };
    let status = response.status();
    // These statuses meet every form of the request, so no second form is tried.
    if let Some(error) = refusal(status) {
        return Some(Err(error));
    }
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let body = UpstreamBody::new(response, request.target.server.timeouts().idle).ok()?;
    if status.is_success() && is_stream {
        return Some(read_events(request, body, &mut is_enough).await);
    }
    let body = whole(body).await.ok()?;
    let answer = if status.is_success() { request.proxied.wire.parse_answer(&body) } else { None };
    match answer {
        Some(seen) => Some(without_error(seen)),
        // The same content in the second form would be as long. Any other refusal may be about the form.
        None => length_refusal(status, &String::from_utf8_lossy(&body)).map(Err),
    }
}

/// Returns the error of a refusal that speaks of the request's length; `None` for other texts.
fn length_refusal(status: StatusCode, said: &str) -> Option<ProviderError> {
    let overflow = overflow::recognise(Some(status.as_u16()), said).filter(|_| !is_wordless(said))?;
    let message: String = said.chars().take(MAX_ERROR_CHARS).collect();
    Some(ProviderError {
        status: Some(status.as_u16()),
        used_tokens: overflow.used_tokens,
        limit_tokens: overflow.limit_tokens,
        ..ProviderError::new(ErrorCode::ContextOverflow, message)
    })
}

/// Returns the newest request's bytes with the summary's instructions behind them. `None` if the answer would not
/// be plain text, or the log belongs to another request.
async fn riding_body(
    request: &TargetedRequest,
    log: &ConversationLog,
    asked: &SummaryRequest,
    last: Seq,
) -> Option<Bytes> {
    let (wire, envelope) = (request.proxied.wire, &request.proxied.envelope);
    // The cache holds the newest request. A log of another state would not begin with the same bytes.
    let is_its_request = log.items == envelope.items.len() && !log.history.is_paused();
    let is_plain = request.is_prose() && envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"));
    let order = asked.messages.last()?.parts.last()?.as_text()?.to_owned();
    // A translated request has other bytes than the client's, and the cache knows only those that were sent.
    if request.needs_translation() || !is_its_request || !is_plain {
        return None;
    }
    let whole = envelope.text(&(0..envelope.bytes.len()));
    let all = fields(whole)?;
    let has = |name: &str| field(&all, name).is_some_and(|raw| !matches!(raw, "null" | "false"));
    if UNFIT_FIELDS.iter().any(|name| has(name)) {
        return None;
    }
    // Earlier edits are repeated, because the upstream has read the request with them.
    let kept = render_ops::steps(log, log.items);
    let steps = render_ops::clean(kept, &render_ops::items_with_notices(envelope), envelope)
        .unwrap_or_else(|| vec![RenderOp::Keep(0..envelope.items.len())]);
    let mut steps = render_ops::up_to(steps, log.item_at(last)?);
    steps.push(RenderOp::Say(order));
    // A model that must call a tool gives no text.
    let must_call = !matches!(request.tool_choice(), Ok(ToolChoice::Auto | ToolChoice::None));
    // Reasoning counts towards the limit, and providers refuse a limit below the reasoning budget.
    let thinks = ["thinking", "reasoning", "reasoning_effort", "output_config"].iter().any(|name| has(name));
    // The client's tools stay: they precede the messages in every prompt, so without them nothing would come from
    // the cache.
    let edited = RequestEdit {
        steps: Some(steps),
        // Only a stream can be stopped when the text is long enough.
        stream: Some(true),
        include_usage: true,
        max_output: (!thinks).then_some(asked.max_output_tokens),
        forbids_calls: must_call,
        ..request.request_edit()
    };
    // A request that cannot be expressed gives `None`: the summary is then asked for in the neutral form.
    let body = request.work(|| wire.render_request(envelope, &edited)).await.ok()?;
    Some(part_refusals::with_omissions(request, body).0)
}

async fn read_events(
    request: &TargetedRequest,
    mut body: UpstreamBody,
    is_enough: &mut impl FnMut(&PartialResponse) -> bool,
) -> Result<PartialResponse, ProviderError> {
    let (mut watcher, mut events) = (request.proxied.wire.stream_parser(), SseReader::default());
    while let Some(chunk) = body.next().await.map_err(broken_stream)? {
        events.feed(chunk);
        while let Some(raw) = events.next_event() {
            watcher.read(&SseEvent::parse(&raw));
        }
        // Dropping the body stops the upstream: some servers ignore the output limit.
        if watcher.seen().over || is_enough(watcher.seen()) {
            break;
        }
    }
    // Some servers end the stream without the empty line behind the last event.
    watcher.read(&SseEvent::parse(&events.take_rest()));
    without_error(watcher.seen().clone())
}

fn riding_headers(request: &TargetedRequest) -> HeaderMap {
    let mut headers = request.proxied.headers.clone();
    REQUEST_NAMES.iter().for_each(|name| {
        headers.remove(*name);
    });
    headers
}

/// Returns the error of a status independent of the request's form.
fn refusal(status: StatusCode) -> Option<ProviderError> {
    let code = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorCode::InvalidRequest,
        StatusCode::TOO_MANY_REQUESTS => ErrorCode::RateLimitExceeded,
        status if status.is_server_error() => ErrorCode::ThirdParty,
        _ => return None,
    };
    let error = ProviderError::new(code, format!("the upstream answered {}", status.as_u16()));
    Some(ProviderError { status: Some(status.as_u16()), ..error })
}

/// Returns an answer, or the error in it. Some servers refuse a request for its length inside an answer.
fn without_error(seen: PartialResponse) -> Result<PartialResponse, ProviderError> {
    let Some(error) = &seen.error else { return Ok(seen) };
    let too_long = length_refusal(StatusCode::OK, error).map(|error| ProviderError { status: None, ..error });
    Err(too_long.unwrap_or_else(|| {
        let said: String = error.chars().take(MAX_ERROR_CHARS).collect();
        ProviderError::new(ErrorCode::ThirdParty, said)
    }))
}

/// Returns the received answer in a provider's form; `None` if it is incomplete.
pub(super) fn answer_of(seen: PartialResponse) -> Option<ModelAnswer> {
    let is_whole = seen.over || seen.finish.is_some();
    // Some streams close properly without a finish reason.
    let finish = seen.finish.unwrap_or(ModelStopReason::Stop);
    is_whole.then(|| ModelAnswer { parts: seen.parts(), finish, usage: seen.usage, envelope: None })
}

/// Returns the error of a summary whose stream broke off.
fn broken_stream(fault: GatewayError) -> ProviderError {
    ProviderError::new(ErrorCode::TruncatedStream, fault.message)
}
