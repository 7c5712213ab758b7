//! A runtime among other nodes on one store. The runtime takes over the sessions of dead nodes, receives other nodes'
//! messages for open sessions, and drops all sessions after a possible loss of the lease.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::run::RunRecovery;
use longhaul_store::{NodeStatus, SharedNodes, StoreError};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{Runtime, Session, SessionError};

/// The maximum time between two searches for sessions without an owner (`storage-scale`, takeover: 10 s of a lease plus
/// the sweep).
const SWEEP: Duration = Duration::from_secs(2);

/// The maximum delay of a search after the end of another node's lease.
const BEHIND: Duration = Duration::from_millis(200);

/// The maximum time for an ending node's question about other nodes.
const SOON: Duration = Duration::from_secs(1);

/// The number of sessions taken at a time. Other nodes take their share.
const AT_ONCE: usize = 16;

/// The maximum pause for other nodes to take their share. Opening a session takes longer than the claim.
const BETWEEN: Duration = Duration::from_millis(50);

/// The maximum number of sessions in the process of opening.
const MOST_OPENING: usize = 128;

/// The state of a session when a cancel was left for its owner. Later events and messages are not cancelled. Positions
/// replace clock times, since every node has another clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CancelCutoff {
    /// The position of the log's last event.
    pub(crate) seq: Seq,
    /// The waiting messages in the queue.
    pub(crate) waiting: Vec<QueueId>,
}

/// A message of a node to the owner of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum OwnerMessage {
    /// Cancel the current work.
    Cancel {
        /// Remove queued messages, too.
        clear_queue: bool,
        /// The state up to which the cancel applies. Earlier versions leave the field out and cancel everything.
        before: Option<CancelCutoff>,
    },
}

/// The takeovers in progress.
#[derive(Default)]
struct SessionTakeovers<'a> {
    opening: FuturesUnordered<BoxFuture<'a, SessionId>>,
    ids: HashSet<SessionId>,
}

impl SessionTakeovers<'_> {
    /// Waits until at most `left` of the takeovers are unfinished.
    async fn until(&mut self, left: usize) {
        while self.opening.len() > left
            && let Some(id) = self.opening.next().await
        {
            self.ids.remove(&id);
        }
    }
}

impl OwnerMessage {
    pub(crate) fn read(body: &str) -> Option<Self> {
        // A node of a newer version may send messages that are unknown here. The caller logs and skips them.
        serde_json::from_str(body).ok()
    }
}

impl Runtime {
    /// Gives the runtime the other nodes on the store. To be called once, before the first session is opened.
    #[doc(hidden)]
    pub fn join(&self, nodes: SharedNodes) {
        // A second call changes nothing.
        let _ = self.inner.nodes.set(nodes);
    }

    /// Returns the other nodes on the store, if [`join`](Self::join) was called.
    #[doc(hidden)]
    pub fn nodes(&self) -> Option<&SharedNodes> {
        self.inner.nodes.get()
    }

    /// Performs a node's duties until the store is closed. A runtime without nodes has none.
    #[doc(hidden)]
    pub async fn run_node_duties(&self) {
        let Some(nodes) = self.nodes().cloned() else { return };
        // The duties run concurrently: a database that does not answer delays a sweep, and must not delay the fence.
        tokio::select! {
            () = self.watch_node_standing(&nodes) => {}
            () = self.receive_node_signals(&nodes) => {}
            () = self.sweep(&nodes) => {}
        }
    }

    /// Reports whether another process on the store is alive, as far as a short query can tell.
    #[doc(hidden)]
    pub async fn has_company(&self) -> bool {
        let Some(nodes) = self.nodes() else { return false };
        // A node that has lost the database has nothing to give away.
        let living = tokio::time::timeout(SOON, nodes.nodes()).await;
        living.is_ok_and(|living| living.is_ok_and(|living| living.len() > 1))
    }

    /// Gives the runtime's sessions away, each at the next rest. From now on the runtime opens no session on offer to
    /// other nodes. The future resolves when no session is left.
    #[doc(hidden)]
    pub async fn give_away(&self) {
        join_all(self.inner.slots.give_away().iter().map(Session::give_away)).await;
    }

    async fn watch_node_standing(&self, nodes: &SharedNodes) {
        let mut standing = nodes.standing();
        while standing.changed().await.is_ok() {
            // The value is cloned, because a borrow holds a lock that the sender needs.
            let now = standing.borrow_and_update().clone();
            match now {
                NodeStatus::Left => return,
                NodeStatus::Fenced => self.lose_all(),
                _ => {}
            }
        }
    }

    async fn receive_node_signals(&self, nodes: &SharedNodes) {
        let mut arrivals = nodes.arrivals();
        while let Some(id) = arrivals.next().await {
            self.hear(&id, nodes);
        }
    }

