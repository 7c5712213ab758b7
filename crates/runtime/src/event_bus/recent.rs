//! What was told lately: one bounded list for all watchers of a session.

use std::collections::VecDeque;
use std::sync::Arc;

use longhaul_core::ids::Seq;
use serde_json::Value;

use super::SharedEvent;
use crate::api_events::ApiEvent;

/// Announcements kept at most, so that a watcher may be this many behind.
pub(super) const MOST: usize = 1_024;

/// Their size at most, in bytes of memory with what is written of them, but for the newest alone.
pub(super) const MOST_BYTES: usize = 512 << 10;

/// An announcement and what stands around it in memory, without its payload, in bytes.
const FRAME_BYTES: usize = 160;

/// A key and a value of a JSON object in memory, without their text, in bytes.
const FIELD_BYTES: usize = 128;

/// What was told while somebody was away.
#[derive(Clone, Debug, PartialEq)]
pub struct MissedEvents {
    /// What the events mean, in order.
    pub announcements: Vec<Arc<SharedEvent>>,
    /// The position up to which nothing is missing then.
    pub until: Seq,
}

/// What was told lately, oldest first. Announcements are numbered from 0 as they are told.
#[derive(Debug)]
pub(super) struct RecentEvents {
    told: VecDeque<BufferedEvent>,
    /// The number of the first.
    first: u64,
    bytes: usize,
    /// All that events after this position mean is here.
    whole_after: Seq,
    /// Whether events are kept: only once somebody has watched.
    keeps: bool,
}

#[derive(Debug)]
struct BufferedEvent {
    announcement: Arc<SharedEvent>,
    /// Its event, or the newest event when it passed by.
    at: Seq,
    bytes: usize,
}

impl RecentEvents {
    /// Nothing was told yet of a log that ends at `told`.
    pub(super) fn new(told: Seq) -> Self {
        Self { told: VecDeque::new(), first: 0, bytes: 0, whole_after: told, keeps: false }
    }

    /// The number that the next announcement will have.
    pub(super) fn end(&self) -> u64 {
        self.first + self.told.len() as u64
    }

    /// Returns whether who goes on from that number is not about to lose what comes there.
    pub(super) fn is_young(&self, number: u64) -> bool {
        number >= self.first + self.told.len() as u64 / 2
    }

    /// Keeps events from here on, if it did not yet; the newest was `told`.
    pub(super) fn keep_from(&mut self, told: Seq) {
        if !self.keeps {
            self.keeps = true;
            self.whole_after = told;
        }
    }

    /// Adds what passes by while `at` is the newest event.
    pub(super) fn add_passing(&mut self, at: Seq, announcement: ApiEvent) {
        self.add(at, announcement);
    }

    /// Adds what an event means.
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
        while self.told.len() > MOST || (self.bytes > MOST_BYTES && self.told.len() > 1) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.told.pop_front() {
            self.first += 1;
            self.bytes -= oldest.bytes;
            self.whole_after = self.whole_after.max(oldest.at);
        }
    }

    /// The announcement of that number, `Ok(None)` if it was not told yet.
    ///
    /// # Errors
    /// How many were dropped before somebody who comes with that number could have them.
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
        let begins = self.told.partition_point(|told| told.at <= after);
        let mut missed = MissedEvents { announcements: Vec::new(), until };
        let (mut newest, mut count) = (after, 0);
        for announcement in self.told.range(begins..).map(|told| &told.announcement) {
            let Some(seq) = announcement.seq else { continue };
            if seq > until {
                break;
            }
            count += usize::from(seq > newest);
            if count > events {
                missed.until = newest;
                break;
            }
            newest = seq;
            missed.announcements.push(Arc::clone(announcement));
        }
        Some(missed)
    }

    /// Forgets everything; the newest event was `told`. If nobody watches, events are not kept any more.
    pub(super) fn forget(&mut self, told: Seq, is_watched: bool) {
        self.first = self.end();
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

/// What a value takes besides itself, in bytes. A text is there twice: as it is, and as it is written.
fn within(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 * text.len(),
        Value::Array(items) => items.iter().map(|item| FIELD_BYTES + within(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| field(key, value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
