//! Many replays: every recording under every policy, in every window, at all prices.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{ReplayOptions, replay};
use crate::lab::outcome::ReplayOutcome;
use crate::lab::policy::ContextPolicy;
use crate::lab::price::PriceTable;
use crate::lab::recording::SessionRecording;

/// The number of simultaneous replays.
const THREADS: usize = 2;

/// A maker of a policy. A policy has state, so each replay makes a new one.
pub(crate) type MakePolicy = Arc<dyn Fn() -> Box<dyn ContextPolicy> + Send + Sync>;

/// The size of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayWindow {
    /// A fixed number of tokens.
    Tokens(u64),
    /// A share of the recording's largest request, in percent.
    PercentOfPeak(u32),
}

impl ReplayWindow {
    /// Returns the window in tokens, for a recording.
    pub(crate) fn tokens(self, recording: &SessionRecording) -> u64 {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::PercentOfPeak(percent) => recording.peak_tokens() * u64::from(percent) / 100,
        }
    }

    fn percent(self) -> Option<u32> {
        match self {
            Self::Tokens(_) => None,
            Self::PercentOfPeak(percent) => Some(percent),
        }
    }
}

/// One replay: a recording, a window and prices.
#[derive(Clone)]
pub(crate) struct ReplayCase<'a> {
    /// The recorded session.
    pub(crate) recording: &'a SessionRecording,
    /// The maker of the policy.
    pub(crate) policy: MakePolicy,
    /// The window of the replay.
    pub(crate) window: ReplayWindow,
    /// The prices of the replay.
    pub(crate) prices: &'a PriceTable,
}

/// Replays every recording in every window under every policy at all prices. The outcomes are in that order,
/// the last changing fastest. Two replays run at a time; the order of outcomes does not depend on that.
pub(crate) fn run(
    recordings: &[SessionRecording],
    policies: &[MakePolicy],
    windows: &[ReplayWindow],
    prices: &[PriceTable],
    options: &ReplayOptions,
) -> Vec<ReplayOutcome> {
    let mut cases = Vec::new();
    for recording in recordings {
        for window in windows {
            for policy in policies {
                cases.extend(prices.iter().map(|prices| ReplayCase {
                    recording,
                    policy: policy.clone(),
                    window: *window,
                    prices,
                }));
            }
        }
    }
    run_cases(&cases, options)
}

/// Replays cases until none is left.
fn replay_next_cases(
    cases: &[ReplayCase<'_>],
    options: &ReplayOptions,
    next: &AtomicUsize,
    done: &Mutex<Vec<(usize, ReplayOutcome)>>,
) {
    while let Some((at, case)) = take(cases, next) {
        let outcome = case.replay(options);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
    }
}

fn run_cases(cases: &[ReplayCase<'_>], options: &ReplayOptions) -> Vec<ReplayOutcome> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(cases.len())));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| replay_next_cases(cases, options, &next, &done));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The threads finish in any order.
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'c, 'a>(cases: &'c [ReplayCase<'a>], next: &AtomicUsize) -> Option<(usize, &'c ReplayCase<'a>)> {
    // Relaxed is enough: the counter guards no other data.
    let at = next.fetch_add(1, Ordering::Relaxed);
    cases.get(at).map(|case| (at, case))
}

impl ReplayCase<'_> {
    fn replay(&self, options: &ReplayOptions) -> ReplayOutcome {
        let options = ReplayOptions { window_percent: self.window.percent(), ..options.clone() };
        let window = self.window.tokens(self.recording);
        // A policy has state, so every case starts with a new one.
        replay(self.recording, (self.policy)().as_mut(), window, self.prices, &options)
    }
}
