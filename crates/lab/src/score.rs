//! Public measures of a view's kept content, repeatable without a model.
//!
//! Each measure feeds a conversation into this project's planner message by message, as a session does, and looks at
//! the view that the next request would carry. A [`ScriptedSummariser`] answers the requests for summaries, so that the
//! figures are repeatable. [`ReceiptsFolder`] reads public data; cases of our own are part of the crate.

pub mod board;
pub mod compactbench;
pub mod conversation;
pub mod goals;
pub mod locomo;
pub mod lost;
pub mod orders;
pub mod reading_job;
pub mod receipts;
pub mod refusals;
pub mod summaries;
pub mod summariser;
pub mod superseded;
pub mod text;

pub use conversation::{ChatTurn, SimulatedChat};
pub use receipts::{ReceiptsError, ReceiptsFolder};
pub use summariser::{ScriptedSummariser, SummaryTask};
