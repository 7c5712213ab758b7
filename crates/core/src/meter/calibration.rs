//! What a model's own vocabulary costs beside the estimate, learned from what its provider reports.
//!
//! Every report says by how many tokens a request differs from the one before, or how long an answer was: a known mix of writing and
//! its tokens, which a Kalman filter turns into weights (see [`TokenizerProfile`]). Its figures are those of simulations over
//! eight vocabularies: an observation is uncertain by 8 % and ten tokens, a weight's variance grows by 0.0002 with each. The first
//! call of a session teaches no ratio: its unknown overhead would enter it. It is kept until the ratios are known, and says then
//! what the overhead is.

use serde::{Deserialize, Serialize};

use super::profile::{FIXED, Mix, TokenizerProfile, difference_mix, dot, whole_mix};
use crate::estimate::{CountAccuracy, TokensByScript};

/// What a variance grows by with each observation: old ones are forgotten.
const DRIFT: f64 = 0.000_2;

/// Uncertainty of an observation, as a share of what came and went …
const NOISE_SHARE: f64 = 0.08;

/// … and in tokens, squared.
const NOISE_TOKENS: f64 = 100.0;

/// Uncertainty of a whole request beyond that of the weights, as a share of its content …
const WHOLE_NOISE_SHARE: f64 = 0.03;

/// … and in tokens, squared.
const WHOLE_NOISE_TOKENS: f64 = 900.0;

/// Calls that must have been seen before the first says something of the overhead.
const ENOUGH_CALLS: u64 = 5;

/// What single messages differ from their kinds by, in tokens squared for each token: three for each of their hundreds.
const MESSAGE_NOISE: f64 = 3.0;

/// The least that an estimated token is worth of a reported count.
const LEAST_WEIGHT: f64 = 0.05;

/// What stands for the marks that a message may have and no one has counted, in bytes.
const BYTES_AROUND: u64 = 32;

/// Tokens of the model for each unit of the [`TokensByScript`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRatios(pub [f64; TokensByScript::COUNT]);

impl Default for TokenRatios {
    fn default() -> Self {
        TokenizerProfile::default().ratios()
    }
}

impl TokenRatios {
    /// Tokens of the model, rounded up.
    pub fn apply(&self, groups: &TokensByScript) -> u64 {
        groups.dot(&self.0).max(0.0).ceil() as u64
    }

    /// The largest of those of the kinds of writing.
    pub fn largest(&self) -> f64 {
        self.0[..TokensByScript::KINDS].iter().copied().fold(0.0, f64::max)
    }
}

/// What was learned of a model's vocabulary so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenCalibration {
    profile: TokenizerProfile,
    ratios: TokenRatios,
    observations: u64,
    /// The first call of the session: what it held, and what was reported.
    first: Option<(Mix, f64)>,
}

impl TokenCalibration {
    /// Begins with what earlier sessions have shown.
    pub fn new(prior: TokenizerProfile) -> Self {
        let profile = prior.aged();
        Self { ratios: profile.ratios(), profile, observations: 0, first: None }
    }

    /// Begins with nothing, for a counter of that kind.
    pub fn unknown(kind: CountAccuracy) -> Self {
        Self { profile: TokenizerProfile::unknown(kind), ..Self::default() }
    }

    /// Returns the tokens for each unit of the groups as they are believed now.
    pub fn ratios(&self) -> &TokenRatios {
        &self.ratios
    }

    /// Returns how many reports the ratios rest on.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Returns the tokens of a whole request of `groups` with so many estimated tokens of system prompt and tools.
    pub fn whole(&self, groups: &TokensByScript, fixed_tokens: u64) -> u64 {
        self.profile.whole(groups, fixed_tokens).ceil() as u64
    }

    /// A known mix of writing had `actual` tokens. What cannot be is not learned from: nothing, less than a quarter of the
    /// estimate, more than four times as much and more than its bytes.
    pub fn learn(&mut self, estimated: &TokensByScript, actual: u64) {
        self.learn_difference(
            estimated,
            &TokensByScript::default(),
            i64::try_from(actual).unwrap_or(i64::MAX),
        );
    }

