//! Names of things. Every id comes in from outside as a value; the core never makes one up.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name that was made elsewhere.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The name as text.
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
    /// One step: one model call and the tools it asked for.
    StepId
);
id!(
    /// One tool call, unique within its session. What the provider called it is kept beside it
    /// ([`ToolCall::provider_id`](crate::message::ToolCall::provider_id)): local servers repeat their ids.
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
    /// One standing order, unique within its session.
    OrderId
);

/// Position of an event in its session's log: 1, 2, 3 … without gaps.
pub type Seq = u64;

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// A closed range of log positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogRange {
    /// First position.
    pub from: Seq,
    /// Last position, included.
    pub to: Seq,
}

impl LogRange {
    /// The range of one event.
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

/// What a model or a person quotes to get cleared, truncated or compacted content back.
///
/// A handle is a coordinate in the log of the session that resolves it (`lh:12`, `lh:12-40`). Text can
/// therefore not forge one that reaches anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogHandle(pub LogRange);

impl fmt::Display for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogRange { from, to } = self.0;
        if from == to { write!(f, "lh:{from}") } else { write!(f, "lh:{from}-{to}") }
    }
}

/// Why a text is not a handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a handle: `{0}` (expected `lh:12` or `lh:12-40`)")]
pub struct LogHandleError(pub String);

impl std::str::FromStr for LogHandle {
    type Err = LogHandleError;

    /// # Errors
    /// [`LogHandleError`] when the text has another form, or when the range runs backwards.
    fn from_str(text: &str) -> Result<Self, LogHandleError> {
        let wrong = || LogHandleError(text.chars().take(80).collect());
        let body = text.trim().strip_prefix("lh:").ok_or_else(wrong)?;
        let (from, to) = body.split_once('-').unwrap_or((body, body));
        let from = from.parse().map_err(|_| wrong())?;
        let to = to.parse().map_err(|_| wrong())?;
        if from == 0 || from > to {
            return Err(wrong());
        }
        Ok(Self(LogRange { from, to }))
    }
}
