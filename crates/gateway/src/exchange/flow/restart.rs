//! The restart of an answer stopped at the end of the window, once room is made.

use std::time::Duration;

use longhaul_core::attempt::MAX_LENGTH_RETRIES;
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;
use longhaul_wire::overflow;
use tokio::time::Instant;

use super::super::UpstreamAttempt;
use super::super::prepare::OutboundRequest;
use super::super::usage_totals::PartialUsage;
use super::notices::StreamComment;
use super::reading::{CharacterFilter, seen_in};
use super::{AnswerFlow, EventProcessor, FlowPhase, UpstreamBody, pause};
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING, SPENT};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse, SseReader, StreamPosition};

/// The maximum number of compactions before one answer.
const MAX_RESTARTS: u32 = 3;

/// The maximum number of continuations from the answer's own end. Such a continuation costs no summary, but an
/// endless model must be stopped somewhere.
const MAX_CONTINUATIONS: u32 = 12;

/// A stream left early, with everything for the next stream of the answer.
pub(super) struct AbandonedStream {
    pub(super) attempt: UpstreamAttempt,
    pub(super) prepared: OutboundRequest,
    /// The text of the present step, without trailing blanks.
    pub(super) text: String,
    /// The output of this stream, in tokens.
    pub(super) new_tokens: u64,
    /// The output of all streams, in tokens.
    pub(super) written_tokens: u64,
    /// The stream's input by the upstream's count, if new.
    reported_input: Option<u64>,
}

/// The continuation of an answer: the next stream, or an error.
pub(super) struct ResumedStream {
    pub(super) attempt: UpstreamAttempt,
    pub(super) prepared: OutboundRequest,
    pub(super) body: Result<UpstreamBody, GatewayError>,
    pub(super) then: StreamContinuation,
}

/// The kind of a continuation.
#[derive(Clone, Copy)]
pub(super) enum StreamContinuation {
    /// The next stream continues at the stop. `is_last`: nothing could be left out, so the answer runs to the real
    /// limit.
    SameStep { is_last: bool },
    /// The next stream continues at the break.
    AfterBreak,
    /// The next stream begins another step of the model.
    NextStep,
}

impl AnswerFlow {
    /// Leaves the upstream's stream before this event, and starts to make room.
    pub(super) fn leave_before_event(&mut self, next: &[u8], out: &mut Vec<u8>) {
        let PartialResponse { text, usage, .. } = seen_in(self.wire, next);
        let gap_bytes = text.len() - text.trim_start().len();
        self.leave(&text[..gap_bytes], usage, out);
    }

