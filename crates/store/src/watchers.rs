//! The subscribers to new events: one channel per watched session, for back-ends to share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::{Seq, SessionId};
use tokio::sync::watch;

/// The watched sessions of a store. A session without watchers costs nothing.
#[derive(Debug, Default)]
pub struct SessionWatchers {
    senders: Mutex<HashMap<SessionId, watch::Sender<Seq>>>,
}

/// A watch being set up: positions published from now on are not missed.
#[derive(Debug)]
pub struct PendingWatch {
    sender: watch::Sender<Seq>,
    /// Keeps the session watched until the real receiver exists.
    _held: watch::Receiver<Seq>,
}

impl SessionWatchers {
    /// Begins to watch. Afterwards the caller looks up the newest position and calls [`PendingWatch::from`].
    pub fn watch(&self, id: &SessionId) -> PendingWatch {
        let mut senders = self.lock();
        let sender = senders.entry(id.clone()).or_insert_with(|| watch::Sender::new(0)).clone();
        PendingWatch { _held: sender.subscribe(), sender }
    }

    /// Sends the newest committed position to the session's watchers.
    pub fn publish(&self, id: &SessionId, seq: Seq) {
        let mut senders = self.lock();
        let Some(sender) = senders.get(id) else { return };
        // A dropped receiver sends no notice, so the list is tidied when something is published.
        if sender.receiver_count() == 0 {
            senders.remove(id);
        } else {
            advance(sender, seq);
        }
    }

    /// Returns the sessions with watchers.
    pub fn watched(&self) -> Vec<SessionId> {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.keys().cloned().collect()
    }

    /// Ends all watches of a deleted session.
    pub fn end(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    /// Ends all watches.
    pub fn end_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<Seq>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingWatch {
    /// Returns the receiver, starting at `seq` or at a later published position.
    pub fn from(self, seq: Seq) -> watch::Receiver<Seq> {
        advance(&self.sender, seq);
        self.sender.subscribe()
    }
}

fn advance(sender: &watch::Sender<Seq>, seq: Seq) {
    sender.send_if_modified(|newest| {
        // Commits may be published out of their order. A position must never go back.
        let later = seq > *newest;
        *newest = seq.max(*newest);
        later
    });
}
