//! The common event stream for front ends of other projects: one answer at a time, as an ordered list of
//! events. Each protocol writes the events in a form of its own.
//!
//! [`UiStreamTranslator`] derives the events from the events of the server's own watchers. Every beginning has
//! an event for its end, however the run ends. After a reconnect a client gets the same answer under the same
//! names.

mod answer_start;
mod step;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod translator;
mod turn;

use serde_json::Value;

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
    /// The result of a tool call, as parts of the server's own API.
    Result {
        call: String,
        outcome: UiToolOutcome,
        content: Vec<Value>,
    },
    /// The use of the window.
    Meter(Value),
    /// A compaction or a prune: number in the answer, and state.
    Edit {
        kind: &'static str,
        number: usize,
        state: Value,
    },
    /// The waiting messages, and the place of the answer's message in the queue, from 1.
    Queue {
        ids: Vec<String>,
        own: Option<usize>,
    },
    /// A notice without effect.
    Notice(Value),
    /// The stream ends: always last, and once.
    Ends(UiStreamEnd),
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
    /// The run is complete: `finishReason`, `steps`, `usage`, `runId`.
    Complete { run: Value },
    /// Something failed.
    Failed { code: String, message: String },
    /// Nothing continues until a person has decided the requests.
    Asks(Vec<UiApprovalRequest>),
    /// The message waits, without a run to take it soon.
    Waits { message: String },
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

/// Returns the text of parts. The type stands for a part without text.
pub(crate) fn text_of(parts: &[Value]) -> String {
    let texts = parts.iter().map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!(
            "[{}: {}]",
            part["type"].as_str().unwrap_or("part"),
            part["media_type"].as_str().unwrap_or("of unknown kind")
        ),
    });
    texts.collect::<Vec<_>>().join("\n")
}
