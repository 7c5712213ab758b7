//! Longhaul behind HTTP: sessions, messages, the queue, events as a stream, approvals, compactions.
//!
//! [`serve`] runs the server on a listener; [`router`] returns its routes for a server of your own. Routes are thin.
//! They read a request, ask a [`Session`](longhaul::session::Session), and write the answer. Every error is a problem
//! document (RFC 9457) with a stable code.
//!
//! The token grants everything. Without it only the health checks and the page's files answer. The page uses a
//! cookie, valid only for the page itself. A client that leaves cancels nothing, and a slow reader delays
//! nobody.

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
mod maintenance;
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
mod uploads;

pub use longhaul::config::RateLimit;

pub use crate::app::{AppState, HttpServerConfig};
pub use crate::counters::ServerMetrics;
pub use crate::host_info::{BoxFuture, EmptyEnvironment, ModelBackend, ServerEnvironment};
pub use crate::maintenance::MaintenanceConfig;
pub use crate::openapi::openapi;
pub use crate::routes::router;
pub use crate::serve::serve;
pub use crate::token::{AccessToken, AccessTokenError};
