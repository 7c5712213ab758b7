//! The implementation of `Store` and `ClusterStore`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{
    AnswerChunk, ClusterNode, ClusterStore, EnqueueReceipt, IdempotentRequest, Lease, LogAppend,
    NewIdempotentRequest, NewQueuedMessage, NewSession, NodeStatus, SessionChangeReceiver, SessionCounts,
    SessionRecord, SessionSignal, Store, StoreError, ViewChangeKind,
};
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster_membership::ClusterMembership;
use crate::leased_session::{PostgresLeaseTable, PostgresLeasedSession, PostgresLeasedWrite};
use crate::notifier::PostgresNotifier;
use crate::open::{PostgresConnections, open};
use crate::operation::{PostgresDatabase, call_name};
use crate::operations::{chunk, inbox, lease, log, node, read, request, session, signal};
use crate::options::PostgresOptions;
use crate::trust::ConnectionTrust;

/// The maximum wait for an answer of one attempt to send or read news.
const NEWS_WITHIN: Duration = Duration::from_secs(5);

/// A store of sessions in a PostgreSQL database, shared by any number of processes. Each process is a node.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), longhaul_store::StoreError> {
/// use longhaul_store::{ClusterStore, Store};
/// use longhaul_store_postgres::{PostgresOptions, PostgresStore};
/// let options = PostgresOptions::at("10.0.0.7:4096");
/// let store = PostgresStore::open("postgres://longhaul@db.example/longhaul", options).await?;
/// println!("{} nodes", store.nodes().await?.len());
/// store.close().await;
/// # Ok(()) }
/// ```
pub struct PostgresStore {
    database: PostgresDatabase,
    /// The connections for claims of sessions.
    claims: PostgresDatabase,
    leases: Arc<PostgresLeaseTable>,
    membership: Arc<ClusterMembership>,
    news: Arc<PostgresNotifier>,
    /// The connections of the lease and the news.
    side: [PgPool; 3],
    tasks: Mutex<JoinSet<()>>,
    seed: i64,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("standing", &*self.membership.standing().borrow()).finish()
    }
}

