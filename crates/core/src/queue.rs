//! The queue of messages that wait while a run is busy, and their union into one message.

use serde::{Deserialize, Serialize};

use crate::event::CoalescedMessages;
use crate::ids::{Millis, QueueId};
use crate::message::Part;
use crate::metadata::MessageMetadata;

/// A message that waits in the queue.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMessage {
    /// The name of the message in the queue.
    pub id: QueueId,
    /// The time at which the message was accepted.
    pub queued_at: Millis,
    /// The content of the message.
    pub parts: Vec<Part>,
    /// The client's own data with the message. The model never sees the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MessageMetadata>,
}

impl QueuedMessage {
    /// Returns a message without metadata.
    pub fn new(id: impl Into<QueueId>, queued_at: Millis, parts: Vec<Part>) -> Self {
        Self { id: id.into(), queued_at, parts, metadata: None }
    }
}

/// Joins all waiting messages, oldest first, into one user message.
///
/// One message stays unchanged. Two messages become `First: …` and `Also: …`. Three or more become `[1]: …` and
/// `[2]: …`, with a blank line between them. Prefixes and separators are text parts of their own; every
/// original part keeps its bytes and its place.
///
/// ```
/// use longhaul_core::{message::Part, queue::{QueuedMessage, coalesce}};
/// let message = |id: &str, text: &str| QueuedMessage::new(id, 0, vec![Part::text(text)]);
/// let (parts, meta) = coalesce(&[message("a", "stop"), message("b", "go left")]);
/// let text: String = parts.iter().filter_map(Part::as_text).collect();
/// assert_eq!(text, "First: stop\n\nAlso: go left");
/// assert_eq!(meta.unwrap().message_count, 2);
/// ```
#[doc(hidden)]
pub fn coalesce(messages: &[QueuedMessage]) -> (Vec<Part>, Option<CoalescedMessages>) {
    let [first, .., last] = messages else {
        return (messages.first().map(|one| one.parts.clone()).unwrap_or_default(), None);
    };
    let mut parts = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            parts.push(Part::text("\n\n"));
        }
        parts.push(Part::text(prefix(index, messages.len())));
        parts.extend(message.parts.iter().cloned());
    }
    let meta = CoalescedMessages {
        message_count: messages.len(),
        original_messages: messages.iter().map(|message| message.id.clone()).collect(),
        first_queued_at: first.queued_at,
        last_queued_at: last.queued_at,
        original_metadata: messages
            .iter()
            .filter_map(|message| Some((message.id.clone(), message.metadata.clone()?)))
            .collect(),
    };
    (parts, Some(meta))
}

fn prefix(index: usize, count: usize) -> String {
    match (count, index) {
        (2, 0) => "First: ".to_owned(),
        (2, _) => "Also: ".to_owned(),
        _ => format!("[{}]: ", index + 1),
    }
}
