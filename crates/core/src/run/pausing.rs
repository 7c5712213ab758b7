//! An answer that would run into the end of the window: it is stopped in time, room is made, and it goes on where it
//! was, for models that go on with what a request ends with.

use super::calling::says_something;
use super::{AppendContinuation, ModelCallFailure, Run, RunEffect, RunPhase, StepGuards};
use crate::budget::{Budget, DEFAULT_MAX_OUTPUT};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, PartialAnswerReason};
use crate::message::{ModelStopReason, Part};
use crate::plan;
use crate::usage::Usage;

/// How often one answer is paused at most.
pub const MAX_PAUSES: u32 = 3;

/// An answer is paused when input and output together fill this share of the window, in percent.
const PAUSE_PERCENT: u64 = 90;

/// It is not paused where it could write less than this share of the window until then, in percent. The limit that the
/// provider is told lies as far beyond: it shall not end the answer before we do.
const LEAST_PERCENT: u64 = 5;

/// What is repeated of an answer by chance is shorter, in bytes.
const LEAST_REPEATED_BYTES: usize = 64;

/// What of the window is not asked for beyond the reserve, in percent: many providers refuse a request whose limit does
/// not fit beside its input, and count the marks between messages a little differently.
const SPARE_PERCENT: u64 = 2;

impl Run {
    /// The answer's limit, in tokens: the reserve, or what the estimate leaves of the window. Where an answer can go on
    /// after a pause it is the model's own, and what was said of the answer counts.
    pub(super) fn output_limit(&self) -> u64 {
        let Budget { window, reserve, .. } = self.budget();
        let left = window.saturating_sub(self.likely_input());
        let usual = reserve.min(left).max(16);
        if !self.can_go_on() {
            return usual;
        }
        let beyond = match self.pause_at() {
            Some(at) => at + window * LEAST_PERCENT / 100,
            None => left.saturating_sub(window * SPARE_PERCENT / 100).max(usual),
        };
        self.most_output().min(beyond).max(16)
    }

    /// The next request by the meter; by our own count alone where the meter says that it cannot be sent and the planner
    /// does not believe it.
    fn likely_input(&self) -> u64 {
        let bound = self.meter().bound();
        let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
        let counted = fixed_tokens.saturating_add(self.history.view_tokens());
        let own = counted.saturating_add(counted / 10);
        let usable = self.budget().usable;
        if bound > usable && own < usable { own } else { bound }
    }

    /// Returns whether the model goes on with what a request ends with, as far as its server has not shown otherwise.
    pub(super) fn can_go_on(&self) -> bool {
        self.settings.model.prefill && !self.history.refused_to_go_on()
    }

    /// What the model may still write of this answer, in tokens.
    fn most_output(&self) -> u64 {
        let said =
            self.history.view().last().filter(|_| self.history.is_paused()).map_or(0, |item| item.tokens);
        self.settings.model.max_output.unwrap_or(DEFAULT_MAX_OUTPUT).saturating_sub(said)
    }

    /// Output tokens at which the call that comes is to pause; `None` if it is not, because the model cannot go on, the
    /// answer cannot reach the end of the window, or nothing would be won.
    pub(super) fn pause_at(&self) -> Option<u64> {
        let paused = if self.history.is_paused() { self.history.pauses() } else { 0 };
        let is_off = !self.can_go_on() || !self.settings.policy.enabled || self.is_time_up();
        if is_off || paused >= MAX_PAUSES || !self.has_room_to_make() {
            return None;
        }
        let window = self.budget().window;
        let bound = self.meter().bound();
        let ends_before = bound.saturating_add(self.most_output()) <= window;
        let at = (window * PAUSE_PERCENT / 100).saturating_sub(bound);
        let is_worth_it = at >= (window * LEAST_PERCENT / 100).max(1) && self.can_make_room(at);
        (!ends_before && is_worth_it).then_some(at)
    }

    /// Returns whether what must stay of a view with `said` tokens more leaves room for the rest of the answer.
    fn can_make_room(&self, said: u64) -> bool {
        let stays = self.settings.fixed.tokens + self.history.overhead_tokens() + self.must_stay() + said;
        stays < plan::pause_target(&self.budget())
    }

