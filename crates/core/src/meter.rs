//! The meter: the tokens of the next request, with their source and expected error.
//!
//! `nextInput = lastInput + lastOutput + estimate(new)`, anchored on the provider's report for the newest call. An
//! edit of the view shrinks the counted part by a calibrated difference. The surplus of the report over the estimate
//! is shared out among the removed and the kept content, each by the uncertainty of its weight. Display and planner
//! read the same numbers.

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

/// The largest believed overhead of a request, in tokens.
// Hidden prompts are rarely longer. A larger difference is the counter's own error (decision 0004).
pub(crate) const MAX_OVERHEAD_TOKENS: u64 = 3_000;

/// The newest count of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsageAnchor {
    /// The position up to which the view is in the count.
    pub seq: Seq,
    /// The estimated tokens of system prompt and tools at the time of the count.
    pub fixed: u64,
    /// The reported input tokens.
    pub input: u64,
    /// The reported output tokens that later requests carry.
    pub output: u64,
    /// The estimated tokens of the view at the time of the count, the answer included.
    pub view_tokens: u64,
}

/// A reading of the meter, with the sources of the tokens. All counts are in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeterReading {
    /// The input of the next request.
    pub total: u64,
    /// The part of the input that a provider has reported.
    pub reported: u64,
    /// The part of the input that was estimated since the report.
    pub estimated: u64,
    /// The expected p99 error, as a share of `total`. Only the estimated part has an error.
    pub margin: f64,
}

impl MeterReading {
    /// Returns the number that decisions compare with a trigger: `total × (1 + margin)`.
    pub fn bound(&self) -> u64 {
        self.total.saturating_add((self.total as f64 * self.margin).ceil() as u64)
    }

    fn new(history: &History, reported: u64, estimated: u64) -> Self {
        let total = reported.saturating_add(estimated);
        // A request without any token has no error, and the division needs a divisor.
        let share = estimated as f64 / total.max(1) as f64;
        Self { total, reported, estimated, margin: margin(history, share) }
    }
}

/// Reads the meter for a request of `history`'s view with `fixed_tokens` of system prompt and tools.
#[doc(hidden)]
pub fn read(history: &History, fixed_tokens: u64) -> MeterReading {
    let kept = history.kept_groups();
    of_parts(history, fixed_tokens, kept, &history.view_groups().without(kept))
}

/// Returns the tokens of the next request if the view had never been edited: the meter's reading, plus the estimated
/// tokens that the active edits have saved.
#[doc(hidden)]
pub fn unedited(history: &History, fixed_tokens: u64) -> u64 {
    let total = read(history, fixed_tokens).total;
    if !history.edits().iter().any(|state| state.active) {
        return total;
    }
    let ratios = history.calibration().ratios();
    let (whole, shown) = (ratios.apply(&history.unedited_groups()), ratios.apply(history.view_groups()));
    total.saturating_add(whole).saturating_sub(shown)
}

/// Reads the meter for a view with the counted part `kept` and the uncounted part `new`, both as estimates.
#[doc(hidden)]
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
    // Tools that came since the anchor's call are new content. Tools that went are subtracted below.
    let added = *new + TokensByScript::of(fixed_tokens.saturating_sub(anchor.fixed));
    let estimated = calibration.ratios().apply(&added);
    if kept.total() == anchor.view_tokens {
        let reported = counted.saturating_sub(anchor.fixed.saturating_sub(fixed_tokens));
        return MeterReading::new(history, reported, estimated);
    }
    let still = shared.part(kept, fixed_tokens.min(anchor.fixed));
    // The sum of kept and removed content was reported. Only the split is estimated, with the error of the smaller
    // part.
    let split = still.min(counted.saturating_sub(still));
    let total = still.saturating_add(estimated);
    let share = split.saturating_add(estimated) as f64 / total.max(1) as f64;
    MeterReading { margin: margin(history, share.min(1.0)), ..MeterReading::new(history, 0, total) }
}

/// Returns the expected p99 error, as a share of the total.
///
/// Reported tokens have no error. Estimated tokens have the counter's error at first. From 20 calls on the margin is
/// the largest under-estimate of the newest 100 calls, at least 1 % and at most 30 %.
fn margin(history: &History, estimated_share: f64) -> f64 {
    let errors = history.errors_per_mille();
    // A request that was reported whole has no error, however wrong earlier estimates were.
    if estimated_share == 0.0 {
        return 0.0;
    }
    // Decision 0004: with fewer than 20 calls the largest error so far is no bound.
    let known = errors.len() >= 20;
    let lowest = errors.min().unwrap_or(0);
    let shown = ((-lowest).max(0) as f64 / 1000.0).min(0.30);
    let first = history.counter().kind().first_margin(history.anchor().is_some());
    if known { shown.max(0.01) } else { shown.max(first * estimated_share) }
}

/// The growth of a bound by more content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenIncrement {
    counter: MessageTokenCounter,
    ratios: TokenRatios,
    margin: f64,
}

impl TokenIncrement {
    pub(crate) fn of(history: &History) -> Self {
        let (counter, ratios) = (history.counter().clone(), *history.calibration().ratios());
        // More content is estimated as a whole, so nothing reported dilutes the margin.
        Self { counter, ratios, margin: margin(history, 1.0) }
    }

    /// Returns the tokens of a text, without margin.
    pub(crate) fn text(&self, text: &str) -> u64 {
        self.ratios.apply(&self.counter.text_counter().groups(text))
    }

    /// Returns the tokens of a message by the kind of writing.
    pub(crate) fn groups(&self, message: &Message) -> TokensByScript {
        self.counter.message_groups(message)
    }

    /// Returns the tokens of counted content, without margin.
    pub(crate) fn tokens(&self, groups: &TokensByScript) -> u64 {
        self.ratios.apply(groups)
    }

    /// Returns the expected error of a count, as a share of the count.
    pub(crate) fn margin(&self) -> f64 {
        self.margin
    }

    /// Returns the largest number of tokens that content adds.
    pub(crate) fn bound(&self, groups: &TokensByScript) -> u64 {
        let tokens = self.tokens(groups);
        tokens + (tokens as f64 * self.margin).ceil() as u64 + 1
    }
}
