//! The cluster membership of this process: joining, renewing the lease, stopping without a renewal, joining
//! again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, NodeStatus, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::PostgresOperationError;
use crate::leased_session::PostgresLeaseTable;
use crate::operation::{PostgresDatabase, call_name};
use crate::operations::node::{PostgresNodeJoin, PostgresNodeRemoval, PostgresNodeRenewal};
use crate::options::PostgresOptions;
use crate::trust::ConnectionTrust;

/// The pause after the database could not be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// The membership of this process in the cluster.
pub(crate) struct ClusterMembership {
    database: PostgresDatabase,
    options: PostgresOptions,
    leases: Arc<PostgresLeaseTable>,
    /// The trust in all connections but the lease's.
    trust: ConnectionTrust,
    standing: watch::Sender<NodeStatus>,
    times: Mutex<MembershipTimes>,
    /// A switch for tests: the node behaves as if the process had been stopped unnoticed.
    stalled: AtomicBool,
}

/// The times of the membership, by the clock of the process.
#[derive(Clone, Copy, Debug)]
struct MembershipTimes {
    /// The sending time of the newest successful renewal.
    renewed: Instant,
    /// The time before which the sessions of others are left alone. Their owners may only be waiting for the
    /// database, like this node before.
    orphans_from: Instant,
}

impl ClusterMembership {
    /// Joins the cluster and takes a lease.
    pub(crate) async fn join(
        database: PostgresDatabase,
        options: PostgresOptions,
        leases: Arc<PostgresLeaseTable>,
        trust: ConnectionTrust,
    ) -> Result<Self, StoreError> {
        // The time is taken before the call. The lease in the database begins later and therefore ends later than this
        // node believes, never earlier.
        let now = Instant::now();
        let boot = BootId::new(call_name());
        database.run_operation(&join(&options, boot.clone(), None)).await?;
        tracing::info!(
            %boot,
            address = options.address.as_deref(),
            ttl = ?options.ttl,
            fence_after = ?options.fence_after,
            "this node has joined the cluster"
        );
        let standing = watch::Sender::new(NodeStatus::Joined(boot));
        let times = Mutex::new(MembershipTimes { renewed: now, orphans_from: now });
        Ok(Self { database, options, leases, trust, standing, times, stalled: AtomicBool::new(false) })
    }

    pub(crate) fn standing(&self) -> watch::Receiver<NodeStatus> {
        self.standing.subscribe()
    }

    /// Returns the node's name, if the node may write now. A process that was stopped for a while is fenced here.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]; [`StoreError::Closed`].
    pub(crate) fn check(&self, id: &SessionId) -> Result<BootId, StoreError> {
        if Instant::now() >= self.fence_at() && !self.is_stalled() {
            self.fence();
        }
        match &*self.standing.borrow() {
            NodeStatus::Joined(boot) => Ok(boot.clone()),
            NodeStatus::Fenced => Err(StoreError::Fenced(id.clone())),
            _ => Err(StoreError::Closed),
        }
    }

    /// Waits until the life `boot` of the node is over.
    pub(crate) async fn over(&self, boot: &BootId) {
        let mut standing = self.standing.subscribe();
        // The wait fails only when the sender is dropped, and the sender lives as long as `self`.
        let _ = standing.wait_for(|now| !matches!(now, NodeStatus::Joined(now) if now == boot)).await;
    }

    /// Returns whether sessions without a living owner may be taken. The answer is `false` while the owners may
    /// only be late.
    pub(crate) fn may_adopt(&self) -> bool {
        matches!(*self.standing.borrow(), NodeStatus::Joined(_))
            && Instant::now() >= self.times().orphans_from
    }

    /// Leaves the sessions of others alone for one lifetime of a lease.
    pub(crate) fn spare_others(&self) {
        let until = Instant::now() + self.options.ttl;
        tracing::debug!(ttl = ?self.options.ttl, "sessions of late nodes are not taken over for one lease");
        self.change(|times| times.orphans_from = until);
    }

    /// Sets `stalled`, for tests.
    pub(crate) fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Maintains the lease until the node leaves.
    pub(crate) async fn maintain_lease(self: Arc<Self>) {
        let mut standing = self.standing.subscribe();
        let left = async {
            let _ = standing.wait_for(|now| *now == NodeStatus::Left).await;
        };
        tokio::select! {
            // Checked first: a node that leaves does not begin to join again.
            biased;
            () = left => {}
            () = self.keep_on() => {}
        }
    }

    async fn keep_on(&self) {
        let mut boot = self.boot();
        loop {
            match boot {
                Some(now) => {
                    self.renew_until_over(&now).await;
                    // `leave` may have run just now, before the task's own wait for it is polled.
                    let leaves = *self.standing.borrow() == NodeStatus::Left;
                    boot = if leaves { None } else { self.rejoin(now).await };
                }
                None => return,
            }
        }
    }

