//! The news between nodes: ends of logs, changed queues or signals, deleted sessions.
//!
//! News is gathered and sent as one `NOTIFY` at a time, over a connection of its own and never in the transaction
//! of the change: commits with a notification wait for each other in the whole database. No promise depends on
//! news. Each node also polls all watched and owned sessions.

mod payload;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{NodeStatus, SessionChangePublisher, SessionWatchers};
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use self::payload::{PostgresNotification, pack, unpack};
use crate::leased_session::PostgresLeaseTable;
use crate::operation::PostgresDatabase;
use crate::operations::node::{PostgresMissedNewsQuery as Look, PostgresNotifyCommand};
use crate::text::from_db;

/// The pause after a failure to send or hear news.
// Short, because news is late meanwhile, and long enough not to fill the log during an outage.
const PAUSE: Duration = Duration::from_millis(200);

/// The notifier of a node: sends the node's news, and passes on the news of other nodes.
pub(crate) struct PostgresNotifier {
    /// The name of this node in notifications. A node ignores notifications of its own.
    sender: String,
    pub(crate) watchers: SessionWatchers,
    pub(crate) arriving: SessionChangePublisher,
    leases: Arc<PostgresLeaseTable>,
    known: Mutex<PostgresSessionIndex>,
    unsent: Mutex<PostgresNotificationOutbox>,
    changed: Notify,
}

/// The watched and owned sessions of this node, with their newest known state.
#[derive(Debug, Default)]
struct PostgresSessionIndex {
    by_no: HashMap<i64, PostgresTrackedSession>,
    by_id: HashMap<SessionId, i64>,
}

#[derive(Debug)]
struct PostgresTrackedSession {
    id: SessionId,
    /// The number of changes by others for the owner, as far as the news says.
    mail: Option<i64>,
}

#[derive(Debug, Default)]
struct PostgresNotificationOutbox {
    grown: BTreeMap<i64, Seq>,
    mailed: BTreeSet<i64>,
    gone: BTreeSet<i64>,
}

