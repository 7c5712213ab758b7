//! The recent announcements: a bounded list for all watchers of a session.

use std::collections::VecDeque;
use std::sync::Arc;

use longhaul_core::ids::Seq;
use serde_json::Value;

use super::SharedEvent;
use crate::api_events::ApiEvent;

/// The maximum number of kept announcements, and so the largest lag of a watcher.
// A watcher that falls further behind reads the log, which has everything durable (decision 0014).
pub(super) const MOST: usize = 1_024;

/// The most bytes of memory for the announcements and their serialized form; the newest announcement may be larger.
pub(super) const MOST_BYTES: usize = 512 << 10;

/// The memory of an announcement and its entry, without its payload, in bytes.
const FRAME_BYTES: usize = 160;

/// A key and a value of a JSON object in memory, without their text, in bytes.
const FIELD_BYTES: usize = 128;

/// The missed announcements of a watcher.
#[derive(Clone, Debug, PartialEq)]
pub struct MissedEvents {
    /// The announcements of the missed events, in order.
    pub announcements: Vec<Arc<SharedEvent>>,
    /// The position up to which nothing is missing after these announcements.
    pub until: Seq,
}

/// The recent announcements, oldest first. Numbers count from 0 in the order of announcement.
#[derive(Debug)]
pub(super) struct RecentEvents {
    told: VecDeque<BufferedEvent>,
    /// The number of the first announcement.
    first: u64,
    bytes: usize,
    /// The position after which the announcements of all events are here.
    whole_after: Seq,
    /// True if events are kept: from the first watcher on.
    keeps: bool,
}

#[derive(Debug)]
struct BufferedEvent {
    announcement: Arc<SharedEvent>,
    /// The announcement's event, or the newest event for an announcement without an event.
    at: Seq,
    bytes: usize,
}

impl RecentEvents {
    /// Creates an empty list for a log up to `told`.
    pub(super) fn new(told: Seq) -> Self {
        Self { told: VecDeque::new(), first: 0, bytes: 0, whole_after: told, keeps: false }
    }

    /// Returns the number of the next announcement.
    pub(super) fn end(&self) -> u64 {
        self.first + self.told.len() as u64
    }

    /// Reports whether a watcher can continue from `number` without an early loss of announcements.
    pub(super) fn is_young(&self, number: u64) -> bool {
        // The newer half of the list leaves a new watcher time to catch up.
        number >= self.first + self.told.len() as u64 / 2
    }

    /// Keeps events from now on, if not kept before; the newest event was `told`.
    pub(super) fn keep_from(&mut self, told: Seq) {
        if !self.keeps {
            self.keeps = true;
            self.whole_after = told;
        }
    }

    /// Adds an announcement without a stored event while `at` is the newest event.
    pub(super) fn add_passing(&mut self, at: Seq, announcement: ApiEvent) {
        self.add(at, announcement);
    }

    /// Adds the announcements of a stored event.
    pub(super) fn add_event(&mut self, seq: Seq, announcements: Vec<ApiEvent>) {
        if self.keeps {
            announcements.into_iter().for_each(|announcement| self.add(seq, announcement));
        } else {
            self.whole_after = seq;
        }
    }

    fn add(&mut self, at: Seq, announcement: ApiEvent) {
        let bytes =
            FRAME_BYTES + announcement.payload.iter().map(|(key, value)| field(key, value)).sum::<usize>();
        self.bytes += bytes;
        self.told.push_back(BufferedEvent { announcement: SharedEvent::new(announcement), at, bytes });
        // One announcement always stays, even a very large one: the watchers could not read it otherwise.
        while self.told.len() > MOST || (self.bytes > MOST_BYTES && self.told.len() > 1) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.told.pop_front() {
            self.first += 1;
            self.bytes -= oldest.bytes;
            // An event with one dropped announcement is no longer whole, even if its others remain.
            self.whole_after = self.whole_after.max(oldest.at);
        }
    }

    /// Returns the announcement of a number, `Ok(None)` if not made yet.
    ///
    /// # Errors
    /// The number of dropped announcements before a watcher at `number` could read.
    pub(super) fn get(&self, number: u64) -> Result<Option<Arc<SharedEvent>>, u64> {
        let Some(at) = number.checked_sub(self.first) else { return Err(self.first - number) };
        let told = usize::try_from(at).ok().and_then(|at| self.told.get(at));
        Ok(told.map(|told| Arc::clone(&told.announcement)))
    }

    /// See [`Session::missed_events`](crate::session::Session::missed_events).
    pub(super) fn missed(&self, after: Seq, until: Seq, events: usize) -> Option<MissedEvents> {
        if !self.keeps || after < self.whole_after {
            return None;
        }
        // Positions only grow, so the list is sorted by them.
        let begins = self.told.partition_point(|told| told.at <= after);
        let mut missed = MissedEvents { announcements: Vec::new(), until };
        let (mut newest, mut count) = (after, 0);
        for announcement in self.told.range(begins..).map(|told| &told.announcement) {
            // No stored event belongs to the others: a late watcher gets the answer in flight as a snapshot.
            let Some(seq) = announcement.seq else { continue };
            if seq > until {
                break;
            }
            count += usize::from(seq > newest);
            // An event's announcements stay together: the next request begins after a whole event.
            if count > events {
                missed.until = newest;
                break;
            }
            newest = seq;
            missed.announcements.push(Arc::clone(announcement));
        }
        Some(missed)
    }

    /// Forgets everything; the newest event was `told`. Events are not kept without a watcher.
    pub(super) fn forget(&mut self, told: Seq, is_watched: bool) {
        self.first = self.end();
        // A new list gives the memory back, which `clear` would keep.
        self.told = VecDeque::new();
        self.bytes = 0;
        self.whole_after = told;
        self.keeps = is_watched;
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn field(key: &str, value: &Value) -> usize {
    FIELD_BYTES + 2 * key.len() + within(value)
}

/// Returns the size of a value's content, in bytes. A text counts twice: as a value, and in the serialized form.
fn within(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 * text.len(),
        Value::Array(items) => items.iter().map(|item| FIELD_BYTES + within(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| field(key, value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