    /// What came, `more`, and what went, `less`, made a request longer by `actual` tokens, or shorter.
    pub fn learn_difference(&mut self, more: &TokensByScript, less: &TokensByScript, actual: i64) {
        let total = more.total() + less.total();
        if total == 0 || !(-most(less)..=most(more)).contains(&actual) {
            return;
        }
        // What only came cannot be next to nothing.
        if less.total() == 0 && actual < (total / 4).max(1) as i64 {
            return;
        }
        self.profile.drift(DRIFT);
        let noise = (NOISE_SHARE * total as f64).powi(2) + NOISE_TOKENS;
        self.profile.observe(&difference_mix(more, less), actual as f64, noise);
        self.ratios = self.profile.ratios();
        self.observations += 1;
    }

    /// The session's first call: `groups` and so many estimated tokens of system prompt and tools were `actual` tokens.
    pub(crate) fn see_first(&mut self, groups: &TokensByScript, fixed_tokens: u64, actual: u64) {
        self.first.get_or_insert((whole_mix(groups, fixed_tokens), actual as f64));
    }

    /// Returns what the next session is to begin with: with what the first call says of the overhead, now that the ratios are
    /// known. `None` if too few calls were seen.
    pub fn settled(&self) -> Option<TokenizerProfile> {
        if self.observations < ENOUGH_CALLS {
            return None;
        }
        let mut profile = self.profile.clone();
        if let Some((mix, actual)) = &self.first {
            let content: f64 = mix[..TokensByScript::KINDS].iter().sum();
            let noise = (WHOLE_NOISE_SHARE * content).powi(2) + WHOLE_NOISE_TOKENS;
            profile.observe(mix, *actual, noise);
        }
        Some(profile)
    }

    /// Returns how a count of `reported` tokens is shared out among the parts of the request that it was for.
    pub(crate) fn share_out(
        &self,
        groups: &TokensByScript,
        fixed_tokens: u64,
        reported: u64,
    ) -> CountAttribution {
        // The first call bounds what the server puts before every request: no later surplus is all its own.
        let settled = self.settled();
        let profile = settled.as_ref().unwrap_or(&self.profile);
        let mix = whole_mix(groups, fixed_tokens);
        let carried = profile.carried(&mix);
        let of_messages = MESSAGE_NOISE * groups.total() as f64;
        let variance = dot(&carried, &mix) + of_messages + NOISE_TOKENS / 4.0;
        let surplus = (reported as f64 - dot(&profile.weights, &mix)) / variance;
        let own = MESSAGE_NOISE * surplus;
        let mut weights = profile.weights;
        for (weight, carried) in weights.iter_mut().zip(carried) {
            *weight += carried * surplus;
        }
        for weight in weights.iter_mut().take(TokensByScript::KINDS) {
            // Whatever was reported, more content is more tokens.
            *weight = (*weight + own).max(LEAST_WEIGHT);
        }
        // The fixed part is no message.
        weights[FIXED] -= own;
        CountAttribution { weights, reported }
    }
}

/// The most tokens that a text of any vocabulary has: a byte at least is in each.
fn most(groups: &TokensByScript) -> i64 {
    let bytes = groups.bytes().saturating_add(groups.messages() * BYTES_AROUND);
    i64::try_from(bytes.max(groups.total() * 4)).unwrap_or(i64::MAX)
}

/// How a reported count is shared out among the parts of its request: the weights that explain it, moved as far as they are not
/// sure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CountAttribution {
    weights: Mix,
    reported: u64,
}

