//! How much room there is: window, output reserve, triggers.

use serde::{Deserialize, Serialize};

/// Assumed output limit where none is known, in tokens.
pub const DEFAULT_MAX_OUTPUT: u64 = 4_096;

/// Assumed window where none is known, in tokens.
pub const ASSUMED_WINDOW: u64 = 32_000;

/// The room of one model call, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The context window: input and output together.
    pub window: u64,
    /// What is kept free for the answer.
    pub reserve: u64,
    /// What the input may grow to: `window − reserve`.
    pub usable: u64,
}

impl Budget {
    /// `reserve = min(max_output or 4,096, 32,000, max(512, window / 4))`, never more than half the window.
    ///
    /// ```
    /// use longhaul_core::budget::Budget;
    /// let budget = Budget::new(200_000, None);
    /// assert_eq!((budget.reserve, budget.usable), (4_096, 195_904));
    /// ```
    pub fn new(window: u64, max_output: Option<u64>) -> Self {
        let reserve = max_output.unwrap_or(DEFAULT_MAX_OUTPUT).min(32_000).min((window / 4).max(512));
        let reserve = reserve.min(window / 2);
        Self { window, reserve, usable: window - reserve }
    }

    /// Where a trigger stands, in tokens: never beyond `usable`.
    pub fn trigger(&self, trigger: StrategyTrigger) -> u64 {
        match trigger {
            StrategyTrigger::Overflow | StrategyTrigger::Manual | StrategyTrigger::Planner => self.usable,
            StrategyTrigger::Share(share) => ((self.window as f64 * share) as u64).min(self.usable),
            StrategyTrigger::Tokens(tokens) => tokens.min(self.usable),
        }
    }

    /// How much a view must grow after an edit before it is edited again.
    pub fn progress(&self) -> u64 {
        (self.usable / 20).max(500).min(self.usable / 4)
    }
}

/// When a strategy acts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StrategyTrigger {
    /// When the usable room is full.
    Overflow,
    /// When somebody asks. At true overflow every strategy acts: for planning it is [`Overflow`](Self::Overflow).
    Manual,
    /// At a share of the window, in (0, 1].
    Share(f64),
    /// At a number of tokens.
    Tokens(u64),
    /// When the strategy says so; at the latest when the usable room is full.
    Planner,
}
