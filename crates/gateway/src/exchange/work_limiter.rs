//! Where large requests are worked on, so that nobody else waits for them.

use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// Requests up to this size are read where they come in: that takes a millisecond at most, as long as nothing is looked
/// into.
const READ_BYTES: usize = 2 << 20;

/// So much of what is new is looked into where it comes in: that takes a few milliseconds at most.
const NEW_BYTES: usize = 256 << 10;

/// As many large requests as there are cores are worked on at a time.
pub(crate) struct WorkLimiter {
    seats: Semaphore,
}

impl WorkLimiter {
    pub(crate) fn new() -> Self {
        Self { seats: Semaphore::new(available_parallelism().map_or(1, usize::from)) }
    }

    /// Reads a request of so many bytes: which field stands where.
    pub(crate) async fn read<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if bytes <= READ_BYTES { read() } else { self.work(bytes, read).await }
    }

    /// Does work that takes its time by so many bytes that are new. Other tasks of this thread move to another meanwhile; a runtime
    /// that has only one thread has to wait.
    pub(crate) async fn work<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let has_others = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if bytes <= NEW_BYTES || !has_others {
            return work();
        }
        // Nobody closes it.
        let _seat = self.seats.acquire().await;
        block_in_place(work)
    }
}
