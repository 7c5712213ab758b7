//! The gateway before a scripted upstream.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod best_effort;
mod crossing;
mod cuts;
mod large;
mod model;
mod notices;
mod passing;
mod previous;
mod restarts;
mod shortening;
mod streaming;
mod trouble;
mod upstream;
mod upstreams;
mod windows;
