//! Everything that crosses the crate's border: real sockets, and recorded traffic of real servers.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test, its helpers too")]

mod fake;
mod fixtures;
mod openai_chat;
mod openai_chat_recorded;
mod overflow_recorded;