impl PostgresNotifier {
    pub(crate) fn new(leases: Arc<PostgresLeaseTable>) -> Self {
        Self {
            sender: crate::operation::call_name(),
            watchers: SessionWatchers::default(),
            arriving: SessionChangePublisher::default(),
            leases,
            known: Mutex::default(),
            unsent: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Subscribes this node to news of the session. Returns `true` if the subscription is new.
    pub(crate) fn follow(&self, no: i64, id: &SessionId) -> bool {
        let mut known = self.known();
        if known.by_id.insert(id.clone(), no) == Some(no) && known.by_no.contains_key(&no) {
            return false;
        }
        known.by_no.insert(no, PostgresTrackedSession { id: id.clone(), mail: None });
        true
    }

    /// Announces a grown log.
    pub(crate) fn grown(&self, no: i64, id: &SessionId, last: Seq) {
        self.watchers.publish(id, last);
        let mut unsent = self.unsent();
        let newest = unsent.grown.entry(no).or_default();
        *newest = last.max(*newest);
        // The sender takes the same lock as soon as it is woken.
        drop(unsent);
        self.changed.notify_one();
    }

    /// Announces a change of the session's queue or signals.
    pub(crate) fn mailed(&self, no: i64) {
        self.unsent().mailed.insert(no);
        self.changed.notify_one();
    }

    /// Announces the deletion of the session.
    pub(crate) fn gone(&self, no: i64, id: &SessionId) {
        self.watchers.end(id);
        self.known().forget(no);
        self.unsent().gone.insert(no);
        self.changed.notify_one();
    }

    /// Sends the gathered news, at most once in `every`.
    pub(crate) async fn send(self: Arc<Self>, database: PostgresDatabase, channel: String, every: Duration) {
        loop {
            self.changed.notified().await;
            // The guard ends with this statement: it must not live across the calls below.
            let unsent = std::mem::take(&mut *self.unsent());
            for payload in pack(&self.sender, unsent.items()) {
                let tell = PostgresNotifyCommand { channel: channel.clone(), payload };
                // One attempt is enough: the other nodes poll, and older news would keep newer news waiting.
                if let Err(failure) = database.attempt(&tell, false).await {
                    tracing::debug!(
                        ?failure,
                        "other nodes could not be notified; they find the change when they poll"
                    );
                    sleep(PAUSE).await;
                }
            }
            // The pause comes behind the news: the first change after a quiet time is sent at once.
            sleep(every).await;
        }
    }

    /// Hears the news of other nodes. Connects again whenever the node's status changes, because a dead connection
    /// may go unnoticed.
    pub(crate) async fn listen_for_notifications(
        self: Arc<Self>,
        pool: PgPool,
        channel: String,
        mut standing: watch::Receiver<NodeStatus>,
    ) {
        loop {
            standing.borrow_and_update();
            let ended = tokio::select! {
                changed = standing.changed() => { if changed.is_err() { return } Ok(()) }
                ended = self.listen(&pool, &channel) => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "notifications of other nodes do not arrive; this node polls \
                                         instead");
                sleep(PAUSE).await;
            }
        }
    }

    /// Listens over a pool of its own: a silent connection would keep the only place of the common pool.
    async fn listen(&self, pool: &PgPool, channel: &str) -> Result<(), sqlx::Error> {
        let pool = pool.options().clone().connect_lazy_with(pool.connect_options().as_ref().clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(channel).await?;
        tracing::debug!(channel, "this node hears the notifications of other nodes");
        loop {
            // `None`: the listener has reconnected, and notifications in between are lost.
            if let Some(notification) = listener.try_recv().await? {
                let (sender, items) = unpack(notification.payload());
                if sender != self.sender {
                    items.for_each(|item| self.heard(item));
                }
            }
        }
    }

    fn heard(&self, item: PostgresNotification) {
        match item {
            PostgresNotification::Grown(no, last) => {
                // Other sessions are not looked at here. `watch` reads the position by itself, so their news is not
                // missed.
                if let Some(id) = self.known().id(no) {
                    self.watchers.publish(&id, last);
                }
            }
            // Only the owner acts on mail. A node that merely watches the session has nothing to do.
            PostgresNotification::Mailed(no) => {
                let id = self.known().id(no).filter(|id| self.leases.holds(id));
                if let Some(id) = id {
                    self.arriving.publish(&id);
                }
            }
            PostgresNotification::Gone(no) => self.end(no),
        }
    }

    /// Polls for missed news, once in `every`.
    pub(crate) async fn poll_missed_news(self: Arc<Self>, database: PostgresDatabase, every: Duration) {
        loop {
            sleep(every).await;
            let sessions = self.followed();
            if sessions.is_empty() {
                continue;
            }
            match database.run_operation(&Look { sessions: sessions.clone() }).await {
                Ok(found) => self.compare(sessions, found),
                Err(error) => tracing::debug!(%error, "this node cannot read the changes of other nodes"),
            }
        }
    }

    /// Returns the watched and owned sessions of this node. The others are forgotten.
    fn followed(&self) -> Vec<i64> {
        let watched: std::collections::HashSet<_> = self.watchers.watched().into_iter().collect();
        let mut known = self.known();
        // `known` is locked before the leases, here and in `heard`, and never the other way round.
        let PostgresSessionIndex { by_no, by_id } = &mut *known;
        by_no.retain(|_, session| watched.contains(&session.id) || self.leases.holds(&session.id));
        by_id.retain(|_, no| by_no.contains_key(no));
        by_no.keys().copied().collect()
    }

    fn compare(&self, asked: Vec<i64>, found: Vec<crate::operations::node::PostgresSessionHeadRow>) {
        let mut missing: BTreeSet<i64> = asked.into_iter().collect();
        for newest in found {
            missing.remove(&newest.no);
            let Some((id, mailed)) = self.known().note_mail(newest.no, newest.mail) else { continue };
            self.watchers.publish(&id, from_db(newest.last_seq));
            if mailed && self.leases.holds(&id) {
                self.arriving.publish(&id);
            }
        }
        // A session without a row was deleted by another node, whose notification was lost.
        missing.into_iter().for_each(|no| self.end(no));
    }

    /// Ends the watches of a deleted session.
    fn end(&self, no: i64) {
        let ended = self.known().forget(no);
        if let Some(id) = ended {
            tracing::debug!(session = %id, "another node has deleted the session: its watches end");
            self.watchers.end(&id);
        }
    }

    pub(crate) fn end_all(&self) {
        self.watchers.end_all();
        self.arriving.end();
    }

    fn known(&self) -> MutexGuard<'_, PostgresSessionIndex> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsent(&self) -> MutexGuard<'_, PostgresNotificationOutbox> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PostgresSessionIndex {
    fn id(&self, no: i64) -> Option<SessionId> {
        self.by_no.get(&no).map(|session| session.id.clone())
    }

    /// Stores the count of changes by others for the owner. Returns the session, and whether the count is new.
    /// The first count always is.
    fn note_mail(&mut self, no: i64, mail: i64) -> Option<(SessionId, bool)> {
        let session = self.by_no.get_mut(&no)?;
        let more = session.mail.replace(mail) != Some(mail);
        Some((session.id.clone(), more))
    }

    /// Forgets a session. Returns the session's id, unless another session has the id by now.
    fn forget(&mut self, no: i64) -> Option<SessionId> {
        let session = self.by_no.remove(&no)?;
        if self.by_id.get(&session.id) != Some(&no) {
            return None;
        }
        self.by_id.remove(&session.id);
        Some(session.id)
    }
}

impl PostgresNotificationOutbox {
    fn items(self) -> impl Iterator<Item = PostgresNotification> {
        let grown = self.grown.into_iter().map(|(no, last)| PostgresNotification::Grown(no, last));
        let mailed = self.mailed.into_iter().map(PostgresNotification::Mailed);
        grown.chain(mailed).chain(self.gone.into_iter().map(PostgresNotification::Gone))
    }
}
