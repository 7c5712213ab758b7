//! [`Runtime`]: an agent over a store, and the open sessions.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use longhaul_core::event::{Event, EventBody, ForkOrigin};
use longhaul_core::history::History;
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};
use longhaul_core::run::{Run, RunLoopInput, RunRecovery, RunStatus};
use longhaul_store::{
    BlobStore, EnqueueReceipt, Lease, NewQueuedMessage, NewSession, SessionRecord, SharedNodes, SharedStore,
    StoreError,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

use super::folder::MovedSession;
use super::log::{LoadedSession, LogFacts, folded, folded_beside, whole_log};
use super::overrides::RuntimeOverrides;
use super::registry::{SessionEntry, SessionRegistry};
use super::submit::ask_submit_hook;
use super::{NewMessage, Session, SessionError};
use crate::agent::Agent;
use crate::agents::AgentRegistry;
use crate::api_events::EventReplay;
use crate::clock::now_ms;
use crate::context::{self, ContextReport};
use crate::driver::{CheckedPictureCache, SessionDriver, SharedSessionState, SnapshotSlot};
use crate::event_bus::EventBus;
use crate::recall::SharedSearchIndex;

/// The time after which a session at rest without handles is closed.
#[doc(hidden)]
// Time decides and not a number of sessions: a bound would close the sessions that are in use. An idle session takes 46
// KB, and 3.7 ms to open again (decision 0014).
pub const IDLE: Duration = Duration::from_secs(60);

/// An agent with a store and the open sessions. Dropping the runtime ends every driver, with every model call, tool
/// process and timer; [`Runtime::close`] does so in order.
///
/// A session at rest without handles is closed after a while ([`IDLE`]) and opened again on demand. Memory therefore
/// holds only the sessions in use.
pub struct Runtime {
    pub(super) inner: Arc<RuntimeInner>,
    drivers: Mutex<JoinSet<()>>,
}

/// The parts needed by every session of a runtime.
pub(super) struct RuntimeInner {
    pub(super) agents: AgentRegistry,
    pub(super) overrides: RuntimeOverrides,
    /// The usual agent, and the same agent with the model's calibration from earlier sessions. Sessions share the
    /// calibrated agent until the calibration changes.
    calibrated: Mutex<Option<(Arc<Agent>, Arc<Agent>)>>,
    pub(super) store: SharedStore,
    blobs: BlobStore,
    pub(super) owner: String,
    idle: Duration,
    pub(super) slots: SessionRegistry,
    /// The other processes on the store.
    pub(super) nodes: OnceLock<SharedNodes>,
    /// Cancelled while the runtime closes, so no caller waits for a session any more.
    closing: CancellationToken,
}

type Reply = oneshot::Sender<Result<Session, SessionError>>;

impl Runtime {
    /// Makes a runtime with a single agent over a store.
    pub fn new(agent: Agent, store: SharedStore, blobs: BlobStore) -> Self {
        Self::with_idle(agent, store, blobs, IDLE)
    }

    /// Makes a runtime with another time after which an unused session is closed.
    pub fn with_idle(agent: Agent, store: SharedStore, blobs: BlobStore, idle: Duration) -> Self {
        Self::begin(AgentRegistry::only(agent), store, blobs, idle)
    }

    /// Makes a runtime with several agents over a store.
    #[doc(hidden)]
    pub fn of(agents: AgentRegistry, store: SharedStore, blobs: BlobStore) -> Self {
        Self::begin(agents, store, blobs, IDLE)
    }

    fn begin(agents: AgentRegistry, store: SharedStore, blobs: BlobStore, idle: Duration) -> Self {
        let inner = RuntimeInner {
            calibrated: Mutex::default(),
            overrides: RuntimeOverrides::of(&agents),
            agents,
            store,
            blobs,
            owner: Uuid::now_v7().to_string(),
            idle,
            slots: SessionRegistry::default(),
            nodes: OnceLock::new(),
            closing: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner), drivers: Mutex::default() }
    }

    /// Returns the usual agent under the current settings.
    pub fn agent(&self) -> Arc<Agent> {
        self.inner.overrides.usual().0
    }

    /// Reports whether an agent takes messages left waiting by a crash or a cancel; see [`Session::take_up`].
    #[doc(hidden)]
    pub fn takes_up(&self) -> bool {
        self.inner.agents.usable().any(|(_, agent)| agent.rules.recovery == RunRecovery::Continue)
    }

    /// Returns the store.
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }

    /// Returns the blob store.
    pub fn blobs(&self) -> &BlobStore {
        &self.inner.blobs
    }

    /// Creates and opens a session without a title.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn session(&self) -> Result<Session, SessionError> {
        self.create(None).await
    }

    /// Creates and opens a session.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn create(&self, title: Option<String>) -> Result<Session, SessionError> {
        self.create_in(title, None).await
    }

    /// Creates and opens a session with a named agent.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Conflict`] if the agent cannot be used; [`SessionError::Store`].
    pub async fn create_in(
        &self,
        title: Option<String>,
        agent: Option<&str>,
    ) -> Result<Session, SessionError> {
        let events = self.inner.beginning(title.clone(), agent)?;
        self.create_with(title, events).await
    }

    /// Creates and opens a session from events made elsewhere (an import).
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`] if the events do not make a log.
    pub async fn create_with(
        &self,
        title: Option<String>,
        events: Vec<(Millis, EventBody)>,
    ) -> Result<Session, SessionError> {
        let id = SessionId::new(Uuid::now_v7().to_string());
        let events_given = events.len();
        self.store().create(NewSession { id: id.clone(), title, at: now_ms(), events }).await?;
        tracing::debug!(session = %id, events = events_given, "a session was created");
        self.open(&id).await
    }

    async fn create_once(
        &self,
        id: SessionId,
        title: Option<String>,
        events: Vec<(Millis, EventBody)>,
    ) -> Result<Session, SessionError> {
        match self.store().create(NewSession { id: id.clone(), title, at: now_ms(), events }).await {
            // The id exists already if a caller repeats a request whose answer was lost, so a conflict is no failure.
            created @ (Ok(_) | Err(StoreError::Conflict(_))) => {
                tracing::debug!(session = %id, is_new = created.is_ok(), "a session was to be created once");
                self.open(&id).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the session of an id, opened, and newly created if missing. A retry gets the same session.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    pub async fn create_as(&self, id: SessionId, title: Option<String>) -> Result<Session, SessionError> {
        self.create_as_in(id, title, None).await
    }

    /// Returns the session of an id as [`Runtime::create_as`] does, with a named agent.
    ///
    /// # Errors
    /// The errors of [`Runtime::create_in`]; [`SessionError::Log`].
    pub async fn create_as_in(
        &self,
        id: SessionId,
        title: Option<String>,
        agent: Option<&str>,
    ) -> Result<Session, SessionError> {
        let events = self.inner.beginning(title.clone(), agent)?;
        self.create_once(id, title, events).await
    }

    /// Makes a replay of a session's announcements, which needs the session's log.
    #[doc(hidden)]
    pub fn replay(&self, id: &SessionId) -> EventReplay {
        let open = self.inner.slots.find(id);
        let (agent, settings) = match open.map(|session| session.agent_binding().agent) {
            Some(agent) => (Arc::clone(&agent), Arc::new(agent.settings())),
            None => self.inner.overrides.usual(),
        };
        EventReplay::new(id.clone(), settings, agent.new_history())
    }

    /// Returns the open sessions of the runtime.
    pub fn opened(&self) -> Vec<Session> {
        self.inner.slots.all()
    }

    /// Returns all sessions, the most recently changed first.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, SessionError> {
        Ok(self.store().sessions(limit).await?)
    }

    /// Opens a session: claims the lease, folds the log, and repairs the state after a crash.
    ///
    /// # Errors
    /// [`SessionError::Store`] if there is none; [`SessionError::Log`].
    pub async fn open(&self, id: &SessionId) -> Result<Session, SessionError> {
        let session = match self.inner.slots.find(id) {
            Some(session) => session,
            None => self.enter(id).await?,
        };
        // The look waits for the repair: no snapshot is made before it. A run that continues does so on its own.
        session.inspect_run(|_| ()).await?;
        Ok(session)
    }

    /// Opens a session in a separate task, so the caller may stop waiting at any time.
    async fn enter(&self, id: &SessionId) -> Result<Session, SessionError> {
        let (reply, entered) = oneshot::channel();
        // The entry is taken before the task starts: a `leave` in between then sees the reference and keeps the entry.
        let slot = self.inner.slots.slot(id);
        let span = tracing::info_span!("session", id = id.as_str());
        self.spawn(Arc::clone(&self.inner).run_session(id.clone(), slot, reply).instrument(span));
        // The task drops the reply only when the runtime ends and takes its tasks along.
        entered.await.map_err(|_| SessionError::Stopped)?
    }

    fn spawn(&self, life: impl Future<Output = ()> + Send + 'static) {
        let mut drivers = self.drivers();
        // A `JoinSet` keeps every ended task until it is joined, and a server opens sessions for weeks.
        while drivers.try_join_next().is_some() {}
        drivers.spawn(life);
    }

    /// Returns the whole log of a session.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn log(&self, id: &SessionId) -> Result<Vec<Event>, SessionError> {
        self.inner.log(id).await
    }

    /// Returns a session's loop at rest, computed from the log. The session is not opened, claimed or repaired, and may
    /// be in use elsewhere.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    #[doc(hidden)]
    pub async fn read_run(&self, id: &SessionId) -> Result<Run, SessionError> {
        self.glance_at(id, self.log(id).await?).await
    }

    /// Returns a loop as [`Runtime::read_run`] does, from the beginning of a log: the events before the damaged event.
    ///
    /// # Errors
    /// [`SessionError::Log`].
    #[doc(hidden)]
    pub async fn glance_at(&self, id: &SessionId, log: Vec<Event>) -> Result<Run, SessionError> {
        let (agent, settings) = self.inner.overrides.usual();
        let history = folded(id, agent.new_history(), log).await?;
        Ok(Run::new(settings, history))
    }

    /// Returns the use of a loop's window under the runtime's agent.
    #[doc(hidden)]
    pub fn context(&self, run: &Run) -> ContextReport {
        context::of(run, &self.agent())
    }

    /// Creates a session with the same log up to `at_seq`, positions and handles included.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] if the log has no such position; [`SessionError::Conflict`] if a run was open
    /// there.
    pub async fn fork(&self, id: &SessionId, at_seq: Seq) -> Result<Session, SessionError> {
        self.fork_as(SessionId::new(Uuid::now_v7().to_string()), id, at_seq).await
    }

    /// Creates a session as [`Runtime::fork`] does, under an id of the caller's. A retry gets the same session.
    ///
    /// # Errors
    /// The errors of [`Runtime::fork`].
    pub async fn fork_as(
        &self,
        fork_id: SessionId,
        id: &SessionId,
        at_seq: Seq,
    ) -> Result<Session, SessionError> {
        let mut events = self.log(id).await?;
        // Positions count from 1 without gaps, so the length of the log is its newest position.
        if at_seq == 0 || at_seq as usize > events.len() {
            let last = events.len();
            return Err(SessionError::NotFound(format!(
                "position {at_seq}: the log has positions 1 to {last}"
            )));
        }
        // The whole log is needed: the error below also names the next rest after `at_seq`.
        let rests = positions_at_rest(&events);
        events.truncate(at_seq as usize);
        let (history, mut events) = folded_beside(id, self.agent().new_history(), events).await?;
        if history.open_run().is_some() {
            let before = rests.iter().rev().find(|rest| **rest < at_seq);
            let after = rests.iter().find(|rest| **rest > at_seq);
            let nearest: Vec<String> = before.into_iter().chain(after).map(Seq::to_string).collect();
            return Err(SessionError::Conflict(format!(
                "a run was going on at position {at_seq}; the session was at rest at {}",
                nearest.join(" and ")
            )));
        }
        tracing::info!(session = %id, fork = %fork_id, at_seq, "a session is forked");
        let title = history.title().map(|title| format!("{title} (fork)"));
        if let Some(Event { body: EventBody::SessionStarted { forked_from, title: first, .. }, .. }) =
            events.first_mut()
        {
            *forked_from = Some(ForkOrigin { session_id: id.clone(), at_seq });
            first.clone_from(&title);
        }
        // A later title overrides the first one.
        let newest = events.iter_mut().rev().find_map(|event| match &mut event.body {
            EventBody::TitleSet { title } => Some(title),
            _ => None,
        });
        if let (Some(newest), Some(title)) = (newest, &title) {
            newest.clone_from(title);
        }
        let events = events.into_iter().map(|event| (event.at, event.body)).collect();
        self.create_once(fork_id, title, events).await
    }

    /// Deletes a session with the log and queue, unless the session is open elsewhere.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        // The gate stays locked until the store has answered: no caller can open the session between close and delete.
        let slot = self.inner.slots.slot(id);
        let deleted = {
            let _nobody_opens = slot.gate.lock().await;
            if let Some(session) = slot.take() {
                session.close().await;
            }
            self.store().delete(id).await
        };
        tracing::info!(session = %id, is_deleted = deleted.is_ok(), "a session was to be deleted");
        self.inner.slots.leave(id, slot);
        Ok(deleted?)
    }

    /// Leaves a message in the queue of another process's session. The message follows the rules of the session's
    /// agent, as far as known here.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    #[doc(hidden)]
    pub async fn leave_message(
        &self,
        id: &SessionId,
        message: NewMessage,
    ) -> Result<EnqueueReceipt, SessionError> {
        let binding = self.read_agent_binding(id).await?;
        binding.check()?;
        // Asked here and not by the owner: a message that the hook refuses must not enter the queue.
        let parts = ask_submit_hook(&binding.agent, id, message.parts).await?;
        let queue_id = QueueId::new(Uuid::now_v7().to_string());
        let message = NewQueuedMessage {
            client_key: message.key,
            metadata: message.metadata,
            ..NewQueuedMessage::new(queue_id, now_ms(), parts, binding.agent.rules.queue_limit)
        };
        let receipt = self.store().enqueue(id, message).await?;
        tracing::debug!(session = %id, message = receipt.id.as_str(), "a message was left for another process");
        Ok(receipt)
    }

    /// Cancels current work, lets every session come to rest, and closes the store.
    pub async fn close(&self) {
        // Admission ends first: a session that is opened after this list was made would never be closed.
        let open = self.inner.slots.shut();
        tracing::info!(sessions = open.len(), "the runtime closes");
        // A caller that waits for another process's lease would otherwise hold up the close.
        self.inner.closing.cancel();
        join_all(open.iter().map(Session::close)).await;
        // The drivers move out of the lock, because no lock may be held across an await. They end before the store
        // closes: their last act gives the lease back.
        let mut drivers = std::mem::take(&mut *self.drivers());
        while drivers.join_next().await.is_some() {}
        // The agents close after the drivers, because tools of an open run use what the agents own.
        self.inner.agents.close().await;
        self.store().close().await;
    }

    /// Returns the number of open, opening and closing sessions.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.inner.slots.len()
    }

    /// Locks the drivers. No panic happens while the lock is held.
    fn drivers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folder in which a session began; `None` for an import, and for a session of an older version.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    #[doc(hidden)]
    pub async fn origin_folder(&self, id: &SessionId) -> Result<Option<PathBuf>, SessionError> {
        // The first event of a log names its origin.
        let first = self.store().read(id, 0, 1).await?;
        Ok(match first.into_iter().next().map(|event| event.body) {
            Some(EventBody::SessionStarted { folder, .. }) => folder.map(PathBuf::from),
            _ => None,
        })
    }

    /// Returns the two folders of a session that began in another folder than the workspace; `None` also if the
    /// folder is unknown.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    #[doc(hidden)]
    pub async fn moved_session(&self, id: &SessionId) -> Result<Option<MovedSession>, SessionError> {
        let begun_in = self.origin_folder(id).await?;
        Ok(begun_in.and_then(|begun_in| MovedSession::compare(&begun_in, self.agent().workspace.root())))
    }
}

impl RuntimeInner {
    /// Returns the usual agent for a newly opened session.
    pub(super) fn usual_agent(&self) -> Arc<Agent> {
        let usual = self.overrides.usual().0;
        let now = usual.calibrated();
        let mut shared = self.calibrated.lock().unwrap_or_else(PoisonError::into_inner);
        // A change of the settings makes a new `Arc`, so equal pointers mean equal settings. The counter changes with
        // the calibration.
        if let Some((base, agent)) = shared.as_ref()
            && Arc::ptr_eq(base, &usual)
            && agent.counter == now.counter
        {
            return Arc::clone(agent);
        }
        let now = now.with_deferral_decided();
        *shared = Some((usual, Arc::clone(&now)));
        now
    }

    /// Runs the whole life of an open session, from opening to close.
    async fn run_session(self: Arc<Self>, id: SessionId, slot: Arc<SessionEntry>, reply: Reply) {
        // Boxed: opening needs more stack space than being open.
        if let Some(driver) = Box::pin(self.open_in_entry(&id, &slot, reply)).await {
            driver.drive(&slot, self.idle).await;
            tracing::debug!("the session was closed");
        }
        self.slots.leave(&id, slot);
    }

    /// Opens the session, unless another caller has just done so.
    async fn open_in_entry(
        &self,
        id: &SessionId,
        slot: &SessionEntry,
        reply: Reply,
    ) -> Option<Box<SessionDriver>> {
        let _gate = slot.gate.lock().await;
        // A change of the settings is sent to the sessions in the registry, and this session is not there yet.
        let _settings_stay = self.overrides.hold().await;
        let (opened, driver) = match slot.session() {
            Some(session) => (Ok(session), None),
            None => match self.open(id).await {
                Ok((session, mut driver)) => match self.slots.put(id, slot, session.clone()) {
                    Ok(()) => (Ok(session), Some(driver)),
                    Err(error) => {
                        // Admission ended while the log was read. Without the release, other processes would wait for
                        // the lease to run out.
                        driver.abandon().await;
                        (Err(error), None)
                    }
                },
                Err(error) => (Err(error), None),
            },
        };
        // The caller may have left; the session is open all the same.
        let _ = reply.send(opened);
        driver
    }

    async fn open(&self, id: &SessionId) -> Result<(Session, Box<SessionDriver>), SessionError> {
        // Checked before the claim: a closing runtime must not take a session from other processes. `put` checks again.
        self.slots.admits(id)?;
        let lease = tokio::select! {
            lease = self.store.claim(id, &self.owner) => lease?,
            () = self.closing.cancelled() => return Err(SessionError::Stopped),
        };
        let opened = self.open_claimed(id, lease.clone()).await;
        if let Err(error) = &opened {
            tracing::warn!(%error, "the session cannot be opened; its log stays as it is");
            // A session that cannot be read can still be deleted.
            if let Err(error) = self.store.release(&lease).await {
                tracing::warn!(%error, "the lease of the session was not released; it runs out by itself");
            }
        }
        opened
    }

    async fn open_claimed(
        &self,
        id: &SessionId,
        lease: Lease,
    ) -> Result<(Session, Box<SessionDriver>), SessionError> {
        let LoadedSession { facts, mut binding, history } = self.read(id).await?;
        // The session's earlier decision about deferred tools holds: another tool list would cost the provider's cache.
        binding.agent = binding.agent.with_deferral_of(&history);
        // The append that ends a step deletes its chunks, so chunks are left only if a process died amid an answer.
        let partial = self.partial(id).await?;
        let since = left_since(&facts, &history, &binding.agent);
        let (inbox, messages) = mpsc::unbounded_channel();
        let shared = Arc::new(SharedSessionState {
            session_id: id.clone(),
            store: Arc::clone(&self.store),
            blobs: self.blobs.clone(),
            bus: EventBus::new(id.clone(), history.last_seq()),
            status: watch::Sender::new(RunStatus::Idle),
            inbox,
            binding: RwLock::new(binding.clone()),
            lost: CancellationToken::new(),
            next_attempt_at: AtomicU64::new(0),
            pictures: CheckedPictureCache::default(),
            stop_flag: history.stop_flag().clone(),
            survival: Mutex::default(),
            search_index: SharedSearchIndex::default(),
            snapshots: SnapshotSlot::default(),
        });
        tracing::info!(
            events = facts.events,
            messages = history.entries().len(),
            view_messages = history.view().len(),
            model = binding.agent.provider.origin().model,
            window = binding.agent.window().map(|(tokens, _)| tokens),
            has_open_run = history.open_run().is_some(),
            partial_bytes = partial.as_ref().map_or(0, String::len),
            "the session was opened"
        );
        let run = Run::new(Arc::new(binding.agent.settings()), history);
        // Boxed, because a future holds another copy of every value that moves through it.
        let driver = Box::new(SessionDriver::new(run, binding.agent, Arc::clone(&shared), lease, messages));
        let session = Session::new(shared);
        // Recovery must be the first input that the driver handles.
        session.send_input(RunLoopInput::Recover { partial })?;
        if let Some(nodes) = self.nodes.get() {
            session.hear(nodes, since);
        }
        Ok((session, driver))
    }

    async fn log(&self, id: &SessionId) -> Result<Vec<Event>, SessionError> {
        Ok(whole_log(&self.store, id).await?)
    }

    pub(super) fn open_sessions(&self) -> Vec<Session> {
        self.slots.all()
    }

    /// Returns the text of an answer cut off by the end of the process.
    async fn partial(&self, id: &SessionId) -> Result<Option<String>, SessionError> {
        let chunks = self.store.chunks(id).await?;
        let text: String = chunks.into_iter().map(|chunk| chunk.body).collect();
        Ok((!text.is_empty()).then_some(text))
    }
}

/// Returns the time from which queued messages count as left for the session's next owner. Older messages keep waiting,
/// since a cancel or a crash.
fn left_since(facts: &LogFacts, history: &History, agent: &Agent) -> Millis {
    match (agent.rules.recovery, history.open_run()) {
        // Where runs continue by themselves, messages of any age wake the session.
        (RunRecovery::Continue, _) => 0,
        // The owner died amid a run: the recovery stops that run, and its messages wait for a person.
        (_, Some(_)) => now_ms(),
        // The session was at rest: later messages came from other nodes and never had an owner.
        (_, None) => facts.last_at,
    }
}

/// Returns the positions at which no run was in progress: a session can be forked there.
pub fn positions_at_rest(events: &[Event]) -> Vec<Seq> {
    let mut running = false;
    let mut rests = Vec::new();
    for event in events {
        match event.body {
            EventBody::RunStarted { .. } => running = true,
            EventBody::RunFinished { .. } => running = false,
            _ => {}
        }
        if !running {
            rests.push(event.seq);
        }
    }
    rests
}
