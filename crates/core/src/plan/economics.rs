//! When an edit of the view pays: it makes every later call cheaper, and it breaks the provider's prompt cache once.
//!
//! With A tokens before the first changed byte, B after it that stay, D removed, `r` and `w` the prices of reading
//! from and writing to the cache as shares of the input price, and S what the edit itself costs, a further call saves
//! `D·r`, and the first one re-bills `B·(w − r)`; so an edit has paid for itself after `(B·(w − r) + S) / (D·r)` calls.
//! Edits that come every `n` calls, of a view that grows by `u` a call, cost least at `n = √(2R / (r·u))` with
//! `R = w·(rewritten) + r·(fixed) + o·(output)`, the cost of one edit: the order quantity of stock-keeping.

use serde::{Deserialize, Serialize};

use crate::ids::Millis;

/// What tokens cost, in any one currency for any one number of tokens: only ratios count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenPrices {
    /// Input outside any cache.
    pub input: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Output.
    pub output: f64,
    /// How long a prefix stays in the cache after its last use.
    pub cache_life_ms: Millis,
}

/// What one edit does, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EditCost {
    /// B: what stays after the first changed byte, with what the edit puts there.
    pub rewritten: u64,
    /// D: what the next request has less.
    pub removed: u64,
    /// S: the cost of making it, in tokens of uncached input.
    pub making: f64,
}

impl TokenPrices {
    /// Returns whether they say anything: a free model has no economics.
    pub fn are_known(&self) -> bool {
        self.input > 0.0
    }

    fn read(&self) -> f64 {
        (self.cache_read / self.input).max(0.001)
    }

    fn write(&self) -> f64 {
        self.cache_write / self.input
    }

    fn output(&self) -> f64 {
        self.output / self.input
    }

    /// A summary that rides the live request of `context` tokens, in tokens of uncached input.
    pub fn riding(&self, context: u64, order: u64, summary: u64, warm: bool) -> f64 {
        let share = if warm { self.read() } else { self.write() };
        share * context as f64 + self.write() * order as f64 + self.output() * summary as f64
    }

    /// A summary by a request of its own, in tokens of uncached input.
    pub fn flattened(&self, transcript: u64, summary: u64) -> f64 {
        transcript as f64 + self.output() * summary as f64
    }

    /// After how many further calls an edit has paid for itself. With a cold cache everything is sent anew in any
    /// case: then it pays at once, but for what making it costs.
    pub fn break_even_calls(&self, edit: &EditCost, warm: bool) -> f64 {
        let (rewritten, removed) = (edit.rewritten as f64, (edit.removed as f64).max(1.0));
        if !warm {
            return ((edit.making - removed * self.write()) / (removed * self.read())).max(0.0);
        }
        let rebilled = rewritten * (self.write() - self.read()).max(0.0);
        (rebilled + edit.making) / (removed * self.read())
    }

    /// How much a view should grow between two edits, in tokens, if it grows by `growth` a call, has `fixed` tokens
    /// that no edit touches, and an edit rewrites and writes what `edit` says.
    pub fn best_growth(&self, edit: &EditCost, fixed: u64, growth: u64) -> u64 {
        let once = self.write() * edit.rewritten as f64 + self.read() * fixed as f64 + edit.making;
        (2.0 * once * growth.max(1) as f64 / self.read()).sqrt() as u64
    }

    /// An edit in words: `saves 41K tokens a call, 12K are sent anew once: pays after 4 calls`.
    pub fn in_words(&self, edit: &EditCost, warm: bool) -> String {
        let calls = self.break_even_calls(edit, warm).ceil();
        let (removed, rewritten) = (short(edit.removed), short(edit.rewritten));
        match (warm, calls as u64) {
            (false, 0) => {
                format!("saves {removed} tokens a call, nothing is sent anew for it")
            }
            (false, calls) => {
                format!(
                    "saves {removed} tokens a call, nothing is sent anew for it: pays after {calls} calls"
                )
            }
            (true, calls) => {
                format!(
                    "saves {removed} tokens a call, {rewritten} are sent anew once: pays after {calls} calls"
                )
            }
        }
    }
}

/// A number of tokens for people: `940`, `41K`, `1.2M`.
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
        assert!(sonnet().in_words(&edit, false).contains("nothing is sent anew"));
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
