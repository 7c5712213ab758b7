//! The end of a session's newest run, read from the end of its log once for each state of the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::event::{ErrorInfo, EventBody, RunEnd};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{SessionRecord, SharedStore, StoreError};

/// The number of events that are searched. After a run only a few follow while nothing runs: a title, an edit of the
/// queue, an undo.
const NEWEST: u64 = 12;

/// The maximum number of remembered logs.
// The outcome of a forgotten log is read from the store again.
const KEPT: usize = 4_000;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEndRecord {
    /// The reason of the end.
    pub(crate) reason: RunEnd,
    /// The error, if the run failed.
    pub(crate) error: Option<ErrorInfo>,
}

/// The known ends, by session.
#[derive(Debug, Default)]
pub(crate) struct RunEndCache(Mutex<HashMap<SessionId, (Seq, Option<RunEndRecord>)>>);

impl RunEndCache {
    /// Returns the end of the newest run if among the newest events. A deleted session has none.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn of(
        &self,
        store: &SharedStore,
        record: &SessionRecord,
    ) -> Result<Option<RunEndRecord>, StoreError> {
        // The log of a running session changes all the time, so an entry would be out of date at once.
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
        // A list of sessions must not fail because of one damaged log.
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
        // A lost entry costs one short read, so no order of use is kept.
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
