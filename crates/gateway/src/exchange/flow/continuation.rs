//! The continuation of an answer in another stream of the same upstream: after a stop at the end of the window, after a
//! break, and after calls that the client does not see. The client is told of it by notices.

use std::collections::VecDeque;
use std::time::Duration;

use longhaul_core::exchange::{ContinuationOutcome, Exchange, ExchangeEffect, ExchangeInput};
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;
use longhaul_wire::overflow;
use tokio::time::{Instant, sleep};

use super::super::UpstreamAttempt;
use super::super::prepare::OutboundRequest;
use super::super::request_log::whole_ms;
use super::{AnswerFlow, EventProcessor, FlowPhase, OutputPauseDetector, UpstreamBody};
use longhaul_wire::edit::ephemeral::{CONTINUING, SPENT};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, ModelStep, StreamMerger, ephemeral};

/// A stream left early, with everything for the next stream of the answer.
pub(super) struct AbandonedStream {
    pub(super) cause: StreamContinuation,
    pub(super) attempt: UpstreamAttempt,
    pub(super) prepared: OutboundRequest,
    /// The text of the present step, without trailing blanks.
    pub(super) text: String,
    /// The output of this stream, in tokens.
    pub(super) new_tokens: u64,
    /// The output of all streams, in tokens.
    pub(super) written_tokens: u64,
    /// The stream's input by the upstream's count, if new.
    pub(super) reported_input: Option<u64>,
    /// The step with hidden calls, and its output in tokens.
    pub(super) hidden_step: Option<(ModelStep, u64)>,
    /// The beginning of the answer, from which the exchange's time is measured.
    pub(super) began: Instant,
}

/// The reason why an answer goes on in another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamContinuation {
    /// The answer was stopped at the end of the window.
    SameStep,
    /// The stream broke off.
    AfterBreak,
    /// The next stream begins another step of the model.
    NextStep,
}

/// The continuation of an answer: the next stream, or an error.
pub(super) struct ResumedStream {
    exchange: Exchange,
    /// The last effect of the exchange: to go on, or to end the answer.
    effect: ExchangeEffect,
    cause: StreamContinuation,
    attempt: UpstreamAttempt,
    prepared: OutboundRequest,
    body: Result<UpstreamBody, GatewayError>,
}

impl AnswerFlow {
    /// Returns the time of the exchange, in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        whole_ms(self.began.elapsed())
    }

    /// Starts to perform the effects that lead to the next stream.
    pub(super) fn wait_for_rest(&mut self, left: AbandonedStream, effects: Vec<ExchangeEffect>) {
        self.phase = FlowPhase::Waiting(Box::pin(continue_answer(self.exchange.clone(), left, effects)));
    }

    /// Reads the next stream, or ends the answer without one.
    pub(super) fn resume(&mut self, resumed: ResumedStream) {
        let ResumedStream { exchange, effect, cause, attempt, prepared, body } = resumed;
        self.exchange = exchange;
        self.attempt = Some(attempt);
        self.said_at = Instant::now();
        match (body, effect) {
            (Ok(body), ExchangeEffect::GoOn { is_restart, is_last }) => {
                self.go_on(body, prepared, is_restart, is_last);
            }
            (Ok(_), _) => self.break_off(not_asked()),
            (Err(fault), effect) => self.end_there(fault, effect, cause, &prepared),
        }
    }

    fn go_on(&mut self, body: UpstreamBody, prepared: OutboundRequest, is_restart: bool, is_last: bool) {
        let window = self.attempt.as_ref().map_or(0, |attempt| attempt.budget().window.tokens);
        if is_restart {
            tracing::info!(
                tokens = prepared.input,
                window,
                restarts = self.exchange.restarts(),
                is_last,
                "a stopped answer goes on"
            );
        }
        // A later end must not be explained by a break that was overcome.
        self.broke_by = None;
        self.is_between = false;
        let has_new_tail = prepared.tail != self.outbound_request.tail;
        self.outbound_request = prepared;
        if has_new_tail {
            // The next stream may repeat the text that it was sent. That is less than was assumed when the last stream
            // was left.
            let text = self.step_text();
            if let EventProcessor::Joins(splice) = &mut self.reader
                && self.attempt.as_ref().is_some_and(|attempt| attempt.request.goes_on_exactly())
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
                self.send_notice(SPENT, &format!("{SPENT}\n\n"));
            }
            (true, false) => self.send_notice(CONTINUING, &format!("{CONTINUING}\n\n")),
        }
    }

    /// Ends the answer without a next stream, as the exchange has decided.
    fn end_there(
        &mut self,
        fault: GatewayError,
        effect: ExchangeEffect,
        cause: StreamContinuation,
        prepared: &OutboundRequest,
    ) {
        // No stream began, so nothing is billed for one.
        self.is_between = true;
        if effect == ExchangeEffect::End {
            return self.end();
        }
        // The break is the better explanation: without it nothing would have been asked again.
        if let Some(broke) = self.broke_by.take().filter(|_| cause == StreamContinuation::AfterBreak) {
            return self.break_off(broke);
        }
        tracing::warn!(fault = fault.message, "an answer was stopped and could not go on");
        if let Some(attempt) = self.attempt.as_ref().filter(|_| cause == StreamContinuation::SameStep) {
            match fault.kind {
                GatewayErrorKind::Unreachable => {}
                GatewayErrorKind::Timeout => attempt.totals().unanswered(prepared.input),
                _ => attempt.totals().refused(),
            }
        }
        match effect {
            ExchangeEffect::EndForWindow => {
                self.report_full_window();
                self.end();
            }
            _ => self.break_off(fault),
        }
    }
}

