//! The real binary against a model server of the test's own.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "what is skipped is said by name")]

mod acp;
mod agents;
#[cfg(feature = "postgres")]
mod agents_across;
mod bad_input;
mod bench;
#[cfg(feature = "postgres")]
mod bucket;
mod carry;
mod chat;
#[cfg(all(feature = "postgres", target_os = "linux"))]
#[path = "../../../store-postgres/tests/it/cluster.rs"]
mod cluster;
mod compacting;
mod config;
mod fake;
#[cfg(target_os = "linux")]
mod faults;
mod front_ends;
mod gateway;
mod gateway_kept;
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
#[cfg(all(feature = "postgres", target_os = "linux"))]
#[expect(dead_code, reason = "the store's own tests use all of it")]
#[path = "../../../store-postgres/tests/it/proxy.rs"]
mod proxy;
mod run;
mod safety;
mod same_token;
#[cfg(feature = "telemetry")]
mod secrets;
mod serve;
mod sessions;
#[cfg(feature = "postgres")]
mod shared;
#[cfg(feature = "telemetry")]
mod telemetry;
mod trust;
#[cfg(target_os = "linux")]
mod tui;
mod upkeep;
mod upstreams;
mod wrap;