    /// Returns the node's name, while the node may write.
    pub(crate) fn boot(&self) -> Option<BootId> {
        match &*self.standing.borrow() {
            NodeStatus::Joined(boot) => Some(boot.clone()),
            _ => None,
        }
    }

    /// Renews the lease of `boot` until a renewal fails for too long, and then leaves the node fenced.
    async fn renew_until_over(&self, boot: &BootId) {
        let renew = PostgresNodeRenewal { boot: boot.clone(), ttl: self.options.ttl };
        let mut next = self.times().renewed + self.options.renew_every;
        let mut failed = false;
        loop {
            let over = tokio::time::timeout_at(next.min(self.fence_at()), self.over(boot)).await.is_ok();
            if over {
                return;
            }
            if self.is_stalled() {
                sleep(PAUSE).await;
                continue;
            }
            if Instant::now() >= self.fence_at() {
                return self.fence();
            }
            let sent = Instant::now();
            // An answer behind the fence would be of no use: this node has promised not to write from there on.
            match timeout_at(self.fence_at(), self.database.attempt(&renew, false)).await {
                Ok(Ok(true)) => {
                    tracing::trace!(%boot, elapsed_ms = sent.elapsed().as_millis() as u64, "the lease is renewed");
                    self.change(|times| times.renewed = sent);
                    // Both times count from the sending, as in `join`: the lease in the database ends no earlier than
                    // this node believes.
                    next = sent + self.options.renew_every;
                    failed = false;
                }
                Ok(Ok(false)) => {
                    tracing::info!(%boot, "this node's lease had expired in the database");
                    return self.fence();
                }
                Ok(Err(failure)) if !failed => {
                    // The connection alone may have died, so the next attempt comes at once on a new connection.
                    note(&failure);
                    failed = true;
                    next = Instant::now();
                }
                Ok(Err(failure)) => {
                    note(&failure);
                    // The database is away, so the other nodes cannot renew either. Their sessions stay theirs for one
                    // lease more.
                    self.spare_others();
                    next = Instant::now() + PAUSE;
                }
                Err(_) => return self.fence(),
            }
        }
    }

    /// Joins under a new name, without a time limit. The old name ends at the same moment.
    async fn rejoin(&self, before: BootId) -> Option<BootId> {
        let boot = BootId::new(call_name());
        let join = join(&self.options, boot.clone(), Some(before));
        let mut is_told = false;
        loop {
            let sent = Instant::now();
            // An answer that takes longer would leave little time to renew the new lease.
            match timeout_at(sent + self.options.ttl / 2, self.database.attempt(&join, true)).await {
                Ok(Ok(())) => {
                    self.spare_others();
                    // A connection from before the outage may be dead without a sign (see `trust`).
                    self.trust.only_since(sent.into_std());
                    self.change(|times| times.renewed = sent);
                    // `leave` may have come during the call. Then the status stays `Left`.
                    let back = self.standing.send_if_modified(|standing| {
                        let fenced = *standing == NodeStatus::Fenced;
                        if fenced {
                            *standing = NodeStatus::Joined(boot.clone());
                        }
                        fenced
                    });
                    tracing::info!(%boot, "this node has joined again");
                    return back.then_some(boot);
                }
                Ok(Err(PostgresOperationError::Refused(error))) if !is_told => {
                    tracing::error!("this node stays out: {error}");
                    is_told = true;
                }
                Ok(Err(failure)) => note(&failure),
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// Ends all leases of the node at once, in this process alone.
    fn fence(&self) {
        let fenced = self.standing.send_if_modified(|standing| {
            let joined = matches!(standing, NodeStatus::Joined(_));
            if joined {
                *standing = NodeStatus::Fenced;
            }
            joined
        });
        if fenced {
            // The status changes first: `check` refuses a write that begins now, whatever the table still holds.
            self.leases.clear();
            tracing::warn!(
                "this node could not renew its lease in time: it stops writing until it has joined again"
            );
        }
    }

    /// Ends the node: all of its sessions are free at once.
    pub(crate) async fn leave(&self) {
        // Writes end here before the lease ends in the database. The other order would let two nodes write for a
        // moment.
        let before = self.standing.send_replace(NodeStatus::Left);
        tracing::info!(?before, "this node leaves: its sessions are free for others");
        self.leases.clear();
        if let NodeStatus::Joined(boot) = before
            && let Err(error) = self.database.run_operation(&PostgresNodeRemoval { boot }).await
        {
            tracing::warn!(%error, "this node's lease was not ended; it will run out");
        }
    }

    fn fence_at(&self) -> Instant {
        self.times().renewed + self.options.fence_after
    }

    fn times(&self) -> MembershipTimes {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut MembershipTimes)) {
        change(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn join(options: &PostgresOptions, boot: BootId, before: Option<BootId>) -> PostgresNodeJoin {
    let (address, token_digest) = (options.address.clone(), options.token_digest.clone());
    PostgresNodeJoin { boot, before, address, token_digest, ttl: options.ttl }
}

fn note(failure: &PostgresOperationError) {
    tracing::debug!(?failure, "the lease of this node was not renewed");
}
