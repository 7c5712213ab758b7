//! The index from a client's history to its session. Each turn of a conversation is named by a hash of
//! everything up to the turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::Seq;
use longhaul_core::message::Part;
use serde_json::Value;

use super::parsed_request::{HistoryMessage, HistorySpeaker};

/// The maximum number of remembered turns. The logs contain the others.
const MOST_TURNS: usize = 20_000;

/// The maximum number of remembered request keys.
const MOST_KEYS: usize = 1_000;

/// The name of a conversation up to the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConversationPrefix([u8; 32]);

/// The position of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TurnPosition {
    pub(super) session: String,
    /// The position of the intake of the turn's message.
    pub(super) taken: Seq,
}

impl ConversationPrefix {
    /// Returns the name of an empty conversation with an agent.
    pub(super) fn of(agent: &str) -> Self {
        Self(*blake3::hash(format!("agent as model\0{agent}").as_bytes()).as_bytes())
    }

    /// Returns the name after one more turn.
    pub(super) fn after(self, user: &str, answer: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Whitespace is ignored: the server adds a gap between steps, and clients trim texts.
        let answer: String = answer.split_whitespace().collect();
        for part in [self.0.as_slice(), user.trim().as_bytes(), answer.as_bytes()] {
            // The length keeps the parts apart: text must not move from the question to the answer unnoticed.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// Returns the common prefix of the names of a conversation's sessions.
pub(super) fn root(agent: &str, beginning: &[Value]) -> String {
    // The first message finds the sessions of a conversation without reading all logs.
    let hash = blake3::hash(format!("{agent}\0{}", user_text(beginning).trim()).as_bytes());
    format!("v{}", &hash.to_hex()[..20])
}

/// Returns a user's message in the form for comparisons.
pub(super) fn user_text(parts: &[Value]) -> String {
    let texts = parts.iter().map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => {
            // Media is compared by type and size, so that its content need not be decoded.
            let data = part["data"].as_str().unwrap_or_default().trim();
            let bytes = data.trim_end_matches('=').len() * 3 / 4;
            format!("\0{} {bytes}\0", part["mediaType"].as_str().unwrap_or_default())
        }
    });
    texts.collect()
}

/// Returns the name of a whole history; `None` if it does not consist of turns, each a user's message and an answer.
pub(super) fn of_history(agent: &str, history: &[HistoryMessage]) -> Option<ConversationPrefix> {
    let (mut prefix, mut user, mut answer) = (ConversationPrefix::of(agent), String::new(), None::<String>);
    for spoken in history {
        match (spoken.by, &mut answer) {
            // Tools of an agent are never shown to the client, so the history comes from elsewhere.
            (HistorySpeaker::Tool, _) => return None,
            // Several user messages in a row are one turn, as in the session's log.
            (HistorySpeaker::User, None) => user.push_str(&user_text(&spoken.parts)),
            (HistorySpeaker::User, Some(said)) => {
                prefix = prefix.after(&user, said);
                (user, answer) = (user_text(&spoken.parts), None);
            }
            // A history that begins with an answer was not made here.
            (HistorySpeaker::Model, None) if user.is_empty() => return None,
            (HistorySpeaker::Model, said) => said.get_or_insert_default().push_str(&user_text(&spoken.parts)),
        }
    }
    answer.map(|said| prefix.after(&user, &said))
}

/// Returns the turns of a log, each with the position of its message's intake.
pub(super) fn of_log(agent: &str, events: &[Event]) -> Vec<(ConversationPrefix, Seq)> {
    let mut turns = Vec::new();
    let mut open: Option<(Seq, String, String)> = None;
    let mut prefix = ConversationPrefix::of(agent);
    for event in events {
        match &event.body {
            EventBody::MessagesTaken { message, .. } => {
                if let Some((taken, user, said)) = open.take() {
                    prefix = prefix.after(&user, &said);
                    turns.push((prefix, taken));
                }
                open = Some((event.seq, message.parts.iter().map(of_part).collect(), String::new()));
            }
            EventBody::AssistantAdded { message, .. } => {
                if let Some((_, _, said)) = &mut open {
                    said.extend(message.parts.iter().filter_map(Part::as_text));
                }
            }
            _ => {}
        }
    }
    // The newest turn has no following message that would close it.
    turns.extend(open.map(|(taken, user, said)| (prefix.after(&user, &said), taken)));
    turns
}

fn of_part(part: &Part) -> String {
    match part {
        Part::Image(media) | Part::File(media) => format!("\0{} {}\0", media.media_type, media.blob.bytes),
        part => part.as_text().unwrap_or_default().to_owned(),
    }
}

/// An index of conversations by their content.
#[derive(Default)]
pub(crate) struct ConversationIndex(Mutex<ConversationIndexState>);

#[derive(Default)]
struct ConversationIndexState {
    places: BTreeMap<ConversationPrefix, TurnPosition>,
    oldest: VecDeque<ConversationPrefix>,
    /// The newest turn of each session; `None` while a request continues from it.
    heads: BTreeMap<String, Option<ConversationPrefix>>,
    keys: VecDeque<(String, String)>,
}

impl ConversationIndex {
    fn known(&self) -> std::sync::MutexGuard<'_, ConversationIndexState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position of a turn.
    pub(super) fn place(&self, prefix: ConversationPrefix) -> Option<TurnPosition> {
        self.known().places.get(&prefix).cloned()
    }