/// Performs effects of the exchange until the next stream begins or the answer is over.
async fn continue_answer(
    mut exchange: Exchange,
    left: AbandonedStream,
    effects: Vec<ExchangeEffect>,
) -> ResumedStream {
    let mut effects = VecDeque::from(effects);
    let mut prepared = left.prepared.clone().with_more_input(left.new_tokens);
    let mut body = Err(not_asked());
    let mut last = ExchangeEffect::BreakOff;
    while let Some(effect) = effects.pop_front() {
        let input = match effect {
            // The flow has left the stream already.
            ExchangeEffect::LeaveStream => continue,
            ExchangeEffect::Wait { ms } => {
                tracing::debug!(
                    upstream = left.attempt.request.target.server.upstream.name,
                    wait_ms = ms,
                    "an upstream is given time before it is asked to go on"
                );
                sleep(Duration::from_millis(ms)).await;
                ExchangeInput::WaitOver
            }
            ExchangeEffect::MakeRoomForRest { refusals } => {
                let made = left.make_room(refusals).await;
                let is_made = made.is_some();
                if let Some(made) = made {
                    prepared = made;
                }
                ExchangeInput::RoomMadeForRest(is_made)
            }
            ExchangeEffect::AnswerHiddenCalls { has_results } => {
                prepared = left.next_step(has_results).await;
                continue;
            }
            ExchangeEffect::NoteRefusal => {
                left.attempt.totals().refused();
                // A smaller request is made from the request before the stop, not from the refused one.
                prepared = left.prepared.clone().with_more_input(left.new_tokens);
                continue;
            }
            ExchangeEffect::AskForRest => {
                body = left.ask_for_rest(&prepared).await;
                ExchangeInput::Continued(left.outcome_of(&body, &prepared))
            }
            effect => {
                last = effect;
                break;
            }
        };
        effects.extend(exchange.handle(input));
    }
    ResumedStream { exchange, effect: last, cause: left.cause, attempt: left.attempt, prepared, body }
}

impl AbandonedStream {
    /// Returns the request for the rest with more room; `None` if there is none to make.
    async fn make_room(&self, refusals: u32) -> Option<OutboundRequest> {
        // A refusal repeats the request before the stop, whose count is stored already.
        if let Some(tokens) = self.reported_input.filter(|_| refusals == 0) {
            self.attempt.memo().count_left(&self.prepared, tokens).await;
        }
        let rounds = self.prepared.rounds.clone();
        let text = format!("{}{}", rounds.text, self.text);
        let made = self.attempt.fitter.make_room_for_rest(&self.prepared, &text, refusals).await.ok()?;
        Some(OutboundRequest { rounds, ..made })
    }

    /// Returns the request for the model's next step. Without results the model learns only that they have no room.
    async fn next_step(&self, has_results: bool) -> OutboundRequest {
        let Some((step, output_tokens)) = self.hidden_step.clone() else { return self.prepared.clone() };
        let (steps, old) = (self.attempt.hidden_steps(), self.prepared.clone());
        match has_results {
            true => steps.next_round(old, step, output_tokens).await,
            false => steps.empty_round(old, step, output_tokens),
        }
    }

    async fn ask_for_rest(&self, prepared: &OutboundRequest) -> Result<UpstreamBody, GatewayError> {
        let text = match self.cause {
            // The step before is complete, and part of the request.
            StreamContinuation::NextStep => "",
            StreamContinuation::SameStep | StreamContinuation::AfterBreak => prepared.shown_of(&self.text),
        };
        request_continuation(&self.attempt, prepared, text, self.written_tokens).await
    }

