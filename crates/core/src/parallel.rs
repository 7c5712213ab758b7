//! Two parts of a long computation at the same time.
//!
//! Results never depend on the number of threads: the parts share nothing, and both are finished before the result is
//! put together.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// The least work that is worth a thread, in bytes of text. A thread costs about as much as reading a few kilobytes.
pub(crate) const LEAST_BYTES: usize = 256 << 10;

/// Runs both functions at the same time, and returns both results.
pub(crate) fn join<A: Send, B>(beside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let beside = Mutex::new(Some(beside));
    let run = || {
        let work = beside.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map(|work| work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, run);
        let here = here();
        let beside = match thread.map(ScopedJoinHandle::join) {
            Ok(Ok(beside)) => beside,
            // The caller sees the panic as if there were no second thread.
            Ok(Err(panic)) => resume_unwind(panic),
            // Some systems have no threads, or no more of them.
            Err(_) => run(),
        };
        match beside {
            Some(beside) => (beside, here),
            None => unreachable!("the work is taken once, by the thread or here"),
        }
    })
}

/// Returns where to split `items`, so that both parts have about the same number of bytes. `None` if the whole is too
/// small to be worth it.
pub(crate) fn middle<T>(items: &[T], bytes: impl Fn(&T) -> usize) -> Option<usize> {
    let total: usize = items.iter().map(&bytes).sum();
    if total < 2 * LEAST_BYTES {
        return None;
    }
    let mut before = 0;
    let middle = items.iter().take_while(|item| {
        before += bytes(item);
        before <= total / 2
    });
    Some(middle.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_results_come_back() {
        assert_eq!(join(|| 1, || "two"), (1, "two"));
    }

    #[test]
    fn the_middle_is_where_the_bytes_are_halved() {
        let bytes = |item: &usize| *item;
        assert_eq!(middle(&[LEAST_BYTES, 1], bytes), None);
        assert_eq!(middle(&[LEAST_BYTES; 4], bytes), Some(2));
        assert_eq!(middle(&[1, 1, 1, 4 * LEAST_BYTES], bytes), Some(3));
        assert_eq!(middle(&[4 * LEAST_BYTES, 1, 1], bytes), Some(0));
    }
}
