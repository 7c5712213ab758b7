//! The leases of this node, and writes under a lease.
//!
//! Every write under a lease names the session's owner and epoch, and two numbers: the present number of the
//! session row, and the next one. A write without an answer is made again with the same numbers. If the
//! repetition finds the old number, the first attempt was not done; should the first attempt still arrive, the
//! attempt finds the new number and does nothing. If the repetition finds the new number, the first attempt was
//! done. Writes of one session wait for each other here, so the numbers are known.
//!
//! A write is given up if the caller stops waiting, or if the database stays away. The next write then first sets
//! an unexpected number, and so voids any attempt still under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, Lease, StoreError};
use sqlx::PgConnection;

use crate::error::{PostgresOperationError, store_error};
use crate::operation::{PostgresDatabase, PostgresOperation};
use crate::text::{from_db, to_db};

/// A session of this node.
#[derive(Debug)]
pub(crate) struct PostgresLeasedSession {
    pub(crate) id: SessionId,
    pub(crate) no: i64,
    pub(crate) boot: BootId,
    pub(crate) epoch: i64,
    turn: tokio::sync::Mutex<PostgresWriteNumbers>,
}

#[derive(Debug)]
struct PostgresWriteNumbers {
    /// The number in the session row.
    writes: i64,
    /// The next number, never used before.
    next: i64,
    /// The number of the write under way. Until its end, the number of the row is unknown.
    under_way: Option<i64>,
    /// The numbers of writes without an answer. Such a write may have been done before, but will not be done any
    /// more.
    lost: Vec<i64>,
}

/// The target of a write, and the expected state there.
#[derive(Clone, Debug)]
pub(crate) struct PostgresWriteContext {
    pub(crate) id: SessionId,
    pub(crate) no: i64,
    pub(crate) boot: BootId,
    pub(crate) epoch: i64,
    /// The number in the session row.
    pub(crate) old: i64,
    /// The number for the session row after the write.
    pub(crate) new: i64,
    /// Numbers of earlier writes whose answers were lost.
    pub(crate) lost: Vec<i64>,
}

/// The state of the session row after a write without effect.
pub(crate) enum PostgresWriteStatus {
    /// Another node has the session.
    Void,
    /// The row is unchanged.
    Before,
    /// The write was done. `last_seq` is the end of the log afterwards.
    Done { last_seq: i64 },
}

/// A write under a lease.
#[async_trait]
pub(crate) trait PostgresLeasedWrite: Send + Sync {
    /// The type of the caller's answer.
    type Answer: Send;

    /// `true` if the write sets the new number.
    const COUNTS: bool = true;

    /// Writes once. See [`PostgresOperation::run_once`].
    async fn write(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
        again: bool,
    ) -> Result<Self::Answer, PostgresOperationError>;
}

struct LeasedWriteOperation<'w, W> {
    place: PostgresWriteContext,
    write: &'w W,
}

#[async_trait]
impl<W: PostgresLeasedWrite> PostgresOperation for LeasedWriteOperation<'_, W> {
    type Answer = W::Answer;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        again: bool,
    ) -> Result<W::Answer, PostgresOperationError> {
        self.write.write(db, &self.place, again).await
    }
}

impl PostgresWriteContext {
    /// Returns the outcome of a write whose statement changed nothing.
    pub(crate) async fn check_write_status(
        &self,
        db: &mut PgConnection,
    ) -> Result<PostgresWriteStatus, sqlx::Error> {
        let row = sqlx::query!(
            "SELECT writes, last_seq FROM session WHERE no = $1 AND owner = $2 AND epoch = $3",
            self.no,
            self.boot.as_str(),
            self.epoch
        )
        .fetch_optional(db)
        .await?;
        Ok(match row {
            Some(row) if row.writes == self.old => PostgresWriteStatus::Before,
            Some(row) if row.writes == self.new => PostgresWriteStatus::Done { last_seq: row.last_seq },
            _ => PostgresWriteStatus::Void,
        })
    }

    pub(crate) fn fenced(&self) -> StoreError {
        StoreError::Fenced(self.id.clone())
    }
}

impl PostgresLeasedSession {
    pub(crate) fn new(id: SessionId, no: i64, boot: BootId, epoch: i64) -> Self {
        let turn = tokio::sync::Mutex::new(PostgresWriteNumbers {
            writes: 0,
            next: 1,
            under_way: None,
            lost: Vec::new(),
        });
        Self { id, no, boot, epoch, turn }
    }

