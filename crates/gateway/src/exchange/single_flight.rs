//! A queue for summaries: conversations with the same beginning write one at a time, because a summary may serve all of
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use super::cache::ConversationKey;

/// One queue for each beginning, kept as long as a request waits.
#[derive(Default)]
pub(crate) struct SingleFlight {
    queues: Mutex<HashMap<ConversationKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl SingleFlight {
    /// Waits until no other conversation with this beginning is writing a summary. Dropping the guard ends the turn.
    pub(super) async fn wait(&self, head: ConversationKey) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            // Beginnings come from clients, so unused queues are removed.
            queues.retain(|_, queue| queue.strong_count() > 0);
            let known = queues.get(&head).and_then(Weak::upgrade);
            let queue = known.unwrap_or_default();
            queues.insert(head, Arc::downgrade(&queue));
            queue
        };
        queue.lock_owned().await
    }
}
