//! The errors of a store, by what the caller can do.

use longhaul_core::ids::{Seq, SessionId};

/// The reason for a refused call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session, or no such waiting message.
    #[error("no such {0}")]
    NotFound(String),
    /// The id is taken, or a queue entry was taken or removed in between.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another writer has claimed the session since.
    #[error("another writer has claimed session {0}")]
    Fenced(SessionId),
    /// Another node has the session.
    #[error("session {session} is held by another node{}", .address.as_deref().map(|address| format!(" ({address})")).unwrap_or_default())]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// The address of the other node, if announced.
        address: Option<String>,
    },
    /// The session is in use.
    #[error("session {0} is in use")]
    Busy(SessionId),
    /// The queue already holds the maximum number of messages. The field is the number.
    #[error("the queue is full: {0} messages wait")]
    QueueFull(usize),
    /// Another process has the data folder.
    #[error("the data folder {folder} is in use by another process{}", .by.as_deref().map(|by| format!(" ({by})")).unwrap_or_default())]
    Locked {
        /// The folder.
        folder: String,
        /// The holder of the store, if the process left a name.
        by: Option<String>,
    },
    /// A living node has another token than this process. The field is the node, by the address if announced.
    #[error(
        "a node that lives on this database ({0}) has another token: all are started with the same --token-file. To \
         change it, end all nodes first; one that was killed counts as alive for 10 s"
    )]
    OtherToken(String),
    /// Stored data cannot be read.
    #[error("stored data cannot be read: {0}")]
    Corrupt(String),
    /// One event of a log is damaged or missing. The others can be read: see
    /// [`Store::read_undamaged`](crate::Store::read_undamaged).
    #[error("stored data cannot be read: event {seq} of session {session} is damaged ({why})")]
    Damaged {
        /// The session.
        session: SessionId,
        /// The event's position.
        seq: Seq,
        /// A description of the fault.
        why: String,
    },
    /// The disk or the database failed. After a failed fsync every later write fails too.
    #[error("storage failed: {0}")]
    Storage(String),
    /// The data was written by an older version: opening for writing brings the data up to date.
    #[error("{0}")]
    Outdated(String),
    /// The store was opened for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
