//! The profile of a model's tokenizer and server: the costs that reports have shown, with their uncertainty.
//!
//! A request's input is taken to be linear in the content. There is a weight for each kind of writing, for
//! bytes and for messages (see [`TokensByScript`]). One more weight stands for the cost of system prompt and
//! tools beyond their estimate, and a constant for the server's own tokens before every request.
//!
//! The profile holds the weights and their covariance, the state of a Kalman filter. By the covariance, later reports
//! separate costs that the first report has only shown together. The covariance also says how much of a known total
//! goes with a part of the request.

use serde::{Deserialize, Serialize};

use super::TokenRatios;
use crate::estimate::{CountAccuracy, TokensByScript};

/// Number of weights in a profile: the groups, the fixed part and the constant.
pub(super) const SIZE: usize = TokensByScript::COUNT + 2;

/// Index of the fixed part's weight: tokens for each estimated token beyond the weight of words.
pub(super) const FIXED: usize = TokensByScript::COUNT;

/// Index of the constant, in tokens.
const CONSTANT: usize = TokensByScript::COUNT + 1;

/// A symmetric matrix.
pub(super) type Matrix = [[f64; SIZE]; SIZE];

/// Standard deviation of one kind's weight before anything was learned.
const KIND_DEVIATION: f64 = 0.28;
/// Standard deviation that the weights of all kinds share before anything was learned.
const COMMON_DEVIATION: f64 = 0.30;

/// Standard deviation of the weight of a byte. Vocabularies of bytes are rare.
const BYTE_DEVIATION: f64 = 0.03;
/// Standard deviation of the weight of a message, in tokens. Templates put 3 to 11 tokens around a message.
const MESSAGE_DEVIATION: f64 = 3.0;
/// Standard deviation of the fixed part's weight.
const FIXED_DEVIATION: f64 = 0.25;
/// Standard deviation of the constant, in tokens. Hidden prompts are rarely longer than 3,000 tokens.
const CONSTANT_DEVIATION: f64 = 1_500.0;

/// Standard deviation of the weights under an exact tokenizer, where only the framing is uncertain.
const EXACT_DEVIATION: f64 = 0.01;

/// The format of a stored profile.
const VERSION: u32 = 2;

/// The weights of a model's tokenizer and server, with their covariance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredProfile", into = "StoredProfile")]
pub struct TokenizerProfile {
    pub(super) weights: [f64; SIZE],
    pub(super) spread: Box<Matrix>,
}

/// The tokens of a request by kind, or the difference of two requests. Each number is the factor of one weight.
pub(super) type RequestMix = [f64; SIZE];

/// Returns the content of a whole request of `groups`, with `fixed_tokens` estimated tokens of system prompt and
/// tools.
pub(super) fn whole_mix(groups: &TokensByScript, fixed_tokens: u64) -> RequestMix {
    let mut mix = difference_mix(groups, &TokensByScript::default());
    // System prompt and tools count as words. Their own weight holds only the difference from words.
    mix[0] += fixed_tokens as f64;
    mix[FIXED] = fixed_tokens as f64;
    mix[CONSTANT] = 1.0;
    mix
}

/// Returns the content of `more`, less the content of `less`.
pub(super) fn difference_mix(more: &TokensByScript, less: &TokensByScript) -> RequestMix {
    let mut mix = [0.0; SIZE];
    for ((factor, more), less) in mix.iter_mut().zip(more.as_floats()).zip(less.as_floats()) {
        *factor = more - less;
    }
    mix
}

