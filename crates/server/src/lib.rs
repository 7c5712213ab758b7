//! Longhaul behind HTTP: sessions, messages, the queue, events as a stream, approvals, compactions.
//!
//! [`serve`] runs it on a listener; [`router`] is the same for a server of one's own. Routes are thin: they
//! read a request, ask a [`Session`](longhaul::session::Session), and write the answer; every error is a
//! problem document (RFC 9457) with a stable code.
//!
//! Whoever has the token may do everything; without it only the health checks and the page's files answer. The page
//! has a cookie instead, which counts for itself alone. A client that leaves cancels nothing, and one that reads
//! slowly slows nobody.

mod app;
mod cluster_proxy;
mod content;
mod cookie;
mod cors;
mod counters;
mod error_messages;
mod extract;
mod guard;
mod host_info;
mod idempotency;
mod limit;
mod login_links;
mod openapi;
mod pre_auth_listener;
mod problem;
mod render;
mod routes;
mod run_outcomes;
mod search;
mod serve;
mod sse;
mod token;
mod ui_protocol;
mod upkeep;
mod uploads;

pub use longhaul::config::RateLimit;

pub use crate::app::{AppState, HttpServerConfig};
pub use crate::counters::ServerMetrics;
pub use crate::host_info::{EmptyEnvironment, Later, ModelBackend, ServerEnvironment};
pub use crate::openapi::openapi;
pub use crate::routes::router;
pub use crate::serve::serve;
pub use crate::token::{AccessToken, AccessTokenError};
pub use crate::upkeep::MaintenanceConfig;
