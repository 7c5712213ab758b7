//! The end of a stream before the answer's end: a stop at the end of the window, a break, or calls that the gateway
//! answers instead of the client. The answer goes on in another stream.

use std::time::Duration;

use bytes::Bytes;
use longhaul_core::attempt::BrokenAnswerAction;
use longhaul_core::exchange::{ExchangeEffect, ExchangeInput, StreamBreak};
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;

use super::super::UpstreamAttempt;
use super::super::prepare::OutboundRequest;
use super::super::recall::NO_ANSWER;
use super::super::request_log::whole_ms;
use super::super::usage_totals::PartialUsage;
use super::continuation::{AbandonedStream, StreamComment, StreamContinuation};
use super::reading::{CharacterFilter, seen_in};
use super::{AnswerFlow, EventProcessor, OutputPauseDetector, pause};
use longhaul_wire::edit::ephemeral::COMPACTING;
use longhaul_wire::edit::{GatewayError, ModelStep, PartialResponse, SseReader, StreamPosition};

/// The comment for a client about the pause of its stream.
const BROKEN: &str = "the upstream broke off its answer; it is asked to go on";

/// The present step of an answer whose calls may be answered by the gateway.
#[derive(Default)]
pub(super) struct AnswerStepBuffer {
    /// The present stream's events on arrival.
    raw: Vec<Bytes>,
    /// The offset of the step's text in the answer's text.
    from: usize,
    /// The step's text from streams left early.
    begun: String,
}

impl AnswerStepBuffer {
    pub(super) fn take(&mut self, raw: &Bytes) {
        self.raw.push(raw.clone());
    }
}

/// Returns whether the window has ended an answer that stopped for its length, although the client wants more. Earlier
/// streams have written `left_tokens`. `output_tokens` supplies the count of the last one if nothing was reported.
pub(in crate::exchange) fn is_out_of_room(
    attempt: &UpstreamAttempt,
    prepared: &OutboundRequest,
    usage: Option<&Usage>,
    left_tokens: u64,
    output_tokens: impl FnOnce() -> u64,
) -> bool {
    let is_wanted = match attempt.request.left_output(left_tokens) {
        Ok(Some(left)) => attempt.budget().room(prepared).is_some_and(|room| room < left),
        Ok(None) => true,
        // An answer that cannot be judged is passed on as it ended.
        Err(_) => false,
    };
    let window = attempt.budget().window.tokens;
    let is_full = match usage.filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
        Some(usage) => pause::is_full(usage.total_tokens(), window),
        // Without a limit and a report only the window can have ended the answer.
        None if attempt.request.asked_output().is_none() => true,
        None => pause::is_full(prepared.input + pause::with_error(output_tokens()), window),
    };
    is_wanted && is_full
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
        let (usage, prepared) = (self.usage(), &self.outbound_request);
        is_out_of_room(route, prepared, usage.as_ref(), self.left_tokens, || self.output_tokens())
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
        let cause = StreamContinuation::SameStep;
        let Some(left) = self.leave_for_next(gap, newest, cause) else { return };
        let effects = self.exchange.handle(ExchangeInput::WindowFilled);
        if !left.attempt.request.goes_on_exactly() {
            left.attempt.totals().approximate();
        }
        if let EventProcessor::Joins(splice) = &mut self.reader
            && left.attempt.request.proxied.inner.config.notices_in_text
        {
            splice.notice(&format!("\n\n{COMPACTING}\n"), out);
        }
        // A person sees in the text why the answer pauses, if notices are configured there.
        tracing::info!(
            restarts = self.exchange.restarts(),
            input_tokens = left.prepared.input,
            written_tokens = left.written_tokens,
            window = left.attempt.budget().window.tokens,
            "an answer is stopped at the end of the window, and room is made for its rest"
        );
        out.extend_from_slice(COMPACTING.comment().as_bytes());
        left.attempt.totals().restarted();
        // The upstream's connection closes here: most local servers have room for one request.
        self.wait_for_rest(left, effects);
    }

    /// Leaves the upstream's stream so that another one can continue it.
    pub(super) fn leave_for_next(
        &mut self,
        gap: &str,
        newest: Option<Usage>,
        cause: StreamContinuation,
    ) -> Option<AbandonedStream> {
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
            cause,
            began: self.began,
            hidden_step: None,
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
            None => (route.request.proxied.inner.parts.counter)(&route.request.target.origin())
                .text(&self.reader.seen().text),
        }
    }

    /// Returns whether the present stream is the answer's first: none was left, and no step has ended.
    pub(super) fn is_first_stream(&self) -> bool {
        self.exchange.restarts() == 0
            && self.exchange.broken_streams() == 0
            && self.outbound_request.rounds.answered == 0
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
        // The beginning of a stream may already report the input. That figure is better than the estimate.
        PartialUsage { input: begun.unwrap_or(self.outbound_request.input), output, is_estimated: true }
    }
}

