//! Sessions as a program uses them: [`Runtime`] opens them, [`Session`] is a handle to one.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{ErrorInfo, Event, EventBody, Lineage, RunEnd};
use longhaul_core::history::{FoldError, History};
use longhaul_core::ids::{ApprovalId, EditId, Millis, QueueId, Seq, SessionId};
use longhaul_core::message::Part;
use longhaul_core::plan::Plan;
use longhaul_core::queue::Queued;
use longhaul_core::run::{CompactionOutcome, Input, Run, Status};
use longhaul_store::{Blobs, Lease, NewQueued, NewSession, SessionRecord, SharedStore, StoreError};
use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::agent::Agent;
use crate::announce::{Announcement, Replay};
use crate::clock::now_ms;
use crate::context::ContextReport;
use crate::driver::{
    Command, Driver, Message, QueueChange, RecordMaker, Shared, SharedStrategy, preview, undo,
};
use crate::feed::{Attendance, Feed};

/// Events read from the store at a time.
const PAGE: usize = 2_000;

/// One agent, its store, and its open sessions. When it is dropped every driver ends, and with it every model
/// call, tool process and timer; [`Runtime::close`] does the same in order.
pub struct Runtime {
    agent: Arc<Agent>,
    store: SharedStore,
    blobs: Blobs,
    owner: String,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: BTreeMap<SessionId, Session>,
    drivers: JoinSet<()>,
}

/// A handle to an open session. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    queue_limit: usize,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its name.
    pub id: QueueId,
    /// Whether it waits for a busy session.
    pub queued: bool,
    /// Its place among those that wait, from 1.
    pub position: usize,
}

/// What a cancel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelledAt {
    /// The model was answering: what was seen is kept.
    PartialAssistant,
    /// Tools were running: each open call got a result.
    ToolsInProgress,
    /// Nothing was going on.
    Idle,
}

/// How a session came to rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How its newest run ended, if one ran since it was opened.
    pub end: Option<RunEnd>,
    /// The error it ended with.
    pub error: Option<ErrorInfo>,
}

/// Why a session refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be folded.
    #[error("session {0} cannot be read: {1}")]
    Log(SessionId, FoldError),
    /// Possible only while nothing is going on.
    #[error("the session is busy")]
    Busy,
    /// No such thing in this session.
    #[error("no such {0}")]
    NotFound(String),
    /// Something else must be done first.
    #[error("{0}")]
    Conflict(String),
    /// The view would not fit.
    #[error("the view would have {tokens} tokens; {usable} are usable")]
    DoesNotFit {
        /// What it would have.
        tokens: u64,
        /// What there is.
        usable: u64,
    },
    /// The session's driver has ended: storage failed, or another process took the session.
    #[error("the session has stopped")]
    Stopped,
}

impl SessionError {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Store(StoreError::NotFound(_)) | Self::NotFound(_) => ErrorCode::NotFound,
            Self::Store(StoreError::QueueFull(_)) => ErrorCode::QueueFull,
            Self::Store(StoreError::Conflict(_) | StoreError::Fenced(_) | StoreError::Busy(_))
            | Self::Busy
            | Self::Conflict(_) => ErrorCode::Conflict,
            Self::DoesNotFit { .. } => ErrorCode::ContextOverflow,
            Self::Stopped => ErrorCode::Interrupted,
            Self::Store(_) | Self::Log(..) => ErrorCode::Storage,
        }
    }
}

impl Runtime {
    /// A runtime of that agent over that store.
    pub fn new(agent: Agent, store: SharedStore, blobs: Blobs) -> Self {
        let owner = Uuid::now_v7().to_string();
        Self { agent: Arc::new(agent), store, blobs, owner, open: Mutex::new(Open::default()) }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The store.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The blobs.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Creates a session and opens it.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn create(&self, title: Option<String>) -> Result<Session, SessionError> {
        let started =
            EventBody::SessionStarted { title: title.clone(), forked_from: None, imported_from: None };
        self.create_with(title, vec![(now_ms(), started)]).await
    }

    /// Creates a session from events made elsewhere (an import), and opens it.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`] if the events do not make a log.
    pub async fn create_with(
        &self,
        title: Option<String>,
        events: Vec<(Millis, EventBody)>,
    ) -> Result<Session, SessionError> {
        let id = SessionId::new(Uuid::now_v7().to_string());
        self.store.create(NewSession { id: id.clone(), title, at: now_ms(), events }).await?;
        self.open(&id).await
    }

    async fn create_once(
        &self,
        id: SessionId,
        title: Option<String>,
        events: Vec<(Millis, EventBody)>,
    ) -> Result<Session, SessionError> {
        match self.store.create(NewSession { id: id.clone(), title, at: now_ms(), events }).await {
            Ok(_) | Err(StoreError::Conflict(_)) => self.open(&id).await,
            Err(error) => Err(error.into()),
        }
    }

    /// The session of that id, created if there is none, and opened: who retries gets the same one.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    pub async fn create_as(&self, id: SessionId, title: Option<String>) -> Result<Session, SessionError> {
        let started =
            EventBody::SessionStarted { title: title.clone(), forked_from: None, imported_from: None };
        self.create_once(id, title, vec![(now_ms(), started)]).await
    }

