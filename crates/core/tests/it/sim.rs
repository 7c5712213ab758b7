//! The whole loop in virtual time: a world of simulated store, model, tools, people and crashes drives a
//! [`Run`](longhaul_core::run::Run), in an order that a seed decides.
//!
//! `LONGHAUL_SIM_SEED=n` replays one session and prints what happens; `LONGHAUL_SIM_SESSIONS=n` sets how many
//! are played.

use std::sync::atomic::{AtomicU64, Ordering};

mod checks;
mod model;
mod pausing;
mod scene;
mod stats;
mod world;

use stats::Stats;
use world::SimulatedRun;

/// Sessions of an ordinary test run.
const SESSIONS: u64 = 2_500;

/// Returns a number from the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var_os(name)?.to_str()?.parse().ok()
}

/// Prints the seed of a session that panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the session failed: LONGHAUL_SIM_SEED={} replays it", self.0);
        }
    }
}

fn play(seed: u64, verbose: bool) -> Stats {
    let _named = Named(seed);
    let mut world = SimulatedRun::new(seed, verbose);
    world.play();
    world.stats
}

#[test]
fn sessions_keep_every_promise() {
    if let Some(seed) = number("LONGHAUL_SIM_SEED") {
        println!("{}", play(seed, true));
        return;
    }
    let sessions = number("LONGHAUL_SIM_SESSIONS").unwrap_or(SESSIONS);
    let next = AtomicU64::new(0);
    let worker = || {
        let mut sum = Stats::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= sessions {
                return sum;
            }
            sum.add(&play(seed, false));
        }
    };
    let sum = std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        let mut sum = worker();
        sum.add(&other.join().expect("a session failed; its seed is above"));
        sum
    });
    println!("{sum}");
    assert_eq!(sum.sessions, sessions);
    sum.assert_wide(sessions);
}

#[test]
fn equal_seeds_play_equal_sessions() {
    for seed in 0..20 {
        assert_eq!(play(seed, false), play(seed, false), "seed {seed}");
    }
}
