//! The errors of a session.

use longhaul_core::error::ErrorCode;
use longhaul_core::history::HistoryFoldError;
use longhaul_core::ids::{EditId, SessionId};
use longhaul_core::orders::StandingOrderError;
use longhaul_store::StoreError;

/// The reason for a session's refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be folded.
    #[error("session {0} cannot be read: {1}")]
    Log(SessionId, HistoryFoldError),
    /// A hook refused a message; the text is the hook's reason, if any.
    #[error("the message was refused by the userPromptSubmit hook{}", because(.0))]
    Refused(String),
    /// The request is possible only while the session is at rest.
    #[error("the session is busy")]
    Busy,
    /// The session has no such item.
    #[error("no such {0}")]
    NotFound(String),
    /// Another action must come first.
    #[error("{0}")]
    Conflict(String),
    /// The edit was undone before.
    #[error("{0} is already undone")]
    AlreadyUndone(EditId),
    /// The messages of the undone edit were released before.
    #[error("{0} is already released")]
    AlreadyReleased(EditId),
    /// The edit was not undone, so there is nothing to release.
    #[error("{0} is not undone: there is nothing to release")]
    NotUndone(EditId),
    /// The view would not fit.
    #[error("the view would have {tokens} tokens; {usable} are usable")]
    DoesNotFit {
        /// The number of tokens of the view after the change.
        tokens: u64,
        /// The number of usable tokens.
        usable: u64,
    },
    /// A standing order cannot be pinned, edited or removed.
    #[error(transparent)]
    Order(#[from] StandingOrderError),
    /// The session's driver has ended: storage failed, another process took the session, or the runtime
    /// was closed or dropped.
    #[error(
        "the session has stopped: its runtime was closed or dropped, its storage failed, or another process has it"
    )]
    Stopped,
}

impl SessionError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Store(StoreError::NotFound(_)) | Self::NotFound(_) => ErrorCode::NotFound,
            Self::Store(StoreError::QueueFull(_)) => ErrorCode::QueueFull,
            Self::Store(
                StoreError::Conflict(_)
                | StoreError::Fenced(_)
                | StoreError::Busy(_)
                | StoreError::Elsewhere { .. },
            )
            | Self::Busy
            | Self::Conflict(_)
            | Self::AlreadyUndone(_)
            | Self::AlreadyReleased(_)
            | Self::NotUndone(_) => ErrorCode::Conflict,
            Self::Refused(_) => ErrorCode::Refused,
            Self::DoesNotFit { .. } | Self::Order(StandingOrderError::TooLarge { .. }) => {
                ErrorCode::ContextOverflow
            }
            Self::Order(StandingOrderError::NotFound(_)) => ErrorCode::NotFound,
            Self::Order(StandingOrderError::Empty | StandingOrderError::TooLong { .. }) => {
                ErrorCode::InvalidRequest
            }
            Self::Order(_) => ErrorCode::Conflict,
            Self::Stopped => ErrorCode::Interrupted,
            Self::Store(_) | Self::Log(..) => ErrorCode::Storage,
        }
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
