//! The server's own count of the next request, where it offers one: an anchor before the call.

use super::{Counting, Effect, Next, Phase, Run, Then};
use crate::event::EventBody;

impl Run {
    /// Asks the server for a count if that is wanted and this view has none; `next` follows then.
    pub(super) fn count_first(&mut self, next: Next, out: &mut Vec<Effect>) -> bool {
        let view = self.history.view_changed_at();
        if !self.wants_count() || self.step.counted.replace(view) == Some(view) {
            return false;
        }
        let tools = self.settings.model.tools && !self.is_time_up();
        self.phase = Phase::Counting(next);
        out.push(Effect::Count { tools });
        true
    }

    fn wants_count(&self) -> bool {
        match self.settings.counting {
            Counting::Never => false,
            Counting::Always => true,
            Counting::Unanchored => self
                .history
                .anchor()
                .is_none_or(|anchor| anchor.view_tokens != self.history.kept_groups().total()),
        }
    }

    pub(super) fn counted(&mut self, tokens: Option<u64>, out: &mut Vec<Effect>) {
        let Phase::Counting(next) = self.phase else { return };
        self.phase = Phase::Storing;
        match tokens.filter(|_| self.stop.is_none()) {
            Some(tokens) => {
                let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
                let counted = EventBody::InputCounted { tokens, fixed_tokens };
                self.append(vec![counted], Then::Counted(next), out);
            }
            None => self.after_count(next, out),
        }
    }

    pub(super) fn after_count(&mut self, next: Next, out: &mut Vec<Effect>) {
        match next {
            Next::Plan => self.prepare(out),
            Next::Call => self.start_step(out),
        }
    }
}
