//! Complete responses whose answers are not complete: the window or a failure of the server has cut them. A client that
//! waits for the whole answer has received nothing yet, so such a response becomes the beginning of a stream. The answer
//! then goes on like every stream, and is collected at its end.

use bytes::Bytes;
use longhaul_core::message::ModelStopReason;
use longhaul_wire::edit::{AnswerEvents, GatewayError, PartialResponse, SseEvent, StreamPosition, WireCodec};

use super::UpstreamAttempt;
use super::attempts::{AttemptOutcome, FailedAttempt};
use super::flow::{UpstreamBody, ended_early, is_out_of_room};
use super::prepare::OutboundRequest;
use super::upstream_response::{StreamOpening, UpstreamResponse, WholeResponse};
use super::usage_totals::PartialUsage;

/// Returns whether the window has cut the text of a complete answer for which the client waits.
pub(super) fn is_cut_by_window(
    attempt: &UpstreamAttempt,
    seen: &PartialResponse,
    prepared: &OutboundRequest,
) -> bool {
    let is_text_alone = !seen.has_other && seen.calls.is_empty() && !seen.text.trim_end().is_empty();
    !attempt.request.proxied.envelope.stream
        && seen.finish == Some(ModelStopReason::Length)
        && is_text_alone
        && attempt.may_continue()
        && is_out_of_room(attempt, prepared, seen.usage.as_ref(), 0, || {
            attempt.request.counted(prepared, seen, 0).output
        })
}

/// Returns whether the response is a complete answer that has to go on, because the window has cut its text.
pub(super) fn has_rest(
    attempt: &UpstreamAttempt,
    received: &AttemptOutcome,
    prepared: &OutboundRequest,
) -> bool {
    received.answer().is_some_and(|seen| is_cut_by_window(attempt, &seen, prepared))
}

/// Returns the response, as the beginning of a stream if its answer has to go on.
pub(super) fn with_rest_in_stream(
    attempt: &UpstreamAttempt,
    received: AttemptOutcome,
    prepared: &OutboundRequest,
) -> AttemptOutcome {
    if !has_rest(attempt, &received, prepared) {
        return received;
    }
    match received {
        AttemptOutcome::Native(UpstreamResponse::Whole(whole), sent) => {
            let written = attempt.request.proxied.wire.write_answer_events(&whole.bytes);
            let response = match written {
                Some(AnswerEvents { content, end }) => {
                    let pieces = content.into_iter().chain(end).map(Ok).collect();
                    UpstreamResponse::Stream(opening(&whole, PartialResponse::default(), pieces))
                }
                None => UpstreamResponse::Whole(whole),
            };
            AttemptOutcome::Native(response, sent)
        }
        other => other,
    }
}

/// Returns a complete response. If its server failed in the answer, the text before the failure becomes the beginning
/// of a stream that breaks off there.
///
/// # Errors
/// [`FailedAttempt`] if the server failed and nothing of the answer can be continued.
pub(super) fn with_break_in_stream(
    attempt: &UpstreamAttempt,
    whole: WholeResponse,
    prepared: &OutboundRequest,
) -> Result<UpstreamResponse, FailedAttempt> {
    let broken = whole.seen.as_ref().and_then(|seen| Some((seen, break_in(attempt, seen)?)));
    let Some((seen, fault)) = broken else { return Ok(UpstreamResponse::Whole(whole)) };
    let wire = attempt.request.proxied.wire;
    let written = wire.write_answer_events(&whole.bytes).map(|written| written.content);
    let begun = written.and_then(|content| Some((begun_text(wire, &content)?, content)));
    if let Some((beginning, content)) = begun.filter(|_| attempt.request.may_reconnect()) {
        let pieces = content.into_iter().map(Ok).chain([Err(fault)]).collect();
        return Ok(UpstreamResponse::Stream(opening(&whole, beginning, pieces)));
    }
    let is_said = seen.error.is_some();
    let may_repeat = seen.is_empty() && attempt.request.proxied.inner.config.retry.stream_attempts > 0;
    // Without an error the client can judge an unfinished answer by itself.
    if !is_said && !may_repeat {
        return Ok(UpstreamResponse::Whole(whole));
    }
    match &seen.usage {
        Some(usage) => attempt.totals().add(Some(usage), || PartialUsage::input(prepared.input)),
        None => attempt.totals().unanswered(prepared.input),
    }
    Err(FailedAttempt { fault, broke_off: true })
}

/// Returns the failure that has cut a complete answer, if it may pass.
fn break_in(attempt: &UpstreamAttempt, seen: &PartialResponse) -> Option<GatewayError> {
    // The client of a stream gets the answer as it came: it has asked to see every piece.
    if attempt.request.proxied.envelope.stream || seen.finish.is_some() {
        return None;
    }
    let said = seen.error.as_deref().map(|error| attempt.request.said_error(error));
    said.or_else(|| (!seen.over).then(ended_early)).filter(|fault| fault.kind.is_transient())
}

/// Returns what the events of an answer say, if the answer ends in text that can go on.
fn begun_text(wire: &dyn WireCodec, events: &[Bytes]) -> Option<PartialResponse> {
    let (mut parser, mut within) = (wire.stream_parser(), StreamPosition::Nothing);
    for raw in events {
        parser.read(&SseEvent::parse(raw));
        within = match parser.seen().position {
            // Between two blocks the last one counts.
            StreamPosition::Nothing => within,
            inside => inside,
        };
    }
    let seen = parser.seen();
    let is_text_alone = within == StreamPosition::Text && seen.calls.is_empty() && !seen.has_other;
    (is_text_alone && !seen.text.trim_end().is_empty()).then(|| seen.clone())
}

/// Returns a response as the opening of a stream with these pieces.
fn opening(
    whole: &WholeResponse,
    beginning: PartialResponse,
    pieces: Vec<Result<Bytes, GatewayError>>,
) -> StreamOpening {
    StreamOpening {
        status: whole.status,
        headers: whole.headers.clone(),
        body: Box::new(UpstreamBody::written(futures_util::stream::iter(pieces))),
        beginning,
    }
}