impl AnswerFlow {
    /// Returns the facts about a stream that breaks at this point.
    fn stream_break(&self, asked: Option<Duration>) -> StreamBreak {
        let seen = self.reader.seen();
        let can_join = match (&self.attempt, &self.reader) {
            (Some(attempt), EventProcessor::Joins(_)) => attempt.request.may_reconnect(),
            _ => false,
        };
        // A call or a second choice cannot be continued, and the client has begun to read it.
        let is_text_alone = !seen.has_other && seen.calls.is_empty() && !self.has_hidden();
        let has_text = !self.step_text().trim_end().is_empty();
        StreamBreak {
            is_joinable: can_join && !self.is_between && seen.finish.is_none() && is_text_alone,
            ends_in_text: has_text && self.within == StreamPosition::Text,
            is_blank: !has_text && seen.reasoning.is_empty(),
            asked_ms: asked.map(whole_ms),
            now_ms: self.now_ms(),
        }
    }

    /// Returns the error of an event that ends the answer for a temporary reason, if the answer can continue.
    pub(super) fn passing_error(&self, raw: &[u8]) -> Option<GatewayError> {
        let error = seen_in(self.wire, raw).error?;
        let fault = self.attempt.as_ref()?.request.said_error(&error);
        // An error about the request itself would come back with the next stream.
        Some(fault).filter(|fault| fault.kind.is_transient() && self.may_go_on_after_break())
    }

    fn may_go_on_after_break(&self) -> bool {
        self.exchange.action_after_break(self.stream_break(None)) != BrokenAnswerAction::GiveUp
    }

    /// Handles a broken stream: the answer goes on in another one after a wait, or has failed.
    pub(super) fn handle_broken_stream(&mut self, fault: GatewayError) {
        let broken = self.stream_break(fault.retry_after);
        let effects = self.exchange.handle(ExchangeInput::StreamBroke(broken));
        if effects.contains(&ExchangeEffect::BreakOff) {
            self.is_broken = true;
            return self.break_off(fault);
        }
        let newest = self.reader.seen().usage.clone();
        // The next stream continues from the text, so the abandoned one is billed and its text stored first.
        let Some(left) = self.leave_for_next("", newest, StreamContinuation::AfterBreak) else {
            return self.break_off(fault);
        };
        tracing::warn!(
            upstream = left.attempt.request.target.server.upstream.name,
            broken_streams = self.exchange.broken_streams(),
            "an answer broke off and is asked to go on: {}",
            fault.message
        );
        self.out.push_back(BROKEN.comment().into());
        self.wait_for_rest(left, effects);
        self.broke_by = Some(fault);
    }
}

impl AnswerFlow {
    /// Returns the text of the present step.
    pub(super) fn step_text(&self) -> String {
        let from = self.step.as_ref().map_or(0, |step| step.from);
        self.reader.seen().text.get(from..).unwrap_or_default().to_owned()
    }

    /// Prepares for another stream of the same step.
    pub(super) fn leave_stream(&mut self) {
        let begun = self.step_text();
        if let Some(step) = &mut self.step {
            // The next stream brings its own events; the text of the abandoned one is put before them.
            step.raw.clear();
            step.begun = begun;
        }
    }

    /// Returns whether the present stream has begun a hidden call.
    pub(super) fn has_hidden(&self) -> bool {
        matches!(&self.reader, EventProcessor::Joins(splice) if splice.has_hidden())
    }

