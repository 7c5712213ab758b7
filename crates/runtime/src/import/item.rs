//! What all formats have in common: a conversation as a list, before calls and results are matched.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::Cut;
use longhaul_core::ids::Millis;
use longhaul_core::message::{Finish, Origin, Part, ToolStatus};
use longhaul_core::usage::Usage;

use super::Place;

/// One entry of a file.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) at: Option<Millis>,
    pub(super) kind: ItemKind,
}

/// What it is.
#[derive(Debug)]
pub(super) enum ItemKind {
    /// A person typed it.
    Typed(Vec<Part>),
    /// It stands in a user's place and nobody typed it.
    Note(Vec<Part>),
    /// The model wrote it. The call ids of its calls are set when the log is made.
    Assistant(Box<Said>),
    /// A tool answered.
    Result(Answered),
    /// Earlier entries were shown as a summary from here on.
    Compaction(Compaction),
}

/// An answer of a model.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) parts: Vec<Part>,
    pub(super) origin: Option<Origin>,
    pub(super) finish: Finish,
    pub(super) cut: Option<Cut>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<(ErrorCode, String)>,
}

/// A tool's answer.
#[derive(Debug)]
pub(super) struct Answered {
    /// What the file calls the call.
    pub(super) call: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) status: ToolStatus,
    pub(super) content: Vec<Part>,
}

/// A compaction of the recorded session.
#[derive(Debug)]
pub(super) struct Compaction {
    pub(super) summary: String,
    /// Index of the first item that stayed; `None` if the file does not say.
    pub(super) first_kept: Option<usize>,
    pub(super) tokens_before: u64,
}
