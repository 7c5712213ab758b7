//! A runtime among others on one store: it takes over what a node that died has left, hears what others have left for
//! its sessions, and lets go of everything when it may have lost it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};
use longhaul_core::run::RunRecovery;
use longhaul_store::{NodeStatus, SharedNodes, StoreError};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{Runtime, Session, SessionError};
use crate::driver::{DriverMessage, SessionCommand};

/// Between two looks for sessions that nobody has, at most (`storage-scale`, takeover: 10 s of a lease and this).
const SWEEP: Duration = Duration::from_secs(2);

/// How soon after the end of another node's lease to look, at most.
const BEHIND: Duration = Duration::from_millis(200);

/// How long a node that ends asks for the others.
const SOON: Duration = Duration::from_secs(1);

/// Sessions that are taken at a time: others take their share.
const AT_ONCE: usize = 16;

/// How long others have to do so, at most. Opening a session takes longer than taking it.
const BETWEEN: Duration = Duration::from_millis(50);

/// Sessions that are being opened at the same time, at most.
const MOST_OPENING: usize = 128;

/// What had been said in a session when something was left for its owner: what came later is not meant. No clock is
/// asked, since each node has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CancelCutoff {
    /// How far its log had come.
    pub(crate) seq: Seq,
    /// What waited in its queue.
    pub(crate) waiting: Vec<QueueId>,
}

/// What a node leaves for the owner of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum OwnerMessage {
    /// Stop what goes on.
    Cancel {
        /// Queued messages go, too.
        clear_queue: bool,
        /// What is meant. Earlier versions do not say it: everything.
        before: Option<CancelCutoff>,
    },
}

/// Sessions that are being taken over.
#[derive(Default)]
struct SessionTakeovers<'a> {
    opening: FuturesUnordered<BoxFuture<'a, SessionId>>,
    ids: HashSet<SessionId>,
}

impl SessionTakeovers<'_> {
    /// Waits until no more than so many of them are left.
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
        serde_json::from_str(body).ok()
    }
}

impl Runtime {
    /// Tells the runtime of the other processes on its store. Once, before the first session is opened.
    pub fn join(&self, nodes: SharedNodes) {
        // It stays the first.
        let _ = self.house.nodes.set(nodes);
    }

    /// The other processes on its store, if it has been told of them.
    pub fn nodes(&self) -> Option<&SharedNodes> {
        self.house.nodes.get()
    }

    /// Does a node's duties until the store is closed. A runtime that is alone has none.
    pub async fn run_node_duties(&self) {
        let Some(nodes) = self.nodes().cloned() else { return };
        // Side by side: a database that does not answer holds up a sweep, and must not hold up the fence.
        tokio::select! {
            () = self.watch_node_standing(&nodes) => {}
            () = self.receive_node_signals(&nodes) => {}
            () = self.sweep(&nodes) => {}
        }
    }

    /// Returns whether another process on its store lives, as far as can be found out soon.
    pub async fn has_company(&self) -> bool {
        let Some(nodes) = self.nodes() else { return false };
        // A node that has lost the database has nothing to give away.
        let living = tokio::time::timeout(SOON, nodes.nodes()).await;
        living.is_ok_and(|living| living.is_ok_and(|living| living.len() > 1))
    }

    /// Gives its sessions away, each as soon as it is at rest, and opens none any more that others could have. Done
    /// when it has none.
    pub async fn give_away(&self) {
        join_all(self.house.slots.give_away().iter().map(Session::give_away)).await;
    }

    async fn watch_node_standing(&self, nodes: &SharedNodes) {
        let mut standing = nodes.standing();
        while standing.changed().await.is_ok() {
            let now = standing.borrow_and_update().clone();
            match now {
                NodeStatus::Left => return,
                NodeStatus::Fenced => self.lose_all(),
                NodeStatus::Joined(_) => {}
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
        let jitter = jitter(&self.house.owner);
        let mut taking = SessionTakeovers::default();
        loop {
            let next = Instant::now() + SWEEP.mul_f64(jitter);
            self.take_over(nodes, &mut taking).await;
            let ended = lease_end(nodes).await.map(|end| end + BEHIND.mul_f64(jitter));
            let next = ended.map_or(next, |ended| next.min(ended));
            // One that cannot be had at once keeps nobody from the others.
            let _ = timeout_at(next, taking.until(0)).await;
            sleep_until(next).await;
        }
    }

    /// Leaves word for the owner of a session to stop what goes on.
    ///
    /// # Errors
    /// [`SessionError::Store`].
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
        // The queue first: what is taken in between is in both.
        let queue = self.store().queue(id).await?;
        let seq = self.store().session(id).await?.last_seq;
        Ok(CancelCutoff { seq, waiting: queue.into_iter().map(|message| message.id).collect() })
    }

    /// Opens sessions that nobody has: what was left open there goes on. Those that cannot be opened are tried again the
    /// next time.
    async fn take_over<'a>(&'a self, nodes: &SharedNodes, taking: &mut SessionTakeovers<'a>) {
        let waiting = self.agent().rules.recovery == RunRecovery::Continue;
        let mut tried = taking.ids.clone();
        loop {
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
            for id in new {
                taking.ids.insert(id.clone());
                taking.opening.push(Box::pin(self.adopt(id)));
            }
            if is_all {
                return;
            }
            let _ = timeout(BETWEEN, taking.until(0)).await;
            taking.until(MOST_OPENING).await;
        }
    }

    async fn adopt(&self, id: SessionId) -> SessionId {
        match self.open(&id).await.map(drop) {
            Ok(()) => tracing::info!(session = %id, "taken over"),
            // Another node was faster, or this one is ending.
            Err(SessionError::Store(StoreError::Elsewhere { .. }) | SessionError::Stopped) => {}
            Err(error) => tracing::error!(session = %id, %error, "the session was not taken over"),
        }
        id
    }

    fn hear(&self, id: &SessionId, nodes: &SharedNodes) {
        // One that is not open here is an orphan, or has another owner by now.
        if let Some(session) = self.house.slots.find(id) {
            session.hear(nodes, 0);
        }
    }

    /// Stops everything: others may have it by now.
    fn lose_all(&self) {
        let open = self.opened();
        tracing::error!(
            sessions = open.len(),
            "this node could not renew its lease: it lets go of its sessions"
        );
        for session in open {
            session.shared.lost.cancel();
        }
    }
}

impl Session {
    /// Lets the driver look at what other nodes have left for it: messages that came `since` then.
    pub(super) fn hear(&self, nodes: &SharedNodes, since: Millis) {
        self.command(SessionCommand::HearNodes { nodes: Arc::clone(nodes), since });
    }

    async fn give_away(&self) {
        // One that has stopped is nobody's. In one that has come to rest something may begin at that moment.
        while self.settled().await.is_ok() && !self.close_at_rest().await {}
    }

    pub(super) fn command(&self, command: SessionCommand) {
        // One that has ended hears nothing.
        let _ = self.shared.inbox.send(DriverMessage::Command(command));
    }
}

/// When the first lease of another node ends, if it is not renewed.
async fn lease_end(nodes: &SharedNodes) -> Option<Instant> {
    // Whatever is wrong with the database, the next look tells of it.
    let left = nodes.next_lease_end().await.ok().flatten()?;
    Some(Instant::now() + left)
}

/// Between 0.5 and 1, another for each runtime.
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
