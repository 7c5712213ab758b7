//! The calibration: the costs of a model's own vocabulary beside the estimate, learned from the provider's reports.
//!
//! Every report says by how many tokens a request differs from the request before, or how long an answer was. A known
//! mix of writing has known tokens then, and a Kalman filter turns them into weights (see [`TokenizerProfile`]).
//!
//! The figures come from simulations over eight vocabularies: an observation is uncertain by 8 % and ten tokens, and
//! each observation adds 0.0002 to a weight's variance. The first call of a session teaches no ratio, because its
//! unknown overhead would distort the ratio. The call is kept until the ratios are known, and tells the overhead
//! then.

use serde::{Deserialize, Serialize};

use super::profile::{FIXED, RequestMix, TokenizerProfile, difference_mix, dot, whole_mix};
use crate::estimate::{CountAccuracy, TokensByScript};

/// The growth of a weight's variance with each observation, so that old observations are forgotten.
const DRIFT: f64 = 0.000_2;

/// Uncertainty of an observation, as a share of the added and removed content. [`NOISE_TOKENS`] is added.
const NOISE_SHARE: f64 = 0.08;

/// Uncertainty of an observation beside [`NOISE_SHARE`], in tokens squared.
const NOISE_TOKENS: f64 = 100.0;

/// Uncertainty of a whole request beyond the weights' own, as a share of the content. [`WHOLE_NOISE_TOKENS`] is
/// added.
const WHOLE_NOISE_SHARE: f64 = 0.03;

/// Uncertainty of a whole request beside [`WHOLE_NOISE_SHARE`], in tokens squared.
const WHOLE_NOISE_TOKENS: f64 = 900.0;

/// Number of observations after which the first call tells the overhead.
const ENOUGH_CALLS: u64 = 5;

/// Variance of a single message's tokens around its kinds of writing, in tokens squared for each token.
const MESSAGE_NOISE: f64 = 3.0;

/// The smallest part of a reported count that one estimated token receives.
const MIN_WEIGHT: f64 = 0.05;

/// Bytes of template marks around a message that no counter has seen.
const BYTES_AROUND: u64 = 32;

/// The model's tokens for each unit of [`TokensByScript`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRatios(pub [f64; TokensByScript::COUNT]);

impl Default for TokenRatios {
    fn default() -> Self {
        TokenizerProfile::default().ratios()
    }
}

impl TokenRatios {
    /// Returns the model's tokens for `groups`, rounded up.
    pub fn apply(&self, groups: &TokensByScript) -> u64 {
        groups.dot(&self.0).max(0.0).ceil() as u64
    }

    /// Returns the largest ratio among the kinds of writing.
    pub fn largest(&self) -> f64 {
        self.0[..TokensByScript::KINDS].iter().copied().fold(0.0, f64::max)
    }
}

/// The learned costs of a model's vocabulary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenCalibration {
    profile: TokenizerProfile,
    ratios: TokenRatios,
    observations: u64,
    /// The first call of the session: the content and the reported tokens.
    first: Option<(RequestMix, f64)>,
}

impl TokenCalibration {
    /// Returns a calibration that begins with the profile of earlier sessions.
    pub fn new(prior: TokenizerProfile) -> Self {
        let profile = prior.aged();
        Self { ratios: profile.ratios(), profile, observations: 0, first: None }
    }

    /// Returns a calibration without knowledge, for a counter of accuracy `kind`.
    pub fn unknown(kind: CountAccuracy) -> Self {
        Self { profile: TokenizerProfile::unknown(kind), ..Self::default() }
    }

    /// Returns the present estimate of the tokens for each unit of the groups.
    pub fn ratios(&self) -> &TokenRatios {
        &self.ratios
    }

    /// Returns the number of reports that the ratios rest on.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Returns the tokens of a whole request of `groups`, with `fixed_tokens` estimated tokens of system prompt and
    /// tools.
    pub fn whole(&self, groups: &TokensByScript, fixed_tokens: u64) -> u64 {
        self.profile.whole(groups, fixed_tokens).ceil() as u64
    }

