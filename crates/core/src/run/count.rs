//! The server's own count of the next request, which anchors the meter before the call.

use super::{AppendContinuation, CountContinuation, Run, RunEffect, RunPhase, ServerCountPolicy};
use crate::event::EventBody;

impl Run {
    /// Asks the server for a count, if the settings want one and this view has none. `next` is the continuation.
    /// Returns whether the server is asked.
    pub(super) fn count_first(&mut self, next: CountContinuation, out: &mut Vec<RunEffect>) -> bool {
        let view = self.history.view_changed_at();
        // One question for each view: a server that cannot count would be asked again and again.
        if !self.wants_count() || self.step.counted.replace(view) == Some(view) {
            return false;
        }
        let tools = self.settings.model.tools && !self.is_time_up();
        self.phase = RunPhase::Counting(next);
        out.push(RunEffect::Count { tools });
        true
    }

    /// Returns whether the settings want a count of the present view.
    fn wants_count(&self) -> bool {
        match self.settings.counting {
            ServerCountPolicy::Never => false,
            ServerCountPolicy::Always => true,
            ServerCountPolicy::Unanchored => self
                .history
                .anchor()
                .is_none_or(|anchor| anchor.view_tokens != self.history.kept_groups().total()),
        }
    }

    /// Handles the server's count; `None` if the server gave none.
    pub(super) fn counted(&mut self, tokens: Option<u64>, out: &mut Vec<RunEffect>) {
        let RunPhase::Counting(next) = self.phase else { return };
        self.phase = RunPhase::Storing;
        match tokens.filter(|_| self.stop.is_none()) {
            Some(tokens) => {
                let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
                let counted = EventBody::InputCounted { tokens, fixed_tokens };
                self.append(vec![counted], AppendContinuation::Counted(next), out);
            }
            None => self.after_count(next, out),
        }
    }

    /// Continues with the work that waited for the count.
    pub(super) fn after_count(&mut self, next: CountContinuation, out: &mut Vec<RunEffect>) {
        match next {
            CountContinuation::Plan => self.prepare(out),
            CountContinuation::Call => self.start_step(out),
        }
    }
}
