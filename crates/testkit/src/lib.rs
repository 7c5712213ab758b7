//! Shared fakes for the tests of the workspace. Only dev-dependencies name this crate.
//!
//! - [`ScriptedUpstream`] is a model server over HTTP that gives a test's answers and keeps what it was sent.
//! - [`chat`] writes answers of Chat Completions servers.
//! - [`SchemaDocument`] checks values against a JSON Schema.
//! - `TestSession` (feature `session`) is a session in a temporary folder, with a scripted model or one of the test's own.
//!
//! A fake that only one test needs stays with that test.

// A fake that cannot start has no caller that could go on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod chat;
mod json_schema;
mod upstream;

#[cfg(feature = "session")]
mod session;

pub use json_schema::{SchemaDocument, schema_kinds};
#[cfg(feature = "session")]
pub use session::{TestSession, WAITING_COMMAND};
pub use upstream::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer};
