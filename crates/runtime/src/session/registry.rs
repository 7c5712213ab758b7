//! The open sessions of the process: each at most once, and none longer than needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::SessionId;
use longhaul_store::StoreError;

use super::{Session, SessionError};

/// The open sessions.
#[derive(Default)]
pub(super) struct SessionRegistry(Mutex<SessionRegistryState>);

#[derive(Default)]
struct SessionRegistryState {
    by_id: BTreeMap<SessionId, Arc<SessionEntry>>,
    admission: SessionAdmission,
}

/// The admission of sessions to the process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum SessionAdmission {
    #[default]
    Open,
    /// No session, because sessions go to other processes.
    GivesAway,
    /// No session any more.
    Shut,
}

/// The entry of one session: vacant, or holding the open session.
#[derive(Default)]
pub(crate) struct SessionEntry {
    /// Held while the session is opened, left or deleted, so that these do not overlap.
    pub(crate) gate: tokio::sync::Mutex<()>,
    session: Mutex<Option<Session>>,
}

impl SessionRegistry {
    /// Returns the session, if open.
    pub(super) fn find(&self, id: &SessionId) -> Option<Session> {
        self.lock().by_id.get(id)?.session()
    }

    /// Returns the open sessions.
    pub(super) fn all(&self) -> Vec<Session> {
        self.lock().by_id.values().filter_map(|slot| slot.session()).collect()
    }

    /// Returns the session's entry; [`SessionRegistry::leave`] gives the entry back.
    pub(super) fn slot(&self, id: &SessionId) -> Arc<SessionEntry> {
        Arc::clone(self.lock().by_id.entry(id.clone()).or_default())
    }

    /// Checks whether sessions may be opened here.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`] if other nodes are to have the sessions; [`SessionError::Stopped`].
    pub(super) fn admits(&self, id: &SessionId) -> Result<(), SessionError> {
        self.lock().admits(id)
    }

    /// Puts an opened session into the entry.
    ///
    /// # Errors
    /// The errors of [`SessionRegistry::admits`], because the opening may have taken long.
    pub(super) fn put(
        &self,
        id: &SessionId,
        slot: &SessionEntry,
        session: Session,
    ) -> Result<(), SessionError> {
        // The lock is held over check and insertion: `restrict_admission` would otherwise miss a session that enters in
        // between.
        let state = self.lock();
        state.admits(id)?;
        *slot.lock() = Some(session);
        Ok(())
    }

    /// Gives an entry back. The registry drops an entry without another holder and without an open session.
    pub(super) fn leave(&self, id: &SessionId, slot: Arc<SessionEntry>) {
        let mut state = self.lock();
        // The two references are the registry's and this one. Another task needs the lock to get a third.
        if slot.is_vacant() && Arc::strong_count(&slot) <= 2 {
            state.by_id.remove(id);
        }
        // Dropped under the lock: another `leave` would otherwise count this reference and keep the vacant entry.
        drop(slot);
    }

    /// Stops opening sessions in favour of other nodes, and returns the open sessions.
    pub(super) fn give_away(&self) -> Vec<Session> {
        self.restrict_admission(SessionAdmission::GivesAway)
    }

    /// Stops opening sessions, and returns the open ones.
    pub(super) fn shut(&self) -> Vec<Session> {
        self.restrict_admission(SessionAdmission::Shut)
    }

    fn restrict_admission(&self, admission: SessionAdmission) -> Vec<Session> {
        let mut state = self.lock();
        // Admission only ever gets stricter: a runtime that is shut must not open again to give its sessions away.
        state.admission = state.admission.max(admission);
        tracing::debug!(
            entries = state.by_id.len(),
            is_shut = state.admission == SessionAdmission::Shut,
            "no session is opened any more"
        );
        drop(state);
        self.all()
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// Locks the state. No panic happens while the lock is held, and each change leaves the state consistent.
    fn lock(&self) -> MutexGuard<'_, SessionRegistryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionRegistryState {
    fn admits(&self, id: &SessionId) -> Result<(), SessionError> {
        match self.admission {
            SessionAdmission::Open => Ok(()),
            SessionAdmission::GivesAway => {
                Err(StoreError::Elsewhere { session: id.clone(), address: None }.into())
            }
            SessionAdmission::Shut => Err(SessionError::Stopped),
        }
    }
}

impl SessionEntry {
    /// Returns the open session of the entry.
    pub(super) fn session(&self) -> Option<Session> {
        // A driver that failed leaves its closed session in the entry.
        self.lock().clone().filter(|session| !session.is_closed())
    }

    /// Takes the session out.
    pub(super) fn take(&self) -> Option<Session> {
        self.lock().take()
    }

    /// Removes the session if the entry holds the only handle and `is_quiet` reports no waiting work. No task can get a
    /// handle meanwhile; a later task finds the entry vacant.
    pub(crate) fn vacate(&self, is_quiet: impl FnOnce() -> bool) -> bool {
        let mut session = self.lock();
        let is_unused = session.as_mut().is_some_and(Session::is_only_handle);
        // The handles are counted first: once there is no other handle, no message can arrive after the look at the
        // queue.
        let leaves = is_unused && is_quiet();
        if leaves {
            *session = None;
        }
        leaves
    }

    fn is_vacant(&self) -> bool {
        self.session().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
