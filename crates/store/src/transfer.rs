//! Copies of whole sessions, from one store to another.
//!
//! A [`SessionCopy`] holds a session in its stored form: events keep their positions, times, formats and
//! epochs, and their bodies are not decoded. The [digest](SessionCopy::digest) of a copy is equal in every
//! store, so a copy proves itself ([`transfer_session`]).
//!
//! Leases and signals between nodes are not copied.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};
use longhaul_core::message::BlobRef;

use crate::{AnswerChunk, PrefixCacheKey, StoreError};

/// The stored form of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCopy {
    /// The id of the session.
    pub id: SessionId,
    /// The title of the session.
    pub title: Option<String>,
    /// The time of creation.
    pub created_at: Millis,
    /// The time of the newest append to the log.
    pub updated_at: Millis,
    /// `true` if a run is open.
    pub running: bool,
    /// `true` if the session waits for a person.
    pub parked: bool,
    /// The number of the newest lease. Later leases continue the count.
    pub epoch: u64,
    /// The whole log.
    pub events: Vec<EventCopy>,
    /// Every message ever accepted, oldest first.
    pub inbox: Vec<InboxEntryCopy>,
    /// The recorded requests, by their keys.
    pub requests: Vec<IdempotentRequestCopy>,
    /// The pieces of answers that still stream: step by step in order of their start, each step in order.
    pub chunks: Vec<AnswerChunk>,
    /// The blobs named by the log, each with the position of the first naming event, in order of position. The
    /// content of the blobs is not part of the copy.
    pub blobs: Vec<(BlobRef, Seq)>,
}

/// The stored form of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCopy {
    /// The position of the event in the log.
    pub seq: Seq,
    /// The format in which the event was written.
    pub format: u16,
    /// The epoch of the lease under which the event was written; 0 for none.
    pub epoch: u64,
    /// The time of the append.
    pub at: Millis,
    /// The event, as JSON.
    pub body: String,
}

/// The stored form of an accepted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntryCopy {
    /// The id of the queue entry.
    pub id: QueueId,
    /// The caller's key for the message.
    pub client_key: Option<String>,
    /// The arrival time of the message.
    pub at: Millis,
    /// The parts of the message, as JSON. Empty if the message no longer waits.
    pub body: String,
    /// The state of the message.
    pub state: InboxEntryState,
}

/// The state of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxEntryState {
    /// The message waits in the queue.
    Waiting,
    /// The message is in the log.
    Taken,
    /// The message was removed.
    Removed,
}

/// The stored form of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequestCopy {
    /// The sender's key for the request.
    pub key: String,
    /// The content of the request.
    pub what: String,
    /// The newest position of the log at the arrival of the request.
    pub since: Seq,
    /// The arrival time of the request.
    pub at: Millis,
    /// The answer to the request.
    pub answer: Option<String>,
}

/// The stored form of an entry of the prefix cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixCacheEntryCopy {
    /// The key of the entry.
    pub key: PrefixCacheKey,
    /// The edits of the entry, as JSON.
    pub body: String,
}

/// A store that whole sessions can be read from and written to. Object-safe.
#[async_trait]
pub trait SessionTransfer: Send + Sync {
    /// Returns all sessions in the order of their creation. Written in the same order, sessions are listed alike
    /// in the other store.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn created(&self) -> Result<Vec<SessionId>, StoreError>;

    /// Returns a copy of a session at one moment.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn export(&self, id: &SessionId) -> Result<SessionCopy, StoreError>;

    /// Stores a session completely or not at all. The session has no owner afterwards; leases of the other store
    /// are void here.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the id is taken; [`StoreError::Corrupt`] if the log is not whole.
    async fn import(&self, copy: &SessionCopy) -> Result<(), StoreError>;

    /// Returns the entries of the prefix cache, the least recently used first.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn export_memo(&self) -> Result<Vec<PrefixCacheEntryCopy>, StoreError>;

    /// Stores `entries` as the most recently used, in their order. The new entries replace earlier entries under
    /// their keys.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn import_memo(&self, entries: &[PrefixCacheEntryCopy]) -> Result<(), StoreError>;
}

/// Copies a session to another store, reads the copy and compares. Returns the digest of both.
///
/// # Errors
/// The errors of [`SessionTransfer::export`] and [`SessionTransfer::import`]; [`StoreError::Corrupt`] if the copy
/// read back differs.
pub async fn transfer_session(
    from: &dyn SessionTransfer,
    to: &dyn SessionTransfer,
    id: &SessionId,
) -> Result<blake3::Hash, StoreError> {
    import_verified_copy(&from.export(id).await?, to).await
}

/// Writes an existing copy into another store. Otherwise like [`transfer_session`].
///
/// # Errors
/// As [`transfer_session`].
pub async fn import_verified_copy(
    copy: &SessionCopy,
    to: &dyn SessionTransfer,
) -> Result<blake3::Hash, StoreError> {
    let id = &copy.id;
    to.import(copy).await?;
    // Read back and not merely acknowledged: a migration or restore may be followed by the end of the source.
    let (expected, found) = (copy.digest(), to.export(id).await?.digest());
    if found == expected {
        Ok(expected)
    } else {
        Err(StoreError::Corrupt(format!("the copy of session {id} has digest {found}, not {expected}")))
    }
}