    fn place(&self, turn: &mut PostgresWriteNumbers) -> PostgresWriteContext {
        let (old, new, lost) = (turn.writes, turn.next, turn.lost.clone());
        turn.next += 1;
        PostgresWriteContext {
            id: self.id.clone(),
            no: self.no,
            boot: self.boot.clone(),
            epoch: self.epoch,
            old,
            new,
            lost,
        }
    }

    /// Writes, and repeats the write for as long as the caller waits while the database is away.
    pub(crate) async fn write<W: PostgresLeasedWrite>(
        &self,
        database: &PostgresDatabase,
        write: &W,
    ) -> Result<W::Answer, StoreError> {
        let mut turn = self.turn.lock().await;
        if let Some(lost) = turn.under_way {
            // The last write was given up, so it is unknown whether the row has its number. A fresh number makes
            // that write impossible before the next one begins.
            let place = self.place(&mut turn);
            tracing::debug!(
                session = %self.id,
                epoch = self.epoch,
                lost,
                "the last write was given up without an answer: its number is made void"
            );
            let new = place.new;
            database.run_operation(&PostgresWriteNumberReset { place }).await?;
            turn.lost.push(lost);
            (turn.writes, turn.under_way) = (new, None);
        }
        let call = LeasedWriteOperation { place: self.place(&mut turn), write };
        // Set before the wait: if the caller stops waiting, the next write finds the number here.
        turn.under_way = Some(call.place.new);
        // A failure leaves `under_way` set: the outcome is unknown, and the next write has to void the number
        // first.
        let answer = repeat(database, &call).await?;
        turn.under_way = None;
        // A refused write has left the number of the row as it was.
        if answer.is_ok() && W::COUNTS {
            turn.writes = call.place.new;
        }
        answer
    }
}

/// Makes a call until an answer or a refusal comes. The caller stops waiting when the node is fenced.
///
/// # Errors
/// [`StoreError::Storage`] if the database stays away. The outcome of the call is unknown then.
async fn repeat<C: PostgresOperation>(
    database: &PostgresDatabase,
    call: &C,
) -> Result<Result<C::Answer, StoreError>, StoreError> {
    let (mut patience, mut again) = (database.patience_of_writes(), false);
    loop {
        match database.attempt(call, again).await {
            Ok(answer) => return Ok(Ok(answer)),
            Err(PostgresOperationError::Refused(error)) => return Ok(Err(error)),
            Err(PostgresOperationError::Database(error)) if patience.allows(&error).await => again = true,
            Err(PostgresOperationError::Database(error)) => return Err(store_error(&error)),
        }
    }
}

/// The setting of a number that no write expects.
struct PostgresWriteNumberReset {
    place: PostgresWriteContext,
}

#[async_trait]
impl PostgresOperation for PostgresWriteNumberReset {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        let set = sqlx::query!(
            "UPDATE session SET writes = $4 WHERE no = $1 AND owner = $2 AND epoch = $3",
            self.place.no,
            self.place.boot.as_str(),
            self.place.epoch,
            self.place.new
        )
        .execute(db)
        .await?;
        if set.rows_affected() == 0 { Err(self.place.fenced().into()) } else { Ok(()) }
    }
}

/// The sessions of this node.
#[derive(Debug, Default)]
pub(crate) struct PostgresLeaseTable {
    held: Mutex<HashMap<SessionId, Arc<PostgresLeasedSession>>>,
}

impl PostgresLeaseTable {
    /// Returns the session, if `lease` may be the valid one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    pub(crate) fn find(&self, lease: &Lease) -> Result<Arc<PostgresLeasedSession>, StoreError> {
        let held =
            self.lock().get(&lease.session_id).filter(|held| held.epoch == to_db(lease.epoch)).cloned();
        held.ok_or_else(|| StoreError::Fenced(lease.session_id.clone()))
    }

    /// Stores a claim, unless a later one was stored first.
    pub(crate) fn insert_claim(&self, held: PostgresLeasedSession) -> Lease {
        let lease = Lease { session_id: held.id.clone(), epoch: from_db(held.epoch) };
        let mut all = self.lock();
        // The answers of two claims by this node may arrive in another order than the claims were made.
        if all.get(&held.id).is_none_or(|other| other.epoch < held.epoch) {
            all.insert(held.id.clone(), Arc::new(held));
        }
        lease
    }

    pub(crate) fn holds(&self, id: &SessionId) -> bool {
        self.lock().contains_key(id)
    }

    pub(crate) fn remove(&self, lease: &Lease) {
        let mut all = self.lock();
        if all.get(&lease.session_id).is_some_and(|held| held.epoch == to_db(lease.epoch)) {
            all.remove(&lease.session_id);
        }
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<PostgresLeasedSession>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
