//! Idempotent requests: their senders may repeat them.

use longhaul_core::ids::{Millis, Seq};

/// A request on arrival.
#[derive(Clone, Debug)]
pub struct NewIdempotentRequest {
    /// The sender's key for the request.
    pub key: String,
    /// The content of the request. The content shows another request under the same key.
    pub what: String,
    /// The arrival time of the request.
    pub at: Millis,
}

/// The stored state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The content of the request when it first arrived.
    pub what: String,
    /// The newest position of the session's log at the first arrival.
    pub since: Seq,
    /// `true` if the key was seen before.
    pub repeated: bool,
    /// The answer to the request. `None` if no answer was given, or the answer was lost.
    pub answer: Option<String>,
}
