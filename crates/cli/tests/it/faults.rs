//! Faults on purpose: the real binary is killed, its disk fills, lies and loses power, its clock jumps; and
//! nothing that was promised may be lost. `docs/guide/faults.md` says what is promised and which test shows
//! it.
//!
//! Every test draws from a seed that it prints. `LONGHAUL_FAULT_SEED` draws the same again;
//! `LONGHAUL_FAULT_ROUNDS` says how often each test tries (a few times if it is not set).

#[cfg(feature = "postgres")]
mod across;
mod api;
mod check;
mod disk;
#[cfg(feature = "postgres")]
mod fleet;
mod folder;
mod kills;
mod ledger;
mod migration;
mod model;
#[cfg(feature = "postgres")]
mod nodes;
#[cfg(feature = "postgres")]
mod outages;
#[cfg(feature = "postgres")]
mod partitions;
mod points;
mod power;
mod rng;
mod server;
#[cfg(feature = "postgres")]
mod sharing;
mod shim;
mod storage;
mod talk;
mod trace;
#[cfg(feature = "postgres")]
mod upstreams;
mod watch;
mod wire;

/// How often a test tries.
fn rounds() -> u64 {
    number("LONGHAUL_FAULT_ROUNDS").unwrap_or(8)
}

/// The seed of a test, which is told in case it fails.
fn seed(test: &str) -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("LONGHAUL_FAULT_SEED").unwrap_or(now % 1_000_000_000);
    eprintln!("{test}: LONGHAUL_FAULT_SEED={seed} LONGHAUL_FAULT_ROUNDS={}", rounds());
    seed
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var_os(name)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is not a number: {text:?}")))
}
