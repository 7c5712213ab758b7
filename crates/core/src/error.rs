//! Stable error codes: the same in events, the API and the library.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// What went wrong, as a caller decides on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ErrorCode { $($(#[$doc])* #[serde(rename = $text)] $name,)* }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable text, for example `rate-limit-exceeded`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// Too many requests; wait.
    RateLimitExceeded "rate-limit-exceeded",
    /// Nothing came in time.
    Timeout "timeout",
    /// The request does not fit the model's window.
    ContextOverflow "context-overflow",
    /// The key is missing, wrong, or lacks a right.
    Auth "auth",
    /// The provider refused the request's form.
    InvalidRequest "invalid-request",
    /// The model, or a filter of its provider, would not answer this content.
    Refused "refused",
    /// The provider failed, or answered with something that is no answer.
    ThirdParty "third-party",
    /// The connection could not be made, or broke.
    Network "network",
    /// The stream ended without its closing event.
    TruncatedStream "truncated-stream",
    /// The process ended in the middle.
    Interrupted "interrupted",
    /// The disk or the database failed.
    Storage "storage",
    /// No such thing.
    NotFound "not-found",
    /// Another state or owner stands in the way.
    Conflict "conflict",
    /// The queue is at its limit.
    QueueFull "queue-full",
    /// Compaction was tried as often as is useful.
    MaxCompactions "max-compactions",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
