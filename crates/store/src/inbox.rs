//! Messages on their way into the queue.

use longhaul_core::ids::{Millis, QueueId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// A message to queue.
#[derive(Clone, Debug)]
pub struct NewQueuedMessage {
    /// The id of the message in the queue.
    pub id: QueueId,
    /// The caller's key for the message, for safe retries.
    pub client_key: Option<String>,
    /// The arrival time of the message.
    pub at: Millis,
    /// The content of the message.
    pub parts: Vec<Part>,
    /// The client's metadata of the message.
    pub metadata: Option<MessageMetadata>,
    /// The maximum number of waiting messages, the new message included.
    pub queue_limit: usize,
}

impl NewQueuedMessage {
    /// Returns a message without a key and without metadata.
    pub fn new(id: impl Into<QueueId>, at: Millis, parts: Vec<Part>, queue_limit: usize) -> Self {
        Self { id: id.into(), client_key: None, at, parts, metadata: None, queue_limit }
    }
}

/// The stored form of a message with metadata.
#[derive(Serialize, Deserialize)]
struct QueuedMessageBody<P> {
    parts: P,
    metadata: MessageMetadata,
}

/// Returns the stored form of a waiting message: the list of its parts, or an object with `parts` and
/// `metadata` if the message has metadata.
///
/// # Errors
/// Never in practice; [`StoreError::Storage`] is passed on rather than hidden.
#[doc(hidden)]
pub fn encode_queued(parts: &[Part], metadata: Option<&MessageMetadata>) -> Result<String, StoreError> {
    let encoded = match metadata {
        // A bare list is also the form of messages that were stored before metadata existed.
        None => serde_json::to_string(parts),
        Some(metadata) => serde_json::to_string(&QueuedMessageBody { parts, metadata: metadata.clone() }),
    };
    encoded.map_err(|error| StoreError::Storage(error.to_string()))
}

/// Returns the parts and the metadata from the text of [`encode_queued`].
///
/// # Errors
/// The errors of [`serde_json`] for any other text.
#[doc(hidden)]
pub fn decode_queued(body: &str) -> Result<(Vec<Part>, Option<MessageMetadata>), serde_json::Error> {
    if body.starts_with('{') {
        let QueuedMessageBody { parts, metadata } = serde_json::from_str(body)?;
        return Ok((parts, Some(metadata)));
    }
    Ok((serde_json::from_str(body)?, None))
}

/// The answer to [`Store::enqueue`](crate::Store::enqueue).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnqueueReceipt {
    /// The message's id: of the first acceptance, if the key was seen before.
    pub id: QueueId,
    /// The position among the waiting messages, from 1. 0 means a message already taken.
    pub position: usize,
    /// `true` if the key was seen before.
    pub repeated: bool,
}
