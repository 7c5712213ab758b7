//! The queue of one session in memory.

use longhaul_core::ids::QueueId;
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;

use crate::{EnqueueReceipt, NewQueuedMessage, StoreError};

/// Every message ever accepted, in order. Settled messages are kept for their client keys.
#[derive(Debug, Default)]
pub(super) struct MemoryInbox {
    entries: Vec<MemoryInboxEntry>,
}

#[derive(Debug)]
struct MemoryInboxEntry {
    message: QueuedMessage,
    client_key: Option<String>,
    waiting: bool,
}

impl MemoryInbox {
    pub(super) fn waiting(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.entries.iter().filter(|entry| entry.waiting).map(|entry| &entry.message)
    }

    pub(super) fn accept(&mut self, new: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        // The key comes before the limit: a repetition of an accepted message succeeds although the queue is full
        // by now.
        if let Some(first) = self.known(new.client_key.as_deref()) {
            return Ok(EnqueueReceipt { id: first.clone(), position: self.position(first), repeated: true });
        }
        let waiting = self.waiting().count();
        if waiting >= new.queue_limit {
            return Err(StoreError::QueueFull(waiting));
        }
        if self.entries.iter().any(|entry| entry.message.id == new.id) {
            return Err(StoreError::Conflict(format!("queued message {} exists", new.id)));
        }
        let message =
            QueuedMessage { metadata: new.metadata, ..QueuedMessage::new(new.id.clone(), new.at, new.parts) };
        self.entries.push(MemoryInboxEntry { message, client_key: new.client_key, waiting: true });
        Ok(EnqueueReceipt { id: new.id, position: waiting + 1, repeated: false })
    }

    fn known(&self, key: Option<&str>) -> Option<&QueueId> {
        let key = key?;
        let entry = self.entries.iter().find(|entry| entry.client_key.as_deref() == Some(key))?;
        Some(&entry.message.id)
    }

    /// Returns the position from 1, or 0 for a settled message.
    fn position(&self, id: &QueueId) -> usize {
        self.waiting().position(|message| message.id == *id).map_or(0, |index| index + 1)
    }

    /// Takes all of `ids` or none.
    pub(super) fn take(&mut self, ids: &[QueueId]) -> Result<(), StoreError> {
        // All ids are checked before one is settled, so a refusal changes nothing.
        for (index, id) in ids.iter().enumerate() {
            if self.position(id) == 0 || ids[..index].contains(id) {
                return Err(StoreError::Conflict(format!("queued message {id} does not wait")));
            }
        }
        self.settle(|message| ids.contains(&message.id));
        Ok(())
    }

    pub(super) fn edit(
        &mut self,
        id: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        let message = &mut self.find(id)?.message;
        message.parts = parts;
        message.metadata = metadata;
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &QueueId) -> Result<(), StoreError> {
        self.find(id)?.settle();
        Ok(())
    }

    pub(super) fn clear(&mut self) -> Vec<QueueId> {
        let ids = self.waiting().map(|message| message.id.clone()).collect();
        self.settle(|_| true);
        ids
    }

    fn find(&mut self, id: &QueueId) -> Result<&mut MemoryInboxEntry, StoreError> {
        let mut waiting = self.entries.iter_mut().filter(|entry| entry.waiting);
        waiting
            .find(|entry| entry.message.id == *id)
            .ok_or_else(|| StoreError::NotFound(format!("waiting message {id}")))
    }

    fn settle(&mut self, which: impl Fn(&QueuedMessage) -> bool) {
        self.entries.iter_mut().filter(|entry| which(&entry.message)).for_each(MemoryInboxEntry::settle);
    }
}

impl MemoryInboxEntry {
    fn settle(&mut self) {
        self.waiting = false;
        self.message.parts = Vec::new();
        self.message.metadata = None;
    }
}