    /// The newest typed message and what was said of an answer that goes on, in tokens.
    fn must_stay(&self) -> u64 {
        let view = self.history.view();
        let typed = self.history.newest_typed().map_or(0, |at| view[at].tokens);
        let said = view.last().filter(|_| self.history.is_paused()).map_or(0, |item| item.tokens);
        typed + said
    }

    /// A piece of an answer without the beginning that it goes on from: some servers say it again.
    pub(super) fn without_repetition(&self, mut parts: Vec<Part>) -> Vec<Part> {
        let said = self.history.view().last().filter(|_| self.history.is_paused());
        let said = said.map(|item| item.message.text()).unwrap_or_default();
        let again = parts.iter_mut().find_map(|part| match part {
            Part::Text(text) if said.len() >= LEAST_REPEATED_BYTES => Some(text),
            _ => None,
        });
        if let Some(text) = again
            && let Some(more) = text.text.strip_prefix(said.as_str())
        {
            text.text = more.to_owned();
            text.native = None;
        }
        parts
    }

    /// Returns whether the limit that ended the answer was one that we set for it to pause before.
    pub(super) fn ended_at_our_limit(&self, parts: &[Part]) -> bool {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        let is_ours = calling.is_some_and(|start| start.max_output_tokens < self.most_output());
        is_ours && self.pause_at().is_some() && ends_in_text(parts)
    }

    /// Returns whether a compaction would find enough to leave out beside what must stay.
    fn has_room_to_make(&self) -> bool {
        self.history.view_tokens().saturating_sub(self.must_stay()) > self.budget().progress()
    }

    /// The call was stopped where it was to pause: what came is stored, room is made, and the answer goes on.
    pub(super) fn paused(&mut self, partial: Vec<Part>, usage: Option<Usage>, out: &mut Vec<RunEffect>) {
        let RunPhase::Calling { step, .. } = &self.phase else { return };
        let step = step.clone();
        if self.stop.is_some() {
            return self.stopped(partial, usage, out);
        }
        let partial = self.without_repetition(partial);
        if !ends_in_text(&partial) || !says_something(&partial) {
            let message = "the call was paused where it cannot go on";
            return self.failed(ModelCallFailure::new(ErrorCode::Interrupted, message, false), partial, out);
        }
        let events = vec![
            self.assistant(&step, partial, ModelStopReason::Other, Some(PartialAnswerReason::Paused)),
            EventBody::StepFinished {
                step_id: step.clone(),
                usage,
                estimated_input: self.estimated_input(),
                envelope: None,
            },
        ];
        self.step = StepGuards::default();
        self.phase = RunPhase::Storing;
        self.append_with(events, Vec::new(), vec![step], AppendContinuation::Prepare, out);
    }

    /// Returns whether the model has to say something: to what it was told last, or the rest of an answer.
    pub(super) fn owes_answer(&self) -> bool {
        let goes_on = || self.history.is_paused() && self.can_go_on() || self.history.is_broken_off();
        !self.history.is_answered() || goes_on()
    }

    /// Returns whether the request can be sent, however little room it leaves.
    pub(super) fn fits_the_window(&self) -> bool {
        self.meter().bound() < self.budget().window
    }

    /// What is said of an answer that ran into its limit although room was made for it as often as is useful.
    pub(super) fn pauses_are_spent(&self) -> Option<ErrorInfo> {
        let message = format!(
            "the answer is longer than the window has room for, although room was made {MAX_PAUSES} times"
        );
        (self.history.pauses() >= MAX_PAUSES)
            .then_some(ErrorInfo { code: ErrorCode::MaxCompactions, message })
    }
}

/// Returns whether an answer can go on where it ends: in its text, and without calls.
pub(super) fn ends_in_text(parts: &[Part]) -> bool {
    parts.last().is_some_and(|part| part.as_text().is_some()) && !parts.iter().any(is_call)
}

fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_))
}
