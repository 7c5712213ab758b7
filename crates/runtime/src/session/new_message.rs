//! A message for a session, from the sender's side.

use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;

/// A message for a session.
///
/// ```
/// use longhaul::session::NewMessage;
/// use longhaul_core::metadata::MessageMetadata;
///
/// let metadata = MessageMetadata::try_from(serde_json::json!({ "ticket": 7 })).unwrap();
/// let message = NewMessage::text("What is left to do?").metadata(metadata);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMessage {
    /// The message's parts.
    pub parts: Vec<Part>,
    /// The sender's key. Sending the same key again adds nothing.
    pub key: Option<String>,
    /// The sender's own data, stored and shown with the message. The model never sees the data.
    pub metadata: Option<MessageMetadata>,
}

impl NewMessage {
    /// Returns a message of these parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Returns a message of a single text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Part::text(text)])
    }

    /// Gives the message a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Gives the message metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: MessageMetadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}
