//! What front ends of other makers hear of a session: one answer at a time, as an ordered list of acts, which each
//! dialect writes in its own words.
//!
//! The acts are folded from the events that our own watchers are told ([`UiStreamTranslator`]). Every act that begins something has
//! one that ends it, whatever becomes of the run, and whoever comes back hears the same answer under the same names.

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

/// Which of an answer's two voices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UiTextKind {
    Text,
    Reasoning,
}

/// Something that happens in an answer. `part` and `call` are names that are good in the whole session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UiStreamEvent {
    /// The answer begins: first, and once.
    Begins {
        name: Option<String>,
    },
    /// A call of the model, with the tools it asks for. `again`: it began in an earlier stream.
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
    /// The model begins to write a call; `beside` names the text it belongs to.
    CallBegins {
        call: String,
        tool: String,
        beside: String,
    },
    CallWrites {
        call: String,
        text: String,
    },
    /// The call is whole, and stored.
    CallReady {
        call: String,
        tool: String,
        arguments: String,
    },
    /// The call was never finished, so there is none.
    CallDropped {
        call: String,
        tool: String,
        arguments: String,
    },
    /// The call waits for a person.
    Asks {
        call: String,
        approval: String,
    },
    /// More output of a running tool, from that character on.
    Progress {
        call: String,
        text: String,
        offset: u64,
    },
    /// What a call gave, as parts of our own.
    Result {
        call: String,
        outcome: UiToolOutcome,
        content: Vec<Value>,
    },
    /// How full the window is.
    Meter(Value),
    /// A compaction or a prune: its place among those of this answer, and how it stands.
    Edit {
        kind: &'static str,
        number: usize,
        state: Value,
    },
    /// The messages that wait, and the place of the one that this answer is to, from 1.
    Queue {
        ids: Vec<String>,
        own: Option<usize>,
    },
    /// Something to show that changes nothing.
    Notice(Value),
    /// The stream is over: last, and once.
    Ends(UiStreamEnd),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UiToolOutcome {
    Done,
    Failed,
    Denied,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UiStreamEnd {
    /// The run is complete: `finishReason`, `steps`, `usage`, `runId`.
    Complete { run: Value },
    /// Something failed.
    Failed { code: String, message: String },
    /// Nothing goes on until a person has decided these.
    Asks(Vec<UiApprovalRequest>),
    /// The message waits, and nothing goes on that would take it soon.
    Waits { message: String },
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UiApprovalRequest {
    pub(crate) approval: String,
    pub(crate) call: String,
    pub(crate) tool: String,
}

/// A way to write acts.
pub(crate) trait UiProtocol: Send + 'static {
    /// Writes an act as frames of an event stream.
    fn write(&mut self, act: UiStreamEvent, out: &mut String);
}

/// The text of parts; what is no text is named.
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
