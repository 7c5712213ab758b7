//! Stable error codes: the same in events, the API and the library.

use serde::{Deserialize, Serialize};

/// What went wrong, as a caller decides on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// Too many requests; wait.
    RateLimitExceeded,
    /// Nothing came in time.
    Timeout,
    /// The request does not fit the model's window.
    ContextOverflow,
    /// The key is missing, wrong, or lacks a right.
    Auth,
    /// The provider refused the request's form.
    InvalidRequest,
    /// The model, or a filter of its provider, would not answer this content.
    Refused,
    /// The provider failed, or answered with something that is no answer.
    ThirdParty,
    /// The connection could not be made, or broke.
    Network,
    /// The stream ended without its closing event.
    TruncatedStream,
    /// The process ended in the middle.
    Interrupted,
    /// The disk or the database failed.
    Storage,
    /// No such thing.
    NotFound,
    /// Another state or owner stands in the way.
    Conflict,
    /// The queue is at its limit.
    QueueFull,
    /// Compaction was tried as often as is useful.
    MaxCompactions,
}

impl ErrorCode {
    /// The stable text, for example `rate-limit-exceeded`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimitExceeded => "rate-limit-exceeded",
            Self::Timeout => "timeout",
            Self::ContextOverflow => "context-overflow",
            Self::Auth => "auth",
            Self::InvalidRequest => "invalid-request",
            Self::Refused => "refused",
            Self::ThirdParty => "third-party",
            Self::Network => "network",
            Self::TruncatedStream => "truncated-stream",
            Self::Interrupted => "interrupted",
            Self::Storage => "storage",
            Self::NotFound => "not-found",
            Self::Conflict => "conflict",
            Self::QueueFull => "queue-full",
            Self::MaxCompactions => "max-compactions",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
