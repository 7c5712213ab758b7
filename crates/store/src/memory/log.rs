//! The log of one session in memory.

use std::collections::{HashMap, HashSet};

use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::ids::{Millis, Seq, SessionId};
use longhaul_core::message::BlobRef;

use super::inbox::MemoryInbox;
use crate::{
    AnswerChunk, IdempotentRequest, LogAppend, NewIdempotentRequest, NewSession, SessionRecord,
    SessionRecordChange, StoreError, blob_refs,
};

#[derive(Debug)]
pub(super) struct MemorySession {
    id: SessionId,
    pub(super) no: u64,
    title: Option<String>,
    created_at: Millis,
    pub(super) updated_at: Millis,
    running: bool,
    parked: bool,
    /// The epoch of the held lease.
    pub(super) lease: Option<u64>,
    events: Vec<Event>,
    pub(super) inbox: MemoryInbox,
    streams: Vec<MemoryChunkStream>,
    requests: HashMap<String, IdempotentRequest>,
}

/// The pieces of one step's answer.
#[derive(Debug)]
struct MemoryChunkStream {
    step: String,
    pieces: Vec<String>,
}

impl MemorySession {
    pub(super) fn new(new: NewSession, no: u64) -> Self {
        let mut session = Self {
            id: new.id,
            no,
            title: new.title,
            created_at: new.at,
            updated_at: new.at,
            running: false,
            parked: false,
            lease: None,
            events: Vec::new(),
            inbox: MemoryInbox::default(),
            streams: Vec::new(),
            requests: HashMap::new(),
        };
        session.grow(new.events);
        session
    }

    pub(super) fn record(&self) -> SessionRecord {
        SessionRecord {
            id: self.id.clone(),
            title: self.title.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            last_seq: self.last_seq(),
            queued: self.inbox.waiting().count(),
            running: self.running,
            parked: self.parked,
        }
    }

    pub(super) fn last_seq(&self) -> Seq {
        self.events.last().map_or(0, |event| event.seq)
    }

    pub(super) fn append(&mut self, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        // The only step that can fail is first: a refused append leaves nothing behind.
        self.inbox.take(&append.takes)?;
        self.streams.retain(|stream| !append.settles.contains(&stream.step));
        let before = self.events.len();
        if !append.events.is_empty() {
            self.updated_at = append.at;
        }
        self.grow(append.events.into_iter().map(|body| (append.at, body)));
        Ok(self.events[before..].to_vec())
    }

    fn grow(&mut self, bodies: impl IntoIterator<Item = (Millis, EventBody)>) {
        let before = self.events.len();
        for (seq, (at, body)) in (self.last_seq() + 1..).zip(bodies) {
            self.events.push(Event { seq, at, format: FORMAT, body });
        }
        let change = SessionRecordChange::of(self.events[before..].iter().map(|event| &event.body));
        self.title = change.title.or(self.title.take());
        self.running = change.running.unwrap_or(self.running);
        self.parked = change.parked.unwrap_or(self.parked);
    }

    pub(super) fn begin_request(&mut self, new: NewIdempotentRequest) -> IdempotentRequest {
        if let Some(known) = self.requests.get(&new.key) {
            return IdempotentRequest { repeated: true, ..known.clone() };
        }
        let first =
            IdempotentRequest { what: new.what, since: self.last_seq(), repeated: false, answer: None };
        self.requests.insert(new.key, first.clone());
        first
    }

    pub(super) fn answer_request(&mut self, key: &str, answer: Option<String>) {
        match (self.requests.get_mut(key), answer) {
            (Some(request), Some(answer)) => request.answer = Some(answer),
            _ => drop(self.requests.remove(key)),
        }
    }

    pub(super) fn after(&self, after: Seq, limit: usize) -> Vec<Event> {
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        self.events.iter().skip(skipped).take(limit).cloned().collect()
    }

    pub(super) fn put_chunk(&mut self, chunk: AnswerChunk) -> Result<(), StoreError> {
        let kept = self.streams.iter_mut().find(|stream| stream.step == chunk.step);
        let next = kept.as_ref().map_or(0, |stream| stream.pieces.len() as u64);
        if chunk.index != next {
            return Err(StoreError::Conflict(format!(
                "piece {} of step {} where {next} is next",
                chunk.index, chunk.step
            )));
        }
        match kept {
            Some(stream) => stream.pieces.push(chunk.body),
            None => self.streams.push(MemoryChunkStream { step: chunk.step, pieces: vec![chunk.body] }),
        }
        Ok(())
    }

    pub(super) fn chunks(&self) -> Vec<AnswerChunk> {
        self.streams.iter().flat_map(MemoryChunkStream::chunks).collect()
    }

    pub(super) fn blobs(&self) -> Vec<BlobRef> {
        let mut seen = HashSet::new();
        let named = self.events.iter().flat_map(|event| blob_refs(&event.body));
        named.filter(|blob| seen.insert(&blob.hash)).cloned().collect()
    }
}

impl MemoryChunkStream {
    fn chunks(&self) -> impl Iterator<Item = AnswerChunk> {
        (0..).zip(&self.pieces).map(|(index, body)| AnswerChunk {
            step: self.step.clone(),
            index,
            body: body.clone(),
        })
    }
}
