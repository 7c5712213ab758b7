//! Everything that crosses the crate's border: real sockets, and recorded traffic of real servers.

mod fake;
mod fixtures;
mod openai_chat;
mod openai_chat_recorded;
mod overflow_recorded;
