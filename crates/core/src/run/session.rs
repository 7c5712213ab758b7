//! The facts that every decision of the loop reads: the settings and the history.

use std::sync::Arc;

use super::{RunSettings, ServerCountPolicy};
use crate::budget::{ASSUMED_WINDOW, Budget};
use crate::history::History;
use crate::ids::Seq;
use crate::meter::{self, MeterReading};
use crate::plan::{self, Plan, PlanTrigger};
use crate::shortening;
use crate::strategy::TriggerThreshold;

/// The settings and the history of a session.
#[derive(Clone, Debug)]
pub(super) struct SessionState {
    pub(super) settings: Arc<RunSettings>,
    pub(super) history: History,
}

impl SessionState {
    /// Returns whether the model was told that the run's time is over.
    pub(super) fn is_time_up(&self) -> bool {
        self.history.open_run().is_some_and(|run| run.time_is_up)
    }

    /// Returns the estimated input of the open call, in tokens.
    pub(super) fn estimated_input(&self) -> u64 {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        calling.map_or(0, |start| start.estimated_input)
    }

    /// Returns whether the step was sent with tools although the model is known by now to take none.
    pub(super) fn goes_on_without_tools(&self) -> bool {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        !self.settings.model.tools && calling.is_some_and(|start| !start.tools_hash.is_empty())
    }

    /// Returns whether the next step may wait for a summary.
    pub(super) fn may_wait(&self, trigger: &PlanTrigger) -> bool {
        let waits = self.settings.policy.strategy.waits_for_summary();
        shortening::may_wait_for_summary(waits, self.history.summaries_rest(), trigger)
    }

    /// Returns whether the known window is larger than one that a refusal named, and this run has made no step yet. A
    /// refusal may have been wrong, and must not end a session.
    pub(super) fn may_ask_again(&self) -> bool {
        let known = self.settings.model.window.or(self.history.window()).unwrap_or(ASSUMED_WINDOW);
        let asked = self.history.open_run().is_some_and(|run| run.steps > 0);
        !asked && self.budget().window < known
    }

    /// Returns the failure of a late summary, in words.
    pub(super) fn late_summary(&self) -> String {
        let after = self.settings.policy.summary_timeout_ms / 1_000;
        format!("the summary did not come within {after} s")
    }

    /// Returns the plan for the case that no summary can be had.
    pub(super) fn plan_without_summary(&self, trigger: &PlanTrigger) -> Plan {
        let settings = &self.settings;
        let (fixed, budget) = (settings.fixed.planned(&self.history), self.budget());
        plan::without_summary(&self.history, fixed, &budget, &settings.policy, trigger)
    }

    /// Returns whether the settings want a count of the present view.
    pub(super) fn wants_count(&self) -> bool {
        match self.settings.counting {
            ServerCountPolicy::Never => false,
            ServerCountPolicy::Always => true,
            ServerCountPolicy::Unanchored => self
                .history
                .anchor()
                .is_none_or(|anchor| anchor.view_tokens != self.history.kept_groups().total()),
        }
    }

    /// Returns whether the model continues the end of a request, unless its server has refused that.
    pub(super) fn can_go_on(&self) -> bool {
        self.settings.model.prefill && !self.history.refused_to_go_on()
    }

    /// Returns whether the model owes an answer, or the rest of one.
    pub(super) fn owes_answer(&self) -> bool {
        !self.history.is_answered()
            || self.history.is_paused() && self.can_go_on()
            || self.history.is_broken_off()
    }

    /// Returns whether the request fits the window, however little room is left for the answer.
    pub(super) fn fits_the_window(&self) -> bool {
        self.meter().bound() < self.budget().window
    }

    /// Returns the room of a model call.
    pub(super) fn budget(&self) -> Budget {
        let model = &self.settings.model;
        let known = model.window.or(self.history.window());
        // A refusal corrects even a declared window: every step would be refused first otherwise (decision 0005).
        let window = known.into_iter().chain(self.learned_window()).min().unwrap_or(ASSUMED_WINDOW);
        Budget::new(window, model.max_output)
    }

    /// Returns the window that a refusal named, in this session or an earlier one, unless a call has disproved it.
    pub(super) fn learned_window(&self) -> Option<u64> {
        let model = &self.settings.model;
        let remembered = model.remembered_window.filter(|window| self.history.largest_call() <= *window);
        self.history.learned_window(model.window).or(remembered)
    }

    /// Returns the meter's reading for the next request.
    pub(super) fn meter(&self) -> MeterReading {
        meter::read(&self.history, self.settings.fixed.tokens_of(&self.history))
    }

    /// Returns the policy's present threshold.
    pub(super) fn threshold(&self) -> TriggerThreshold {
        let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
        plan::threshold(&self.history, fixed_tokens, &self.budget(), &self.settings.policy)
    }

    /// Returns the next position of the log, from which ids of single-flight events are made.
    pub(super) fn next_seq(&self) -> Seq {
        self.history.last_seq() + 1
    }
}