    /// Returns whether the stream has ended for lack of room, although the client wants more text.
    pub(super) fn has_no_room(&self) -> bool {
        let (Some(_), Some(route)) = (&self.pause, &self.attempt) else { return false };
        let seen = self.reader.seen();
        let is_cut = seen.finish == Some(ModelStopReason::Length) && !seen.has_other && !self.has_hidden();
        if !is_cut || self.within != StreamPosition::Text || self.step_text().trim_end().is_empty() {
            return false;
        }
        let is_wanted = match route.request.left_output(self.left_tokens) {
            Ok(Some(left)) => route.budget().room(&self.outbound_request).is_some_and(|room| room < left),
            Ok(None) => true,
            Err(_) => false,
        };
        let is_full = match self.usage().filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
            Some(usage) => pause::is_full(usage.total_tokens(), route.budget().window.tokens),
            // Without a limit and a report only the window can have ended the answer.
            None if route.request.asked_output().is_none() => true,
            None => {
                let used = self.outbound_request.input + pause::with_error(self.output_tokens());
                pause::is_full(used, route.budget().window.tokens)
            }
        };
        is_wanted && is_full
    }

    /// Makes room after the end of a stream for lack of room, and continues.
    pub(super) fn go_on_after_end(&mut self) {
        let mut out = Vec::new();
        let usage = self.reader.seen().usage.clone();
        self.leave("", usage, &mut out);
        self.go_out(out.into());
    }

    /// Leaves the upstream's stream and starts to make room. `gap` is the whitespace that was about to follow, `newest`
    /// the last reported usage.
    fn leave(&mut self, gap: &str, newest: Option<Usage>, out: &mut Vec<u8>) {
        let Some(left) = self.leave_for_next(gap, newest) else { return };
        if !left.attempt.request.goes_on_exactly() {
            left.attempt.totals().approximate();
        }
        if let EventProcessor::Joins(splice) = &mut self.reader
            && left.attempt.request.exchange.inner.config.notices_in_text
        {
            splice.notice(&format!("\n\n{COMPACTING}\n"), out);
        }
        // A person sees in the text why the answer pauses, if notices are configured there.
        self.restarts += 1;
        tracing::info!(
            restarts = self.restarts,
            input_tokens = left.prepared.input,
            written_tokens = left.written_tokens,
            window = left.attempt.budget().window.tokens,
            "an answer is stopped at the end of the window, and room is made for its rest"
        );
        out.extend_from_slice(COMPACTING.comment().as_bytes());
        left.attempt.totals().restarted();
        // The upstream's connection closes here: most local servers have room for one request.
        self.phase = FlowPhase::Waiting(Box::pin(resume(left)));
    }

    /// Leaves the upstream's stream so that another one can continue it.
    pub(super) fn leave_for_next(&mut self, gap: &str, newest: Option<Usage>) -> Option<AbandonedStream> {
        let text = self.step_text();
        let route = self.attempt.take()?;
        let tokens = self.counted_output(&route);
        let new_tokens = tokens.saturating_sub(self.counted_tokens);
        let partial = self.partial(&route, new_tokens, newest);
        self.counted_tokens = tokens;
        // Some servers report less at the start than they have read.
        let is_news =
            |input: &u64| (self.outbound_request.input + 1..=route.budget().window.tokens).contains(input);
        let is_first = self.is_first_stream();
        let reported_input = self.reported_input(&route).filter(|input| is_first && is_news(input));
        self.leave_stream();
        if let EventProcessor::Joins(splice) = &mut self.reader {
            // The client has this blank already.
            let gap = if text.ends_with(char::is_whitespace) { "" } else { gap };
            match route.request.goes_on_exactly() {
                true => splice.begin_next_stream(self.outbound_request.shown_of(&text)),
                false => splice.begin_requested_stream(&text, gap),
            }
        }
        self.left_tokens += new_tokens;
        // Half an event of the abandoned stream must not be joined with the next stream.
        (self.events, self.characters, self.open_until) =
            (SseReader::default(), CharacterFilter::default(), None);
        route.totals().partial(partial);
        Some(AbandonedStream {
            prepared: self.outbound_request.clone(),
            // Some servers strip trailing blanks of a prefilled answer. The blanks are not sent, and the model may
            // repeat them.
            text: text.trim_end().to_owned(),
            new_tokens,
            written_tokens: self.left_tokens,
            reported_input,
            attempt: route,
        })
    }

    /// Returns the output of all streams by the gateway's count, in tokens.
    fn counted_output(&self, route: &UpstreamAttempt) -> u64 {
        match &self.pause {
            Some(pause) => pause.tokens(),
            // With an unknown window no detector counts along.
            None => (route.request.exchange.inner.parts.counter)(&route.request.target.origin())
                .text(&self.reader.seen().text),
        }
    }

    /// Returns whether the present stream is the answer's first: none was left, and no step has ended.
    pub(super) fn is_first_stream(&self) -> bool {
        self.restarts == 0 && self.broken_streams == 0 && self.outbound_request.rounds.answered == 0
    }

    /// Returns the present stream's input if the server has reported it.
    fn reported_input(&self, route: &UpstreamAttempt) -> Option<u64> {
        let usage = if route.request.needs_translation() {
            route.totals().told()
        } else {
            self.reader.seen().usage.clone()
        };
        usage.map(|usage| usage.input_tokens).filter(|input| *input > 0)
    }

    /// Returns the cost of the present stream, of which `output` was counted by the gateway. `newest` is the report at
    /// the point where the stream was left: some servers report usage with every piece.
    pub(super) fn partial(
        &self,
        route: &UpstreamAttempt,
        output: u64,
        newest: Option<Usage>,
    ) -> PartialUsage {
        // Usage that the gateway itself wrote for another dialect is no report.
        let (newest, begun) = match route.request.needs_translation() {
            true => (None, None),
            false => (newest, self.reader.seen().usage.as_ref()),
        };
        if let Some(usage) = newest.filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
            return PartialUsage::reported(&usage);
        }
        let begun = begun.map(|usage| usage.input_tokens).filter(|input| *input > 0);
        PartialUsage { input: begun.unwrap_or(self.outbound_request.input), output, is_estimated: true }
    }

    pub(super) fn resume(&mut self, resumed: ResumedStream) {
        let ResumedStream { attempt: route, prepared, body, then } = resumed;
        let window = route.budget().window.tokens;
        self.attempt = Some(route);
        self.said_at = Instant::now();
        let body = match body {
            Ok(body) => body,
            Err(fault) => return self.end_there(fault, then, &prepared),
        };
        let is_last = match then {
            StreamContinuation::SameStep { is_last } => {
                let only_own = prepared.tail.is_some() && prepared.steps == self.outbound_request.steps;
                self.continuations += u32::from(only_own);
                // Restarts from the answer's own end cost no summary and have a limit of their own (decision
                // 0050).
                let is_spent = self.restarts - self.continuations >= MAX_RESTARTS;
                is_last || is_spent || self.continuations >= MAX_CONTINUATIONS
            }
            StreamContinuation::NextStep | StreamContinuation::AfterBreak => self.is_window_exhausted,
        };
        let is_restart = matches!(then, StreamContinuation::SameStep { .. });
        if is_restart {
            tracing::info!(
                tokens = prepared.input,
                window,
                restarts = self.restarts,
                continuations = self.continuations,
                is_last,
                "a stopped answer goes on"
            );
        }
        self.is_between = false;
        let has_new_tail = prepared.tail != self.outbound_request.tail;
        self.outbound_request = prepared;
        if has_new_tail {
            // The next stream may repeat the text that it was sent. That is less than was assumed when the last stream
            // was left.
            let text = self.step_text();
            if let EventProcessor::Joins(splice) = &mut self.reader
                && self.attempt.as_ref().is_some_and(|route| route.request.goes_on_exactly())
            {
                splice.begin_next_stream(self.outbound_request.shown_of(&text));
            }
        }
        self.phase = FlowPhase::Reading(Box::new(body));
        if let Some(pause) = self.pause.as_mut().filter(|_| !is_last) {
            pause.start_stream(window, self.outbound_request.input);
        }
        match (is_restart, is_last) {
            (false, _) => {}
            (true, true) => {
                self.pause = None;
                self.is_window_exhausted = true;
                self.send_notice(SPENT, &format!("{SPENT}\n\n"));
            }
            (true, false) => self.send_notice(CONTINUING, &format!("{CONTINUING}\n\n")),
        }
    }

    /// Ends the answer without a next stream. The answer ends for its length if the client's limit is reached or the
    /// server cannot continue; otherwise it has failed.
    fn end_there(&mut self, fault: GatewayError, then: StreamContinuation, prepared: &OutboundRequest) {
        let Some(route) = self.attempt.as_ref() else { return self.break_off(fault) };
        // The client's limit is reached. The answer is complete for its length, and the failure does not
        // matter.
        if route.request.left_output(self.left_tokens).is_err() {
            self.is_between |= !matches!(then, StreamContinuation::NextStep);
            return self.end();
        }
        if matches!(then, StreamContinuation::NextStep) {
            return self.break_off(fault);
        }
        if let Some(broke) = self.broke_by.take().filter(|_| matches!(then, StreamContinuation::AfterBreak)) {
            // No stream began, so nothing is billed.
            self.is_between = true;
            return self.break_off(broke);
        }
        tracing::warn!(fault = fault.message, "an answer was stopped and could not go on");
        // No stream began, so nothing is billed.
        self.is_between = true;
        match fault.kind {
            GatewayErrorKind::Unreachable => {}
            GatewayErrorKind::Timeout => route.totals().unanswered(prepared.input),
            _ => route.totals().refused(),
        }
        match fault.kind {
            // A refusal of the continuation is final. The client keeps the answer so far, with the finish
            // reason `length`.
            GatewayErrorKind::Invalid | GatewayErrorKind::ContextOverflow => {
                self.is_window_exhausted = true;
                self.report_full_window();
                self.end();
            }
            _ => self.break_off(fault),
        }
    }
}

