//! What the watchers of one session are told, in order, and what one who comes late has missed.
//!
//! Telling never waits: a watcher that falls behind by more than the backlog loses announcements and is told
//! so; what is durable it finds in the log ([`Replay`](crate::announce::Replay)).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::{Seq, SessionId, StepId};
use serde_json::json;
use tokio::sync::broadcast;

use crate::announce::Announcement;

/// Announcements a slow watcher may be behind.
const BACKLOG: usize = 1_024;

/// Announcements from one moment on, and what is known of before.
#[derive(Debug)]
pub struct Attendance {
    /// Everything announced after that moment.
    pub announcements: broadcast::Receiver<Arc<Announcement>>,
    /// The log up to this position had been announced.
    pub told: Seq,
    /// `llm:snapshot`, the answer in flight as far as it had come; `None` if there was none.
    pub in_flight: Option<Announcement>,
}

/// Which of an answer's two voices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    Text,
    Reasoning,
}

impl Voice {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        }
    }
}

/// The way to a session's watchers.
#[derive(Debug)]
pub(crate) struct Feed {
    session_id: SessionId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Made for the first watcher: a session that nobody watches needs none.
    sender: Option<broadcast::Sender<Arc<Announcement>>>,
    told: Seq,
    answer: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    step: StepId,
    spoken: Vec<(Voice, String)>,
    /// Characters of text, and of reasoning.
    offset: u64,
    reasoning_offset: u64,
}

impl Feed {
    /// The feed of a session whose log ends at `told`.
    pub(crate) fn new(session_id: SessionId, told: Seq) -> Self {
        Self { session_id, state: Mutex::new(State { sender: None, told, answer: None }) }
    }

    /// Tells something that passes by.
    pub(crate) fn tell(&self, announcement: Announcement) {
        self.lock().send(announcement);
    }

    /// Tells all that a stored event means. `settles`: the answer in flight is stored now, or given up.
    pub(crate) fn tell_event(&self, seq: Seq, announcements: Vec<Announcement>, settles: bool) {
        let mut state = self.lock();
        announcements.into_iter().for_each(|announcement| state.send(announcement));
        state.told = seq;
        if settles {
            state.answer = None;
        }
    }

    /// An answer begins, or begins anew.
    pub(crate) fn begin(&self, step: &StepId) {
        let step = step.clone();
        self.lock().answer = Some(InFlight { step, spoken: Vec::new(), offset: 0, reasoning_offset: 0 });
    }

    /// More of the answer in flight; `is_complete` with nothing more ends it.
    pub(crate) fn chunk(&self, step: &StepId, voice: Voice, delta: &str, is_complete: bool) {
        let mut state = self.lock();
        let Some(answer) = state.answer.as_mut().filter(|answer| answer.step == *step) else { return };
        let offset = answer.add(voice, delta);
        let mut payload = json!({
            "stepId": step, "messageId": format!("m-{step}"),
            "chunkType": voice.as_str(), "content": delta, "offset": offset,
        });
        if is_complete {
            payload["isComplete"] = true.into();
        }
        state.send(Announcement::passing("llm:chunk", &self.session_id, payload));
    }

    /// Announcements from now on.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Arc<Announcement>> {
        self.lock().subscribe()
    }

    /// Announcements from now on, and what they go on from.
    pub(crate) fn attend(&self) -> Attendance {
        let mut state = self.lock();
        let announcements = state.subscribe();
        let in_flight = state.answer.as_ref().and_then(|answer| answer.snapshot(&self.session_id));
        Attendance { announcements, told: state.told, in_flight }
    }

    /// No panic happens while the lock is held: each change leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send(&mut self, announcement: Announcement) {
        if let Some(sender) = &self.sender {
            // The last watcher may just have left.
            let _ = sender.send(Arc::new(announcement));
        }
    }

    fn subscribe(&mut self) -> broadcast::Receiver<Arc<Announcement>> {
        self.sender.get_or_insert_with(|| broadcast::Sender::new(BACKLOG)).subscribe()
    }
}

impl InFlight {
    /// Adds a piece and answers where it begins, in characters of its voice.
    fn add(&mut self, voice: Voice, delta: &str) -> u64 {
        let place = match voice {
            Voice::Text => &mut self.offset,
            Voice::Reasoning => &mut self.reasoning_offset,
        };
        let begins = *place;
        *place += delta.chars().count() as u64;
        match self.spoken.last_mut() {
            Some((last, text)) if *last == voice => text.push_str(delta),
            _ if delta.is_empty() => {}
            _ => self.spoken.push((voice, delta.to_owned())),
        }
        begins
    }

    fn snapshot(&self, session_id: &SessionId) -> Option<Announcement> {
        let parts: Vec<_> =
            self.spoken.iter().map(|(voice, text)| json!({ "type": voice.as_str(), "text": text })).collect();
        let payload = json!({
            "stepId": self.step, "messageId": format!("m-{}", self.step), "parts": parts,
            "offset": self.offset, "reasoningOffset": self.reasoning_offset,
        });
        (!parts.is_empty()).then(|| Announcement::passing("llm:snapshot", session_id, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_gets_what_was_said_and_then_the_rest() {
        let feed = Feed::new("s".into(), 4);
        let step = StepId::from("s5");
        feed.begin(&step);
        feed.chunk(&step, Voice::Reasoning, "Hm. ", false);
        feed.chunk(&step, Voice::Text, "Grüße", false);
        let mut late = feed.attend();
        feed.chunk(&step, Voice::Text, " an alle", false);
        let snapshot = late.in_flight.take().unwrap();
        assert_eq!(snapshot.payload["parts"][1]["text"], "Grüße");
        assert_eq!(snapshot.payload["offset"], 5);
        let next = late.announcements.try_recv().unwrap();
        assert_eq!((next.text("content"), &next.payload["offset"]), (" an alle", &5.into()));
        assert!(late.announcements.try_recv().is_err(), "nothing comes twice");
        feed.tell_event(6, Vec::new(), true);
        let later = feed.attend();
        assert_eq!((later.told, later.in_flight), (6, None));
    }

    #[test]
    fn an_answer_that_begins_anew_forgets_the_first_try() {
        let feed = Feed::new("s".into(), 0);
        let step = StepId::from("s1");
        feed.begin(&step);
        feed.chunk(&step, Voice::Text, "no", false);
        feed.begin(&step);
        assert_eq!(feed.attend().in_flight, None);
    }
}
