//! An answer that is stopped where the window ends, and gone on with when room was made.

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

/// The most times that the conversation before one answer is shortened.
const MAX_RESTARTS: u32 = 3;

/// The most times that an answer goes on from its own end. That costs no summary, and a model that never comes to an end
/// has to be stopped somewhere.
const MAX_CONTINUATIONS: u32 = 12;

/// A stream that was left, and what the next one needs to go on with its answer.
pub(super) struct AbandonedStream {
    pub(super) attempt: UpstreamAttempt,
    pub(super) prepared: OutboundRequest,
    /// What the present step of the answer has said, without blanks at its end.
    pub(super) text: String,
    /// Output of this stream, in tokens.
    pub(super) new_tokens: u64,
    /// Output of all streams, in tokens.
    pub(super) written_tokens: u64,
    /// The stream's input by the upstream's count, if that is news.
    reported_input: Option<u64>,
}

/// What the answer goes on with: the next stream, or why there is none.
pub(super) struct ResumedStream {
    pub(super) attempt: UpstreamAttempt,
    pub(super) prepared: OutboundRequest,
    pub(super) body: Result<UpstreamBody, GatewayError>,
    pub(super) then: StreamContinuation,
}

/// How the next stream goes on.
#[derive(Clone, Copy)]
pub(super) enum StreamContinuation {
    /// Where the last one was stopped. `is_last`: nothing could be left out, the answer goes on to the real limit.
    SameStep { is_last: bool },
    /// Where the last one broke off.
    AfterBreak,
    /// With another step of the model's.
    NextStep,
}

impl AnswerFlow {
    /// Leaves the upstream's stream before this event, and begins to make room.
    pub(super) fn leave_before_event(&mut self, next: &[u8], out: &mut Vec<u8>) {
        let PartialResponse { text, usage, .. } = seen_in(self.wire, next);
        let gap_bytes = text.len() - text.trim_start().len();
        self.leave(&text[..gap_bytes], usage, out);
    }