    /// A replay of a session's announcements, to be given its log.
    pub fn replay(&self, id: &SessionId) -> Replay {
        Replay::new(id.clone(), Arc::new(self.agent.settings()))
    }

    /// The sessions that are open here.
    pub async fn opened(&self) -> Vec<Session> {
        let open = self.open.lock().await;
        open.sessions.values().filter(|session| !session.is_closed()).cloned().collect()
    }

    /// All sessions, the most recently changed first.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, SessionError> {
        Ok(self.store.sessions(limit).await?)
    }

    /// Opens a session: claims it, folds its log, and puts right what a crash left open.
    ///
    /// # Errors
    /// [`SessionError::Store`] if there is none; [`SessionError::Log`].
    pub async fn open(&self, id: &SessionId) -> Result<Session, SessionError> {
        let mut open = self.open.lock().await;
        if let Some(session) = open.sessions.get(id).filter(|session| !session.is_closed()) {
            return Ok(session.clone());
        }
        let lease = self.store.claim(id, &self.owner).await?;
        let events = self.log(id).await?;
        let history = History::fold(&events).map_err(|error| SessionError::Log(id.clone(), error))?;
        let partial = self.partial(id).await?;
        let session = self.start(&mut open, id, history, lease);
        session.tell(Input::Recover { partial })?;
        // What a crash left is put right when this answers; a run that goes on does so on its own.
        session.look(|_| ()).await?;
        Ok(session)
    }

    fn start(&self, open: &mut Open, id: &SessionId, history: History, lease: Lease) -> Session {
        let (inbox, messages) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            session_id: id.clone(),
            store: Arc::clone(&self.store),
            blobs: self.blobs.clone(),
            feed: Feed::new(id.clone(), history.last_seq()),
            status: watch::Sender::new(Status::Idle),
            inbox,
        });
        let run = Run::new(Arc::new(self.agent.settings()), history);
        let driver = Driver::new(run, Arc::clone(&self.agent), Arc::clone(&shared), lease, messages);
        open.drivers.spawn(driver.drive());
        let session = Session { shared, queue_limit: self.agent.rules.queue_limit };
        open.sessions.insert(id.clone(), session.clone());
        session
    }

    /// The whole log of a session.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn log(&self, id: &SessionId) -> Result<Vec<Event>, SessionError> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let page = self.store.read(id, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            events.extend(page);
            if is_last {
                return Ok(events);
            }
        }
    }

    /// The text of an answer that was streaming when the process ended.
    async fn partial(&self, id: &SessionId) -> Result<Option<String>, SessionError> {
        let chunks = self.store.chunks(id).await?;
        let text: String = chunks.into_iter().map(|chunk| chunk.body).collect();
        Ok((!text.is_empty()).then_some(text))
    }

    /// A new session that shares the log up to `at_seq`, positions and handles included.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] if the log has no such position; [`SessionError::Conflict`] if a run was open
    /// there.
    pub async fn fork(&self, id: &SessionId, at_seq: Seq) -> Result<Session, SessionError> {
        self.fork_as(SessionId::new(Uuid::now_v7().to_string()), id, at_seq).await
    }

    /// As [`Runtime::fork`], under an id of the caller's: who retries gets the same one.
    ///
    /// # Errors
    /// As [`Runtime::fork`].
    pub async fn fork_as(
        &self,
        fork_id: SessionId,
        id: &SessionId,
        at_seq: Seq,
    ) -> Result<Session, SessionError> {
        let mut events = self.log(id).await?;
        if at_seq == 0 || at_seq as usize > events.len() {
            return Err(SessionError::NotFound(format!("position {at_seq}; the log has {}", events.len())));
        }
        let rests = at_rest(&events);
        events.truncate(at_seq as usize);
        let history = History::fold(&events).map_err(|error| SessionError::Log(id.clone(), error))?;
        if history.open_run().is_some() {
            let before = rests.iter().rev().find(|rest| **rest < at_seq);
            let after = rests.iter().find(|rest| **rest > at_seq);
            let nearest: Vec<String> = before.into_iter().chain(after).map(Seq::to_string).collect();
            return Err(SessionError::Conflict(format!(
                "a run was going on at position {at_seq}; the session was at rest at {}",
                nearest.join(" and ")
            )));
        }
        let title = history.title().map(|title| format!("{title} (fork)"));
        if let Some(Event { body: EventBody::SessionStarted { forked_from, title: first, .. }, .. }) =
            events.first_mut()
        {
            *forked_from = Some(Lineage { session_id: id.clone(), at_seq });
            first.clone_from(&title);
        }
        let events = events.into_iter().map(|event| (event.at, event.body)).collect();
        self.create_once(fork_id, title, events).await
    }

    /// Deletes a session that is not open elsewhere, with its log and queue.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        let session = self.open.lock().await.sessions.remove(id);
        if let Some(session) = session {
            session.close().await;
        }
        Ok(self.store.delete(id).await?)
    }

    /// Cancels what runs, lets every session come to rest, closes the store.
    pub async fn close(&self) {
        let mut open = self.open.lock().await;
        for session in std::mem::take(&mut open.sessions).into_values() {
            session.close().await;
        }
        while open.drivers.join_next().await.is_some() {}
        self.store.close().await;
    }
}

