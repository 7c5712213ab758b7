//! What a model's own vocabulary costs beside the estimate, learned from what its provider reports.
//!
//! Recursive least squares on one ratio for each of the four [`Groups`]: every call says how many tokens a known mix
//! of writing had. The figures are those of a simulation of 160 sessions over six vocabularies: start at a spread of
//! 0.08, let it grow by 0.0005 a call, take an observation to be uncertain by 5 % and ten tokens, never believe less
//! than a quarter or more than four. The first call of a session teaches nothing: its unknown overhead would.

use serde::{Deserialize, Serialize};

use crate::estimate::Groups;

/// Variance of a ratio before anything was learned.
const FIRST_SPREAD: f64 = 0.08;

/// What a variance grows by with each observation: old ones are forgotten.
const DRIFT: f64 = 0.000_5;

/// Uncertainty of an observation, as a share of it …
const NOISE_SHARE: f64 = 0.05;

/// … and in tokens, squared.
const NOISE_TOKENS: f64 = 100.0;

/// Tokens of the model for each estimated token, by group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratios(pub [f64; Groups::COUNT]);

impl Default for Ratios {
    fn default() -> Self {
        Self([1.0; Groups::COUNT])
    }
}

impl Ratios {
    /// Tokens of the model, rounded up.
    pub fn apply(&self, groups: &Groups) -> u64 {
        groups.dot(&self.0).ceil() as u64
    }

    /// The largest of them.
    pub fn largest(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// The same, with whatever is no plausible ratio set to one: for what was read from a disk.
    #[must_use]
    pub fn sane(self) -> Self {
        Self(self.0.map(|ratio| if ratio.is_finite() { ratio.clamp(0.25, 4.0) } else { 1.0 }))
    }
}

/// What was learned of a model's vocabulary so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    ratios: Ratios,
    spread: [[f64; Groups::COUNT]; Groups::COUNT],
    observations: u64,
}

impl Calibration {
    /// Begins with what earlier sessions have shown.
    pub fn new(prior: Ratios) -> Self {
        let mut spread = [[0.0; Groups::COUNT]; Groups::COUNT];
        for (at, row) in spread.iter_mut().enumerate() {
            row[at] = FIRST_SPREAD;
        }
        Self { ratios: prior.sane(), spread, observations: 0 }
    }

    /// What is believed now.
    pub fn ratios(&self) -> &Ratios {
        &self.ratios
    }

    /// How many calls it rests on.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// A known mix of writing had `actual` tokens. What cannot be (nothing, or four times more or less than
    /// estimated) is not learned from.
    pub fn learn(&mut self, estimated: &Groups, actual: u64) {
        let total = estimated.total();
        if total == 0 || actual < total / 4 || actual > total.saturating_mul(4) {
            return;
        }
        let mix = estimated.0.map(|tokens| tokens as f64);
        for (at, row) in self.spread.iter_mut().enumerate() {
            row[at] += DRIFT;
        }
        let carried = self.spread.map(|row| dot(&row, &mix));
        let noise = (NOISE_SHARE * total as f64).powi(2) + NOISE_TOKENS;
        let gain = 1.0 / (dot(&carried, &mix) + noise);
        let surprise = actual as f64 - estimated.dot(&self.ratios.0);
        for (ratio, carried) in self.ratios.0.iter_mut().zip(carried) {
            *ratio = (*ratio + carried * gain * surprise).clamp(0.25, 4.0);
        }
        for (row, left) in self.spread.iter_mut().zip(carried) {
            for (cell, right) in row.iter_mut().zip(carried) {
                *cell -= left * right * gain;
            }
        }
        self.observations += 1;
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self::new(Ratios::default())
    }
}

fn dot(left: &[f64; Groups::COUNT], right: &[f64; Groups::COUNT]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary that spends twice on digits and three quarters on Chinese, seen through mixed content.
    #[test]
    fn it_finds_the_ratios_of_mixed_content() {
        let truth = [1.1, 2.0, 0.75, 1.3];
        let mut calibration = Calibration::default();
        for at in 0..60_u64 {
            let share = |group: u64| (at * (group + 3) * 7919) % 1_000 + 50;
            let mix = Groups([share(0) * 3, share(1), share(2), share(3)]);
            calibration.learn(&mix, mix.dot(&truth).round() as u64);
        }
        for (found, truth) in calibration.ratios().0.iter().zip(truth) {
            assert!((found / truth - 1.0).abs() < 0.03, "{calibration:?}");
        }
        assert_eq!(calibration.observations(), 60);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let mut calibration = Calibration::default();
        let mix = Groups([1_000, 0, 0, 0]);
        for actual in [0, 1, 249, 4_001, u64::MAX] {
            calibration.learn(&mix, actual);
        }
        calibration.learn(&Groups::default(), 10);
        assert_eq!(calibration, Calibration::default());
        let read = Ratios([f64::NAN, f64::INFINITY, -3.0, 1.5]).sane();
        assert_eq!(read, Ratios([1.0, 1.0, 0.25, 1.5]));
    }
}
