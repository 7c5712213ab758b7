//! Compares a store with the store in memory: both must give the same answers to the same operations. The
//! tests choose the operations.

use std::collections::HashMap;
use std::mem::Discriminant;

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::{QueueId, SessionId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;

use super::{note, run_finished, started, titled};
use crate::{AnswerChunk, Lease, LogAppend, NewQueuedMessage, NewSession, SessionRecord, Store, StoreError};

/// An operation on the store. Small numbers name sessions, leases (the newest first), queue entries, kinds of
/// events, steps.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they are the arguments of what the store is asked")]
pub enum StoreOperation {
    /// [`Store::create`].
    Create(u8),
    /// [`Store::delete`].
    Delete(u8),
    /// [`Store::claim`].
    Claim(u8),
    /// [`Store::release`].
    Release(u8),
    /// [`Store::append`].
    Append { lease: u8, events: Vec<u8>, takes: Vec<u8>, settles: Vec<u8> },
    /// [`Store::enqueue`].
    Enqueue { session: u8, id: u8, key: Option<u8>, limit: usize },
    /// [`Store::edit_queued`].
    Edit { session: u8, id: u8 },
    /// [`Store::remove_queued`].
    Remove { session: u8, id: u8 },
    /// [`Store::clear_queue`].
    Clear(u8),
    /// [`Store::put_chunk`].
    PutChunk { lease: u8, step: u8, index: u64 },
}

fn session_id(session: u8) -> String {
    format!("session {session}")
}

fn event(kind: u8) -> EventBody {
    match kind {
        0 => EventBody::RunStarted { run_id: "r".into() },
        1 => run_finished(),
        2 => titled("a title"),
        _ => note("text"),
    }
}

/// A store with all leases given so far.
pub struct StoreUnderTest<'s> {
    store: &'s dyn Store,
    leases: Vec<Lease>,
    /// The numbers of times that each queue entry of a session was accepted and settled. Queue ids are never reused.
    generations: HashMap<(SessionId, u8), (u32, bool)>,
}

/// An answer without the parts that may differ: the epochs of leases, the wording of errors.
pub type Answer = Result<String, Discriminant<StoreError>>;

impl<'s> StoreUnderTest<'s> {
    /// Wraps a store without a lease so far.
    pub fn new(store: &'s dyn Store) -> Self {
        Self { store, leases: Vec::new(), generations: HashMap::new() }
    }

    /// Returns the store's answer to the operation `op` at the time `at`.
    pub async fn act(&mut self, op: &StoreOperation, at: u64) -> Answer {
        self.try_act(op, at).await.map_err(|error| std::mem::discriminant(&error))
    }

    /// Returns the lease of a number. The newest leases are used most often.
    fn lease(&self, number: u8) -> Option<&Lease> {
        self.leases.iter().rev().nth(number.into())
    }

    fn entry_id(&self, session: &SessionId, number: u8) -> QueueId {
        let generation =
            self.generations.get(&(session.clone(), number)).map_or(0, |(generation, _)| *generation);
        format!("entry {number}.{generation}").into()
    }

    /// Returns the id of an entry to queue. The id is new if the last id of the number was accepted and no longer
    /// waits.
    async fn next_entry_id(&mut self, session: &SessionId, number: u8) -> QueueId {
        let last = self.entry_id(session, number);
        let waiting = self.store.queue(session).await.unwrap_or_default();
        let (generation, accepted) = self.generations.entry((session.clone(), number)).or_default();
        // Stores may differ on an id that is given again after its message was settled, so the model never gives
        // one.
        if *accepted && waiting.iter().all(|entry| entry.id != last) {
            (*generation, *accepted) = (*generation + 1, false);
        }
        self.entry_id(session, number)
    }