    async fn sweep(&self, nodes: &SharedNodes) {
        // Nodes that start together would otherwise search together, and claim the same sessions.
        let jitter = jitter(&self.inner.owner);
        let mut taking = SessionTakeovers::default();
        loop {
            let next = Instant::now() + SWEEP.mul_f64(jitter);
            self.take_over(nodes, &mut taking).await;
            // A search just after a lease ends finds the sessions of a dead node sooner than the next regular search.
            let ended = lease_end(nodes).await.map(|end| end + BEHIND.mul_f64(jitter));
            let next = ended.map_or(next, |ended| next.min(ended));
            // A session that cannot be opened at once must not delay the others.
            let _ = timeout_at(next, taking.until(0)).await;
            sleep_until(next).await;
        }
    }

    /// Leaves a cancel for the owner of a session.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    #[doc(hidden)]
    pub async fn leave_cancel(&self, id: &SessionId, clear_queue: bool) -> Result<(), SessionError> {
        let Some(nodes) = self.nodes() else { return Ok(()) };
        let told = serde_json::to_string(&OwnerMessage::Cancel {
            clear_queue,
            before: Some(self.before(id).await?),
        })
        .map_err(|error| StoreError::Storage(error.to_string()))?;
        Ok(nodes.signal(id, told).await?)
    }

    async fn before(&self, id: &SessionId) -> Result<CancelCutoff, StoreError> {
        // The queue is read first: a message that is taken in between then appears in both.
        let queue = self.store().queue(id).await?;
        let seq = self.store().session(id).await?.last_seq;
        Ok(CancelCutoff { seq, waiting: queue.into_iter().map(|message| message.id).collect() })
    }

    /// Opens sessions without an owner, whose open runs then continue. Failed openings are tried again the next time.
    async fn take_over<'a>(&'a self, nodes: &SharedNodes, taking: &mut SessionTakeovers<'a>) {
        let waiting = self.agent().rules.recovery == RunRecovery::Continue;
        // The store counts a session as an orphan until its opening has claimed it, so the search would return it
        // again.
        let mut tried = taking.ids.clone();
        loop {
            // The result may consist of sessions that were tried, so as many more are asked for.
            let orphans = match nodes.orphans(AT_ONCE + tried.len(), waiting).await {
                Ok(orphans) => orphans,
                Err(error) => {
                    tracing::warn!(%error, "whether sessions have lost their node is not known");
                    return;
                }
            };
            let new: Vec<_> = orphans.into_iter().filter(|id| !tried.contains(id)).take(AT_ONCE).collect();
            tried.extend(new.iter().cloned());
            let is_all = new.len() < AT_ONCE;
            if !new.is_empty() {
                tracing::info!(sessions = new.len(), "sessions without an owner were found and are opened");
            }
            for id in new {
                taking.ids.insert(id.clone());
                taking.opening.push(Box::pin(self.adopt(id)));
            }
            if is_all {
                return;
            }
            // The time-out is the normal case: other nodes get their share of the sessions meanwhile.
            let _ = timeout(BETWEEN, taking.until(0)).await;
            taking.until(MOST_OPENING).await;
        }
    }

    async fn adopt(&self, id: SessionId) -> SessionId {
        match self.open(&id).await.map(drop) {
            Ok(()) => tracing::info!(session = %id, "taken over"),
            // Another node was faster, or this runtime is ending.
            Err(error @ (SessionError::Store(StoreError::Elsewhere { .. }) | SessionError::Stopped)) => {
                tracing::debug!(session = %id, %error, "the session was not taken over");
            }
            Err(error) => tracing::error!(session = %id, %error, "the session was not taken over"),
        }
        id
    }

    fn hear(&self, id: &SessionId, nodes: &SharedNodes) {
        // A session that is not open here is an orphan or has another owner by now.
        if let Some(session) = self.inner.slots.find(id) {
            session.hear(nodes, 0);
        }
    }

    /// Stops every session, because other nodes may be the owners by now.
    fn lose_all(&self) {
        let open = self.opened();
        tracing::error!(
            sessions = open.len(),
            "this node could not renew its lease: it lets go of its sessions"
        );
        for session in open {
            // A token in place of a command: a driver that waits for a store without an answer reads no commands.
            session.shared.lost.cancel();
        }
    }
}

/// Returns the time at which the first lease of another node ends, unless renewed.
async fn lease_end(nodes: &SharedNodes) -> Option<Instant> {
    // The next search reports a failing database.
    let left = nodes.next_lease_end().await.ok().flatten()?;
    Some(Instant::now() + left)
}

/// Returns a factor between 0.5 and 1 that differs between runtimes.
fn jitter(owner: &str) -> f64 {
    let sum: u32 = owner.bytes().map(u32::from).sum();
    0.5 + f64::from(sum % 64) / 128.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_is_read_by_another() {
        let before = Some(CancelCutoff { seq: 7, waiting: vec!["q".into()] });
        let told = OwnerMessage::Cancel { clear_queue: true, before };
        let said = serde_json::to_string(&told).unwrap();
        assert_eq!(said, r#"{"cancel":{"clearQueue":true,"before":{"seq":7,"waiting":["q"]}}}"#);
        assert_eq!(OwnerMessage::read(&said), Some(told));
        let earlier = OwnerMessage::Cancel { clear_queue: true, before: None };
        assert_eq!(OwnerMessage::read(r#"{"cancel":{"clearQueue":true}}"#), Some(earlier));
        assert_eq!(OwnerMessage::read(r#"{"other":1}"#), None);
    }
}
