//! Which sessions are open in this process: each at most once, and none longer than somebody needs it.

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
    door: SessionAdmission,
}

/// Which sessions may be opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum SessionAdmission {
    #[default]
    Open,
    /// None: other processes are to have them.
    GivesAway,
    /// None any more.
    Shut,
}

/// The place of one session: vacant, or with the session that is open there.
#[derive(Default)]
pub(crate) struct SessionEntry {
    /// Held while the session is opened, left or deleted: of these one happens at a time.
    pub(crate) gate: tokio::sync::Mutex<()>,
    session: Mutex<Option<Session>>,
}

impl SessionRegistry {
    /// The session, if it is open.
    pub(super) fn find(&self, id: &SessionId) -> Option<Session> {
        self.lock().by_id.get(id)?.session()
    }

    /// The sessions that are open.
    pub(super) fn all(&self) -> Vec<Session> {
        self.lock().by_id.values().filter_map(|slot| slot.session()).collect()
    }

    /// The session's place; [`SessionRegistry::leave`] gives it back.
    pub(super) fn slot(&self, id: &SessionId) -> Arc<SessionEntry> {
        Arc::clone(self.lock().by_id.entry(id.clone()).or_default())
    }

    /// Returns whether sessions may be opened here.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`] if others are to have them; [`SessionError::Stopped`].
    pub(super) fn admits(&self, id: &SessionId) -> Result<(), SessionError> {
        self.lock().admits(id)
    }

    /// Puts an opened session into its place.
    ///
    /// # Errors
    /// As [`SessionRegistry::admits`]: it may have taken long to open.
    pub(super) fn put(
        &self,
        id: &SessionId,
        slot: &SessionEntry,
        session: Session,
    ) -> Result<(), SessionError> {
        let state = self.lock();
        state.admits(id)?;
        *slot.lock() = Some(session);
        Ok(())
    }

    /// Gives a place back. It is forgotten if nobody else has it and nothing is open there.
    pub(super) fn leave(&self, id: &SessionId, slot: Arc<SessionEntry>) {
        let mut state = self.lock();
        // The list's own and this one: whoever else comes needs the lock.
        if slot.is_vacant() && Arc::strong_count(&slot) <= 2 {
            state.by_id.remove(id);
        }
        drop(slot);
    }

    /// Opens nothing that others could have from here on, and says what is open.
    pub(super) fn give_away(&self) -> Vec<Session> {
        self.close_door(SessionAdmission::GivesAway)
    }

    /// Opens nothing from here on, and says what is open.
    pub(super) fn shut(&self) -> Vec<Session> {
        self.close_door(SessionAdmission::Shut)
    }

    fn close_door(&self, door: SessionAdmission) -> Vec<Session> {
        let mut state = self.lock();
        state.door = state.door.max(door);
        drop(state);
        self.all()
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// No panic happens while the lock is held: each change leaves it whole.
    fn lock(&self) -> MutexGuard<'_, SessionRegistryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionRegistryState {
    fn admits(&self, id: &SessionId) -> Result<(), SessionError> {
        match self.door {
            SessionAdmission::Open => Ok(()),
            SessionAdmission::GivesAway => {
                Err(StoreError::Elsewhere { session: id.clone(), address: None }.into())
            }
            SessionAdmission::Shut => Err(SessionError::Stopped),
        }
    }
}

impl SessionEntry {
    /// The session that is open here.
    pub(super) fn session(&self) -> Option<Session> {
        self.lock().clone().filter(|session| !session.is_closed())
    }

    /// Takes the session out.
    pub(super) fn take(&self) -> Option<Session> {
        self.lock().take()
    }

    /// Gives the session up if its only handle is the one in this place and `is_quiet` says that nothing waits.
    /// Nobody gets a handle meanwhile: who wants one finds the place vacant.
    pub(crate) fn vacate(&self, is_quiet: impl FnOnce() -> bool) -> bool {
        let mut session = self.lock();
        let is_unused = session.as_mut().is_some_and(Session::is_only_handle);
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
