//! The library from outside: sessions with the scripted model, real tools, and recorded material.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "figures, and what was skipped by name")]

mod among;
mod answer_size;
mod counting;
mod doubt;
mod eviction;
mod hooks;
mod library;
mod mcp;
mod media;
mod meter;
mod offering;
mod orders;
mod overnight;
mod pausing;
mod refused;
mod repeating;
mod replay;
mod sessions;
mod switching;
mod telemetry;
mod watching;

use std::path::PathBuf;

/// The recorded fixtures, `None` where they are absent (a user's clone). With `LONGHAUL_REQUIRE_FIXTURES` set
/// that is a failure.
fn fixtures(test: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures"));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(),
        "{test}: the recorded fixtures are absent"
    );
    eprintln!("{test}: skipped, the recorded fixtures are absent");
    None
}
