//! Sessions, the right to write them, and what is written.

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// When it is created.
    pub at: Millis,
    /// The first events of its log, each with its time; `SessionStarted` first.
    pub events: Vec<(Millis, EventBody)>,
}

/// What is known of a session without reading its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Its title (kept in step with `TitleSet` events).
    pub title: Option<String>,
    /// When it was created.
    pub created_at: Millis,
    /// When its log last grew.
    pub updated_at: Millis,
    /// The newest position of its log.
    pub last_seq: Seq,
    /// Messages that wait.
    pub queued: usize,
    /// Whether a run was begun and not finished (`RunStarted` without a later `RunFinished`).
    pub running: bool,
    /// Whether it waits for a person after repeated failures (`Parked` without a later message or run).
    pub parked: bool,
}

/// The right to append to one session's log, until somebody else claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session_id: SessionId,
    /// Counts claims; the newest alone is valid.
    pub epoch: u64,
}

/// What is appended in one transaction.
#[derive(Clone, Debug, Default)]
pub struct LogAppend {
    /// When.
    pub at: Millis,
    /// The events, in order.
    pub events: Vec<EventBody>,
    /// Queue entries that these events take into the conversation.
    pub takes: Vec<QueueId>,
    /// Steps (by their id as text) whose streamed chunks these events make superfluous.
    pub settles: Vec<String>,
}

/// A piece of a streaming answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerChunk {
    /// The step that streams, as text.
    pub step: String,
    /// 0, 1, 2 … within the step.
    pub index: u64,
    /// The piece, in the runtime's own form.
    pub body: String,
}

/// A stretch of a log without its damaged events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndamagedEvents {
    /// The events that can be read, in order.
    pub events: Vec<Event>,
    /// The positions of those that cannot, in order.
    pub damaged: Vec<Seq>,
}

/// A kind of event that changes the view of earlier messages. Stores find these without reading the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChangeKind {
    /// [`EventBody::ViewEdited`].
    Edited,
    /// [`EventBody::ViewRestored`].
    Restored,
}

impl ViewChangeKind {
    /// Returns whether `event` is of this kind.
    pub fn is_kind_of(self, event: &EventBody) -> bool {
        match self {
            Self::Edited => matches!(event, EventBody::ViewEdited(_)),
            Self::Restored => matches!(event, EventBody::ViewRestored { .. }),
        }
    }
}

/// Counts over all sessions of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// All sessions.
    pub sessions: u64,
    /// Sessions that wait for a person after repeated failures.
    pub parked: u64,
    /// Messages that wait, in all sessions.
    pub queued: u64,
}

/// What events change in the record of their session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRecordChange {
    /// The new title, if they set one.
    pub title: Option<String>,
    /// Whether a run is open after them, if they begin or end one.
    pub running: Option<bool>,
    /// Whether the session waits for a person after them, if they say so.
    pub parked: Option<bool>,
}

impl SessionRecordChange {
    /// What `events` change, in order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e EventBody>) -> Self {
        events.into_iter().fold(Self::default(), Self::then)
    }

    fn then(self, event: &EventBody) -> Self {
        match event {
            EventBody::SessionStarted { title: Some(title), .. } | EventBody::TitleSet { title } => {
                Self { title: Some(title.clone()), ..self }
            }
            EventBody::RunStarted { .. } => Self { running: Some(true), parked: Some(false), ..self },
            EventBody::MessagesTaken { .. } => Self { parked: Some(false), ..self },
            EventBody::Parked { .. } => Self { parked: Some(true), ..self },
            EventBody::RunFinished { .. } => Self { running: Some(false), ..self },
            _ => self,
        }
    }
}