/// Makes room, and asks the upstream to go on.
async fn resume(left: AbandonedStream) -> ResumedStream {
    let AbandonedStream { attempt: route, prepared: old, text, new_tokens, written_tokens, reported_input } =
        left;
    if let Some(tokens) = reported_input {
        route.memo().count_left(&old, tokens).await;
    }
    let counted = format!("{}{text}", old.rounds.text);
    let mut refusals = 0;
    loop {
        let made = route.fitter.make_room_for_rest(&old, &counted, refusals).await;
        let is_last = made.is_err();
        let rounds = old.rounds.clone();
        let prepared = match made {
            Ok(made) => OutboundRequest { rounds, ..made },
            // Without room the answer runs to the real limit.
            Err(_) => old.clone().with_more_input(new_tokens),
        };
        let body = request_continuation(&route, &prepared, prepared.shown_of(&text), written_tokens).await;
        let is_too_long = body.as_ref().is_err_and(|fault| fault.kind == GatewayErrorKind::ContextOverflow);
        // Without more room another attempt would be the same request.
        if !is_too_long || is_last || refusals >= MAX_LENGTH_RETRIES {
            return ResumedStream {
                attempt: route,
                prepared,
                body,
                then: StreamContinuation::SameStep { is_last },
            };
        }
        route.totals().refused();
        refusals += 1;
    }
}

