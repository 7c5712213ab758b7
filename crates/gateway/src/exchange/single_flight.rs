//! Whose turn it is to have a summary made: conversations that begin in the same way may have one for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use super::cache::ConversationKey;

/// A queue for each beginning, as long as somebody stands in it.
#[derive(Default)]
pub(crate) struct SingleFlight {
    queues: Mutex<HashMap<ConversationKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl SingleFlight {
    /// Waits until nobody else with this beginning has a summary made. Ends with the guard.
    pub(super) async fn wait(&self, head: ConversationKey) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            queues.retain(|_, queue| queue.strong_count() > 0);
            let known = queues.get(&head).and_then(Weak::upgrade);
            let queue = known.unwrap_or_default();
            queues.insert(head, Arc::downgrade(&queue));
            queue
        };
        queue.lock_owned().await
    }
}