    /// Returns whether the stream has ended because the window is full, although the client wants more of its text.
    pub(super) fn has_no_room(&self) -> bool {
        let (Some(_), Some(route)) = (&self.pause, &self.attempt) else { return false };
        let seen = self.reader.seen();
        let is_cut = seen.finish == Some(ModelStopReason::Length) && !seen.has_other && !self.has_hidden();
        if !is_cut || self.within != StreamPosition::Text || self.step_text().trim_end().is_empty() {
            return false;
        }
        let is_wanted = match route.left_output(self.left_tokens) {
            Ok(Some(left)) => route.room(&self.outbound_request).is_some_and(|room| room < left),
            Ok(None) => true,
            Err(_) => false,
        };
        let is_full = match self.usage().filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
            Some(usage) => pause::is_full(usage.total_tokens(), route.window.tokens),
            // Nobody set a limit and nothing was reported: only the window can have ended it.
            None if route.asked_output().is_none() => true,
            None => {
                let used = self.outbound_request.input + pause::with_error(self.output_tokens());
                pause::is_full(used, route.window.tokens)
            }
        };
        is_wanted && is_full
    }

    /// The stream has ended for want of room: makes some, and goes on.
    pub(super) fn go_on_after_end(&mut self) {
        let mut out = Vec::new();
        let usage = self.reader.seen().usage.clone();
        self.leave("", usage, &mut out);
        self.go_out(out.into());
    }

    /// Leaves the upstream's stream and begins to make room. `gap` is the whitespace that was about to come, `newest` what
    /// was reported last.
    fn leave(&mut self, gap: &str, newest: Option<Usage>, out: &mut Vec<u8>) {
        let Some(left) = self.leave_for_next(gap, newest) else { return };
        if !left.attempt.goes_on_exactly() {
            left.attempt.totals.approximate();
        }
        if let EventProcessor::Joins(splice) = &mut self.reader
            && left.attempt.exchange.inner.config.notices_in_text
        {
            splice.notice(&format!("\n\n{COMPACTING}\n"), out);
        }
        self.restarts += 1;
        out.extend_from_slice(COMPACTING.comment().as_bytes());
        left.attempt.totals.restarted();
        // The upstream's connection closes here: most local servers have room for one request.
        self.phase = FlowPhase::Waiting(Box::pin(resume(left)));
    }

    /// Leaves the upstream's stream, which another one goes on with.
    pub(super) fn leave_for_next(&mut self, gap: &str, newest: Option<Usage>) -> Option<AbandonedStream> {
        let text = self.step_text();
        let route = self.attempt.take()?;
        let tokens = self.counted_output(&route);
        let new_tokens = tokens.saturating_sub(self.counted_tokens);
        let partial = self.partial(&route, new_tokens, newest);
        self.counted_tokens = tokens;
        // Some say less as they begin than they have read.
        let is_news = |input: &u64| (self.outbound_request.input + 1..=route.window.tokens).contains(input);
        let is_first = self.is_first_stream();
        let reported_input = self.reported_input(&route).filter(|input| is_first && is_news(input));
        self.leave_stream();
        if let EventProcessor::Joins(splice) = &mut self.reader {
            // A blank that the client has already does not come a second time.
            let gap = if text.ends_with(char::is_whitespace) { "" } else { gap };
            match route.goes_on_exactly() {
                true => splice.begin_next_stream(self.outbound_request.shown_of(&text)),
                false => splice.begin_requested_stream(&text, gap),
            }
        }
        self.left_tokens += new_tokens;
        (self.events, self.characters, self.open_until) =
            (SseReader::default(), CharacterFilter::default(), None);
        route.totals.partial(partial);
        Some(AbandonedStream {
            prepared: self.outbound_request.clone(),
            // Some servers cut blanks at the end of what they are to go on with: they are not sent, and may come again.
            text: text.trim_end().to_owned(),
            new_tokens,
            written_tokens: self.left_tokens,
            reported_input,
            attempt: route,
        })
    }

    /// Output of all streams by our count, in tokens.
    fn counted_output(&self, route: &UpstreamAttempt) -> u64 {
        match &self.pause {
            Some(pause) => pause.tokens(),
            // Where the window is unknown nothing is counted on the way.
            None => {
                (route.exchange.inner.parts.counter)(&route.target.origin()).text(&self.reader.seen().text)
            }
        }
    }

    /// Returns whether no stream of the answer was left, and no step of it is over.
    pub(super) fn is_first_stream(&self) -> bool {
        self.restarts == 0 && self.broken_streams == 0 && self.outbound_request.rounds.answered == 0
    }

    /// The input of the present stream, if its server has reported it.
    fn reported_input(&self, route: &UpstreamAttempt) -> Option<u64> {
        let usage =
            if route.needs_translation() { route.totals.told() } else { self.reader.seen().usage.clone() };
        usage.map(|usage| usage.input_tokens).filter(|input| *input > 0)
    }

    /// What the present stream has cost so far, of which `output` was counted here. `newest` is what it reports where it is
    /// left: some servers say with every piece what they have read and written.
    pub(super) fn partial(
        &self,
        route: &UpstreamAttempt,
        output: u64,
        newest: Option<Usage>,
    ) -> PartialUsage {
        // What the encoder of another dialect writes is no report.
        let reported =
            |usage: Usage| Some(usage).filter(|usage| !route.needs_translation() && usage.input_tokens > 0);
        if let Some(usage) = newest.and_then(reported).filter(|usage| usage.output_tokens > 0) {
            return PartialUsage {
                input: usage.input_tokens,
                output: usage.output_tokens,
                is_estimated: false,
            };
        }
        let begun = self.reader.seen().usage.clone().and_then(reported);
        let input = begun.map_or(self.outbound_request.input, |usage| usage.input_tokens);
        PartialUsage { input, output, is_estimated: true }
    }

    pub(super) fn resume(&mut self, resumed: ResumedStream) {
        let ResumedStream { attempt: route, prepared, body, then } = resumed;
        let window = route.window.tokens;
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
                let is_spent = self.restarts - self.continuations >= MAX_RESTARTS;
                is_last || is_spent || self.continuations >= MAX_CONTINUATIONS
            }
            StreamContinuation::NextStep | StreamContinuation::AfterBreak => self.is_window_exhausted,
        };
        let is_restart = matches!(then, StreamContinuation::SameStep { .. });
        self.is_between = false;
        let has_new_tail = prepared.tail != self.outbound_request.tail;
        self.outbound_request = prepared;
        if has_new_tail {
            // The next stream may repeat what it was sent, which is less than was thought when the last one was left.
            let text = self.step_text();
            if let EventProcessor::Joins(splice) = &mut self.reader
                && self.attempt.as_ref().is_some_and(UpstreamAttempt::goes_on_exactly)
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

    /// There is no next stream. The answer ends for its length where the client wanted no more, and where the server goes
    /// on with none; else it has failed.
    fn end_there(&mut self, fault: GatewayError, then: StreamContinuation, prepared: &OutboundRequest) {
        let Some(route) = self.attempt.as_ref() else { return self.break_off(fault) };
        if route.left_output(self.left_tokens).is_err() {
            self.is_between |= !matches!(then, StreamContinuation::NextStep);
            return self.end();
        }
        if matches!(then, StreamContinuation::NextStep) {
            return self.break_off(fault);
        }
        if let Some(broke) = self.broke_by.take().filter(|_| matches!(then, StreamContinuation::AfterBreak)) {
            // No stream began: nothing is billed for it.
            self.is_between = true;
            return self.break_off(broke);
        }
        tracing::warn!(fault = fault.message, "an answer was stopped and could not go on");
        // No stream began: nothing is billed for it.
        self.is_between = true;
        match fault.kind {
            GatewayErrorKind::Unreachable => {}
            GatewayErrorKind::Timeout => route.totals.unanswered(prepared.input),
            _ => route.totals.refused(),
        }
        match fault.kind {
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
        route.count_left(&old, tokens).await;
    }
    let counted = format!("{}{text}", old.rounds.text);
    let mut refusals = 0;
    loop {
        let made = route.make_room_for_rest(&old, &counted, refusals).await;
        let is_last = made.is_err();
        let rounds = old.rounds.clone();
        let prepared = match made {
            Ok(made) => OutboundRequest { rounds, ..made },
            // Without room it goes on to the real limit.
            Err(_) => old.clone().with_more_input(new_tokens),
        };
        let body = request_continuation(&route, &prepared, prepared.shown_of(&text), written_tokens).await;
        let is_too_long = body.as_ref().is_err_and(|fault| fault.kind == GatewayErrorKind::ContextOverflow);
        if !is_too_long || is_last || refusals >= MAX_LENGTH_RETRIES {
            return ResumedStream {
                attempt: route,
                prepared,
                body,
                then: StreamContinuation::SameStep { is_last },
            };
        }
        route.totals.refused();
        refusals += 1;
    }
}

/// Asks for the rest of an answer of which so many tokens were said; `text` is what of its last step was.
pub(super) async fn request_continuation(
    route: &UpstreamAttempt,
    prepared: &OutboundRequest,
    text: &str,
    said_tokens: u64,
) -> Result<UpstreamBody, GatewayError> {
    if route.needs_translation() {
        return route.cross_again(prepared, text, said_tokens).await;
    }
    let body = route.body(prepared, Some((text, said_tokens)), !route.exchange.envelope.stream).await?;
    let response = route.send(body).await?;
    let (status, headers) = (response.status(), response.headers().clone());
    route.target.server.check_place(status, &headers)?;
    if !status.is_success() {
        return Err(route.refusal(response).await);
    }
    let mut body = UpstreamBody::new(response, route.target.server.timeouts().idle)?;
    body.unwrap_calls(route.call_unwrapper());
    let begun = body.beginning(route.exchange.wire, Duration::ZERO).await.seen;
    let error = begun.error.filter(|_| text.is_empty());
    match error.and_then(|error| overflow::recognise(Some(200), &error)) {
        Some(_) => Err(GatewayError::new(
            GatewayErrorKind::ContextOverflow,
            "the upstream refused the next step for its length",
        )),
        None => Ok(body),
    }
}
