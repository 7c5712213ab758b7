//! Which sessions are open in this process: each at most once, and none longer than somebody needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::SessionId;

use super::Session;

/// The open sessions.
#[derive(Default)]
pub(super) struct Slots(Mutex<State>);

#[derive(Default)]
struct State {
    by_id: BTreeMap<SessionId, Arc<Slot>>,
    /// Nothing is opened any more.
    is_shut: bool,
}

/// The place of one session: vacant, or with the session that is open there.
#[derive(Default)]
pub(crate) struct Slot {
    /// Held while the session is opened, left or deleted: of these one happens at a time.
    pub(crate) gate: tokio::sync::Mutex<()>,
    session: Mutex<Option<Session>>,
}

impl Slots {
    /// The session, if it is open.
    pub(super) fn find(&self, id: &SessionId) -> Option<Session> {
        self.lock().by_id.get(id)?.session()
    }

    /// The sessions that are open.
    pub(super) fn all(&self) -> Vec<Session> {
        self.lock().by_id.values().filter_map(|slot| slot.session()).collect()
    }

    /// The session's place; [`Slots::leave`] gives it back.
    pub(super) fn slot(&self, id: &SessionId) -> Arc<Slot> {
        Arc::clone(self.lock().by_id.entry(id.clone()).or_default())
    }

    /// Puts an opened session into its place. `false`: nothing is opened any more.
    pub(super) fn put(&self, slot: &Slot, session: Session) -> bool {
        let state = self.lock();
        if !state.is_shut {
            *slot.lock() = Some(session);
        }
        !state.is_shut
    }

    /// Gives a place back. It is forgotten if nobody else has it and nothing is open there.
    pub(super) fn leave(&self, id: &SessionId, slot: Arc<Slot>) {
        let mut state = self.lock();
        // The list's own and this one: whoever else comes needs the lock.
        if slot.is_vacant() && Arc::strong_count(&slot) <= 2 {
            state.by_id.remove(id);
        }
        drop(slot);
    }

    /// Opens nothing from here on, and says what is open.
    pub(super) fn shut(&self) -> Vec<Session> {
        self.lock().is_shut = true;
        self.all()
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// No panic happens while the lock is held: each change leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
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