impl SessionCopy {
    /// Returns a hash over all fields of the copy.
    pub fn digest(&self) -> blake3::Hash {
        let mut digest = SessionCopyHasher(blake3::Hasher::new_derive_key("longhaul 2026 copy of a session"));
        digest.text(self.id.as_str()).optional_text(self.title.as_deref());
        digest.number(self.created_at).number(self.updated_at);
        digest.number(u64::from(self.running)).number(u64::from(self.parked));
        digest.number(self.epoch).number(self.events.len() as u64);
        for event in &self.events {
            digest.number(event.seq).number(u64::from(event.format)).number(event.epoch).number(event.at);
            digest.text(&event.body);
        }
        digest.number(self.inbox.len() as u64);
        for entry in &self.inbox {
            digest.text(entry.id.as_str()).optional_text(entry.client_key.as_deref()).number(entry.at);
            digest.text(&entry.body).number(entry.state.number().unsigned_abs().into());
        }
        digest.number(self.requests.len() as u64);
        for request in &self.requests {
            digest.text(&request.key).text(&request.what).number(request.since).number(request.at);
            digest.optional_text(request.answer.as_deref());
        }
        digest.number(self.chunks.len() as u64);
        for chunk in &self.chunks {
            digest.text(&chunk.step).number(chunk.index).text(&chunk.body);
        }
        digest.number(self.blobs.len() as u64);
        for (blob, first_seq) in &self.blobs {
            digest.text(&blob.hash).number(blob.bytes).number(*first_seq);
        }
        digest.0.finalize()
    }

    /// Reports whether two copies are equal apart from their leases. Even the opening of a session for reading
    /// takes a lease.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.digest() == Self { epoch: self.epoch, ..other.clone() }.digest()
    }

    /// Checks the log for at least one event, and for the positions 1, 2, 3 … without a gap.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn check(&self) -> Result<(), StoreError> {
        if self.events.is_empty() {
            return Err(StoreError::Corrupt(format!("session {}: its log is empty", self.id)));
        }
        match (1..).zip(&self.events).find(|(expected, event)| event.seq != *expected) {
            Some((expected, _)) => {
                Err(StoreError::Corrupt(format!("session {}: event {expected} is missing", self.id)))
            }
            None => Ok(()),
        }
    }
}

impl InboxEntryState {
    /// Returns the stored number of the state.
    pub const fn number(self) -> i16 {
        match self {
            Self::Waiting => 0,
            Self::Taken => 1,
            Self::Removed => 2,
        }
    }

    /// Returns the state with the stored `number`.
    pub const fn of(number: i64) -> Self {
        match number {
            0 => Self::Waiting,
            1 => Self::Taken,
            _ => Self::Removed,
        }
    }
}

/// A hasher of fields with their lengths, so that no field runs into the next.
struct SessionCopyHasher(blake3::Hasher);

impl SessionCopyHasher {
    fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        // The length keeps neighbouring texts apart: `ab`, `c` must not hash like `a`, `bc`.
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
        self
    }

    fn optional_text(&mut self, text: Option<&str>) -> &mut Self {
        self.number(u64::from(text.is_some())).text(text.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{EventCopy, IdempotentRequestCopy, InboxEntryCopy, InboxEntryState, SessionCopy};
    use crate::{AnswerChunk, StoreError};

    fn copy() -> SessionCopy {
        let event = |seq| EventCopy { seq, format: 1, epoch: 7, at: 5, body: "{}".to_owned() };
        let body = "[]".to_owned();
        SessionCopy {
            id: "s".into(),
            title: None,
            created_at: 1,
            updated_at: 2,
            running: false,
            parked: false,
            epoch: 7,
            events: vec![event(1), event(2)],
            inbox: vec![InboxEntryCopy {
                id: "q".into(),
                client_key: None,
                at: 3,
                body,
                state: InboxEntryState::Waiting,
            }],
            requests: vec![IdempotentRequestCopy {
                key: "k".into(),
                what: "w".into(),
                since: 1,
                at: 4,
                answer: None,
            }],
            chunks: vec![AnswerChunk { step: "a".into(), index: 0, body: "b".into() }],
            blobs: Vec::new(),
        }
    }

    #[test]
    fn every_change_makes_another_digest() {
        let changes: [fn(&mut SessionCopy); 14] = [
            |copy| copy.title = Some(String::new()),
            |copy| copy.updated_at = 9,
            |copy| copy.running = true,
            |copy| copy.parked = true,
            |copy| copy.epoch = 8,
            |copy| copy.events[1].at = 6,
            |copy| copy.events[1].epoch = 8,
            |copy| copy.events[0].format = 2,
            |copy| copy.events[0].body.push(' '),
            |copy| copy.inbox[0].state = InboxEntryState::Taken,
            |copy| copy.inbox[0].client_key = Some("k".into()),
            |copy| copy.requests[0].answer = Some("x".into()),
            |copy| copy.chunks[0].step = "ab".into(),
            |copy| drop(copy.chunks.pop()),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = copy();
            change(&mut changed);
            assert_ne!(changed.digest(), copy().digest(), "{index}");
        }
    }

    #[test]
    fn a_session_that_was_opened_says_the_same() {
        assert!(copy().says_the_same(&SessionCopy { epoch: 8, ..copy() }));
        assert!(!copy().says_the_same(&SessionCopy { epoch: 8, updated_at: 9, ..copy() }));
    }

    #[test]
    fn a_log_with_a_gap_is_no_log() {
        assert_eq!(copy().check(), Ok(()));
        let mut damaged = copy();
        damaged.events[1].seq = 3;
        assert_eq!(damaged.check(), Err(StoreError::Corrupt("session s: event 2 is missing".into())));
        damaged.events.clear();
        assert!(damaged.check().is_err());
    }
}
