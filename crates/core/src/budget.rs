//! The room of a model call: window, output reserve and triggers.

use serde::{Deserialize, Serialize};

/// The assumed output limit where none is known, in tokens.
pub(crate) const DEFAULT_MAX_OUTPUT: u64 = 4_096;

/// The assumed window where none is known, in tokens.
pub const ASSUMED_WINDOW: u64 = 32_000;

/// The room of one model call, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Budget {
    /// The context window: input and output together.
    pub window: u64,
    /// The room that is kept free for the answer.
    pub reserve: u64,
    /// The most that the input may have: `window − reserve`.
    pub usable: u64,
}

impl Budget {
    /// Returns the room of a call: `reserve = min(max_output or 4,096, 32,000, max(512, window / 4))`, never
    /// more than half the window.
    ///
    /// ```
    /// use longhaul_core::budget::Budget;
    /// let budget = Budget::new(200_000, None);
    /// assert_eq!((budget.reserve, budget.usable), (4_096, 195_904));
    /// ```
    pub fn new(window: u64, max_output: Option<u64>) -> Self {
        // A declared output limit can be as large as a small window, and would leave no room for input.
        let reserve = max_output.unwrap_or(DEFAULT_MAX_OUTPUT).min(32_000).min((window / 4).max(512));
        // 512 tokens can be more than half of a tiny window.
        let reserve = reserve.min(window / 2);
        Self { window, reserve, usable: window - reserve }
    }

    /// Returns the value of a trigger in tokens, never beyond `usable`.
    pub fn trigger(&self, trigger: StrategyTrigger) -> u64 {
        match trigger {
            StrategyTrigger::Overflow | StrategyTrigger::Manual | StrategyTrigger::Planner => self.usable,
            // The reserve is not for input, so a threshold beyond `usable` would never be reached before the
            // overflow.
            StrategyTrigger::Share(share) => ((self.window as f64 * share) as u64).min(self.usable),
            StrategyTrigger::Tokens(tokens) => tokens.min(self.usable),
        }
    }

    /// Returns the most tokens of pinned facts in a view: an eighth of the usable room, and more in windows of about 4,096.
    ///
    /// ```
    /// use longhaul_core::budget::Budget;
    /// let most = |window| Budget::new(window, None).pinned_facts_tokens();
    /// assert_eq!([1_500, 4_096, 8_192, 32_000].map(most), [123, 536, 768, 3_488]);
    /// ```
    pub fn pinned_facts_tokens(&self) -> u64 {
        // A model that has lost what it found reads it again, so facts get this room before messages have more than
        // `FOR_MESSAGES`.
        const SMALL: u64 = 600;
        const FOR_MESSAGES: u64 = 2_000;
        let spare = self.usable.saturating_sub(FOR_MESSAGES) / 2;
        // An eighth is enough in large windows. In small ones it held two facts of eight, and the model read its files
        // again (decision 0017).
        (self.usable / 8).max(SMALL.min(spare))
    }

    /// Returns the number of tokens by which a view must grow after an edit before the next edit.
    pub fn progress(&self) -> u64 {
        (self.usable / 20).max(500).min(self.usable / 4)
    }
}

/// The condition under which a strategy acts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StrategyTrigger {
    /// The usable room is full.
    Overflow,
    /// A user asks for a compaction. At true overflow every strategy acts, so planning treats this as
    /// [`Overflow`](Self::Overflow).
    Manual,
    /// The request reaches a share of the window, in (0, 1].
    Share(f64),
    /// The request reaches a number of tokens.
    Tokens(u64),
    /// The strategy computes the threshold; the usable room is the upper limit.
    Planner,
}
