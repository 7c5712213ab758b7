//! The limit of a connection's unsent bytes.
//!
//! The HTTP library buffers up to 400 KB for each connection. With many clients that do not read, the buffers
//! would add up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

/// The maximum number of buffered bytes of a connection. The frame across the limit is the last one.
pub(super) const MOST_HELD_BYTES: usize = 64 << 10;

/// The buffered bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionBackpressure {
    bytes: AtomicUsize,
    freed: Notify,
}

/// A shared frame, counted for one connection until sent.
struct CountedFrame {
    frame: Bytes,
    held: Arc<ConnectionBackpressure>,
}

impl ConnectionBackpressure {
    /// Returns the frame, counted until dropped.
    pub(super) fn count(self: &Arc<Self>, frame: Bytes) -> Bytes {
        self.bytes.fetch_add(frame.len(), Ordering::Relaxed);
        // The HTTP library drops the bytes once they are sent. No other sign tells of it.
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
        // `notify_one` keeps its permit, so a wake between the check and the wait is not lost.
        self.held.freed.notify_one();
    }
}
