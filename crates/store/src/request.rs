//! Requests that their senders may repeat.

use longhaul_core::ids::{Millis, Seq};

/// A request that has come.
#[derive(Clone, Debug)]
pub struct NewIdempotentRequest {
    /// What its sender calls it.
    pub key: String,
    /// What it asks for, so that another request under the same key is noticed.
    pub what: String,
    /// When it came.
    pub at: Millis,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// What was asked for when it first came.
    pub what: String,
    /// The newest position of the session's log at that time.
    pub since: Seq,
    /// Whether it has come before.
    pub repeated: bool,
    /// How it was answered; `None` if it was not, or if nobody knows.
    pub answer: Option<String>,
}
