//! A limit for the CPU work on large requests, so that small requests need not wait.

use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// The largest request for a parse on the async thread, in bytes. Finding the fields takes at most a
/// millisecond.
const READ_BYTES: usize = 2 << 20;

/// The largest amount of new content for the async thread, in bytes. The work takes a few milliseconds at most.
const NEW_BYTES: usize = 256 << 10;

/// A limiter with one large request at a time for each core.
pub(crate) struct WorkLimiter {
    seats: Semaphore,
}

impl WorkLimiter {
    pub(crate) fn new() -> Self {
        Self { seats: Semaphore::new(available_parallelism().map_or(1, usize::from)) }
    }

    /// Runs the parse of a request with this many bytes.
    pub(crate) async fn read<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if bytes <= READ_BYTES { read() } else { self.work(bytes, read).await }
    }

    /// Runs work on this many new bytes. Meanwhile the other tasks of this thread move to another thread; a
    /// single-threaded runtime has to wait.
    pub(crate) async fn work<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let has_others = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if bytes <= NEW_BYTES || !has_others {
            return work();
        }
        // The semaphore is never closed, so acquiring cannot fail.
        let _seat = self.seats.acquire().await;
        block_in_place(work)
    }
}