/// The positions at which no run was going on.
fn at_rest(events: &[Event]) -> Vec<Seq> {
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

impl Session {
    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.shared.session_id
    }

    /// Sends a message. It is durable when this answers; a busy session takes it at its next step.
    ///
    /// # Errors
    /// [`SessionError::Store`], above all [`StoreError::QueueFull`].
    pub async fn send(&self, parts: Vec<Part>) -> Result<Sent, SessionError> {
        self.send_keyed(parts, None).await
    }

    /// Sends a message with a key of the caller's: the same key again adds nothing.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn send_keyed(&self, parts: Vec<Part>, key: Option<String>) -> Result<Sent, SessionError> {
        // Of several that come at once to a session at rest one finds it so.
        let busy = !self.shared.status.send_if_modified(|status| {
            let at_rest = matches!(status, Status::Idle | Status::Parked);
            if at_rest {
                *status = Status::Streaming;
            }
            at_rest
        });
        let message = NewQueued {
            id: QueueId::new(Uuid::now_v7().to_string()),
            client_key: key,
            at: now_ms(),
            parts,
            queue_limit: self.queue_limit,
        };
        let accepted = match self.shared.store.enqueue(self.id(), message).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.publish_status();
                return Err(error.into());
            }
        };
        if !accepted.repeated {
            let payload = serde_json::json!({ "id": accepted.id, "position": accepted.position });
            self.shared.feed.tell(Announcement::passing("message:queued", self.id(), payload));
        }
        if accepted.position > 0 {
            self.tell(Input::Wake)?;
        } else {
            self.publish_status();
        }
        Ok(Sent { id: accepted.id, queued: busy, position: accepted.position })
    }

    /// Sends a text and waits until the session has come to rest.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn ask(&self, text: &str) -> Result<Settled, SessionError> {
        self.send(vec![Part::text(text)]).await?;
        self.settled().await
    }

    /// Waits until nothing is going on, and says how the newest run ended.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn settled(&self) -> Result<Settled, SessionError> {
        self.request(|reply| Command::WhenIdle { reply }).await
    }

    /// Goes on: with what waits, or with what was left unanswered.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub fn resume(&self) -> Result<(), SessionError> {
        self.tell(Input::Resume)
    }

    /// Cancels what is going on and says what that was. Queued messages stay unless `clear_queue`.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn cancel(&self, clear_queue: bool) -> Result<CancelledAt, SessionError> {
        if clear_queue {
            self.clear_queue().await?;
        }
        let met = self.request(|reply| Command::Cancel { reply }).await?;
        if met != CancelledAt::Idle {
            self.settled().await?;
        }
        Ok(met)
    }

    /// Announcements from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Announcement>> {
        self.shared.feed.watch()
    }

    /// Announcements from now on, and what they go on from: for a watcher that comes late or comes back.
    pub fn attend(&self) -> Attendance {
        self.shared.feed.attend()
    }

    /// Ends when the session has stopped: closed, deleted, or its storage failed.
    pub async fn stopped(&self) {
        self.shared.inbox.closed().await;
    }

    /// What is going on, now and later.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The waiting messages, oldest first.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn queue(&self) -> Result<Vec<Queued>, SessionError> {
        Ok(self.shared.store.queue(self.id()).await?)
    }

    /// Changes a waiting message.
    ///
    /// # Errors
    /// [`SessionError::Store`] with [`StoreError::NotFound`] if it does not wait (any more).
    pub async fn edit_queued(&self, id: QueueId, parts: Vec<Part>) -> Result<(), SessionError> {
        self.change_queue(QueueChange::Edit { id, parts }).await.map(drop)
    }

    /// Removes a waiting message.
    ///
    /// # Errors
    /// As [`Session::edit_queued`].
    pub async fn remove_queued(&self, id: QueueId) -> Result<(), SessionError> {
        self.change_queue(QueueChange::Remove { id }).await.map(drop)
    }

    /// Removes all waiting messages and says which.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn clear_queue(&self) -> Result<Vec<QueueId>, SessionError> {
        self.change_queue(QueueChange::Clear).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<Vec<QueueId>, SessionError> {
        Ok(self.request(|reply| Command::Queue { change, reply }).await??)
    }

    /// Compacts now.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn compact(&self, instructions: Option<String>) -> Result<CompactionOutcome, SessionError> {
        self.compact_by(None, instructions).await
    }

    /// Compacts now, by a strategy that need not be the configured one.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn compact_by(
        &self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
    ) -> Result<CompactionOutcome, SessionError> {
        self.request(|reply| Command::Compact { strategy, instructions, reply }).await
    }

    /// What [`Session::compact_by`] would do.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn preview_by(
        &self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
    ) -> Result<Plan, SessionError> {
        self.look(|run| preview(run, strategy, instructions)).await
    }

    /// What [`Session::compact`] would do.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn preview(&self) -> Result<Plan, SessionError> {
        self.look(|run| run.preview(None)).await
    }

    /// Undoes a compaction or a prune.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Conflict`] if a later one was built on it;
    /// [`SessionError::DoesNotFit`]; [`SessionError::Busy`].
    pub async fn undo(&self, edit_id: EditId) -> Result<(), SessionError> {
        self.record(Box::new(move |run| undo(run, &edit_id))).await.map(drop)
    }

    /// Allows automatic compaction again for what an undo brought back.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Busy`].
    pub async fn release(&self, edit_id: EditId) -> Result<(), SessionError> {
        let make = move |run: &Run| {
            let undone = run.history().edits().iter().any(|state| state.edit.id == edit_id && !state.active);
            if undone {
                Ok(vec![EventBody::RangeReleased { edit_id }])
            } else {
                Err(SessionError::NotFound(format!("undone compaction {edit_id}")))
            }
        };
        self.record(Box::new(make)).await.map(drop)
    }

    /// Stores that the session talks to this runtime's model from here on, if its newest model was another, and
    /// says whether it was.
    ///
    /// # Errors
    /// [`SessionError::Busy`].
    pub async fn adopt_model(&self) -> Result<bool, SessionError> {
        let other = |run: &Run| {
            let to = run.settings().model.origin.clone();
            run.history().model().is_some_and(|model| *model != to).then_some(to)
        };
        let Some(to) = self.look(other).await? else { return Ok(false) };
        self.record(Box::new(move |_| Ok(vec![EventBody::ModelSwitched { to }]))).await?;
        Ok(true)
    }

    /// Gives the session a title.
    ///
    /// # Errors
    /// [`SessionError::Busy`].
    pub async fn rename(&self, title: String) -> Result<(), SessionError> {
        self.record(Box::new(move |_| Ok(vec![EventBody::TitleSet { title }]))).await.map(drop)
    }

    /// How full the window is.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn context(&self) -> Result<ContextReport, SessionError> {
        self.request(|reply| Command::Context { reply }).await
    }

    /// Decides an approval. `false` if nobody waits for it (any more).
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn decide(
        &self,
        approval_id: ApprovalId,
        allowed: bool,
        reason: Option<String>,
    ) -> Result<bool, SessionError> {
        self.request(|reply| Command::Decide { approval_id, allowed, reason, reply }).await
    }

    /// Looks at the loop between two of its decisions.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.request(|reply| Command::Look {
            look: Box::new(move |run| {
                let _ = reply.send(look(run));
            }),
        })
        .await
    }

    async fn record(&self, make: RecordMaker) -> Result<Vec<Event>, SessionError> {
        self.request(|reply| Command::Record { make, reply }).await?
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.shared.inbox.send(Message::Command(command(reply)));
        sent.map_err(|_| SessionError::Stopped)?;
        answer.await.map_err(|_| SessionError::Stopped)
    }

    fn tell(&self, input: Input) -> Result<(), SessionError> {
        self.shared.inbox.send(Message::Input(input)).map_err(|_| SessionError::Stopped)
    }

    /// Lets the driver say again what is going on.
    fn publish_status(&self) {
        // One that has ended says nothing, and nothing goes on.
        let _ = self.shared.inbox.send(Message::Command(Command::Look { look: Box::new(|_| ()) }));
    }

    fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    async fn close(&self) {
        let _ = self.request(|reply| Command::Close { reply }).await;
    }
}
