//! What a model's tokenizer and server charge, as far as reports have shown, and how sure that is.
//!
//! A request's input is taken to be linear in what it holds: a weight for each kind of writing, for bytes and for messages (see
//! [`TokensByScript`]), one for what system prompt and tools cost beyond their estimate, and a constant for what a server puts before
//! every request unseen. The profile holds the weights and their covariance: a Kalman filter's state. The covariance lets later
//! reports tell apart what the first one has only told together, and says how much of a known total goes with a part of it.

use serde::{Deserialize, Serialize};

use super::TokenRatios;
use crate::estimate::{CountAccuracy, TokensByScript};

/// Weights of a profile: those of the groups, of the fixed part, and the constant.
pub(super) const SIZE: usize = TokensByScript::COUNT + 2;

/// Where the weight of the fixed part stands: tokens for each estimated token beyond those of words.
pub(super) const FIXED: usize = TokensByScript::COUNT;

/// Where the constant stands, in tokens.
const CONSTANT: usize = TokensByScript::COUNT + 1;

/// A symmetric matrix.
pub(super) type Matrix = [[f64; SIZE]; SIZE];

/// What a weight of a kind may be off by before anything was learned: by itself, and all of them together.
const KIND_DEVIATION: f64 = 0.28;
const COMMON_DEVIATION: f64 = 0.30;

/// The same for a byte, a message, the fixed part, and the constant in tokens. Vocabularies of bytes are seldom, hidden prompts
/// seldom longer than 3,000 tokens; templates put 3 to 11 tokens around a message.
const BYTE_DEVIATION: f64 = 0.03;
const MESSAGE_DEVIATION: f64 = 3.0;
const FIXED_DEVIATION: f64 = 0.25;
const CONSTANT_DEVIATION: f64 = 1_500.0;

/// What an exact tokenizer may be off by: nothing but its framing.
const EXACT_DEVIATION: f64 = 0.01;

/// The format of a stored profile.
const VERSION: u32 = 2;

/// Weights of a model's tokenizer and server, and their covariance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredProfile", into = "StoredProfile")]
pub struct TokenizerProfile {
    pub(super) weights: [f64; SIZE],
    pub(super) spread: Box<Matrix>,
}

/// What a request holds, or two requests differ by: the factors of the weights.
pub(super) type Mix = [f64; SIZE];

/// A whole request of `groups` with so many estimated tokens of system prompt and tools.
pub(super) fn whole_mix(groups: &TokensByScript, fixed_tokens: u64) -> Mix {
    let mut mix = difference_mix(groups, &TokensByScript::default());
    // It is words as far as anybody knows; its own weight is what it differs from them.
    mix[0] += fixed_tokens as f64;
    mix[FIXED] = fixed_tokens as f64;
    mix[CONSTANT] = 1.0;
    mix
}

/// What `more` adds beyond what `less` takes away.
pub(super) fn difference_mix(more: &TokensByScript, less: &TokensByScript) -> Mix {
    let mut mix = [0.0; SIZE];
    for ((factor, more), less) in mix.iter_mut().zip(more.as_floats()).zip(less.as_floats()) {
        *factor = more - less;
    }
    mix
}

impl TokenizerProfile {
    /// What is believed of a model before it has reported anything, of a counter of that kind.
    pub fn unknown(kind: CountAccuracy) -> Self {
        let own = if kind == CountAccuracy::Exact { EXACT_DEVIATION } else { KIND_DEVIATION };
        let common = if kind == CountAccuracy::Exact { 0.0 } else { COMMON_DEVIATION };
        let bytes = if kind == CountAccuracy::Exact { 0.0 } else { BYTE_DEVIATION };
        let deviations = [bytes, MESSAGE_DEVIATION, FIXED_DEVIATION, CONSTANT_DEVIATION];
        let mut spread = Box::new([[0.0; SIZE]; SIZE]);
        for (at, row) in spread.iter_mut().enumerate() {
            if at < TokensByScript::KINDS {
                row[..TokensByScript::KINDS].fill(common * common);
                row[at] += own * own;
            } else {
                row[at] = deviations[at - TokensByScript::KINDS].powi(2);
            }
        }
        Self { weights: Self::first_weights(), spread }
    }

