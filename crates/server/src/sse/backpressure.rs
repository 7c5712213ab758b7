//! What was given to a connection and is not sent yet.
//!
//! The HTTP library gathers up to 400 KB for each connection before it stops asking for more. A client that does
//! not read would have that kept for it; with many such clients it adds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

/// What a connection may hold before it is given more, in bytes. The frame that goes beyond it is the last.
pub(super) const MOST_HELD_BYTES: usize = 64 << 10;

/// Bytes that one connection holds.
#[derive(Debug, Default)]
pub(super) struct ConnectionBackpressure {
    bytes: AtomicUsize,
    freed: Notify,
}

/// A frame, shared with others, that counts for one connection until it is sent.
struct CountedFrame {
    frame: Bytes,
    held: Arc<ConnectionBackpressure>,
}

impl ConnectionBackpressure {
    /// The same frame, counted until it is dropped.
    pub(super) fn count(self: &Arc<Self>, frame: Bytes) -> Bytes {
        self.bytes.fetch_add(frame.len(), Ordering::Relaxed);
        Bytes::from_owner(CountedFrame { frame, held: Arc::clone(self) })
    }

    /// Waits until there is room for a frame.
    pub(super) async fn room(&self) {
        while self.bytes.load(Ordering::Relaxed) >= MOST_HELD_BYTES {
            self.freed.notified().await;
        }
    }
}

impl AsRef<[u8]> for CountedFrame {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

impl Drop for CountedFrame {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.frame.len(), Ordering::Relaxed);
        self.held.freed.notify_one();
    }
}
