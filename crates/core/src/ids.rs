//! Identifiers. Every id comes in from outside as a value; the core never makes an id.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name that was made elsewhere.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

id!(
    /// One conversation: one append-only log.
    SessionId
);
id!(
    /// One message of a conversation.
    MessageId
);
id!(
    /// One run: from idle to idle.
    RunId
);
id!(
    /// One step: one model call and the tools of the answer.
    StepId
);
id!(
    /// One tool call, unique within a session. The provider's own id stands in
    /// [`ToolCall::provider_id`](crate::message::ToolCall::provider_id), because local servers repeat their
    /// ids.
    CallId
);
id!(
    /// One edit of the view: a prune, a compaction.
    EditId
);
id!(
    /// One request for a person's approval.
    ApprovalId
);
id!(
    /// One message that waits in the queue.
    QueueId
);
id!(
    /// One standing order, unique within a session.
    OrderId
);

/// The position of an event in a session's log: 1, 2, 3 … without gaps.
pub type Seq = u64;

/// Milliseconds since the Unix epoch, or a duration in milliseconds.
pub type Millis = u64;

/// A closed range of log positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogRange {
    /// The first position.
    pub from: Seq,
    /// The last position, included.
    pub to: Seq,
}

impl LogRange {
    /// Returns the range of a single event.
    pub fn one(seq: Seq) -> Self {
        Self { from: seq, to: seq }
    }

    /// Returns whether `seq` lies inside.
    pub fn contains(&self, seq: Seq) -> bool {
        (self.from..=self.to).contains(&seq)
    }

    /// Returns whether the two ranges share a position.
    pub fn overlaps(&self, other: &LogRange) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// A name of cleared, truncated or compacted content, by which a model or a person gets the content back.
///
/// A handle is a range of positions in the log of the session that resolves it (`lh:12`, `lh:12-40`). Text can
/// therefore not forge a handle that reaches content of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogHandle(pub LogRange);

impl fmt::Display for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogRange { from, to } = self.0;
        if from == to { write!(f, "lh:{from}") } else { write!(f, "lh:{from}-{to}") }
    }
}

/// The error for a text that is not a handle, with the text's first 80 characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a handle: `{0}` (expected `lh:12` or `lh:12-40`)")]
pub struct LogHandleError(pub String);

impl std::str::FromStr for LogHandle {
    type Err = LogHandleError;

    /// Reads a handle of the form `lh:12` or `lh:12-40`.
    ///
    /// # Errors
    /// [`LogHandleError`] if the text has another form, or if the range runs backwards.
    fn from_str(text: &str) -> Result<Self, LogHandleError> {
        // The text comes from a model or a person and may be long.
        parse_range(text).map(Self).ok_or_else(|| LogHandleError(text.chars().take(80).collect()))
    }
}

fn parse_range(text: &str) -> Option<LogRange> {
    let body = text.trim().strip_prefix("lh:")?;
    let (from, to) = body.split_once('-').unwrap_or((body, body));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    // Positions of the log count from 1.
    (from > 0 && from <= to).then_some(LogRange { from, to })
}
