//! Calls answered by the gateway instead of the client: the answer continues with another step of the model.

use bytes::Bytes;
use longhaul_core::exchange::ExchangeInput;
use longhaul_core::message::ModelStopReason;

use super::super::UpstreamAttempt;
use super::super::recall::NO_ANSWER;
use super::continuation::{AbandonedStream, StreamContinuation};
use super::reading::CharacterFilter;
use super::{AnswerFlow, EventProcessor, OutputPauseDetector};
use longhaul_wire::edit::{ModelStep, SseReader};

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
