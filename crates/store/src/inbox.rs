//! Messages on their way into the queue.

use longhaul_core::ids::{Millis, QueueId};
use longhaul_core::message::Part;

/// A message to queue.
#[derive(Clone, Debug)]
pub struct NewQueued {
    /// Its id.
    pub id: QueueId,
    /// The caller's key for this message, for safe retries.
    pub client_key: Option<String>,
    /// When it came.
    pub at: Millis,
    /// What it says.
    pub parts: Vec<Part>,
    /// How many may wait at most, this one included.
    pub queue_limit: usize,
}

/// The answer to [`Store::enqueue`](crate::Store::enqueue).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The message's id: of the first acceptance, if its key was seen before.
    pub id: QueueId,
    /// Its position among the waiting, from 1; 0 if it was taken already.
    pub position: usize,
    /// Whether the key was seen before.
    pub repeated: bool,
}
