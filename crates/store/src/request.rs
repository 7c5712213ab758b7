//! Requests that their senders may repeat.

use longhaul_core::ids::{Millis, Seq};

/// A request that has come.
#[derive(Clone, Debug)]
pub struct NewIdempotentRequest {
    /// The sender's key for the request.
    pub key: String,
    /// The content of the request. Another request under the same key is noticed by it.
    pub what: String,
    /// The time at which the request arrived.
    pub at: Millis,
}

/// The stored state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The content of the request when it first arrived.
    pub what: String,
    /// The newest position of the session's log at that time.
    pub since: Seq,
    /// `true` if the key was seen before.
    pub repeated: bool,
    /// The answer to the request. `None` if there was none, or if it was lost.
    pub answer: Option<String>,
}
