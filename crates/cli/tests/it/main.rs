//! The real binary against a model server of the test's own.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "what is skipped is said by name")]

mod acp;
mod agents;
mod bad_input;
mod bench;
mod carry;
mod chat;
mod compacting;
mod config;
mod fake;
#[cfg(target_os = "linux")]
mod faults;
mod front_ends;
mod gateway;
mod gateway_llama;
mod hostile;
mod lab;
mod llama;
mod llama_wire;
mod mcp;
mod mcp_server;
#[cfg(target_os = "linux")]
mod memory;
mod models;
mod node;
#[cfg(feature = "postgres")]
mod postgres;
mod run;
mod safety;
#[cfg(feature = "telemetry")]
mod secrets;
mod serve;
mod sessions;
#[cfg(feature = "telemetry")]
mod telemetry;
mod trust;
#[cfg(target_os = "linux")]
mod tui;
mod upstreams;
mod wrap;
