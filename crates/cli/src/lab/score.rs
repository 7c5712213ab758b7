//! Public measures of a view's kept content, repeatable without a model.
//!
//! Each measure feeds a conversation into this project's planner message by message, as a session does, and looks at
//! the view that the next request would carry. A [`ScriptedSummariser`] answers the requests for summaries, so that the
//! figures are repeatable. [`ReceiptsFolder`] reads public data; cases of our own are part of the crate.

pub(crate) mod board;
pub(crate) mod compactbench;
pub(crate) mod conversation;
pub(crate) mod goals;
pub(crate) mod locomo;
pub(crate) mod lost;
pub(crate) mod orders;
pub(crate) mod reading_job;
pub(crate) mod receipts;
pub(crate) mod refusals;
pub(crate) mod summaries;
pub(crate) mod summariser;
pub(crate) mod superseded;
pub(crate) mod text;

pub(crate) use conversation::{ChatTurn, SimulatedChat};
pub(crate) use receipts::{ReceiptsError, ReceiptsFolder};
pub(crate) use summariser::{ScriptedSummariser, SummaryTask};