impl PostgresStore {
    /// Opens the database at `url`, brings the schema up to date and joins the nodes. Listening needs a direct
    /// connection: a pooler that shares connections by transaction loses notifications.
    ///
    /// # Errors
    /// [`StoreError::Storage`] if the database is away, would lose acknowledged writes, or was written by a newer
    /// version; [`StoreError::OtherToken`].
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let opened = open(url, &options).await?;
        let PostgresConnections { work, claims, lease, news: news_pool, ear, channel, trust } = opened;
        let leases = Arc::new(PostgresLeaseTable::default());
        // This connection shows when the database is back, so the trust does not apply to it.
        let renewing = PostgresDatabase::new(lease.clone(), &options, ConnectionTrust::default());
        let joined = ClusterMembership::join(renewing, options.clone(), Arc::clone(&leases), trust.clone());
        let membership = Arc::new(joined.await?);
        let database = PostgresDatabase::new(work, &options, trust.clone());
        let claims = PostgresDatabase::new(claims, &options, trust.clone());
        if database.run_operation(&node::PostgresRecentStartQuery { ttl: options.ttl }).await? {
            tracing::info!(ttl = ?options.ttl, "the database has just started: sessions of late nodes are spared for one lease");
            membership.spare_others();
        }
        let news = Arc::new(PostgresNotifier::new(Arc::clone(&leases)));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&membership).maintain_lease());
        // News that is late is polled for anyway, so an attempt that hangs is given up early.
        let answer_within = options.answer_within.min(NEWS_WITHIN);
        let brief = PostgresOptions { answer_within, ..options.clone() };
        let telling = PostgresDatabase::new(news_pool.clone(), &brief, trust);
        tasks.spawn(Arc::clone(&news).poll_missed_news(telling.clone(), options.poll_every));
        tasks.spawn(Arc::clone(&news).send(telling, channel.clone(), options.notify_every));
        tasks.spawn(Arc::clone(&news).listen_for_notifications(ear.clone(), channel, membership.standing()));
        let side = [lease, news_pool, ear];
        // The lower half of the id is random. The upper half is the time, which nodes that start together share.
        let seed = uuid::Uuid::now_v7().as_u64_pair().1.cast_signed();
        Ok(Self { database, claims, leases, membership, news, side, tasks: Mutex::new(tasks), seed })
    }

    /// For tests: makes the node behave as if the process had been stopped unnoticed. The node neither renews its
    /// lease nor fences itself while `stalled`.
    #[doc(hidden)]
    pub fn stall(&self, stalled: bool) {
        self.membership.stall(stalled);
    }

    pub(crate) fn database(&self) -> &PostgresDatabase {
        &self.database
    }

    /// Announces the deletion of a session.
    pub(crate) fn gone(&self, no: i64, id: &SessionId) {
        self.news.gone(no, id);
    }

    /// Writes under a lease, unless the node is fenced before.
    async fn write<W: PostgresLeasedWrite>(
        &self,
        lease: &Lease,
        write: &W,
    ) -> Result<(W::Answer, Arc<PostgresLeasedSession>), StoreError> {
        let boot = self.membership.check(&lease.session_id)?;
        let held = self.leases.find(lease)?;
        if held.boot != boot {
            return Err(StoreError::Fenced(lease.session_id.clone()));
        }
        let written = tokio::select! {
            biased;
            // The fence is checked first: a node that is fenced reports no success, even if the answer is here.
            () = self.membership.over(&boot) => Err(StoreError::Fenced(lease.session_id.clone())),
            written = held.write(&self.database, write) => written,
        };
        if matches!(written, Err(StoreError::Fenced(_))) {
            tracing::info!(
                session = %lease.session_id,
                epoch = lease.epoch,
                node = %boot,
                "the write was fenced off: this node no longer has the session"
            );
            // The database has already refused the lease. Without the entry, later writes are refused without a call.
            self.leases.remove(lease);
        }
        Ok((written?, held))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        let create = session::PostgresSessionCreation::new(&session)?;
        self.database.run_operation(&create).await?;
        Ok(create.record())
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.database.run_operation(&read::PostgresSessionQuery { id: id.clone() }).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.database.run_operation(&read::PostgresSessionListQuery { limit }).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        // The deletion goes by number, so that a repetition cannot delete a later session of the same name.
        let (no, _) = self.database.run_operation(&read::PostgresLogExtentQuery { id: id.clone() }).await?;
        self.database.run_operation(&session::PostgresSessionDeletion { id: id.clone(), no }).await?;
        tracing::debug!(session = %id, "the session was deleted");
        self.news.gone(no, id);
        Ok(())
    }

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        let boot = self.membership.check(id)?;
        let claim =
            lease::PostgresLeaseClaim { id: id.clone(), owner_name: owner.to_owned(), boot: boot.clone() };
        let claimed = self.claims.run_operation(&claim).await?;
        self.news.follow(claimed.no, id);
        let lease = self.leases.insert_claim(PostgresLeasedSession::new(
            id.clone(),
            claimed.no,
            boot.clone(),
            claimed.epoch,
        ));
        // The node may have been fenced during the call. Then the lease is void, whatever the database says.
        if self.membership.check(id)? != boot {
            tracing::info!(session = %id, epoch = lease.epoch, "the claim is void: this node was fenced in the meantime");
            self.leases.remove(&lease);
            return Err(StoreError::Fenced(id.clone()));
        }
        tracing::debug!(session = %id, epoch = lease.epoch, node = %boot, owner, "the session was claimed");
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let Ok(held) = self.leases.find(lease) else { return Ok(()) };
        // Removed before the call, so that no new write begins under a lease that is about to end.
        self.leases.remove(lease);
        tracing::debug!(session = %held.id, epoch = held.epoch, "the session is released");
        let release = lease::PostgresLeaseRelease { no: held.no, boot: held.boot.clone(), epoch: held.epoch };
        self.database.run_operation(&release).await
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        let (first, held) = self.write(lease, &log::PostgresEventAppend::new(&append)?).await?;
        let at = append.at;
        let events: Vec<Event> =
            (first..).zip(append.events).map(|(seq, body)| Event { seq, at, format: FORMAT, body }).collect();
        if let Some(last) = events.last() {
            self.news.grown(held.no, &held.id, last.seq);
        }
        Ok(events)
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        let rows =
            self.database.run_operation(&read::PostgresEventsQuery { id: id.clone(), after, limit }).await?;
        read::decode(id, after, rows).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        let (_, last) = self.database.run_operation(&read::PostgresLogExtentQuery { id: id.clone() }).await?;
        let count = u64::try_from(limit).unwrap_or(u64::MAX);
        // Events appended in between are left out. They would push the oldest wanted event out of the answer.
        self.read(id, last.saturating_sub(count), limit).await
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.database
            .run_operation(&read::PostgresViewChangesQuery { id: id.clone(), kind, after, limit })
            .await
    }

    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        self.database.run_operation(&read::PostgresSessionCountsQuery).await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        let (accepted, no) = self.database.run_operation(&inbox::PostgresEnqueue::new(id, message)?).await?;
        self.news.mailed(no);
        Ok(accepted)
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.database.run_operation(&read::PostgresQueueQuery { id: id.clone() }).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        let no = self
            .database
            .run_operation(&inbox::PostgresQueueEdit::new(id, entry, &parts, metadata.as_ref())?)
            .await?;
        self.news.mailed(no);
        Ok(())
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        let (_, no) = self.database.run_operation(&inbox::PostgresQueueRemoval::one(id, entry)).await?;
        self.news.mailed(no);
        Ok(())
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        let (ids, no) = self.database.run_operation(&inbox::PostgresQueueRemoval::all(id)).await?;
        self.news.mailed(no);
        Ok(ids)
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.database
            .run_operation(&request::PostgresRequestBegin { id: id.clone(), request, begun_by: call_name() })
            .await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.database
            .run_operation(&request::PostgresRequestAnswer { id: id.clone(), key: key.to_owned(), answer })
            .await
    }

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.write(lease, &chunk::PostgresChunkInsert { chunk }).await.map(|_| ())
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.database.run_operation(&read::PostgresChunksQuery { id: id.clone() }).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.database.run_operation(&read::PostgresBlobsQuery { id: id.clone() }).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        let watched = self.news.watchers.watch(id);
        let position = read::PostgresLogExtentQuery { id: id.clone() };
        let (no, mut last) = self.database.run_operation(&position).await?;
        if self.news.follow(no, id) {
            // The log may have grown before this node followed the session, and that news was ignored here.
            (_, last) = self.database.run_operation(&position).await?;
        }
        Ok(watched.from(last))
    }

    async fn close(&self) {
        // Writes under way are finished before the lease ends, and later calls find the pools closed. The lease
        // has a pool of its own, so the node can still leave.
        self.database.pool().close().await;
        self.claims.pool().close().await;
        self.membership.leave().await;
        for pool in &self.side {
            pool.close().await;
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
        self.news.end_all();
    }
}

