//! The one meter: how many tokens the next request will have.
//!
//! `nextInput = lastInput + lastOutput + estimate(new)`, anchored on what the provider reported for the
//! newest call. After an edit of the view the counted part shrinks by the calibrated difference: what the reported
//! count has beyond the estimate is shared out among what goes and what stays, each by how unsure its weight is.
//! Display and planner read the same numbers.

use serde::{Deserialize, Serialize};

use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::history::History;
use crate::ids::Seq;
use crate::message::Message;

mod calibration;
mod profile;

pub(crate) use calibration::CountAttribution;
pub use calibration::{TokenCalibration, TokenRatios};
pub use profile::TokenizerProfile;

/// The largest overhead that is believed, in tokens.
pub const MAX_OVERHEAD_TOKENS: u64 = 3_000;

/// The newest count that a provider gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageAnchor {
    /// The view up to this position is in the count.
    pub seq: Seq,
    /// Estimated tokens of system prompt and tools at that time.
    pub fixed: u64,
    /// Reported input tokens.
    pub input: u64,
    /// Reported output tokens that later requests carry.
    pub output: u64,
    /// Estimated tokens of the view at that time, the answer included.
    pub view_tokens: u64,
}

/// What the meter shows, and on what it rests. Tokens throughout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeterReading {
    /// The next request's input.
    pub total: u64,
    /// The part of it that a provider has reported.
    pub reported: u64,
    /// The part of it that is estimated since then.
    pub estimated: u64,
    /// Expected p99 error, as a share of `total`. What was reported does not err; what is estimated does.
    pub margin: f64,
}

impl MeterReading {
    /// What decisions compare with a trigger: `total × (1 + margin)`.
    pub fn bound(&self) -> u64 {
        self.total.saturating_add((self.total as f64 * self.margin).ceil() as u64)
    }

    fn new(history: &History, reported: u64, estimated: u64) -> Self {
        let total = reported.saturating_add(estimated);
        let share = estimated as f64 / total.max(1) as f64;
        Self { total, reported, estimated, margin: margin(history, share) }
    }
}

/// Reads the meter for a request of `history`'s view with `fixed_tokens` of system prompt and tools.
pub fn read(history: &History, fixed_tokens: u64) -> MeterReading {
    let kept = history.kept_groups();
    of_parts(history, fixed_tokens, kept, &history.view_groups().without(kept))
}

/// What the next request would have if the view had never been edited, in tokens: what the meter reads for the view as it is,
/// and what the edits have saved by the estimate.
pub fn unedited(history: &History, fixed_tokens: u64) -> u64 {
    let total = read(history, fixed_tokens).total;
    if !history.edits().iter().any(|state| state.active) {
        return total;
    }
    let ratios = history.calibration().ratios();
    let (whole, shown) = (ratios.apply(&history.unedited_groups()), ratios.apply(history.view_groups()));
    total.saturating_add(whole).saturating_sub(shown)
}

/// Reads the meter for a view of which `kept` was in the anchor's count and `new` was not (both in our estimate).
pub fn of_parts(
    history: &History,
    fixed_tokens: u64,
    kept: &TokensByScript,
    new: &TokensByScript,
) -> MeterReading {
    let calibration = history.calibration();
    let Some((anchor, shared)) = history.anchor().zip(history.apportionment()) else {
        return MeterReading::new(history, 0, calibration.whole(&(*kept + *new), fixed_tokens));
    };
    let counted = anchor.input.saturating_add(anchor.output);
    let added = *new + TokensByScript::of(fixed_tokens.saturating_sub(anchor.fixed));
    let estimated = calibration.ratios().apply(&added);
    if kept.total() == anchor.view_tokens {
        let reported = counted.saturating_sub(anchor.fixed.saturating_sub(fixed_tokens));
        return MeterReading::new(history, reported, estimated);
    }
    let still = shared.part(kept, fixed_tokens.min(anchor.fixed));
    // The sum of what stays and what went was reported. Only how it splits is estimated: the error is that of the
    // smaller part.
    let split = still.min(counted.saturating_sub(still));
    let total = still.saturating_add(estimated);
    let share = split.saturating_add(estimated) as f64 / total.max(1) as f64;
    MeterReading { margin: margin(history, share.min(1.0)), ..MeterReading::new(history, 0, total) }
}

/// Expected p99 error: none of what was reported; at first that of the counter, for what is estimated; with 20 calls
/// or more what they have shown, the largest under-estimate of the newest 100 (at least 1 %, at most 30 %).
fn margin(history: &History, estimated_share: f64) -> f64 {
    let errors = history.errors_per_mille();
    if estimated_share == 0.0 {
        return 0.0;
    }
    let known = errors.len() >= 20;
    let lowest = errors.min().unwrap_or(0);
    let shown = ((-lowest).max(0) as f64 / 1000.0).min(0.30);
    let first = history.counter().kind().first_margin(history.anchor().is_some());
    if known { shown.max(0.01) } else { shown.max(first * estimated_share) }
}

/// What more content adds to a bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenIncrement {
    counter: MessageTokenCounter,
    ratios: TokenRatios,
    margin: f64,
}

impl TokenIncrement {
    pub(crate) fn of(history: &History) -> Self {
        let (counter, ratios) = (history.counter().clone(), *history.calibration().ratios());
        Self { counter, ratios, margin: margin(history, 1.0) }
    }

    /// Tokens of a text, without margin.
    pub(crate) fn text(&self, text: &str) -> u64 {
        self.ratios.apply(&self.counter.text_counter().groups(text))
    }

    /// What a message has by the kind of writing.
    pub(crate) fn groups(&self, message: &Message) -> TokensByScript {
        self.counter.message_groups(message)
    }

    /// Tokens of that, without margin.
    pub(crate) fn tokens(&self, groups: &TokensByScript) -> u64 {
        self.ratios.apply(groups)
    }

    /// What a count may be off by, as a share of it.
    pub(crate) fn margin(&self) -> f64 {
        self.margin
    }

    /// The most that it adds, in tokens.
    pub(crate) fn bound(&self, groups: &TokensByScript) -> u64 {
        let tokens = self.tokens(groups);
        tokens + (tokens as f64 * self.margin).ceil() as u64 + 1
    }
}
