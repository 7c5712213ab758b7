//! A limit for the CPU work on large requests, so that small requests do not wait for them.

use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// The largest request that is parsed on the async thread. Finding the fields takes at most a millisecond.
const READ_BYTES: usize = 2 << 20;

/// The largest amount of new content that is processed on the async thread, which takes a few milliseconds at most.
const NEW_BYTES: usize = 256 << 10;

/// A limiter that admits as many large requests at a time as there are cores.
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
