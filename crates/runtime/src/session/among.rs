//! A runtime among others on one store: it takes over what a node that died has left, hears what others have left for
//! its sessions, and lets go of everything when it may have lost it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use longhaul_core::ids::SessionId;
use longhaul_store::{SharedNodes, Standing, StoreError};
use serde::{Deserialize, Serialize};

use super::{Runtime, Session, SessionError};
use crate::driver::{Command, Message};

/// Between two looks for sessions that nobody has, at most (`storage-scale`, takeover: 10 s of a lease and this).
const SWEEP: Duration = Duration::from_secs(2);

/// Sessions that are taken over at a time: others take their share.
const AT_ONCE: usize = 8;

/// What a node leaves for the owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Told {
    /// Stop what goes on.
    Cancel {
        /// Queued messages go, too.
        clear_queue: bool,
    },
}

impl Told {
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
    pub async fn attend_nodes(&self) {
        let Some(nodes) = self.nodes().cloned() else { return };
        // Side by side: a database that does not answer holds up a sweep, and must not hold up the fence.
        tokio::select! {
            () = self.heed_standing(&nodes) => {}
            () = self.hear_all(&nodes) => {}
            () = self.sweep(&nodes) => {}
        }
    }

    async fn heed_standing(&self, nodes: &SharedNodes) {
        let mut standing = nodes.standing();
        while standing.changed().await.is_ok() {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::Left => return,
                Standing::Fenced => self.lose_all(),
                Standing::Joined(_) => {}
            }
        }
    }

    async fn hear_all(&self, nodes: &SharedNodes) {
        let mut arrivals = nodes.arrivals();
        while let Some(id) = arrivals.next().await {
            self.hear(&id, nodes);
        }
    }

    async fn sweep(&self, nodes: &SharedNodes) {
        let mut sweeps = tokio::time::interval(SWEEP.mul_f64(jitter(&self.house.owner)));
        sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            sweeps.tick().await;
            self.take_over(nodes).await;
        }
    }

    /// Leaves word for the owner of a session to stop what goes on.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn leave_cancel(&self, id: &SessionId, clear_queue: bool) -> Result<(), SessionError> {
        let Some(nodes) = self.nodes() else { return Ok(()) };
        let told = serde_json::to_string(&Told::Cancel { clear_queue })
            .map_err(|error| StoreError::Storage(error.to_string()))?;
        Ok(nodes.signal(id, told).await?)
    }

    /// Opens sessions that nobody has: what was left open there goes on.
    async fn take_over(&self, nodes: &SharedNodes) {
        let orphans = match nodes.orphans(AT_ONCE).await {
            Ok(orphans) => orphans,
            Err(error) => return tracing::warn!(%error, "whether sessions have lost their node is not known"),
        };
        let opened = orphans.iter().map(|id| async move {
            match self.open(id).await {
                Ok(_) => tracing::info!(session = %id, "taken over"),
                // Another node was faster, or this one is ending.
                Err(SessionError::Store(StoreError::Elsewhere { .. }) | SessionError::Stopped) => {}
                Err(error) => tracing::error!(session = %id, %error, "the session was not taken over"),
            }
        });
        join_all(opened).await;
    }

    fn hear(&self, id: &SessionId, nodes: &SharedNodes) {
        // One that is not open here is an orphan, or has another owner by now.
        if let Some(session) = self.house.slots.find(id) {
            session.hear(nodes);
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
            session.command(Command::Lose);
        }
    }
}

impl Session {
    /// Lets the driver look at what other nodes have left for it.
    pub(super) fn hear(&self, nodes: &SharedNodes) {
        self.command(Command::HearNodes { nodes: Arc::clone(nodes) });
    }

    fn command(&self, command: Command) {
        // One that has ended hears nothing.
        let _ = self.shared.inbox.send(Message::Command(command));
    }
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
        let told = Told::Cancel { clear_queue: true };
        let said = serde_json::to_string(&told).unwrap();
        assert_eq!(said, r#"{"cancel":{"clearQueue":true}}"#);
        assert_eq!(Told::read(&said), Some(told));
        assert_eq!(Told::read(r#"{"other":1}"#), None);
    }
}
