//! Stable error codes, which are the same in events, the API and the library.

use serde::{Deserialize, Serialize};

// One list for the variants, their texts and `ALL`: three lists would drift apart.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// The kind of an error, by the reaction that a caller can choose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* #[serde(rename = $text)] $name,)* }

        impl ErrorCode {
            /// All error codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the stable text of the code, for example `rate-limit-exceeded`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The provider got too many requests: wait.
    RateLimitExceeded "rate-limit-exceeded",
    /// No answer came in time.
    Timeout "timeout",
    /// The request does not fit the model's window.
    ContextOverflow "context-overflow",
    /// The key is missing, wrong, or lacks a right.
    Auth "auth",
    /// The provider refused the request's form.
    InvalidRequest "invalid-request",
    /// The model, or a filter of the provider, would not answer the content.
    Refused "refused",
    /// The provider failed, or answered with something that is no answer.
    ThirdParty "third-party",
    /// The connection could not be made, or broke.
    Network "network",
    /// The stream ended without a closing event.
    TruncatedStream "truncated-stream",
    /// The process ended in the middle.
    Interrupted "interrupted",
    /// The disk or the database failed.
    Storage "storage",
    /// The named thing does not exist.
    NotFound "not-found",
    /// Another state or owner stands in the way.
    Conflict "conflict",
    /// The queue is full.
    QueueFull "queue-full",
    /// The limit of compactions for one answer was reached.
    MaxCompactions "max-compactions",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
