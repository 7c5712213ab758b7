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
mod content;
mod cookie;
mod cors;
mod counters;
mod dialect;
mod door;
mod ends;
mod extract;
mod guard;
mod limit;
mod once;
mod openapi;
mod openings;
mod peers;
mod problem;
mod render;
mod routes;
mod search;
mod serve;
mod sse;
mod surroundings;
mod token;
mod upkeep;
mod uploads;
mod wording;

pub use longhaul::config::RateLimit;

pub use crate::app::{App, ServerConfig};
pub use crate::counters::Counters;
pub use crate::openapi::openapi;
pub use crate::routes::router;
pub use crate::serve::serve;
pub use crate::surroundings::{Backend, Later, Nothing, Surroundings};
pub use crate::token::{Token, TokenError};
pub use crate::upkeep::Keeping;