    /// What weights an older release has kept: of words, of digits and glued pieces, of Chinese, Japanese and Korean, and of
    /// other scripts.
    #[must_use]
    pub fn of_four_ratios(ratios: [f64; 4]) -> Self {
        let [words, glued, chinese, others] =
            ratios.map(|ratio| if ratio.is_finite() { ratio.clamp(0.25, 4.0) } else { 1.0 });
        let mut profile = Self::default();
        let kinds = [words, glued, words, words, glued, chinese, chinese, others, others, others, others];
        profile.weights[..TokensByScript::KINDS].copy_from_slice(&kinds);
        profile
    }

    /// Tokens for each unit of the groups.
    pub fn ratios(&self) -> TokenRatios {
        let mut ratios = [0.0; TokensByScript::COUNT];
        ratios.copy_from_slice(&self.weights[..TokensByScript::COUNT]);
        TokenRatios(ratios)
    }

    /// Returns the tokens that a server puts before every request unseen; 0 if its counts leave more out.
    pub fn overhead_tokens(&self) -> u64 {
        self.weights[CONSTANT].max(0.0).round() as u64
    }

    /// Tokens of a request of `groups` with so many estimated tokens of system prompt and tools.
    pub(super) fn whole(&self, groups: &TokensByScript, fixed_tokens: u64) -> f64 {
        dot(&self.weights, &whole_mix(groups, fixed_tokens)).max(0.0)
    }

    /// The next session may be served by another release: what was learned of the server is less sure by then.
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

    /// What was learned in a session is a little less sure with each observation: old ones are forgotten.
    pub(super) fn drift(&mut self, each: f64) {
        for (at, row) in self.spread.iter_mut().enumerate().take(TokensByScript::KINDS) {
            row[at] += each;
        }
        self.spread[TokensByScript::COUNT - 1][TokensByScript::COUNT - 1] += 0.02;
    }

    /// `mix` was said to be `actual` tokens, with `noise` tokens squared of uncertainty. What is far beyond what can be
    /// expected weighs less (Huber).
    pub(super) fn observe(&mut self, mix: &Mix, actual: f64, noise: f64) {
        let carried = self.spread.map(|row| dot(&row, mix));
        let surprise = actual - dot(&self.weights, mix);
        let variance = dot(&carried, mix) + noise;
        let expected = OUTLIER_DEVIATIONS * variance.sqrt();
        let gain = 1.0 / (variance * (surprise.abs() / expected).max(1.0));
        for (weight, carried) in self.weights.iter_mut().zip(carried) {
            *weight += carried * gain * surprise;
        }
        self.bound_weights();
        for (row, left) in self.spread.iter_mut().zip(carried) {
            for (cell, right) in row.iter_mut().zip(carried) {
                *cell -= left * right * gain;
            }
        }
    }

    /// `spread × mix`: what each weight would learn from it.
    pub(super) fn carried(&self, mix: &Mix) -> Mix {
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
                _ if at == TokensByScript::KINDS => (0.0, -0.25, 1.0),
                _ => (0.0, -8.0, 60.0),
            };
            *weight = if weight.is_finite() { weight.clamp(min, max) } else { first };
        }
    }

    /// The same, with whatever is no plausible weight or variance set to what is believed at first: for what was read from a
    /// disk.
    #[must_use]
    fn sane(mut self) -> Self {
        self.bound_weights();
        let unknown = Self::default().spread;
        let variances: Mix = std::array::from_fn(|at| self.spread[at][at]);
        let is_sound = |at: usize| {
            variances[at].is_finite() && variances[at] >= 0.0 && variances[at] <= unknown[at][at] * 100.0
        };
        let is_covariance = |at: usize, other: usize| {
            self.spread[at][other].powi(2) <= variances[at] * variances[other] * (1.0 + 1e-3)
        };
        let all = || (0..SIZE).flat_map(|at| (0..SIZE).map(move |other| (at, other)));
        if !(0..SIZE).all(is_sound) || !all().all(|(at, other)| is_covariance(at, other)) {
            self.spread = unknown;
        }
        self
    }
}

impl Default for TokenizerProfile {
    fn default() -> Self {
        Self::unknown(CountAccuracy::Estimated)
    }
}

/// An observation is an outlier beyond so many standard deviations.
const OUTLIER_DEVIATIONS: f64 = 3.0;

/// A profile as it is kept on disk: the lower half of the covariance, row by row.
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

/// A format that is not known counts as nothing learned.
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
                profile.spread[other][at] = cell;
            }
        }
        profile.sane()
    }
}

pub(super) fn dot(left: &[f64; SIZE], right: &[f64; SIZE]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}