    /// Handles the hidden calls of a finished stream. Returns whether the answer continues.
    pub(super) async fn goes_round(&mut self) -> bool {
        let finish = self.reader.seen().finish;
        if self.step.is_none()
            // A step that was cut or filtered may hold half a call.
            || matches!(finish, None | Some(ModelStopReason::Length | ModelStopReason::ContentFilter))
        {
            return false;
        }
        let shown = self.reader.seen().calls.clone();
        let has_hidden = self.has_hidden();
        // The client's calls lead to another request. Hidden steps before them have to be stored for it.
        if !has_hidden && (shown.is_empty() || self.outbound_request.rounds.answered == 0) {
            return false;
        }
        let Some(route) = self.attempt.take() else { return false };
        let output = self.output_tokens();
        let step = if has_hidden { self.hidden_step() } else { None };
        match step {
            // The client must answer its own calls first. The hidden ones wait in the store for its next request.
            step if !shown.is_empty() => {
                let calls = step.map_or(shown, |step| step.calls);
                let text = self.step_text();
                self.division = route
                    .hidden_steps()
                    .store_hidden_calls(&self.outbound_request, (&text, &calls), output)
                    .await;
                self.attempt = Some(route);
                false
            }
            Some(step) if !self.outbound_request.rounds.must_answer() => {
                self.begin_round(route, step, output);
                true
            }
            // The client would wait for a call that it was not shown.
            _ => {
                self.attempt = Some(route);
                self.conclude();
                false
            }
        }
    }

    /// Returns whether the answer would end without content although a part was hidden from the client.
    pub(super) fn is_silent(&self) -> bool {
        let hides = self.is_between || self.has_hidden() || self.outbound_request.rounds.answered > 0;
        let seen = self.reader.seen();
        let says_nothing = seen.text.trim().is_empty() && seen.calls.is_empty() && seen.error.is_none();
        self.step.is_some() && hides && says_nothing
    }

    /// Ends the answer with the gateway's notice, because a client cannot continue from an empty answer.
    pub(super) fn conclude(&mut self) {
        let no_answer = self.attempt.as_ref().map_or(NO_ANSWER, |route| route.request.tools().no_answer());
        if let EventProcessor::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.end_with_text(no_answer, &mut out);
            self.out.extend((!out.is_empty()).then(|| Bytes::from(out)));
        }
    }

    fn begin_round(&mut self, route: UpstreamAttempt, step: ModelStep, output: u64) {
        route.totals().add(self.usage().as_ref(), || {
            route.request.counted(&self.outbound_request, self.reader.seen(), self.left_tokens)
        });
        // The client's output limit covers all steps together.
        self.left_tokens += output;
        self.counted_tokens = self.pause.as_ref().map_or(0, OutputPauseDetector::tokens);
        if let EventProcessor::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.next_step(&mut out);
            self.out.extend((!out.is_empty()).then(|| Bytes::from(out)));
        }
        (self.events, self.characters, self.open_until) =
            (SseReader::default(), CharacterFilter::default(), None);
        self.is_between = true;
        // The text of all steps is one text for the client, so the new step begins at its end.
        let from = self.reader.seen().text.len();
        self.step = Some(AnswerStepBuffer { from, ..AnswerStepBuffer::default() });
        let effects = self.exchange.handle(ExchangeInput::HiddenCallsMade);
        // The future outlives this call and owns its request. The flow keeps the old one until the stream begins.
        let left = AbandonedStream {
            cause: StreamContinuation::NextStep,
            attempt: route,
            prepared: self.outbound_request.clone(),
            text: String::new(),
            new_tokens: 0,
            written_tokens: self.left_tokens,
            reported_input: None,
            hidden_step: Some((step, output)),
            began: self.began,
        };
        self.wait_for_rest(left, effects);
    }

    /// Returns the output of the present stream in tokens: as reported, else as counted.
    pub(super) fn output_tokens(&self) -> u64 {
        let counted =
            self.pause.as_ref().map_or(0, OutputPauseDetector::tokens).saturating_sub(self.counted_tokens);
        self.usage().map_or(counted, |usage| usage.output_tokens)
    }

    /// Returns the model's complete step.
    fn hidden_step(&self) -> Option<ModelStep> {
        let said = self.step.as_ref()?;
        let mut step = self.wire.parse_model_step(&self.wire.collect_answer(&said.raw)?)?;
        if !said.begun.is_empty() {
            let mut with_text = step.items.iter_mut();
            with_text.find_map(|item| {
                *item = self.wire.prepend_text(item, &said.begun)?;
                Some(())
            });
        }
        Some(step)
    }
}
