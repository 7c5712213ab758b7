//! The values shared by every concern of a driver.

use std::sync::{Arc, PoisonError};

use longhaul_core::ids::SessionId;
use longhaul_core::run::{Run, RunLoopInput, RunSettings};
use longhaul_store::Lease;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument as _;

use super::snapshot::RunSnapshot;
use super::{DriverMessage, SharedSessionState};
use crate::agent::Agent;
use crate::api_events::ApiEvent;
use crate::telemetry::SessionTrace;

/// The number of messages above which planning a session may take noticeable time.
const LONG_SESSION_MESSAGES: usize = 1_000;

/// The run of a session, with its agent, its shared state and the tasks of the session.
pub(super) struct DriverContext {
    pub(super) run: Run,
    pub(super) agent: Arc<Agent>,
    pub(super) shared: Arc<SharedSessionState>,
    pub(super) lease: Lease,
    pub(super) trace: SessionTrace,
    /// Model calls, tools, timers and questions. All end with the driver.
    pub(super) tasks: JoinSet<()>,
    /// True once the first input, the recovery, was handled. Until then the run must not be read.
    pub(super) has_recovered: bool,
    /// The settings to go back to after a compaction by another strategy.
    suspended_settings: Option<Arc<RunSettings>>,
    /// The run before the events that are not stored yet.
    stored_run: Option<Arc<RunSnapshot>>,
}

impl DriverContext {
    pub(super) fn new(run: Run, agent: Arc<Agent>, shared: Arc<SharedSessionState>, lease: Lease) -> Self {
        let trace = SessionTrace::new(shared.session_id.clone());
        Self {
            run,
            agent,
            shared,
            lease,
            trace,
            tasks: JoinSet::new(),
            has_recovered: false,
            suspended_settings: None,
            stored_run: None,
        }
    }

    pub(super) fn session_id(&self) -> &SessionId {
        &self.shared.session_id
    }

    /// Computes a value from the run. If the session is long, the other tasks of this thread move to another one first,
    /// because a plan over many megabytes must not hold up other sessions or the server. Readers of this session get
    /// the run as it was before.
    pub(super) fn compute_in_place<T>(&mut self, compute: impl FnOnce(&mut Run) -> T) -> T {
        if !self.is_long() || !has_worker_threads() {
            return compute(&mut self.run);
        }
        let snapshot = self.has_recovered.then(|| self.snapshot());
        let _readable = snapshot.map(|snapshot| self.shared.snapshots.publish(snapshot));
        tokio::task::block_in_place(|| compute(&mut self.run))
    }

    /// Reads the run for a short time, without a copy for other readers.
    pub(super) fn read_in_place<T>(&self, read: impl FnOnce(&Run) -> T) -> T {
        if !self.is_long() || !has_worker_threads() {
            return read(&self.run);
        }
        // The thread hands its other tasks over first, so that sessions beside this one go on (decision 0047).
        tokio::task::block_in_place(|| read(&self.run))
    }

    /// Keeps the run as readers may see it while the next events are folded before they are stored.
    pub(super) fn hold_stored_run(&mut self) {
        self.stored_run = (self.is_long() && has_worker_threads()).then(|| self.snapshot());
    }

    /// Lets readers see all events of the run: they are stored.
    pub(super) fn release_stored_run(&mut self) {
        self.stored_run = None;
    }

    fn snapshot(&self) -> Arc<RunSnapshot> {
        let stored = self.stored_run.clone();
        stored.unwrap_or_else(|| Arc::new(RunSnapshot::of(&self.run, &self.agent)))
    }

    fn is_long(&self) -> bool {
        self.run.history().entries().len() > LONG_SESSION_MESSAGES
    }

    /// Publishes an event that is not stored.
    pub(super) fn publish(&self, event: ApiEvent) {
        self.shared.bus.publish_passing(event);
    }

    /// Starts a task whose outcome is an input of the loop.
    pub(super) fn spawn_input(
        &mut self,
        outcome: impl Future<Output = RunLoopInput> + Send + 'static,
    ) -> AbortHandle {
        let inbox = self.shared.inbox.clone();
        // A spawned task is outside of the session's span, and its log lines would not name the session.
        let task = async move {
            let _ = inbox.send(DriverMessage::from(outcome.await));
        };
        self.tasks.spawn(task.in_current_span())
    }

    /// Binds an agent: the same agent with other limits or settings, or another agent.
    pub(super) fn set_agent(&mut self, agent: Arc<Agent>) {
        self.agent = Arc::clone(&agent);
        self.shared.binding.write().unwrap_or_else(PoisonError::into_inner).agent = agent;
        let settings = Arc::new(self.agent.settings());
        match &mut self.suspended_settings {
            // A compaction by another strategy is going on: the new settings take effect after it.
            Some(suspended) => *suspended = settings,
            None => self.run.configure(settings),
        }
    }

    /// Returns the settings in force after a compaction by another strategy.
    pub(super) fn lasting_settings(&self) -> &RunSettings {
        self.suspended_settings.as_ref().unwrap_or(self.run.settings())
    }

    /// Gives the run other settings until [`Self::restore_settings`].
    pub(super) fn suspend_settings(&mut self, temporary: Arc<RunSettings>) {
        self.suspended_settings = Some(Arc::clone(self.run.settings()));
        self.run.configure(temporary);
    }

    pub(super) fn restore_settings(&mut self) {
        if let Some(settings) = self.suspended_settings.take() {
            self.run.configure(settings);
        }
    }
}

/// Returns whether tasks can move to other threads. `block_in_place` panics in a runtime of one thread.
fn has_worker_threads() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}
