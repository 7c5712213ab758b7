//! Longhaul as a library: agents whose conversations never run out of room and never lose anything.
//!
//! A [`session::Runtime`] is one agent over one store; a [`session::Session`] is one conversation of it. Send
//! it messages, watch its announcements, cancel it, undo its compactions:
//!
//! ```
//! use longhaul::testing;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (runtime, _folder) = testing::runtime_that_says("Hello!")?;
//! let session = runtime.create(None).await?;
//! let settled = session.ask("Hi").await?;
//! assert_eq!(settled.end, Some(longhaul_core::event::RunEnd::Stop));
//! assert_eq!(session.look(|run| run.history().view().len()).await?, 2);
//! # Ok(()) }
//! ```
//!
//! The library prints nothing, reads no environment and no home folder; everything is handed in.

pub mod agent;
pub mod agents;
pub mod announce;
pub mod calibration;
pub mod clock;
pub mod compaction;
pub mod config;
pub mod context;
pub mod counter;
mod driver;
pub mod export;
pub mod feed;
pub mod hooks;
pub mod import;
pub mod mcp;
pub mod picture;
pub mod prelude;
mod reach;
pub mod recall;
pub mod sandbox;
pub mod session;
pub mod session_event;
pub mod settings;
pub mod telemetry;
pub mod testing;
pub mod tools;
pub mod workspace;

pub use longhaul_core as core;
pub use longhaul_providers as providers;
pub use longhaul_store as store;
pub use schemars;

pub use self::agent::{Agent, AgentBuilder, BuildError};
pub use self::session::{Runtime, Session, SessionError, Turn, TurnError, TurnOutput};
pub use self::session_event::SessionEvent;
