//! How the newest run of a session ended, as the end of its log says: looked up once for each state of a log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::event::{ErrorInfo, EventBody, RunEnd};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{SessionRecord, SharedStore, StoreError};

/// Events of a log that are looked through. What follows a run's end while nothing runs is a handful: a title, an
/// edit of the queue, an undo.
const NEWEST: u64 = 12;

/// Logs remembered at most.
const KEPT: usize = 4_000;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEndRecord {
    /// Why it ended.
    pub(crate) reason: RunEnd,
    /// What went wrong, if something did.
    pub(crate) error: Option<ErrorInfo>,
}

/// What was looked up, by session.
#[derive(Debug, Default)]
pub(crate) struct RunEndCache(Mutex<HashMap<SessionId, (Seq, Option<RunEndRecord>)>>);

impl RunEndCache {
    /// The end of the newest run, if it is among the newest events. A session that is gone has none.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn of(
        &self,
        store: &SharedStore,
        record: &SessionRecord,
    ) -> Result<Option<RunEndRecord>, StoreError> {
        if record.running {
            return Ok(None);
        }
        if let Some((seq, end)) = self.known().get(&record.id)
            && *seq == record.last_seq
        {
            return Ok(end.clone());
        }
        let after = record.last_seq.saturating_sub(NEWEST);
        let limit = usize::try_from(NEWEST).unwrap_or(usize::MAX);
        let events = match store.read_undamaged(&record.id, after, limit).await {
            Ok(found) => found.events,
            Err(StoreError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let end = events.into_iter().rev().find_map(|event| match event.body {
            EventBody::RunFinished { reason, error, .. } => Some(RunEndRecord { reason, error }),
            _ => None,
        });
        let mut known = self.known();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(record.id.clone(), (record.last_seq, end.clone()));
        Ok(end)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, (Seq, Option<RunEndRecord>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
