//! The announcements to the watchers of one session, in order, also those missed by a late watcher.
//!
//! Announcing never waits and keeps no list per watcher. Recent announcements are kept once, bounded in number and
//! bytes, and each watcher has a position among them. A watcher that falls further behind loses announcements and is
//! notified of the loss; the durable ones are in the log ([`EventReplay`](crate::api_events::EventReplay)). Watchers
//! also share the serialized form of an announcement, and the snapshot of the answer in flight ([`SharedEvent`]).

mod recent;
mod shared_event;
mod subscription;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::{Seq, SessionId, StepId};
use longhaul_core::message::{Message, Part};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use self::recent::MissedEvents;
use self::recent::RecentEvents;
pub use self::shared_event::SharedEvent;
pub use self::subscription::{EventReceiver, RecvError, TryRecvError};
use crate::api_events::ApiEvent;

/// The announcements from a given moment on, and the state before.
#[derive(Debug)]
pub struct EventSubscription {
    /// The announcements after the given moment.
    pub announcements: EventReceiver,
    /// The position of the last announced event.
    pub told: Seq,
    /// `llm:snapshot`, the answer in flight so far; `None` if there was none.
    pub in_flight: Option<Arc<SharedEvent>>,
}

/// The kind of a streamed chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    Text,
    Reasoning,
}

impl ChunkKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        }
    }
}

/// The channel to a session's watchers.
#[derive(Debug)]
pub(crate) struct EventBus {
    session_id: SessionId,
    state: Mutex<EventBusState>,
    /// The signal of every announcement.
    news: watch::Sender<()>,
}

#[derive(Debug)]
struct EventBusState {
    recent: RecentEvents,
    told: Seq,
    /// The open run, to which announcements without a stored event belong.
    run_id: Option<Value>,
    answer: Option<InFlightAnswer>,
    shown: Option<InFlightSnapshot>,
    has_ended: bool,
}

/// The last shown snapshot of the answer in flight. A slightly later watcher can continue from the same snapshot.
/// Watchers that keep falling behind share the snapshot.
#[derive(Debug)]
struct InFlightSnapshot {
    snapshot: Arc<SharedEvent>,
    /// The newest event.
    told: Seq,
    /// The number of the first announcement after the snapshot.
    next: u64,
}

#[derive(Debug)]
struct InFlightAnswer {
    step: StepId,
    /// The message of the answer, or the continued message.
    message_id: String,
    spoken: Vec<(ChunkKind, String)>,
    /// Characters of text, and of reasoning.
    offset: u64,
    reasoning_offset: u64,
}

impl EventBus {
    /// Creates the bus of a session whose log ends at `told`.
    pub(crate) fn new(session_id: SessionId, told: Seq) -> Arc<Self> {
        let recent = RecentEvents::new(told);
        let state = EventBusState { recent, told, run_id: None, answer: None, shown: None, has_ended: false };
        Arc::new(Self { session_id, state: Mutex::new(state), news: watch::Sender::new(()) })
    }

    /// Announces an event without storing.
    pub(crate) fn publish_passing(&self, announcement: ApiEvent) {
        // Without watchers, passing announcements would only fill memory: no log replays them.
        if self.is_watched() {
            self.lock().pass(announcement);
            self.news.send_replace(());
        }
    }

    /// Announces a stored event. `settles`: the answer in flight is stored now, or given up.
    pub(crate) fn publish_stored(&self, seq: Seq, announcements: Vec<ApiEvent>, settles: bool) {
        {
            let mut state = self.lock();
            // Noted at once, because announcements without a stored event take their run from here.
            state.note_run(&announcements);
            state.recent.add_event(seq, announcements);
            state.told = seq;
            if settles {
                state.answer = None;
                state.shown = None;
            }
        }
        // Watchers are woken without the lock, which they take at once.
        self.news.send_replace(());
    }

    /// Begins an answer, restarts the answer, or continues a `paused` answer.
    pub(crate) fn begin(&self, step: &StepId, paused: Option<&Message>) {
        let message_id = paused.map_or_else(|| format!("m-{step}"), |paused| paused.id.to_string());
        let spoken = Vec::new();
        let mut answer =
            InFlightAnswer { step: step.clone(), message_id, spoken, offset: 0, reasoning_offset: 0 };
        for part in paused.iter().flat_map(|paused| &paused.parts) {
            match part {
                Part::Text(text) => answer.add(ChunkKind::Text, &text.text),
                Part::Reasoning(reasoning) => answer.add(ChunkKind::Reasoning, &reasoning.text),
                _ => 0,
            };
        }
        let mut state = self.lock();
        state.answer = Some(answer);
        state.shown = None;
    }