impl CountAttribution {
    /// Returns the tokens of the part of the request that is `kept`, with so many tokens of system prompt and tools.
    pub(crate) fn part(&self, kept: &TokensByScript, fixed_tokens: u64) -> u64 {
        let tokens = dot(&self.weights, &whole_mix(kept, fixed_tokens));
        (tokens.max(0.0).ceil() as u64).min(self.reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary that spends twice on digits and three quarters on Chinese, seen through mixed content.
    #[test]
    fn it_finds_the_ratios_of_mixed_content() {
        let truth = [1.1, 1.2, 0.9, 1.0, 2.0, 0.75, 0.8, 1.3, 1.3, 1.5, 1.1];
        let mut calibration = TokenCalibration::default();
        for at in 0..200_u64 {
            let share = |group: u64| (at * (group * 2 + 3) * 7919 + at * at * (group + 1)) % 1_000 + 50;
            let mix: [u64; TokensByScript::KINDS] = std::array::from_fn(|group| share(group as u64));
            let actual: f64 = mix.iter().zip(truth).map(|(tokens, ratio)| *tokens as f64 * ratio).sum();
            calibration.learn(&TokensByScript::of_kinds(mix, 0), actual.round() as u64);
        }
        for (found, truth) in calibration.ratios().0.iter().zip(truth) {
            assert!((found / truth - 1.0).abs() < 0.05, "{calibration:?}");
        }
        assert_eq!(calibration.observations(), 200);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let mut calibration = TokenCalibration::default();
        let mix = TokensByScript::of(1_000);
        for actual in [0, 1, 249, 4_001, u64::MAX] {
            calibration.learn(&mix, actual);
        }
        calibration.learn(&TokensByScript::default(), 10);
        assert_eq!(calibration, TokenCalibration::default());
    }

    /// A vocabulary of bytes spends four times what others do on English: its bytes say that this is no nonsense.
    #[test]
    fn bytes_are_learned_as_bytes() {
        let mut calibration = TokenCalibration::default();
        for at in 1..60 {
            let words = 100 + at * 37 % 400;
            let bytes = words * (2 + at % 5);
            let groups = TokensByScript::of_kinds([words, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], bytes);
            calibration.learn(&groups, bytes);
        }
        let groups = TokensByScript::of_kinds([300, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1_200);
        assert!(calibration.ratios().apply(&groups).abs_diff(1_200) < 120, "{calibration:?}");
    }

    /// One report that is out by half moves what was learned by little.
    #[test]
    fn an_outlier_is_heard_less() {
        let mut calibration = TokenCalibration::default();
        for _ in 0..30 {
            calibration.learn(&TokensByScript::of(1_000), 1_200);
        }
        calibration.learn(&TokensByScript::of(10_000), 39_000);
        assert!((calibration.ratios().0[0] - 1.2).abs() < 0.25, "{calibration:?}");
    }

    /// What a server puts before every request is not taken for the price of words, and is known to the next session.
    #[test]
    fn an_overhead_is_known_to_the_next_session() {
        let mut calibration = TokenCalibration::default();
        calibration.see_first(&TokensByScript::of_framing(200, 1), 1_000, 3_320);
        assert_eq!(calibration.settled(), None, "one call says too little");
        for at in 0..20 {
            calibration.learn(&TokensByScript::of(400 + at * 10), (400 + at * 10) * 11 / 10);
        }
        let next = TokenCalibration::new(calibration.settled().unwrap());
        let groups = TokensByScript::of_framing(400, 1);
        let total = next.whole(&groups, 1_000);
        assert!(total.abs_diff(2_000 + 1_400 * 11 / 10) < 80, "{total}");
    }

    #[test]
    fn a_stored_profile_is_read_again_and_nonsense_is_not() {
        let mut calibration = TokenCalibration::default();
        for at in 1..20 {
            calibration.learn(&TokensByScript::of(at * 100), at * 130);
        }
        let profile = calibration.settled().unwrap();
        let text = serde_json::to_string(&profile).unwrap();
        let read: TokenizerProfile = serde_json::from_str(&text).unwrap();
        let (was, is) = (profile.ratios(), read.ratios());
        assert!(was.0.iter().zip(is.0).all(|(was, is)| (was - is).abs() < 1e-5), "{was:?} {is:?}");
        let newer = text.replace("\"version\":2", "\"version\":3");
        assert_eq!(serde_json::from_str::<TokenizerProfile>(&newer).unwrap(), TokenizerProfile::default());
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["spread"][0] = serde_json::json!(-1.0);
        value["weights"][0] = serde_json::json!(900.0);
        let read: TokenizerProfile = serde_json::from_value(value).unwrap();
        assert!((read.ratios().0[0] - 6.0).abs() < 1e-9);
        assert_eq!(read.spread, TokenizerProfile::default().spread);
        let four = TokenizerProfile::of_four_ratios([1.5, f64::NAN, 900.0, 1.0]);
        assert_eq!(four.ratios().0[..6], [1.5, 1.0, 1.5, 1.5, 1.0, 4.0]);
    }
}
