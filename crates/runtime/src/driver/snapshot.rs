//! The snapshot of a run that readers get while the driver computes and cannot answer.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::run::{Run, RunStatus};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::SharedSessionState;
use crate::agent::Agent;
use crate::session::SessionError;

/// A run and its agent, as they were before a computation of the driver. All events of the run are stored.
pub(crate) struct RunSnapshot {
    pub(crate) run: Run,
    pub(crate) agent: Arc<Agent>,
}

/// The snapshot of the computation that is in progress, if there is one.
#[derive(Default)]
pub(crate) struct SnapshotSlot(Mutex<Option<Arc<RunSnapshot>>>);

/// A snapshot in its slot. The drop takes the snapshot back, even if the computation panics.
pub(super) struct PublishedSnapshot<'a>(&'a SnapshotSlot);

impl RunSnapshot {
    /// Makes a snapshot. The copy shares all messages with the run.
    pub(super) fn of(run: &Run, agent: &Arc<Agent>) -> Self {
        Self { run: run.snapshot(), agent: Arc::clone(agent) }
    }

    /// Runs a function on the snapshot, on a thread where a long computation delays no other task.
    ///
    /// # Errors
    /// [`SessionError::Stopped`] while the process ends.
    pub(crate) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        look: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        // A handle may be used outside of a Tokio runtime, where there are no threads for blocking work.
        if Handle::try_current().is_err() {
            return Ok(look(&self));
        }
        // The snapshot shares the messages, so it can be read beside the loop for as long as that takes.
        match spawn_blocking(move || look(&self)).await {
            Ok(seen) => Ok(seen),
            Err(error) => match error.try_into_panic() {
                // The caller's function panicked, and the session is not to blame.
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(SessionError::Stopped),
            },
        }
    }
}

impl SnapshotSlot {
    /// Gives readers the snapshot until the result is dropped.
    pub(super) fn publish(&self, snapshot: Arc<RunSnapshot>) -> PublishedSnapshot<'_> {
        *self.lock() = Some(snapshot);
        PublishedSnapshot(self)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<RunSnapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PublishedSnapshot<'_> {
    fn drop(&mut self) {
        let last = self.0.lock().take();
        // The last reference frees a copy of the whole session, for which no reader has to wait.
        drop(last);
    }
}

impl SharedSessionState {
    /// Returns the snapshot of the computation that keeps the driver busy, with the status that the session shows;
    /// `None` if the driver can answer.
    pub(crate) fn snapshot(&self) -> Option<(Arc<RunSnapshot>, RunStatus)> {
        let slot = self.snapshots.lock();
        // The status is read under the lock: the driver publishes a new one only after it has emptied the slot.
        let status = *self.status.borrow();
        slot.clone().map(|snapshot| (snapshot, status))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use longhaul_providers::scripted::{ModelScript, ScriptedProvider};

    use super::*;
    use crate::testing::{self, TemporaryFolder};

    #[tokio::test]
    async fn a_snapshot_is_there_until_its_computation_ends_or_panics() {
        let folder = TemporaryFolder::new().unwrap();
        let model = Arc::new(ScriptedProvider::new(ModelScript::always("Yes.")));
        let agent = Arc::new(testing::agent(model, &folder).await.unwrap());
        let run = Run::new(Arc::new(agent.settings()), agent.new_history());
        let snapshot = Arc::new(RunSnapshot::of(&run, &agent));
        let slot = SnapshotSlot::default();
        let published = slot.publish(Arc::clone(&snapshot));
        assert!(slot.lock().is_some());
        drop(published);
        assert!(slot.lock().is_none());
        let computation = AssertUnwindSafe(|| {
            let _published = slot.publish(Arc::clone(&snapshot));
            panic!("the computation fails");
        });
        assert!(catch_unwind(computation).is_err());
        assert!(slot.lock().is_none());
        run.history().stop_flag().raise();
        let is_stopped = snapshot.read(|seen| seen.run.history().stop_flag().is_raised()).await.unwrap();
        assert!(!is_stopped, "a cancel of the loop does not end the work of a reader");
    }
}