    /// Adds text to the answer in flight; `is_complete` without text ends the answer.
    pub(crate) fn chunk(&self, step: &StepId, voice: ChunkKind, delta: &str, is_complete: bool) {
        let mut state = self.lock();
        // A late piece of a step that was stopped must not enter the answer of the next step.
        let Some(answer) = state.answer.as_mut().filter(|answer| answer.step == *step) else { return };
        let offset = answer.add(voice, delta);
        if !self.is_watched() {
            // The chunk is not kept, so no announcement would continue from the earlier snapshot.
            state.shown = None;
            return;
        }
        let mut payload = json!({
            "stepId": step, "messageId": answer.message_id,
            "chunkType": voice.as_str(), "content": delta, "offset": offset,
        });
        if is_complete {
            payload["isComplete"] = true.into();
        }
        state.pass(ApiEvent::passing("llm:chunk", &self.session_id, payload));
        // Woken watchers read the list, so the lock is free before they are woken.
        drop(state);
        self.news.send_replace(());
    }

    /// Returns the announcements from now on, and the state before. `in_use` is held by the receiver.
    pub(crate) fn subscribe(self: &Arc<Self>, in_use: Arc<()>) -> EventSubscription {
        // The receiver comes first: from here on the session counts as watched, and passing announcements are kept.
        let news = self.news.subscribe();
        let mut state = self.lock();
        let told = state.told;
        state.recent.keep_from(told);
        let (in_flight, next) = state.snapshot_in_flight(&self.session_id);
        drop(state);
        let announcements = EventReceiver::new(Arc::clone(self), news, next, in_use);
        EventSubscription { announcements, told, in_flight }
    }

    /// See [`Session::missed_events`](crate::session::Session::missed_events).
    pub(crate) fn missed_events(&self, after: Seq, until: Seq, events: usize) -> Option<MissedEvents> {
        self.lock().recent.missed(after, until, events)
    }

    /// Drops the recent announcements after a long rest: returning watchers read the log.
    pub(crate) fn rest(&self) {
        let mut state = self.lock();
        let told = state.told;
        state.recent.forget(told, self.is_watched());
    }

    /// Ends the session's announcements.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.news.send_replace(());
    }

    fn is_watched(&self) -> bool {
        self.news.receiver_count() > 0
    }

    /// Locks the state. No panic happens while the lock is held, and each change leaves the state consistent.
    fn lock(&self) -> MutexGuard<'_, EventBusState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventBusState {
    fn pass(&mut self, mut announcement: ApiEvent) {
        // A later watcher is shown the queue as it is then, so no older news of the queue may follow.
        if announcement.name.starts_with("message:") {
            self.shown = None;
        } else {
            self.put_run(&mut announcement);
        }
        self.recent.add_passing(self.told, announcement);
    }

    fn note_run(&mut self, announcements: &[ApiEvent]) {
        for announcement in announcements {
            match announcement.name {
                "run:started" => self.run_id = announcement.payload.get("runId").cloned(),
                "run:complete" => self.run_id = None,
                _ => {}
            }
        }
    }

    fn put_run(&self, announcement: &mut ApiEvent) {
        if let Some(run_id) = &self.run_id {
            announcement.payload.insert("runId".to_owned(), run_id.clone());
        }
    }

    /// Returns the snapshot of the answer in flight, and the number of the next announcement.
    fn snapshot_in_flight(&mut self, session_id: &SessionId) -> (Option<Arc<SharedEvent>>, u64) {
        let told = self.told;
        if let Some(shown) = &self.shown
            && shown.told == told
            && self.recent.is_young(shown.next)
        {
            return (Some(Arc::clone(&shown.snapshot)), shown.next);
        }
        let next = self.recent.end();
        let mut snapshot = self.answer.as_ref().and_then(|answer| answer.snapshot(session_id));
        snapshot.iter_mut().for_each(|snapshot| self.put_run(snapshot));
        let snapshot = snapshot.map(SharedEvent::new);
        self.shown = snapshot.clone().map(|snapshot| InFlightSnapshot { snapshot, told, next });
        (snapshot, next)
    }
}

impl InFlightAnswer {
    /// Adds a piece and returns the piece's offset, in characters of the same kind.
    fn add(&mut self, voice: ChunkKind, delta: &str) -> u64 {
        let place = match voice {
            ChunkKind::Text => &mut self.offset,
            ChunkKind::Reasoning => &mut self.reasoning_offset,
        };
        let begins = *place;
        *place += delta.chars().count() as u64;
        match self.spoken.last_mut() {
            Some((last, text)) if *last == voice => text.push_str(delta),
            // The empty piece at the end of a text must not begin a part, which snapshots would show.
            _ if delta.is_empty() => {}
            _ => self.spoken.push((voice, delta.to_owned())),
        }
        begins
    }

    fn snapshot(&self, session_id: &SessionId) -> Option<ApiEvent> {
        let parts: Vec<_> =
            self.spoken.iter().map(|(voice, text)| json!({ "type": voice.as_str(), "text": text })).collect();
        let payload = json!({
            "stepId": self.step, "messageId": self.message_id, "parts": parts,
            "offset": self.offset, "reasoningOffset": self.reasoning_offset,
        });
        (!parts.is_empty()).then(|| ApiEvent::passing("llm:snapshot", session_id, payload))
    }
}