impl TokenizerProfile {
    /// Returns the profile of a model that has reported nothing yet, under a counter of accuracy `kind`.
    pub fn unknown(kind: CountAccuracy) -> Self {
        let own = if kind == CountAccuracy::Exact { EXACT_DEVIATION } else { KIND_DEVIATION };
        let common = if kind == CountAccuracy::Exact { 0.0 } else { COMMON_DEVIATION };
        let bytes = if kind == CountAccuracy::Exact { 0.0 } else { BYTE_DEVIATION };
        let deviations = [bytes, MESSAGE_DEVIATION, FIXED_DEVIATION, CONSTANT_DEVIATION];
        let mut spread = Box::new([[0.0; SIZE]; SIZE]);
        for (at, row) in spread.iter_mut().enumerate() {
            if at < TokensByScript::KINDS {
                // A vocabulary that is dear for one kind of writing is often dear for all kinds.
                row[..TokensByScript::KINDS].fill(common * common);
                row[at] += own * own;
            } else {
                row[at] = deviations[at - TokensByScript::KINDS].powi(2);
            }
        }
        Self { weights: Self::first_weights(), spread }
    }

    /// Returns the profile for four ratios that an older release has stored. The ratios are for words, for digits and
    /// glued pieces, for Chinese, Japanese and Korean, and for other scripts.
    #[must_use]
    pub fn of_four_ratios(ratios: [f64; 4]) -> Self {
        let [words, glued, chinese, others] =
            ratios.map(|ratio| if ratio.is_finite() { ratio.clamp(0.25, 4.0) } else { 1.0 });
        let mut profile = Self::default();
        let kinds = [words, glued, words, words, glued, chinese, chinese, others, others, others, others];
        profile.weights[..TokensByScript::KINDS].copy_from_slice(&kinds);
        profile
    }

    /// Returns the tokens for each unit of the groups.
    pub fn ratios(&self) -> TokenRatios {
        let mut ratios = [0.0; TokensByScript::COUNT];
        ratios.copy_from_slice(&self.weights[..TokensByScript::COUNT]);
        TokenRatios(ratios)
    }

    /// Returns the tokens that a server puts before every request unseen; 0 if the server's counts leave more out.
    pub fn overhead_tokens(&self) -> u64 {
        self.weights[CONSTANT].max(0.0).round() as u64
    }

    /// Returns the tokens of a request of `groups`, with `fixed_tokens` estimated tokens of system prompt and tools.
    pub(super) fn whole(&self, groups: &TokensByScript, fixed_tokens: u64) -> f64 {
        dot(&self.weights, &whole_mix(groups, fixed_tokens)).max(0.0)
    }

    /// Returns the profile for the next session, with more uncertainty: another release of the server may be running
    /// by then.
    pub(super) fn aged(mut self) -> Self {
        for (at, row) in self.spread.iter_mut().enumerate() {
            row[at] += match at {
                FIXED => 0.02_f64.powi(2),
                CONSTANT => 150_f64.powi(2),
                _ if at < TokensByScript::KINDS => 0.000_5,
                _ if at > TokensByScript::KINDS => 0.1,
                _ => 0.0,
            };
        }
        self
    }

    /// Adds `each` to the variance of the kinds' weights, and 0.02 to the message weight's, so that old observations
    /// are forgotten.
    pub(super) fn drift(&mut self, each: f64) {
        for (at, row) in self.spread.iter_mut().enumerate().take(TokensByScript::KINDS) {
            row[at] += each;
        }
        self.spread[TokensByScript::COUNT - 1][TokensByScript::COUNT - 1] += 0.02;
    }

    /// Learns that `mix` had `actual` tokens, with an uncertainty of `noise` tokens squared. Outliers weigh less
    /// (Huber).
    pub(super) fn observe(&mut self, mix: &RequestMix, actual: f64, noise: f64) {
        let carried = self.spread.map(|row| dot(&row, mix));
        let surprise = actual - dot(&self.weights, mix);
        let variance = dot(&carried, mix) + noise;
        // One report that is far out, of a server that counts wrongly, must not undo what many reports have shown.
        let expected = OUTLIER_DEVIATIONS * variance.sqrt();
        let gain = 1.0 / (variance * (surprise.abs() / expected).max(1.0));
        for (weight, carried) in self.weights.iter_mut().zip(carried) {
            *weight += carried * gain * surprise;
        }
        // One wrong report must not make a weight negative or infinite.
        self.bound_weights();
        for (row, left) in self.spread.iter_mut().zip(carried) {
            for (cell, right) in row.iter_mut().zip(carried) {
                *cell -= left * right * gain;
            }
        }
    }