    /// Learns that a known mix of writing had `actual` tokens.
    ///
    /// Implausible numbers teach nothing: zero, less than a quarter of the estimate, and more than both four times
    /// the estimate and the bytes.
    pub fn learn(&mut self, estimated: &TokensByScript, actual: u64) {
        self.learn_difference(
            estimated,
            &TokensByScript::default(),
            i64::try_from(actual).unwrap_or(i64::MAX),
        );
    }

    /// Learns that the added content `more` and the removed content `less` changed a request by `actual` tokens.
    pub fn learn_difference(&mut self, more: &TokensByScript, less: &TokensByScript, actual: i64) {
        let total = more.total() + less.total();
        if total == 0 || !(-most(less)..=most(more)).contains(&actual) {
            return;
        }
        // Added content alone cannot have almost no tokens. With removed content the sum may be near zero.
        if less.total() == 0 && actual < (total / 4).max(1) as i64 {
            return;
        }
        // The drift comes first: the observation below then counts more than it would against a belief that never ages.
        self.profile.drift(DRIFT);
        let noise = (NOISE_SHARE * total as f64).powi(2) + NOISE_TOKENS;
        self.profile.observe(&difference_mix(more, less), actual as f64, noise);
        self.ratios = self.profile.ratios();
        self.observations += 1;
    }

    /// Keeps the session's first call: `groups`, with `fixed_tokens` estimated tokens of system prompt and tools, had
    /// `actual` tokens.
    pub(crate) fn see_first(&mut self, groups: &TokensByScript, fixed_tokens: u64, actual: u64) {
        // Only the session's first call has the overhead alone: later calls are known by their difference to the call
        // before.
        self.first.get_or_insert((whole_mix(groups, fixed_tokens), actual as f64));
    }

    /// Returns the profile with which the next session begins. The first call adds the overhead, now that the ratios
    /// are known. `None` after too few calls.
    pub fn settled(&self) -> Option<TokenizerProfile> {
        if self.observations < ENOUGH_CALLS {
            return None;
        }
        // A copy: the first call is observed again with the ratios of the moment, and never by the session's own
        // filter.
        let mut profile = self.profile.clone();
        if let Some((mix, actual)) = &self.first {
            let content: f64 = mix[..TokensByScript::KINDS].iter().sum();
            let noise = (WHOLE_NOISE_SHARE * content).powi(2) + WHOLE_NOISE_TOKENS;
            profile.observe(mix, *actual, noise);
        }
        Some(profile)
    }

    /// Returns the attribution of a count of `reported` tokens to the parts of its request.
    pub(crate) fn share_out(
        &self,
        groups: &TokensByScript,
        fixed_tokens: u64,
        reported: u64,
    ) -> CountAttribution {
        // The first call bounds the server's own overhead, so that later surplus is not all put down to the overhead.
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
            // More content has more tokens, whatever was reported.
            *weight = (*weight + own).max(MIN_WEIGHT);
        }
        // The fixed part shares the weight of words, but is no message.
        weights[FIXED] -= own;
        CountAttribution { weights, reported }
    }
}

/// Returns the largest number of tokens that content can have in any vocabulary: each token has at least one byte.
fn most(groups: &TokensByScript) -> i64 {
    let bytes = groups.bytes().saturating_add(groups.messages() * BYTES_AROUND);
    i64::try_from(bytes.max(groups.total() * 4)).unwrap_or(i64::MAX)
}

/// The attribution of a reported count to the parts of the request: the weights that explain the count. Each
/// weight was moved by its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CountAttribution {
    weights: RequestMix,
    reported: u64,
}

impl CountAttribution {
    /// Returns the tokens of the part `kept` of the request, with `fixed_tokens` tokens of system prompt and tools.
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

    /// A hidden prompt is not taken for the price of words, and the next session knows it.
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
