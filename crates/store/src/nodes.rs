//! Several processes on one store: the living nodes, the owner of a session, and the signals between nodes.
//!
//! A node is one process that has the store open. The node holds a lease and renews the lease. The leases of all
//! sessions of the node end with the node's lease. A node without a renewal in time stops writing by itself
//! ([`NodeStatus::Fenced`]) before any other node may take the sessions. The process comes back as a new node.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};
use tokio::sync::{Notify, watch};

use crate::{Lease, StoreError};

/// The name of one lifetime of a node: chosen at random for each join, never used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BootId(Arc<str>);

impl BootId {
    /// Wraps an existing name.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A living node: the lease has not run out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// The process lifetime of the node.
    pub boot_id: BootId,
    /// The address for other nodes, as `HOST:PORT`, if the node announced one.
    pub address: Option<String>,
    /// The time of the node's join, by the clock of the database.
    pub since: Millis,
    /// The number of the node's sessions.
    pub sessions: usize,
}

/// The status of this process in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeStatus {
    /// The process is a node and may write.
    Joined(BootId),
    /// The process could not renew its lease in time. All work under the leases is over: runs, tools and model
    /// calls. The process will join again under another name.
    Fenced,
    /// The store was closed.
    Left,
}

/// A signal of one node to the present owner of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSignal {
    /// The number of the signal. The signals of one session are numbered in the order of their arrival.
    pub no: u64,
    /// The content, in the runtime's own form.
    pub body: String,
}

/// The operations of a store shared by several processes, beside [`Store`](crate::Store). Object-safe.
#[async_trait]
pub trait ClusterStore: Send + Sync {
    /// Returns a receiver of the process's status and of every later change.
    fn standing(&self) -> watch::Receiver<NodeStatus>;

    /// Returns the living nodes, the own node included, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn nodes(&self) -> Result<Vec<ClusterNode>, StoreError>;

    /// Returns the living node with the session, if any. The answer may be the own node.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn living_owner(&self, id: &SessionId) -> Result<Option<ClusterNode>, StoreError>;

    /// Returns sessions with work and without a living owner: an open run, or messages in the queue of a session
    /// that is not parked. Messages count only if newer than the newest event, unless `waiting`: older messages
    /// wait since a cancel or a crash. Returns at most `limit`, and not the same ones first on every node.
    /// Returns none for one lifetime of a lease after the database was away, so that the earlier owners come
    /// first.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn orphans(&self, limit: usize, waiting: bool) -> Result<Vec<SessionId>, StoreError>;

    /// Returns the time until the first other node is gone if no other node renews its lease. Returns `None` if
    /// the process is alone, or leaves the sessions of others alone.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn next_lease_end(&self) -> Result<Option<Duration>, StoreError>;

    /// Stores `body` durably for the session's owner, and notifies the owner.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn signal(&self, id: &SessionId, body: String) -> Result<(), StoreError>;

    /// Returns the waiting signals for the session's owner, oldest first. The signals keep waiting.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn signals(&self, id: &SessionId) -> Result<Vec<SessionSignal>, StoreError>;

    /// Takes the waiting signals for the session's owner, oldest first. Each signal is taken once.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is void.
    async fn take_signals(&self, lease: &Lease) -> Result<Vec<SessionSignal>, StoreError>;

    /// Returns a receiver of the node's sessions whose queue or signals another node changes from now on.
    fn arrivals(&self) -> SessionChangeReceiver;
}

/// Shared access to the other nodes.
pub type SharedNodes = Arc<dyn ClusterStore>;

/// A receiver of sessions to look after. A session with several changes is received once. A session may also be
/// received although nothing is new.
#[derive(Debug)]
pub struct SessionChangeReceiver {
    inbound: Arc<SessionChangeQueue>,
}

/// The sending side of [`SessionChangeReceiver`], for back-ends.
#[derive(Debug, Default)]
pub struct SessionChangePublisher {
    receivers: Mutex<SessionChangeSubscribers>,
}

#[derive(Debug, Default)]
struct SessionChangeSubscribers {
    inbound: Vec<Weak<SessionChangeQueue>>,
    ended: bool,
}

#[derive(Debug, Default)]
struct SessionChangeQueue {
    waiting: Mutex<SessionChangeQueueState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct SessionChangeQueueState {
    sessions: VecDeque<SessionId>,
    ended: bool,
}

impl SessionChangeReceiver {
    /// Returns the next session; `None` when the store is closed. Nothing is lost if the caller stops
    /// waiting.
    pub async fn next(&mut self) -> Option<SessionId> {
        loop {
            let changed = self.inbound.changed.notified();
            {
                let mut waiting = self.inbound.lock();
                if let Some(session) = waiting.sessions.pop_front() {
                    return Some(session);
                }
                if waiting.ended {
                    return None;
                }
            }
            changed.await;
        }
    }
}

impl SessionChangePublisher {
    /// Creates a receiver.
    pub fn subscribe(&self) -> SessionChangeReceiver {
        let inbound = Arc::new(SessionChangeQueue::default());
        let mut receivers = lock(&self.receivers);
        // A receiver that subscribes after the end must not wait for ever.
        inbound.lock().ended = receivers.ended;
        receivers.inbound.push(Arc::downgrade(&inbound));
        SessionChangeReceiver { inbound }
    }

    /// Sends a session to all receivers.
    pub fn publish(&self, session: &SessionId) {
        lock(&self.receivers).inbound.retain(|inbound| {
            // Receivers are held weakly, because a driver that ends drops its receiver without a notice.
            let Some(inbound) = inbound.upgrade() else { return false };
            let mut waiting = inbound.lock();
            if !waiting.sessions.contains(session) {
                waiting.sessions.push_back(session.clone());
            }
            // The receiver locks the same list as soon as it is notified.
            drop(waiting);
            inbound.changed.notify_one();
            true
        });
    }

    /// Ends all receivers.
    pub fn end(&self) {
        let mut receivers = lock(&self.receivers);
        receivers.ended = true;
        for inbound in receivers.inbound.drain(..).filter_map(|inbound| inbound.upgrade()) {
            inbound.lock().ended = true;
            inbound.changed.notify_one();
        }
    }
}

impl SessionChangeQueue {
    fn lock(&self) -> MutexGuard<'_, SessionChangeQueueState> {
        lock(&self.waiting)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::SessionChangePublisher;

    #[tokio::test]
    async fn a_session_that_was_named_twice_comes_once() {
        let arriving = SessionChangePublisher::default();
        let mut arrivals = arriving.subscribe();
        for id in ["a", "b", "a"] {
            arriving.publish(&id.into());
        }
        assert_eq!(arrivals.next().await, Some("a".into()));
        arriving.publish(&"a".into());
        assert_eq!(arrivals.next().await, Some("b".into()));
        assert_eq!(arrivals.next().await, Some("a".into()));
        arriving.end();
        assert_eq!(arrivals.next().await, None);
        assert_eq!(arriving.subscribe().next().await, None);
    }
}