    /// Returns `spread × mix`: the share of each weight in the surprise of an observation.
    pub(super) fn carried(&self, mix: &RequestMix) -> RequestMix {
        self.spread.map(|row| dot(&row, mix))
    }

    fn first_weights() -> [f64; SIZE] {
        let mut weights = [0.0; SIZE];
        weights[..TokensByScript::KINDS].fill(1.0);
        weights
    }

    fn bound_weights(&mut self) {
        for (at, weight) in self.weights.iter_mut().enumerate() {
            let (first, min, max) = match at {
                FIXED => (0.0, -4.0, 4.0),
                CONSTANT => (0.0, -30_000.0, 30_000.0),
                _ if at < TokensByScript::KINDS => (1.0, 0.1, 6.0),
                // No vocabulary has more than one token for each byte.
                _ if at == TokensByScript::KINDS => (0.0, -0.25, 1.0),
                _ => (0.0, -8.0, 60.0),
            };
            *weight = if weight.is_finite() { weight.clamp(min, max) } else { first };
        }
    }

    /// Returns the profile with implausible weights and variances reset to the first beliefs. A profile from a disk
    /// may be damaged.
    #[must_use]
    fn sane(mut self) -> Self {
        self.bound_weights();
        let unknown = Self::default().spread;
        if !self.has_sound_spread(&unknown) {
            self.spread = unknown;
        }
        self
    }

    /// Returns whether the spread is a covariance whose variances are at most a hundred times those of `unknown`.
    fn has_sound_spread(&self, unknown: &Matrix) -> bool {
        let variances: RequestMix = std::array::from_fn(|at| self.spread[at][at]);
        (0..SIZE).all(|at| {
            let variance = variances[at];
            variance.is_finite()
                && (0.0..=unknown[at][at] * 100.0).contains(&variance)
                // By the Cauchy-Schwarz inequality. The tolerance allows for the rounding to `f32` on disk.
                && (0..SIZE).all(|other| {
                    self.spread[at][other].powi(2) <= variance * variances[other] * (1.0 + 1e-3)
                })
        })
    }
}

impl Default for TokenizerProfile {
    fn default() -> Self {
        Self::unknown(CountAccuracy::Estimated)
    }
}

/// Number of standard deviations beyond which an observation is an outlier.
const OUTLIER_DEVIATIONS: f64 = 3.0;

/// A profile in the format on disk. The lower half of the covariance is stored row by row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredProfile {
    version: u32,
    weights: Vec<f32>,
    spread: Vec<f32>,
}

impl From<TokenizerProfile> for StoredProfile {
    fn from(profile: TokenizerProfile) -> Self {
        let spread = profile.spread.iter().enumerate().flat_map(|(at, row)| row[..=at].to_vec());
        Self {
            version: VERSION,
            weights: profile.weights.iter().map(|weight| *weight as f32).collect(),
            spread: spread.map(|cell| cell as f32).collect(),
        }
    }
}

/// A profile of an unknown format counts as nothing learned.
impl From<StoredProfile> for TokenizerProfile {
    fn from(stored: StoredProfile) -> Self {
        let mut profile = Self::default();
        if stored.version != VERSION
            || stored.weights.len() != SIZE
            || stored.spread.len() != SIZE * (SIZE + 1) / 2
        {
            return profile;
        }
        for (weight, stored) in profile.weights.iter_mut().zip(&stored.weights) {
            *weight = f64::from(*stored);
        }
        let mut cells = stored.spread.iter();
        for at in 0..SIZE {
            for other in 0..=at {
                let cell = cells.next().copied().map_or(0.0, f64::from);
                profile.spread[at][other] = cell;
                // Only one half is stored, and a symmetric matrix is needed in both.
                profile.spread[other][at] = cell;
            }
        }
        profile.sane()
    }
}

pub(super) fn dot(left: &[f64; SIZE], right: &[f64; SIZE]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}
