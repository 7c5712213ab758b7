//! The store's face.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::Queued;
use longhaul_store::{
    Accepted, Append, Arrivals, Chunk, Lease, NewQueued, NewRequest, NewSession, Node, Nodes, Request,
    SessionCounts, SessionRecord, Signal, Standing, Store, StoreError, ViewChange,
};
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::call::{Database, call_name};
use crate::calls::{chunk, inbox, lease, log, node, read, request, session, signal};
use crate::held::{Held, LeasedWrite, Leases};
use crate::news::News;
use crate::node::Membership;
use crate::open::{Connections, open};
use crate::options::PostgresOptions;
use crate::trust::Trust;

/// How long one attempt to tell or find news waits for an answer.
const NEWS_WITHIN: Duration = Duration::from_secs(5);

/// Sessions in a PostgreSQL database that any number of processes share. Each is a node.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), longhaul_store::StoreError> {
/// use longhaul_store::{Nodes, Store};
/// use longhaul_store_postgres::{PostgresOptions, PostgresStore};
/// let options = PostgresOptions::at("10.0.0.7:4096");
/// let store = PostgresStore::open("postgres://longhaul@db.example/longhaul", options).await?;
/// println!("{} nodes", store.nodes().await?.len());
/// store.close().await;
/// # Ok(()) }
/// ```
pub struct PostgresStore {
    database: Database,
    /// For taking sessions.
    claims: Database,
    leases: Arc<Leases>,
    membership: Arc<Membership>,
    news: Arc<News>,
    /// The connections that serve the lease and the news.
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
    /// Opens the database at `url`, brings it up to date and joins its nodes. Listening needs a direct connection: a
    /// pooler between them that shares connections by transaction will not do.
    ///
    /// # Errors
    /// [`StoreError::Storage`] if the database is away, would lose what it acknowledges, or was written by a newer
    /// version; [`StoreError::OtherToken`].
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let opened = open(url, &options).await?;
        let Connections { work, claims, lease, news: news_pool, ear, channel, trust } = opened;
        let leases = Arc::new(Leases::default());
        // Its connection is what shows that the database is there again.
        let renewing = Database::new(lease.clone(), &options, Trust::default());
        let joined = Membership::join(renewing, options.clone(), Arc::clone(&leases), trust.clone());
        let membership = Arc::new(joined.await?);
        let database = Database::new(work, &options, trust.clone());
        let claims = Database::new(claims, &options, trust.clone());
        if database.make(&node::IsYoung { ttl: options.ttl }).await? {
            membership.spare_others();
        }
        let news = Arc::new(News::new(Arc::clone(&leases)));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&membership).keep());
        let answer_within = options.answer_within.min(NEWS_WITHIN);
        let brief = PostgresOptions { answer_within, ..options.clone() };
        let telling = Database::new(news_pool.clone(), &brief, trust);
        tasks.spawn(Arc::clone(&news).look(telling.clone(), options.poll_every));
        tasks.spawn(Arc::clone(&news).send(telling, channel.clone(), options.notify_every));
        tasks.spawn(Arc::clone(&news).hear(ear.clone(), channel, membership.standing()));
        let side = [lease, news_pool, ear];
        let seed = uuid::Uuid::now_v7().as_u64_pair().1.cast_signed();
        Ok(Self { database, claims, leases, membership, news, side, tasks: Mutex::new(tasks), seed })
    }

    /// For tests: as if this process had been stopped without knowing it. It neither renews its lease nor fences itself
    /// while `stalled`.
    #[doc(hidden)]
    pub fn stall(&self, stalled: bool) {
        self.membership.stall(stalled);
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Tells that a session is gone.
    pub(crate) fn gone(&self, no: i64, id: &SessionId) {
        self.news.gone(no, id);
    }

    /// Writes under a lease, unless this node is fenced before.
    async fn write<W: LeasedWrite>(
        &self,
        lease: &Lease,
        write: &W,
    ) -> Result<(W::Answer, Arc<Held>), StoreError> {
        let boot = self.membership.check(&lease.session_id)?;
        let held = self.leases.find(lease)?;
        let fenced = || StoreError::Fenced(lease.session_id.clone());
        if held.boot != boot {
            return Err(fenced());
        }
        let written = tokio::select! {
            biased;
            () = self.membership.over(&boot) => Err(fenced()),
            written = held.write(&self.database, write) => written,
        };
        if matches!(written, Err(StoreError::Fenced(_))) {
            self.leases.remove(lease);
        }
        Ok((written?, held))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        let create = session::Create::new(&session)?;
        self.database.make(&create).await?;
        Ok(create.record())
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.database.make(&read::Record { id: id.clone() }).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.database.make(&read::Records { limit }).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let (no, _) = self.database.make(&read::Position { id: id.clone() }).await?;
        self.database.make(&session::Delete { id: id.clone(), no }).await?;
        self.news.gone(no, id);
        Ok(())
    }

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        let boot = self.membership.check(id)?;
        let claim = lease::Claim { id: id.clone(), owner_name: owner.to_owned(), boot: boot.clone() };
        let claimed = self.claims.make(&claim).await?;
        self.news.follow(claimed.no, id);
        let lease = self.leases.keep(Held::new(id.clone(), claimed.no, boot.clone(), claimed.epoch));
        // Fenced in between: the lease is void, whatever the database says.
        if self.membership.check(id)? != boot {
            self.leases.remove(&lease);
            return Err(StoreError::Fenced(id.clone()));
        }
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let Ok(held) = self.leases.find(lease) else { return Ok(()) };
        self.leases.remove(lease);
        let release = lease::Release { no: held.no, boot: held.boot.clone(), epoch: held.epoch };
        self.database.make(&release).await
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Vec<Event>, StoreError> {
        let (first, held) = self.write(lease, &log::AppendEvents::new(&append)?).await?;
        let at = append.at;
        let events: Vec<Event> =
            (first..).zip(append.events).map(|(seq, body)| Event { seq, at, format: FORMAT, body }).collect();
        if let Some(last) = events.last() {
            self.news.grown(held.no, &held.id, last.seq);
        }
        Ok(events)
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        let rows = self.database.make(&read::Events { id: id.clone(), after, limit }).await?;
        read::decode(id, after, rows).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        let (_, last) = self.database.make(&read::Position { id: id.clone() }).await?;
        let count = u64::try_from(limit).unwrap_or(u64::MAX);
        // Events that come in between are left out: they would push the oldest asked for out of the answer.
        self.read(id, last.saturating_sub(count), limit).await
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChange,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.database.make(&read::ViewChanges { id: id.clone(), kind, after, limit }).await
    }

    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        self.database.make(&read::Counts).await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueued) -> Result<Accepted, StoreError> {
        let (accepted, no) = self.database.make(&inbox::Enqueue::new(id, message)?).await?;
        self.news.mailed(no);
        Ok(accepted)
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<Queued>, StoreError> {
        self.database.make(&read::Queue { id: id.clone() }).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        let no = self.database.make(&inbox::Edit::new(id, entry, &parts, metadata.as_ref())?).await?;
        self.news.mailed(no);
        Ok(())
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        let (_, no) = self.database.make(&inbox::Remove::one(id, entry)).await?;
        self.news.mailed(no);
        Ok(())
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        let (ids, no) = self.database.make(&inbox::Remove::all(id)).await?;
        self.news.mailed(no);
        Ok(ids)
    }

    async fn begin_request(&self, id: &SessionId, request: NewRequest) -> Result<Request, StoreError> {
        self.database.make(&request::Begin { id: id.clone(), request, begun_by: call_name() }).await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.database.make(&request::Answer { id: id.clone(), key: key.to_owned(), answer }).await
    }

    async fn put_chunk(&self, lease: &Lease, chunk: Chunk) -> Result<(), StoreError> {
        self.write(lease, &chunk::Put { chunk }).await.map(|_| ())
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<Chunk>, StoreError> {
        self.database.make(&read::Chunks { id: id.clone() }).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.database.make(&read::Blobs { id: id.clone() }).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        let watched = self.news.watchers.watch(id);
        let position = read::Position { id: id.clone() };
        let (no, mut last) = self.database.make(&position).await?;
        if self.news.follow(no, id) {
            // What was told before this node listened.
            (_, last) = self.database.make(&position).await?;
        }
        Ok(watched.from(last))
    }

    async fn close(&self) {
        // What is being written is written to the end; later calls find the connections closed.
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
impl Nodes for PostgresStore {
    fn standing(&self) -> watch::Receiver<Standing> {
        self.membership.standing()
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.database.make(&node::Living).await
    }

    async fn living_owner(&self, id: &SessionId) -> Result<Option<Node>, StoreError> {
        self.database.make(&node::Owner { id: id.clone() }).await
    }

    async fn orphans(&self, limit: usize, waiting: bool) -> Result<Vec<SessionId>, StoreError> {
        if !self.membership.may_adopt() {
            return Ok(Vec::new());
        }
        let found = self.claims.make(&node::Orphans { limit, waiting, seed: self.seed }).await?;
        // The call may have outlasted an outage, and owners may not be back from it yet.
        Ok(if self.membership.may_adopt() { found } else { Vec::new() })
    }

    async fn next_lease_end(&self) -> Result<Option<Duration>, StoreError> {
        let Some(boot) = self.membership.boot().filter(|_| self.membership.may_adopt()) else {
            return Ok(None);
        };
        self.claims.make(&node::NextEnd { boot }).await
    }

    async fn signal(&self, id: &SessionId, body: String) -> Result<(), StoreError> {
        let no = self.database.make(&signal::Send { id: id.clone(), body, sent_by: call_name() }).await?;
        self.news.mailed(no);
        Ok(())
    }

    async fn signals(&self, id: &SessionId) -> Result<Vec<Signal>, StoreError> {
        self.database.make(&signal::Waiting { id: id.clone() }).await
    }

    async fn take_signals(&self, lease: &Lease) -> Result<Vec<Signal>, StoreError> {
        self.write(lease, &signal::Take).await.map(|(signals, _)| signals)
    }

    fn arrivals(&self) -> Arrivals {
        self.news.arriving.subscribe()
    }
}