    fn outcome_of(
        &self,
        body: &Result<UpstreamBody, GatewayError>,
        prepared: &OutboundRequest,
    ) -> ContinuationOutcome {
        let fault = match body {
            Ok(_) => {
                let is_from_own_end = prepared.tail.is_some() && prepared.steps == self.prepared.steps;
                return ContinuationOutcome::Started { is_from_own_end };
            }
            Err(fault) => fault,
        };
        // Asked first: at the client's limit a failed request for more is no failure.
        if self.attempt.request.left_output(self.written_tokens).is_err() {
            return ContinuationOutcome::LimitReached;
        }
        match fault.kind {
            GatewayErrorKind::ContextOverflow => ContinuationOutcome::TooLong,
            GatewayErrorKind::Invalid => ContinuationOutcome::Refused,
            _ if is_outage(fault) => ContinuationOutcome::Outage {
                asked_ms: fault.retry_after.map(whole_ms),
                now_ms: whole_ms(self.began.elapsed()),
            },
            _ => ContinuationOutcome::Failed,
        }
    }
}

/// Returns whether the upstream is unreachable or too busy only for now.
fn is_outage(fault: &GatewayError) -> bool {
    let is_kind = matches!(
        fault.kind,
        GatewayErrorKind::Unreachable
            | GatewayErrorKind::RateLimit
            | GatewayErrorKind::Overloaded
            | GatewayErrorKind::Upstream
    );
    is_kind && (fault.status.is_server_error() || fault.status == http::StatusCode::TOO_MANY_REQUESTS)
}

/// Returns the error of a continuation before its first request.
fn not_asked() -> GatewayError {
    GatewayError::new(GatewayErrorKind::Internal, "the rest of the answer was not asked for")
}

/// Requests the rest of an answer of which `said_tokens` were written. `text` is the part of its last step.
async fn request_continuation(
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
        .body(prepared, Some((text, said_tokens)), !route.request.proxied.envelope.stream)
        .await?;
    let response = route.client().send(body).await?;
    let (status, headers) = (response.status(), response.headers().clone());
    route.request.target.server.check_place(status, &headers)?;
    if !status.is_success() {
        return Err(route.client().refusal(response).await);
    }
    let mut body = UpstreamBody::new(response, route.request.target.server.timeouts().idle)?;
    body.unwrap_calls(route.request.call_unwrapper());
    let begun = body.beginning(route.request.proxied.wire, Duration::ZERO).await.seen;
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

/// The used share from which on a window counts as full, in percent.
const FULL_PERCENT: u64 = 97;

impl AnswerFlow {
    /// Sends a notice as a comment, and in the text if configured.
    pub(super) fn send_notice(&mut self, notice: &str, in_text: &str) {
        self.out.push_back(notice.comment().into());
        let wanted =
            self.attempt.as_ref().is_some_and(|route| route.request.proxied.inner.config.notices_in_text);
        if let (EventProcessor::Joins(splice), true) = (&mut self.reader, wanted) {
            let mut out = Vec::new();
            splice.notice(in_text, &mut out);
            self.out.push_back(out.into());
        }
    }

    /// Reports a full window.
    pub(super) fn report_full_window(&mut self) {
        let Some(window) = self.attempt.as_ref().map(|route| route.budget().window.tokens) else { return };
        let seen = self.reader.seen();
        let new_tokens =
            self.pause.as_ref().map_or(0, OutputPauseDetector::tokens).saturating_sub(self.counted_tokens);
        let counted = self.outbound_request.input + new_tokens;
        // The upstream's own report is better than the gateway's count.
        let used = self.usage().as_ref().map_or(counted, Usage::total_tokens);
        let is_full = used.saturating_mul(100) >= window.saturating_mul(FULL_PERCENT);
        if !self.exchange.is_window_exhausted() && !is_full
            || seen.finish.is_some_and(|finish| finish != ModelStopReason::Length)
        {
            return;
        }
        if let Some(route) = self.attempt.as_ref().filter(|_| self.exchange.is_window_exhausted()) {
            route.totals().mark_window_exhausted();
        }
        let notice = ephemeral::exceeded(used, window);
        self.send_notice(&notice, &format!("\n\n{notice}"));
    }
}

/// Writes a notice into an open text of the answer. Returns whether a text was open.
pub(super) fn has_said(splice: &mut dyn StreamMerger, note: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    splice.notice(note, out);
    out.len() > before
}

/// A notice as an SSE comment, skipped by parsers of events.
pub(super) trait StreamComment {
    fn comment(&self) -> String;
}

impl StreamComment for str {
    fn comment(&self) -> String {
        ephemeral::comment(self)
    }
}