    async fn try_act(&mut self, op: &StoreOperation, at: u64) -> Result<String, StoreError> {
        let store = self.store;
        Ok(match op {
            StoreOperation::Create(session) => {
                format!("{:?}", store.create(new_session(*session, at)).await?)
            }
            StoreOperation::Delete(session) => {
                format!("{:?}", store.delete(&session_id(*session).into()).await?)
            }
            StoreOperation::Claim(session) => {
                self.leases.push(store.claim(&session_id(*session).into(), "model").await?);
                String::new()
            }
            StoreOperation::Release(_) | StoreOperation::Append { .. } | StoreOperation::PutChunk { .. } => {
                self.act_with_lease(op, at).await?
            }
            StoreOperation::Enqueue { session, id, key, limit } => {
                let session = session_id(*session).into();
                let entry = self.next_entry_id(&session, *id).await;
                let accepted = store.enqueue(&session, queued(entry, *key, *limit, at)).await?;
                if !accepted.repeated {
                    self.generations.entry((session, *id)).or_default().1 = true;
                }
                format!("{accepted:?}")
            }
            StoreOperation::Edit { session, id } => {
                let parts = vec![Part::text(format!("edited at {at}"))];
                let entry = self.entry_id(&session_id(*session).into(), *id);
                format!(
                    "{:?}",
                    store.edit_queued(&session_id(*session).into(), &entry, parts, metadata_at(at)).await?
                )
            }
            StoreOperation::Remove { session, id } => {
                let entry = self.entry_id(&session_id(*session).into(), *id);
                format!("{:?}", store.remove_queued(&session_id(*session).into(), &entry).await?)
            }
            StoreOperation::Clear(session) => {
                format!("{:?}", store.clear_queue(&session_id(*session).into()).await?)
            }
        })
    }

    async fn act_with_lease(&self, op: &StoreOperation, at: u64) -> Result<String, StoreError> {
        Ok(match op {
            StoreOperation::Release(lease) => match self.lease(*lease) {
                Some(lease) => format!("{:?}", self.store.release(lease).await?),
                None => String::new(),
            },
            StoreOperation::Append { lease, events, takes, settles } => {
                let Some(lease) = self.lease(*lease) else { return Ok(String::new()) };
                let append = LogAppend {
                    at,
                    events: events.iter().map(|kind| event(*kind)).collect(),
                    takes: takes.iter().map(|id| self.entry_id(&lease.session_id, *id)).collect(),
                    settles: settles.iter().map(u8::to_string).collect(),
                };
                format!("{:?}", self.store.append(lease, append).await?)
            }
            StoreOperation::PutChunk { lease, step, index } => {
                let Some(lease) = self.lease(*lease) else { return Ok(String::new()) };
                let chunk =
                    AnswerChunk { step: step.to_string(), index: *index, body: format!("piece at {at}") };
                format!("{:?}", self.store.put_chunk(lease, chunk).await?)
            }
            _ => String::new(),
        })
    }
}

fn new_session(session: u8, at: u64) -> NewSession {
    NewSession { id: session_id(session).into(), title: None, at, events: vec![(at, started())] }
}

fn queued(id: QueueId, key: Option<u8>, queue_limit: usize, at: u64) -> NewQueuedMessage {
    let parts = vec![Part::text(format!("queued at {at}"))];
    NewQueuedMessage {
        client_key: key.map(|key| key.to_string()),
        metadata: metadata_at(at),
        ..NewQueuedMessage::new(id, at, parts, queue_limit)
    }
}

/// Returns metadata for every second message.
fn metadata_at(at: u64) -> Option<MessageMetadata> {
    (at % 2 == 1).then(|| super::metadata(&at.to_string()))
}

/// The whole content of a store.
#[derive(Debug, PartialEq)]
pub struct StoreSnapshot {
    sessions: Vec<SessionRecord>,
    logs: Vec<Vec<Event>>,
    queues: Vec<Vec<QueuedMessage>>,
    chunks: Vec<Vec<AnswerChunk>>,
}

/// Returns the whole content of `store`.
pub async fn content(store: &dyn Store) -> StoreSnapshot {
    let sessions = store.sessions(usize::MAX).await.unwrap();
    let (mut logs, mut queues, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    for session in &sessions {
        logs.push(store.read(&session.id, 0, usize::MAX).await.unwrap());
        queues.push(store.queue(&session.id).await.unwrap());
        chunks.push(store.chunks(&session.id).await.unwrap());
    }
    StoreSnapshot { sessions, logs, queues, chunks }
}
