//! The common event stream for front ends of other projects: one answer at a time, as an ordered list of
//! events. Each protocol writes the events in a form of its own.
//!
//! [`UiStreamTranslator`] derives the events from the [`SessionEvent`](longhaul::SessionEvent)s of the server's own
//! watchers. Every beginning has an event for its end, however the run ends. After a reconnect a client gets the
//! same answer under the same names.

mod answer_start;
mod step;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod translator;
mod turn;

use longhaul::api_events::token_usage;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, RunEnd};
use longhaul_core::ids::{QueueId, RunId};
use longhaul_core::message::Part;
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

pub(crate) use self::stream::{acts, answer, data};
pub(crate) use self::translator::UiStreamTranslator;
pub(crate) use self::turn::{UiAnswerSubscription, UiApprovalDecision, UiTurnRequest, conversation, running};

/// The kind of a text in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UiTextKind {
    Text,
    Reasoning,
}

/// An event of an answer. The names in `part` and `call` are unique in the session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UiStreamEvent {
    /// The answer begins: always first, and once.
    Begins {
        name: Option<String>,
    },
    /// A call of the model begins, with its tool calls. `again`: the call began in an earlier stream.
    StepBegins {
        step: String,
        again: bool,
    },
    StepEnds {
        step: String,
    },
    VoiceBegins {
        voice: UiTextKind,
        part: String,
    },
    Says {
        voice: UiTextKind,
        part: String,
        text: String,
    },
    VoiceEnds {
        voice: UiTextKind,
        part: String,
    },
    /// The model begins to write a tool call; `beside` names the text of the call.
    CallBegins {
        call: String,
        tool: String,
        beside: String,
    },
    CallWrites {
        call: String,
        text: String,
    },
    /// The tool call is complete and stored.
    CallReady {
        call: String,
        tool: String,
        arguments: String,
    },
    /// The tool call was never completed and does not exist.
    CallDropped {
        call: String,
        tool: String,
        arguments: String,
    },
    /// The tool call waits for a person's approval.
    Asks {
        call: String,
        approval: String,
    },
    /// More output of a running tool, from the character at `offset` on.
    Progress {
        call: String,
        text: String,
        offset: u64,
    },
    /// The result of a tool call.
    Result {
        call: String,
        outcome: UiToolOutcome,
        content: Vec<Part>,
    },
    /// The use of the window, with the fields of the API's event.
    Meter(Value),
    /// A compaction or a prune: number in the answer, and state. `data` has the fields of the API's event, and the
    /// state by name.
    Edit {
        kind: EditKind,
        number: usize,
        state: UiEditState,
        data: Value,
    },
    /// The waiting messages, and the place of the answer's message in the queue, from 1.
    Queue {
        ids: Vec<QueueId>,
        own: Option<usize>,
    },
    /// A notice without effect, with the fields of the API's event.
    Notice(Value),
    /// The stream ends: always last, and once.
    Ends(UiStreamEnd),
}

/// The state of an edit of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UiEditState {
    Running,
    /// The edit is made. The numbers are the sizes of the request before and after.
    Done {
        original_tokens: u64,
        compressed_tokens: u64,
    },
    Failed,
    /// The stream ended before the edit was made.
    Cancelled,
}

/// The outcome of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UiToolOutcome {
    Done,
    Failed,
    Denied,
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UiStreamEnd {
    /// The run is complete.
    Complete(FinishedRun),
    /// Something failed.
    Failed { code: ErrorCode, message: String },
    /// Nothing continues until a person has decided the requests.
    Asks(Vec<UiApprovalRequest>),
    /// The message waits, without a run to take it soon.
    Waits { message: String },
}

/// A run that ended without an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FinishedRun {
    pub(crate) run_id: RunId,
    pub(crate) end: RunEnd,
    pub(crate) steps: u32,
    pub(crate) usage: Option<Usage>,
}

/// A tool call waiting for a person's approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UiApprovalRequest {
    pub(crate) approval: String,
    pub(crate) call: String,
    pub(crate) tool: String,
}

/// A protocol for writing the events of an answer.
pub(crate) trait UiProtocol: Send + 'static {
    /// Writes an event as frames of an event stream.
    fn write(&mut self, act: UiStreamEvent, out: &mut String);
}

impl UiEditState {
    fn done(original_tokens: u64, compressed_tokens: u64) -> Self {
        Self::Done { original_tokens, compressed_tokens }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done { .. } => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl FinishedRun {
    /// Returns the run under the API's names.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "finishReason": self.end, "steps": self.steps, "usage": self.usage.as_ref().map(token_usage),
            "runId": self.run_id,
        })
    }
}

/// Returns the front ends' name for a kind of edit.
pub(crate) fn edit_name(kind: EditKind) -> &'static str {
    match kind {
        EditKind::Prune => "prune",
        EditKind::Compaction => "compaction",
    }
}

/// Returns the text of parts. The type stands for a part without text.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.text.clone(),
        Part::Reasoning(reasoning) => reasoning.text.clone(),
        Part::Image(media) => format!("[image: {}]", media.media_type),
        Part::File(media) => format!("[file: {}]", media.media_type),
        // Tools give no such parts. A readable sign is better than a missing line if one does.
        _ => "[part of unknown kind]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
