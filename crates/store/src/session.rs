//! Sessions, the right to write, and the content of a write.

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The id of the new session.
    pub id: SessionId,
    /// The title of the new session.
    pub title: Option<String>,
    /// The time of creation.
    pub at: Millis,
    /// The first events of the log, each with its time. `SessionStarted` comes first.
    pub events: Vec<(Millis, EventBody)>,
}

/// The facts about a session without a read of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The id of the session.
    pub id: SessionId,
    /// The title, kept in step with `TitleSet` events.
    pub title: Option<String>,
    /// The time of creation.
    pub created_at: Millis,
    /// The time of the newest append to the log.
    pub updated_at: Millis,
    /// The newest position of the log.
    pub last_seq: Seq,
    /// The number of waiting messages.
    pub queued: usize,
    /// `true` if a run was begun and not finished (`RunStarted` without a later `RunFinished`).
    pub running: bool,
    /// `true` if the session waits for a person after repeated failures (`Parked` without a later message or
    /// run).
    pub parked: bool,
}

/// The right to append to one session's log, until another process claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session_id: SessionId,
    /// The number of the claim. Only the newest claim is valid.
    pub epoch: u64,
}

/// The events and queue changes of one transaction.
#[derive(Clone, Debug, Default)]
pub struct LogAppend {
    /// The time of the append.
    pub at: Millis,
    /// The events, in order.
    pub events: Vec<EventBody>,
    /// The queue entries to take into the conversation with the events.
    pub takes: Vec<QueueId>,
    /// The ids, as text, of the steps whose streamed chunks the events make superfluous.
    pub settles: Vec<String>,
}

/// A piece of a streaming answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerChunk {
    /// The streaming step, as text.
    pub step: String,
    /// The number of the piece within the step: 0, 1, 2 …
    pub index: u64,
    /// The piece, in the runtime's own form.
    pub body: String,
}

/// A stretch of a log without its damaged events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndamagedEvents {
    /// The readable events, in order.
    pub events: Vec<Event>,
    /// The positions of the damaged events, in order.
    pub damaged: Vec<Seq>,
}

/// A kind of event that changes the view of earlier messages. Stores find such events without reading the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChangeKind {
    /// [`EventBody::ViewEdited`].
    Edited,
    /// [`EventBody::ViewRestored`].
    Restored,
}

impl ViewChangeKind {
    /// Returns whether `event` is of the kind.
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
    /// The number of all sessions.
    pub sessions: u64,
    /// The number of sessions that wait for a person after repeated failures.
    pub parked: u64,
    /// The number of waiting messages in all sessions.
    pub queued: u64,
}

/// The changes of events to the record of their session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRecordChange {
    /// The new title, if the events set one.
    pub title: Option<String>,
    /// The run state after the events, if the events begin or end a run.
    pub running: Option<bool>,
    /// The parked state after the events, if changed.
    pub parked: Option<bool>,
}

impl SessionRecordChange {
    /// Returns the changes of `events`, in order.
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
