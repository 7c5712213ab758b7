//! The price of an edit of the view: every later call gets cheaper, and the provider's prompt cache is voided once.
//!
//! A view has A tokens before the first changed byte, B tokens after it that stay, and D tokens that are removed. `r`
//! and `w` are the prices of reading and writing the cache as shares of the input price. S is the cost of making the
//! edit. A further call saves `D·r`, and the first one pays `B·(w − r)` more. So an edit has paid for itself after
//! `(B·(w − r) + S) / (D·r)` calls.
//!
//! A view that grows by `u` tokens a call is cheapest with an edit every `n = √(2R / (r·u))` calls. The cost of one
//! edit is `R = w·(rewritten) + r·(fixed) + o·(output)`. The formula is the economic order quantity of stock-keeping.

use serde::{Deserialize, Serialize};

use crate::ids::Millis;

/// The prices of tokens, in any one currency for any one number of tokens. Only ratios count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenPrices {
    /// The price of input outside any cache.
    pub input: f64,
    /// The price of input read from the cache.
    pub cache_read: f64,
    /// The price of input written to the cache.
    pub cache_write: f64,
    /// The price of output.
    pub output: f64,
    /// The time for which a prefix stays in the cache after the last use, in milliseconds.
    pub cache_life_ms: Millis,
}

/// The effect of one edit, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EditCost {
    /// B: the tokens after the first changed byte, with the edit's own text.
    pub rewritten: u64,
    /// D: the tokens that the next request has less.
    pub removed: u64,
    /// S: the cost of making the edit, in tokens of uncached input.
    pub making: f64,
}

impl TokenPrices {
    /// Returns whether the prices are above zero: a free model has no economics.
    pub fn are_known(&self) -> bool {
        self.input > 0.0
    }

    fn read(&self) -> f64 {
        // The price is a divisor, and cached input may be free.
        (self.cache_read / self.input).max(0.001)
    }

    fn write(&self) -> f64 {
        self.cache_write / self.input
    }

    fn output(&self) -> f64 {
        self.output / self.input
    }

    /// Returns the cost of a summary asked for behind the live request of `context` tokens, in tokens of uncached
    /// input.
    pub fn riding(&self, context: u64, order: u64, summary: u64, warm: bool) -> f64 {
        // Behind a cold cache the request writes the whole prefix again.
        let share = if warm { self.read() } else { self.write() };
        share * context as f64 + self.write() * order as f64 + self.output() * summary as f64
    }

    /// Returns the cost of a summary asked for in a standalone request, in tokens of uncached input.
    pub fn flattened(&self, transcript: u64, summary: u64) -> f64 {
        transcript as f64 + self.output() * summary as f64
    }

    /// Returns the number of further calls after which an edit has paid for itself. With a cold cache every request is
    /// sent again, so only the making of the edit costs.
    pub fn break_even_calls(&self, edit: &EditCost, warm: bool) -> f64 {
        let (rewritten, removed) = (edit.rewritten as f64, (edit.removed as f64).max(1.0));
        if !warm {
            // The next request is written to the cache in any case. It costs less without the removed tokens, and so
            // does each reading after it.
            return ((edit.making - removed * self.write()) / (removed * self.read())).max(0.0);
        }
        let rebilled = rewritten * (self.write() - self.read()).max(0.0);
        (rebilled + edit.making) / (removed * self.read())
    }

    /// Returns the cheapest growth of a view between two edits, in tokens. The view grows by `growth` tokens a call and
    /// has `fixed` tokens that no edit touches. `edit` is the effect of one edit.
    pub fn best_growth(&self, edit: &EditCost, fixed: u64, growth: u64) -> u64 {
        let once = self.write() * edit.rewritten as f64 + self.read() * fixed as f64 + edit.making;
        // A view that does not grow needs no edit, but the formula needs a rate.
        (2.0 * once * growth.max(1) as f64 / self.read()).sqrt() as u64
    }

    /// Returns the effect of an edit in words: `saves 41K tokens a call, 12K are sent again once: pays after 4 calls`.
    pub fn in_words(&self, edit: &EditCost, warm: bool) -> String {
        let calls = self.break_even_calls(edit, warm).ceil();
        let (removed, rewritten) = (short(edit.removed), short(edit.rewritten));
        match (warm, calls as u64) {
            (false, 0) => {
                format!("saves {removed} tokens a call, nothing is sent again for it")
            }
            (false, calls) => {
                format!(
                    "saves {removed} tokens a call, nothing is sent again for it: pays after {calls} calls"
                )
            }
            (true, calls) => {
                format!(
                    "saves {removed} tokens a call, {rewritten} are sent again once: pays after {calls} calls"
                )
            }
        }
    }
}

/// Formats a number of tokens for people: `940`, `41K`, `1.2M`.
pub(crate) fn short(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => format!("{:.1}K", tokens as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0}K", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sonnet() -> TokenPrices {
        TokenPrices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0, cache_life_ms: 300_000 }
    }

    /// `N* = k·B/D`, `k = (w − r)/r = 11.5`.
    #[test]
    fn a_warm_edit_pays_when_the_saving_has_made_up_for_what_is_sent_anew() {
        let edit = EditCost { rewritten: 10_000, removed: 50_000, making: 0.0 };
        assert!((sonnet().break_even_calls(&edit, true) - 11.5 / 5.0).abs() < 1e-9);
        let small = EditCost { rewritten: 28_000, removed: 4_000, making: 0.0 };
        let cheap_writes = TokenPrices { cache_write: 3.0, ..sonnet() };
        assert!((cheap_writes.break_even_calls(&small, true) - 63.0).abs() < 1e-6);
    }

    #[test]
    fn a_cold_cache_is_a_free_edit_window() {
        let edit = EditCost { rewritten: 28_000, removed: 4_000, making: 0.0 };
        assert_eq!(sonnet().break_even_calls(&edit, false), 0.0);
        assert!(sonnet().in_words(&edit, false).contains("nothing is sent again"));
    }

    /// F = 25K, s = 3K, u = 2K: n* about 18 calls.
    #[test]
    fn edits_come_as_the_order_quantity_says() {
        let prices = TokenPrices { cache_write: 3.0, ..sonnet() };
        let edit = EditCost { rewritten: 13_000, removed: 0, making: 5.0 * 3_000.0 };
        let growth = prices.best_growth(&edit, 25_000, 2_000);
        assert!((30_000..42_000).contains(&growth), "{growth}");
        assert!(prices.best_growth(&edit, 25_000, 5_000) > growth);
    }

    #[test]
    fn riding_is_cheap_while_the_cache_is_warm() {
        let prices = sonnet();
        assert!(prices.riding(100_000, 200, 2_000, true) < prices.flattened(60_000, 2_000));
        assert!(prices.riding(100_000, 200, 2_000, false) > prices.flattened(60_000, 2_000));
    }

    #[test]
    fn tokens_for_people() {
        assert_eq!(
            [short(940), short(1_250), short(41_200), short(1_240_000)],
            ["940", "1.2K", "41K", "1.2M"]
        );
    }
}