/// Requests the rest of an answer of which `said_tokens` were written. `text` is the part of its last step.
pub(super) async fn request_continuation(
    route: &UpstreamAttempt,
    prepared: &OutboundRequest,
    text: &str,
    said_tokens: u64,
) -> Result<UpstreamBody, GatewayError> {
    if route.request.needs_translation() {
        return route.cross_again(prepared, text, said_tokens).await;
    }
    let body = route
        .outbound()
        .body(prepared, Some((text, said_tokens)), !route.request.exchange.envelope.stream)
        .await?;
    let response = route.client().send(body).await?;
    let (status, headers) = (response.status(), response.headers().clone());
    route.request.target.server.check_place(status, &headers)?;
    if !status.is_success() {
        return Err(route.client().refusal(response).await);
    }
    let mut body = UpstreamBody::new(response, route.request.target.server.timeouts().idle)?;
    body.unwrap_calls(route.request.call_unwrapper());
    let begun = body.beginning(route.request.exchange.wire, Duration::ZERO).await.seen;
    // Some servers refuse inside a stream with status 200. Only a new step can still be sent with less.
    let error = begun.error.filter(|_| text.is_empty());
    match error.and_then(|error| overflow::recognise(Some(200), &error)) {
        Some(_) => Err(GatewayError::new(
            GatewayErrorKind::ContextOverflow,
            "the upstream refused the next step for its length",
        )),
        None => Ok(body),
    }
}
