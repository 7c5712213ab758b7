//! What the outside world was told: the announcements that arrived, the messages that were accepted. None of
//! it may ever be taken back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::watch;

use super::server::PATIENCE;
use super::watch::Frame;

/// The account of one session. Cheap to clone; clones are the same account.
#[derive(Clone)]
pub(crate) struct Account(Arc<Shared>);

struct Shared {
    entries: Mutex<Entries>,
    changed: watch::Sender<()>,
}

/// What is known of a session from outside.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Announcements of stored events, by position.
    pub(crate) told: BTreeMap<u64, Told>,
    /// The position that a watcher would come back with.
    pub(crate) after: u64,
    /// Where in an event the running connection is.
    cursor: (u64, usize),
    /// Messages by what they say.
    pub(crate) sent: BTreeMap<String, Sent>,
    /// Messages whose removal was confirmed, and how far the trace had come then.
    pub(crate) removed: BTreeMap<String, u64>,
    /// Announcements of nothing stored, of the running connection.
    pub(crate) passing: Vec<Value>,
    /// What must not have arrived.
    pub(crate) complaints: Vec<String>,
}

/// The announcements of one stored event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) texts: Vec<String>,
    /// How far the trace had come when the first arrived.
    pub(crate) position: u64,
}

/// A message that was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Its name, once it was accepted.
    pub(crate) id: Option<String>,
    /// How far the trace had come when it was.
    pub(crate) position: u64,
    /// Whether it may have been removed.
    pub(crate) doubtful: bool,
}

impl Account {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { entries: Mutex::default(), changed: watch::Sender::new(()) }))
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap()
    }

    /// A watcher connects.
    pub(crate) fn connect(&self) -> u64 {
        let mut entries = self.look();
        entries.cursor = (0, 0);
        entries.passing.clear();
        entries.after
    }

    pub(crate) fn hear(&self, frame: Frame, position: u64) {
        self.look().hear(frame, position);
        self.0.changed.send_replace(());
    }

    /// A message is about to be sent.
    pub(crate) fn sending(&self, text: &str) {
        self.look().sent.entry(text.to_owned()).or_default();
    }

    /// The message was accepted.
    pub(crate) fn accepted(&self, text: &str, answer: &Value, position: u64) {
        let id = answer.get("id").or(answer.get("messageId")).and_then(Value::as_str).unwrap().to_owned();
        let mut entries = self.look();
        let before = entries.sent.get(text).and_then(|sent| sent.id.clone());
        if before.as_ref().is_some_and(|before| *before != id) {
            entries.complaints.push(format!("{text} was {before:?}, is {id}"));
        }
        let sent = entries.sent.get_mut(text).unwrap();
        // The first acceptance is the promise. The answer to a repetition promises nothing new.
        if before.is_none() {
            sent.position = position;
        }
        sent.id = Some(id);
    }

    /// Waits until the account is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Entries) -> bool) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let mut changed = self.0.changed.subscribe();
            let waited = tokio::time::timeout(PATIENCE, async {
                while !is_so(&self.look()) {
                    // The sender lives as long as this account.
                    let _ = changed.changed().await;
                }
            });
            assert!(waited.await.is_ok(), "{place}: waited in vain until {what}\n{:#?}", self.newest());
        }
    }

    /// The newest announcements, for a person.
    fn newest(&self) -> Vec<String> {
        let entries = self.look();
        let texts = entries.told.values().rev().take(12).flat_map(|told| told.texts.iter().rev());
        texts.map(|text| text.chars().take(300).collect()).collect()
    }
}

impl Told {
    /// Whether these announcements say what those said before.
    pub(crate) fn still_says(&self, before: &Self) -> bool {
        let mut both = before.texts.iter().zip(&self.texts);
        before.texts.len() <= self.texts.len() && both.all(|(before, now)| is_same(before, now))
    }
}

/// Whether an announcement says now what it said before. Estimates of the window's fill level are made anew
/// each time, with what was learned of the model since.
pub(crate) fn is_same(before: &str, now: &str) -> bool {
    let estimates = ["context:usage", "context:restored"];
    let head = |text: &str| {
        let told: Value = serde_json::from_str(text).unwrap();
        let name = told["name"].as_str().unwrap_or_default().to_owned();
        estimates.contains(&name.as_str()).then(|| (name, told["seq"].clone(), told["runId"].clone()))
    };
    before == now || head(before).is_some_and(|before| Some(before) == head(now))
}

impl Entries {
    fn hear(&mut self, frame: Frame, position: u64) {
        let data: Value = serde_json::from_str(&frame.data).unwrap();
        match data["seq"].as_u64() {
            Some(seq) => self.take(seq, frame.data, position),
            None if data["name"] == "stream:gap" => self.complaints.push(frame.data),
            None => self.passing.push(data),
        }
        if let Some(id) = frame.id {
            if id < self.after {
                self.complaints.push(format!("back from {} to {id}", self.after));
            }
            self.after = id;
        }
    }

    fn take(&mut self, seq: u64, text: String, position: u64) {
        let index = if self.cursor.0 == seq { self.cursor.1 } else { 0 };
        if seq <= self.after || seq < self.cursor.0 {
            self.complaints.push(format!("after {} again {text}", self.after));
        }
        self.cursor = (seq, index + 1);
        let told = self.told.entry(seq).or_insert_with(|| Told { texts: Vec::new(), position });
        match told.texts.get(index) {
            None => told.texts.push(text),
            Some(before) if is_same(before, &text) => {}
            Some(before) => self.complaints.push(format!("changed:\n{before}\n{text}")),
        }
    }

    /// How often such an announcement of a stored event arrived.
    pub(crate) fn count(&self, name: &str) -> usize {
        let start = format!("{{\"name\":\"{name}\"");
        let texts = self.told.values().flat_map(|told| &told.texts);
        texts.filter(|text| text.starts_with(&start)).count()
    }

    /// Whether such an announcement of nothing stored arrived on the running connection.
    pub(crate) fn has_passed(&self, name: &str) -> bool {
        self.passing.iter().any(|passing| passing["name"] == name)
    }
}
