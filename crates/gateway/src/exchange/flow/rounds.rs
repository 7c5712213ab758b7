//! Calls that are answered here and not by the client: the answer goes on with another step of the model's.

use bytes::Bytes;
use longhaul_core::message::ModelStopReason;

use super::super::UpstreamAttempt;
use super::super::prepare::OutboundRequest;
use super::super::recall::NO_ANSWER;
use super::reading::CharacterFilter;
use super::restart::{ResumedStream, StreamContinuation, request_continuation};
use super::{AnswerFlow, EventProcessor, FlowPhase, OutputPauseDetector};
use longhaul_wire::edit::{GatewayErrorKind, ModelStep, SseReader};

/// What is kept of the present step of an answer, where calls of it may be answered here.
#[derive(Default)]
pub(super) struct AnswerStepBuffer {
    /// The present stream's events as they came.
    raw: Vec<Bytes>,
    /// Where the step's text begins in that of the answer.
    from: usize,
    /// What streams of this step have said that were left.
    begun: String,
}

impl AnswerStepBuffer {
    pub(super) fn take(&mut self, raw: &Bytes) {
        self.raw.push(raw.clone());
    }
}

impl AnswerFlow {
    /// What the present step has said.
    pub(super) fn step_text(&self) -> String {
        let from = self.step.as_ref().map_or(0, |step| step.from);
        self.reader.seen().text.get(from..).unwrap_or_default().to_owned()
    }

    /// The present stream is left: the step goes on in another.
    pub(super) fn leave_stream(&mut self) {
        let begun = self.step_text();
        if let Some(step) = &mut self.step {
            step.raw.clear();
            step.begun = begun;
        }
    }

    /// Returns whether the present stream has begun a call that is answered here.
    pub(super) fn has_hidden(&self) -> bool {
        matches!(&self.reader, EventProcessor::Joins(splice) if splice.has_hidden())
    }

    /// The stream is over: what becomes of calls in it that are answered here. Whether the answer goes on.
    pub(super) async fn goes_round(&mut self) -> bool {
        let finish = self.reader.seen().finish;
        if self.step.is_none()
            || matches!(finish, None | Some(ModelStopReason::Length | ModelStopReason::ContentFilter))
        {
            return false;
        }
        let shown = self.reader.seen().calls.clone();
        let has_hidden = self.has_hidden();
        if !has_hidden && (shown.is_empty() || self.outbound_request.rounds.answered == 0) {
            return false;
        }
        let Some(route) = self.attempt.take() else { return false };
        let output = self.output_tokens();
        let step = if has_hidden { self.hidden_step() } else { None };
        match step {
            step if !shown.is_empty() => {
                let calls = step.map_or(shown, |step| step.calls);
                let text = self.step_text();
                self.division =
                    route.store_hidden_calls(&self.outbound_request, (&text, &calls), output).await;
                self.attempt = Some(route);
                false
            }
            Some(step) if !self.outbound_request.rounds.must_answer() => {
                self.begin_round(route, step, output);
                true
            }
            // The client would wait for a call that it has not.
            _ => {
                self.attempt = Some(route);
                self.conclude();
                false
            }
        }
    }

    /// Returns whether the answer would end with nothing said, where the client was not shown all of it.
    pub(super) fn is_silent(&self) -> bool {
        let hides = self.is_between || self.has_hidden() || self.outbound_request.rounds.answered > 0;
        let seen = self.reader.seen();
        let says_nothing = seen.text.trim().is_empty() && seen.calls.is_empty() && seen.error.is_none();
        self.step.is_some() && hides && says_nothing
    }

    /// Ends the answer in our own words: a client cannot go on from nothing.
    pub(super) fn conclude(&mut self) {
        let no_answer = self.attempt.as_ref().map_or(NO_ANSWER, UpstreamAttempt::no_answer);
        if let EventProcessor::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.end_with_text(no_answer, &mut out);
            self.out.extend((!out.is_empty()).then(|| Bytes::from(out)));
        }
    }

    fn begin_round(&mut self, route: UpstreamAttempt, step: ModelStep, output: u64) {
        let counted = || route.counted(&self.outbound_request, self.reader.seen(), self.left_tokens);
        route.totals.add(self.usage().as_ref(), counted);
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
        let from = self.reader.seen().text.len();
        self.step = Some(AnswerStepBuffer { from, ..AnswerStepBuffer::default() });
        let (prepared, said) = (self.outbound_request.clone(), self.left_tokens);
        self.phase = FlowPhase::Waiting(Box::pin(round(route, prepared, step, (output, said))));
    }

    /// What the present stream has written, in tokens: as it was reported, else as it was counted.
    pub(super) fn output_tokens(&self) -> u64 {
        let counted =
            self.pause.as_ref().map_or(0, OutputPauseDetector::tokens).saturating_sub(self.counted_tokens);
        self.usage().map_or(counted, |usage| usage.output_tokens)
    }

    /// The model's step, all of it.
    fn hidden_step(&self) -> Option<ModelStep> {
        let said = self.step.as_ref()?;
        let mut step = self.wire.step(&self.wire.collect(&said.raw)?)?;
        if !said.begun.is_empty() {
            let mut with_text = step.items.iter_mut();
            with_text.find_map(|item| {
                *item = self.wire.with_text_before(item, &said.begun)?;
                Some(())
            });
        }
        Some(step)
    }
}

/// Looks up what the model asks for, and asks it to go on. Where its server says that this is too long, nothing is returned.
async fn round(
    route: UpstreamAttempt,
    old: OutboundRequest,
    step: ModelStep,
    (output, said): (u64, u64),
) -> ResumedStream {
    let mut prepared = route.next_round(old.clone(), step.clone(), output).await;
    let mut body = request_continuation(&route, &prepared, "", said).await;
    if body.as_ref().is_err_and(|fault| fault.kind == GatewayErrorKind::ContextOverflow) {
        prepared = route.empty_round(old, step, output);
        body = request_continuation(&route, &prepared, "", said).await;
    }
    ResumedStream { attempt: route, prepared, body, then: StreamContinuation::NextStep }
}
