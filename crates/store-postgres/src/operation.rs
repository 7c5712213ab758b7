//! Calls to the database, repeated while the database is away.
//!
//! When a connection dies, it is unknown whether the last statement was done. Every call may therefore be
//! repeated: the second attempt finds the effect of the first, and gives the lost answer. The tables have the
//! facts for a repetition: the name of the call behind a row, and the number of a write under a lease.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use longhaul_store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::{Executor as _, PgConnection, PgPool, Postgres};
use tokio::time::{timeout, timeout_at};

use crate::error::{PostgresOperationError, is_connection_lost, is_transient, store_error};
use crate::options::PostgresOptions;
use crate::trust::ConnectionTrust;

/// The shortest and the longest wait before a call is repeated.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(400));

/// The maximum time for the return of a connection to the pool.
// The pool waits for the test of a returned connection without a limit. A silent connection would keep its place for
// ever.
const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// An operation on the database.
#[async_trait]
pub(crate) trait PostgresOperation: Send + Sync {
    /// The type of the caller's answer.
    type Answer: Send;

    /// Makes the call once. `again` is `true` if an earlier attempt may have been done and the answer lost.
    async fn run_once(
        &self,
        db: &mut PgConnection,
        again: bool,
    ) -> Result<Self::Answer, PostgresOperationError>;
}

/// The connections for reading and writing.
#[derive(Clone, Debug)]
pub(crate) struct PostgresDatabase {
    pool: PgPool,
    patience: Duration,
    patience_of_writes: Duration,
    answer_within: Duration,
    trust: ConnectionTrust,
}

/// The limits of a failing call: time, free repetitions, pause.
pub(crate) struct PostgresRetryState {
    until: Instant,
    /// The number of lost connections without a pause. After a restart every pooled connection is dead, and each
    /// may be found dead once.
    free: u32,
    pause: Duration,
}

impl PostgresRetryState {
    /// Reports whether to try again after `error`. Waits before returning `true`.
    pub(crate) async fn allows(&mut self, error: &sqlx::Error) -> bool {
        if !is_transient(error) {
            tracing::debug!(%error, "the call is given up: the error will not pass");
            return false;
        }
        if Instant::now() >= self.until {
            tracing::info!(%error, "the call is given up: the database is away for too long");
            return false;
        }
        let is_lost = is_connection_lost(error);
        tracing::debug!(%error, is_lost, free = self.free, pause = ?self.pause, "the call is repeated");
        if is_lost && self.free > 0 {
            self.free -= 1;
        } else {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        true
    }
}

impl PostgresDatabase {
    /// Creates the database from a pool. `trust` must be the trust that the pool asks about idle connections.
    pub(crate) fn new(pool: PgPool, options: &PostgresOptions, trust: ConnectionTrust) -> Self {
        Self {
            pool,
            trust,
            patience: options.patience,
            // A write under a lease is ended by the fencing of the node. No earlier limit may give it up.
            patience_of_writes: options.patience.max(options.ttl),
            answer_within: options.answer_within,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the retries for writes under a lease. The retries end with the lease.
    pub(crate) fn patience_of_writes(&self) -> PostgresRetryState {
        self.patient_for(self.patience_of_writes)
    }

    fn patient_for(&self, time: Duration) -> PostgresRetryState {
        PostgresRetryState {
            until: Instant::now() + time,
            free: self.pool.options().get_max_connections(),
            pause: PAUSES.0,
        }
    }

    /// Makes the call until an answer comes.
    ///
    /// # Errors
    /// The reason for a refusal; [`StoreError::Storage`] if the database stays away.
    pub(crate) async fn run_operation<C: PostgresOperation>(
        &self,
        call: &C,
    ) -> Result<C::Answer, StoreError> {
        let (mut patience, mut again) = (self.patient_for(self.patience), false);
        loop {
            match self.attempt(call, again).await {
                Ok(answer) => return Ok(answer),
                Err(PostgresOperationError::Refused(error)) => return Err(error),
                Err(PostgresOperationError::Database(error)) if patience.allows(&error).await => again = true,
                Err(PostgresOperationError::Database(error)) => return Err(store_error(&error)),
            }
        }
    }

    /// Makes the call once. A dead or silent connection is thrown away.
    pub(crate) async fn attempt<C: PostgresOperation>(
        &self,
        call: &C,
        again: bool,
    ) -> Result<C::Answer, PostgresOperationError> {
        // The wait for a connection is not part of `answer_within`. The pool limits it itself
        // (`ACQUIRE_TIMEOUT`).
        let mut lent =
            PostgresPooledConnection { connection: Some(self.pool.acquire().await?), is_idle: false };
        let db = lent.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)?;
        let answer = tokio::select! {
            answer = timeout(self.answer_within, call.run_once(db, again)) => answer.ok(),
            // After an outage the connection may be one that a device in between has dropped. It would never answer.
            () = self.trust.ends() => None,
        };
        lent.is_idle = answer.is_some();
        match answer {
            Some(Err(PostgresOperationError::Database(error))) if is_connection_lost(&error) => {
                lent.discard();
                Err(PostgresOperationError::Database(error))
            }
            Some(answer) => answer,
            None => {
                tracing::debug!(limit = ?self.answer_within, "a connection is thrown away: it gives no answer, or is from before an outage");
                lent.discard();
                let why = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
                Err(PostgresOperationError::Database(sqlx::Error::Io(why)))
            }
        }
    }
}

/// A borrowed connection of the pool. The drop returns the connection, also if the caller stopped waiting. The
/// pool then tests the connection without a time limit, and a silent connection would keep the place for ever.
struct PostgresPooledConnection {
    connection: Option<PoolConnection<Postgres>>,
    /// `true` if every statement on the connection is answered.
    is_idle: bool,
}

impl PostgresPooledConnection {
    fn discard(mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

impl Drop for PostgresPooledConnection {
    fn drop(&mut self) {
        let Some(db) = self.connection.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(give_back(db, self.is_idle))),
            // Without a runtime no task can wait for the pool's test.
            Err(_) => drop(db.detach()),
        }
    }
}

/// Puts a connection back into the pool. After [`RETURN_WITHIN`] the connection is closed, and the place in the
/// pool is free.
async fn give_back(mut db: PoolConnection<Postgres>, is_idle: bool) {
    let until = tokio::time::Instant::now() + RETURN_WITHIN;
    // A `BEGIN` whose answer was not awaited is still open, and sqlx does not know of it. Without the
    // rollback the next caller's writes would never be committed.
    if !is_idle && !matches!(timeout_at(until, db.execute("ROLLBACK")).await, Ok(Ok(_))) {
        // A connection that is only dropped returns to the pool, and the pool would test it without a limit.
        drop(db.detach());
        return;
    }
    // The future owns the connection from here on. After the limit both are dropped, and the place is free.
    let _ = timeout_at(until, db.return_to_pool()).await;
}

/// Returns a name for one call. The call finds its own rows by the name.
pub(crate) fn call_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}