#[async_trait]
impl ClusterStore for PostgresStore {
    fn standing(&self) -> watch::Receiver<NodeStatus> {
        self.membership.standing()
    }

    async fn nodes(&self) -> Result<Vec<ClusterNode>, StoreError> {
        self.database.run_operation(&node::PostgresLiveNodesQuery).await
    }

    async fn living_owner(&self, id: &SessionId) -> Result<Option<ClusterNode>, StoreError> {
        self.database.run_operation(&node::PostgresOwnerQuery { id: id.clone() }).await
    }

    async fn orphans(&self, limit: usize, waiting: bool) -> Result<Vec<SessionId>, StoreError> {
        if !self.membership.may_adopt() {
            return Ok(Vec::new());
        }
        let found = self
            .claims
            .run_operation(&node::PostgresOrphansQuery { limit, waiting, seed: self.seed })
            .await?;
        // The call may have outlasted an outage, and owners may not be back from it yet.
        if !self.membership.may_adopt() {
            tracing::debug!(
                found = found.len(),
                "sessions without a living node are left alone: their nodes may only be late"
            );
            return Ok(Vec::new());
        }
        if !found.is_empty() {
            tracing::debug!(found = found.len(), limit, waiting, "there are sessions without a living node");
        }
        Ok(found)
    }

    async fn next_lease_end(&self) -> Result<Option<Duration>, StoreError> {
        let Some(boot) = self.membership.boot().filter(|_| self.membership.may_adopt()) else {
            return Ok(None);
        };
        self.claims.run_operation(&node::PostgresNextLeaseEndQuery { boot }).await
    }

    async fn signal(&self, id: &SessionId, body: String) -> Result<(), StoreError> {
        let no = self
            .database
            .run_operation(&signal::PostgresSignalInsert { id: id.clone(), body, sent_by: call_name() })
            .await?;
        tracing::debug!(session = %id, "a signal for the session's owner was stored");
        self.news.mailed(no);
        Ok(())
    }

    async fn signals(&self, id: &SessionId) -> Result<Vec<SessionSignal>, StoreError> {
        self.database.run_operation(&signal::PostgresSignalsQuery { id: id.clone() }).await
    }

    async fn take_signals(&self, lease: &Lease) -> Result<Vec<SessionSignal>, StoreError> {
        let (signals, held) = self.write(lease, &signal::PostgresSignalsTake).await?;
        if !signals.is_empty() {
            tracing::debug!(session = %held.id, signals = signals.len(), "signals of other nodes were taken");
        }
        Ok(signals)
    }

    fn arrivals(&self) -> SessionChangeReceiver {
        self.news.arriving.subscribe()
    }
}
