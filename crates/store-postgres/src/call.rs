//! Calls to the database, repeated while it is away.
//!
//! When a connection dies, nobody knows whether what was asked of it was done. A call is therefore made so that it may
//! be repeated: the second time it finds what the first one did, and gives the answer that was lost. What it needs for
//! that is in the tables: who made a row, under which number of its lease a write was done.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use longhaul_store::StoreError;
use sqlx::{PgConnection, PgPool};

use crate::error::{Failure, is_connection_lost, is_passing, store_error};
use crate::options::PostgresOptions;

/// The shortest and the longest wait before a call is repeated.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(400));

/// Something to ask of the database.
#[async_trait]
pub(crate) trait Call: Send + Sync {
    /// What the caller learns.
    type Answer: Send;

    /// Asks once. `again` says that it was asked before, and that the answer may have been lost.
    async fn make(&self, db: &mut PgConnection, again: bool) -> Result<Self::Answer, Failure>;
}

/// The connections that read and write.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pool: PgPool,
    patience: Duration,
    patience_of_writes: Duration,
    answer_within: Duration,
}

/// When to repeat a call, and when to give up.
pub(crate) struct Patience {
    until: Instant,
    /// After a restart every pooled connection is dead: each may be found so once, at no cost.
    free: u32,
    pause: Duration,
}

impl Patience {
    /// Whether to try again after `error`; waits before it says so.
    pub(crate) async fn allows(&mut self, error: &sqlx::Error) -> bool {
        if !is_passing(error) || Instant::now() >= self.until {
            return false;
        }
        if is_connection_lost(error) && self.free > 0 {
            self.free -= 1;
        } else {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        true
    }
}

impl Database {
    pub(crate) fn new(pool: PgPool, options: &PostgresOptions) -> Self {
        Self {
            pool,
            patience: options.patience,
            patience_of_writes: options.patience.max(options.ttl),
            answer_within: options.answer_within,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// For writes under a lease, which end with the lease.
    pub(crate) fn patience_of_writes(&self) -> Patience {
        self.patient_for(self.patience_of_writes)
    }

    fn patient_for(&self, time: Duration) -> Patience {
        Patience {
            until: Instant::now() + time,
            free: self.pool.options().get_max_connections(),
            pause: PAUSES.0,
        }
    }

    /// Makes the call until it is answered.
    ///
    /// # Errors
    /// What it was refused for; [`StoreError::Storage`] if the database stays away.
    pub(crate) async fn make<C: Call>(&self, call: &C) -> Result<C::Answer, StoreError> {
        let (mut patience, mut again) = (self.patient_for(self.patience), false);
        loop {
            match self.attempt(call, again).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Database(error)) if patience.allows(&error).await => again = true,
                Err(Failure::Database(error)) => return Err(store_error(&error)),
            }
        }
    }

    /// Makes the call once. A connection that died, or does not answer, is thrown away.
    pub(crate) async fn attempt<C: Call>(&self, call: &C, again: bool) -> Result<C::Answer, Failure> {
        let mut db = self.pool.acquire().await?;
        let answer = tokio::time::timeout(self.answer_within, call.make(&mut db, again)).await;
        match answer {
            Ok(Err(Failure::Database(error))) if is_connection_lost(&error) => {
                drop(db.detach());
                Err(Failure::Database(error))
            }
            Ok(answer) => answer,
            Err(_) => {
                drop(db.detach());
                let why = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
                Err(Failure::Database(sqlx::Error::Io(why)))
            }
        }
    }
}

/// A name for one call, so that it knows its own rows.
pub(crate) fn call_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}
