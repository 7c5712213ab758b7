//! The maintenance of a store in memory.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};

use super::MemoryStore;
use super::log::MemorySession;
use crate::{MaintenanceLock, ReferencedBlobs, StoreError, StoreMaintenance};

#[async_trait]
impl StoreMaintenance for MemoryStore {
    async fn named_blobs(&self) -> Result<ReferencedBlobs, StoreError> {
        let state = self.open()?;
        let mut named = ReferencedBlobs::default();
        for session in state.sessions.values() {
            session.blobs().iter().for_each(|blob| named.add(&blob.hash));
            session.inbox.waiting().for_each(|waiting| named.add_parts(&waiting.parts));
        }
        Ok(named)
    }

    async fn at_rest_before(&self, before: Millis, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let mut resting: Vec<_> = {
            let state = self.open()?;
            let resting = state.sessions.values().filter(|session| rests(session, before));
            resting.map(|session| (session.updated_at, session.no, session.record().id)).collect()
        };
        resting.sort();
        Ok(resting.into_iter().take(limit).map(|(_, _, id)| id).collect())
    }

    async fn delete_at_rest(&self, id: &SessionId, before: Millis) -> Result<bool, StoreError> {
        let mut state = self.open()?;
        if !state.sessions.get(id).is_some_and(|session| rests(session, before)) {
            return Ok(false);
        }
        state.sessions.remove(id);
        self.watchers.end(id);
        Ok(true)
    }

    async fn turn(&self) -> Result<Option<MaintenanceLock>, StoreError> {
        self.open().map(|_| Some(MaintenanceLock::unshared()))
    }
}

fn rests(session: &MemorySession, before: Millis) -> bool {
    let record = session.record();
    let waits = record.running || record.parked || record.queued > 0;
    record.updated_at < before && !waits && session.lease.is_none()
}
