//! The server from outside: real HTTP, the scripted model, real tools.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod agents;
mod agents_as_models;
mod approvals;
mod crowd;
mod damage;
mod described;
mod drain;
mod events;
mod examples;
mod front_ends;
mod intruders;
mod llm;
mod messages;
mod monitoring;
mod once;
mod orders;
mod origins;
mod page;
mod recovery;
mod refusals;
mod render;
mod run_ends;
mod search;
mod sessions;
mod settings;
mod slow;
mod strangers;
mod test_server;
mod v1_refusals;
mod writes;