    /// Returns whether the newest turn of a session is known, or a request is continuing from it.
    pub(super) fn knows_head(&self, session: &str) -> bool {
        self.known().heads.contains_key(session)
    }

    /// Forgets the newest turn of a session, because another node has the session.
    pub(super) fn forget_head(&self, session: &str) {
        self.known().heads.remove(session);
    }

    /// Returns the position of a turn, and whether the caller is the first to continue from it. If so, the session is
    /// the caller's.
    pub(super) fn take(&self, prefix: ConversationPrefix) -> Option<(TurnPosition, bool)> {
        let mut known = self.known();
        let place = known.places.get(&prefix)?.clone();
        let head = known.heads.get_mut(&place.session);
        let is_first = match head {
            // Taken under the lock: of two requests that continue one turn, only one may continue its session.
            Some(head) if *head == Some(prefix) => head.take().is_some(),
            _ => false,
        };
        Some((place, is_first))
    }

    /// Records the newest turn of a session.
    pub(super) fn note(&self, prefix: ConversationPrefix, place: TurnPosition) {
        let mut known = self.known();
        known.heads.insert(place.session.clone(), Some(prefix));
        known.remember(prefix, place);
    }

    /// Records all turns of a session's log.
    pub(super) fn learn(&self, session: &str, turns: Vec<(ConversationPrefix, Seq)>) {
        let mut known = self.known();
        let newest = turns.last().map(|(prefix, _)| *prefix);
        // A known head stays, because a running request may have taken it.
        known.heads.entry(session.to_owned()).or_insert(newest);
        for (prefix, taken) in turns {
            known.remember(prefix, TurnPosition { session: session.to_owned(), taken });
        }
    }

    /// Returns the session of the answer to a request with the key.
    pub(super) fn repeated(&self, key: &str) -> Option<String> {
        self.known().keys.iter().find(|(known, _)| known == key).map(|(_, session)| session.clone())
    }

    /// Records the session of the answer to a request with the key.
    pub(super) fn keyed(&self, key: String, session: String) {
        let mut known = self.known();
        // A repeated key moves to the end, so that it is not the next to be forgotten.
        known.keys.retain(|(other, _)| *other != key);
        known.keys.push_back((key, session));
        if known.keys.len() > MOST_KEYS {
            known.keys.pop_front();
        }
    }
}

impl ConversationIndexState {
    fn remember(&mut self, prefix: ConversationPrefix, place: TurnPosition) {
        if self.places.insert(prefix, place).is_none() {
            self.oldest.push_back(prefix);
        }
        // Sessions in use keep their entry: `None` marks a request in progress.
        if self.heads.len() > MOST_TURNS {
            self.heads.retain(|_, head| head.is_some());
        }
        while self.oldest.len() > MOST_TURNS {
            let Some(oldest) = self.oldest.pop_front() else { return };
            if let Some(place) = self.places.remove(&oldest)
                && self.heads.get(&place.session) == Some(&Some(oldest))
            {
                // A session without a known head is read from its log again.
                self.heads.remove(&place.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_go_on_from_a_turn_one_has_the_session() {
        let conversations = ConversationIndex::default();
        let turn = ConversationPrefix::of("main").after("hello", "Hi.");
        let place = TurnPosition { session: "s".to_owned(), taken: 2 };
        conversations.note(turn, place.clone());
        assert_eq!(conversations.take(turn), Some((place.clone(), true)));
        assert_eq!(conversations.take(turn), Some((place.clone(), false)));
        conversations.learn("s", vec![(turn, 2)]);
        assert_eq!(conversations.take(turn), Some((place, false)), "the log does not give it back");
        assert_eq!(conversations.take(ConversationPrefix::of("other").after("hello", "Hi.")), None);
    }

    #[test]
    fn what_another_node_has_had_is_learnt_again() {
        let conversations = ConversationIndex::default();
        let first = ConversationPrefix::of("main").after("hello", "Hi.");
        let second = first.after("more", "Yes.");
        conversations.note(first, TurnPosition { session: "s".to_owned(), taken: 2 });
        conversations.forget_head("s");
        assert!(!conversations.knows_head("s") && conversations.place(first).is_some());
        conversations.learn("s", vec![(first, 2), (second, 9)]);
        assert!(conversations.knows_head("s"));
        assert_eq!(conversations.take(first).map(|found| found.1), Some(false), "it is not the newest");
        assert_eq!(conversations.take(second).map(|found| found.1), Some(true));
    }
}
