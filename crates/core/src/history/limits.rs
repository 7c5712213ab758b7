//! The limits of the present model, as shown by the model's steps and the server's errors.

use crate::usage::Usage;

/// The smallest believed window, in tokens. A smaller number in an error text is no window.
// The bound is that of decision 0008. The gateway believes the same windows (`upstream/target.rs`).
const SMALLEST_WINDOW: u64 = 512;

/// A window size that a provider's error named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LearnedWindow {
    limit: u64,
    /// The declared or discovered window at the time of the error.
    known: Option<u64>,
}

/// The window of the present model, and the largest calls that fitted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LimitState {
    /// The newest step's window.
    pub(super) window: Option<u64>,
    learned: Option<LearnedWindow>,
    /// The largest number of tokens, input and output together, that was reported for one call.
    pub(super) largest_call: u64,
    /// The largest input of an answered call, in tokens: by our estimate, or as reported if that is more.
    pub(super) largest_input: u64,
}

impl LimitState {
    /// Returns the learned window while `known` is the same as at the time of the error.
    pub(super) fn learned_window(&self, known: Option<u64>) -> Option<u64> {
        let learned = self.learned.as_ref()?;
        (known.is_none() || known == learned.known).then_some(learned.limit)
    }

    /// Learns from the believed report of an answered call, which was not longer than the window.
    pub(super) fn note_call(&mut self, usage: &Usage) {
        self.largest_call = self.largest_call.max(usage.total_tokens());
        self.note_accepted(usage.input_tokens);
        // An input above the learned window disproves the window. Input and output together only raise the window.
        let total = usage.total_tokens();
        self.learned = self
            .learned
            .filter(|learned| usage.input_tokens <= learned.limit)
            .map(|learned| LearnedWindow { limit: learned.limit.max(total), ..learned });
    }

    /// Learns from the input of an answered call, in tokens.
    pub(super) fn note_accepted(&mut self, input_tokens: u64) {
        self.largest_input = self.largest_input.max(input_tokens);
    }

    /// Learns the window that an error names. `known` is the window of the step.
    pub(super) fn note_refusal(&mut self, limit: Option<u64>, known: Option<u64>) {
        if let Some(limit) = limit.filter(|limit| *limit >= SMALLEST_WINDOW) {
            // Several errors can name different limits. The lowest is safe as long as the known window is the same.
            let lower = self.learned.filter(|learned| learned.known == known && learned.limit < limit);
            self.learned = Some(lower.unwrap_or(LearnedWindow { limit, known }));
        }
    }
}
