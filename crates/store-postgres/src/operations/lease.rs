//! Giving and taking the right to append.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, StoreError};
use sqlx::PgConnection;

use crate::error::{PostgresOperationError, not_found};
use crate::operation::PostgresOperation;
use crate::text::{text_from_db, text_to_db};

/// [`Store::claim`](longhaul_store::Store::claim).
pub(crate) struct PostgresLeaseClaim {
    pub(crate) id: SessionId,
    pub(crate) owner_name: String,
    pub(crate) boot: BootId,
}

/// A claimed session.
pub(crate) struct PostgresLeaseRow {
    pub(crate) no: i64,
    pub(crate) epoch: i64,
}

#[async_trait]
impl PostgresOperation for PostgresLeaseClaim {
    type Answer = PostgresLeaseRow;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<PostgresLeaseRow, PostgresOperationError> {
        let (id, owner_name) = (text_to_db(self.id.as_str()), text_to_db(&self.owner_name));
        // Epochs begin at `no << 32`: no lease fits a later session of the same name. The statement compares
        // leases by the clock of the database, because the clocks of nodes differ. `clock_timestamp()` and not
        // `now()`: `now()` is the start of the transaction, and the statement may have waited for a lock since. A
        // node may claim its own session again, so a repetition simply makes a newer epoch. `writes` begins at 0,
        // because the new holder counts from there.
        let claimed = sqlx::query_as!(
            PostgresLeaseRow,
            r#"UPDATE session
               SET owner = $2, owner_name = $3, epoch = greatest(epoch, no << 32) + 1, writes = 0
               WHERE id = $1
                 AND (owner IS NULL OR owner = $2 OR NOT EXISTS (
                     SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp()))
                 AND EXISTS (SELECT FROM node WHERE boot_id = $2 AND lease_until > clock_timestamp())
               RETURNING no, epoch"#,
            &*id,
            self.boot.as_str(),
            &*owner_name
        )
        .fetch_optional(&mut *db)
        .await?;
        match claimed {
            Some(claimed) => Ok(claimed),
            None => Err(self.refusal(db).await?.into()),
        }
    }
}

impl PostgresLeaseClaim {
    async fn refusal(&self, db: &mut PgConnection) -> Result<StoreError, sqlx::Error> {
        let session = sqlx::query!(
            r#"SELECT node.boot_id AS "boot_id?", node.address
               FROM session LEFT JOIN node ON node.boot_id = session.owner
               WHERE session.id = $1"#,
            &*text_to_db(self.id.as_str())
        )
        .fetch_optional(db)
        .await?;
        Ok(match session {
            None => not_found(&self.id),
            Some(session) => match session.boot_id {
                Some(owner) if owner != self.boot.as_str() => {
                    let address = session.address.map(text_from_db);
                    StoreError::Elsewhere { session: self.id.clone(), address }
                }
                // The session is free, and yet the claim failed: this node's own lease has run out.
                _ => StoreError::Fenced(self.id.clone()),
            },
        })
    }
}

/// [`Store::release`](longhaul_store::Store::release).
pub(crate) struct PostgresLeaseRelease {
    pub(crate) no: i64,
    pub(crate) boot: BootId,
    pub(crate) epoch: i64,
}

#[async_trait]
impl PostgresOperation for PostgresLeaseRelease {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        sqlx::query!(
            "UPDATE session SET owner = NULL WHERE no = $1 AND owner = $2 AND epoch = $3",
            self.no,
            self.boot.as_str(),
            self.epoch
        )
        .execute(db)
        .await?;
        Ok(())
    }
}
