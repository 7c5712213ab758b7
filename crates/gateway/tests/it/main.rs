//! The gateway before a scripted upstream.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod crossing;
mod large;
mod passing;
mod shortening;
mod streaming;
mod trouble;
mod upstream;
mod upstreams;
