//! The common form of all formats: a conversation as a list, before calls and results are matched.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::PartialAnswerReason;
use longhaul_core::ids::Millis;
use longhaul_core::message::{ModelOrigin, ModelStopReason, Part, ToolStatus};
use longhaul_core::usage::Usage;

use super::ImportPosition;

/// One entry of a file.
#[derive(Debug)]
pub(super) struct ImportItem {
    pub(super) place: ImportPosition,
    pub(super) at: Option<Millis>,
    pub(super) kind: ImportItemKind,
}

/// The kind of an entry.
#[derive(Debug)]
pub(super) enum ImportItemKind {
    /// A message typed by a person.
    Typed(Vec<Part>),
    /// A message in a user's place that no person typed.
    Note(Vec<Part>),
    /// A system or developer message in the middle of the conversation.
    SystemMessage(Vec<Part>),
    /// An answer of the model. The ids of the calls are set when the log is made.
    Assistant(Box<ImportedAnswer>),
    /// A tool's answer.
    Result(ImportedToolResult),
    /// A compaction: earlier entries were shown as a summary from here on.
    Compaction(ImportedCompaction),
}

/// An answer of a model.
#[derive(Debug)]
pub(super) struct ImportedAnswer {
    pub(super) parts: Vec<Part>,
    pub(super) origin: Option<ModelOrigin>,
    pub(super) finish: ModelStopReason,
    pub(super) cut: Option<PartialAnswerReason>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<(ErrorCode, String)>,
}

/// A tool's answer.
#[derive(Debug)]
pub(super) struct ImportedToolResult {
    /// The call's id in the file.
    pub(super) call: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) status: ToolStatus,
    pub(super) content: Vec<Part>,
}

/// A compaction of the recorded session.
#[derive(Debug)]
pub(super) struct ImportedCompaction {
    pub(super) summary: String,
    /// The index of the first kept item; `None` if unknown.
    pub(super) first_kept: Option<usize>,
    pub(super) tokens_before: u64,
}
