//! The server from outside: real HTTP, the scripted model, real tools.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod approvals;
mod crowd;
mod events;
mod messages;
mod once;
mod page;
mod recovery;
mod refusals;
mod render;
mod sessions;
mod strangers;
mod world;
