//! Tests across the crate's border: real sockets, and recorded traffic of real servers.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test, its helpers too")]

mod answer_size;
mod answers;
mod anthropic;
mod cases;
mod conformance;
mod failures;

mod fixtures;
mod gemini;
mod gemini_recorded;
mod misplaced;
mod ollama;
mod ollama_recorded;
mod openai_chat;
mod openai_discovery;
mod openai_hazards;
mod openai_recorded;
mod openai_responses;
mod overflow_recorded;
mod unreadable;
mod wire;
