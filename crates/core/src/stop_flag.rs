//! A flag that ends long computations early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A flag that tells long computations to end early. Clones share one flag.
///
/// A caller who cancels raises the flag and then sends the cancel itself. A computation over a long log reads the flag
/// once per message and skips the rest once the flag is raised. The loop then drops the result, ends the current work
/// as cancelled and lowers the flag, so that the next work is computed as usual. All flags are equal, so that values
/// with a flag compare by their other fields.
///
/// ```
/// let flag = longhaul_core::stop_flag::StopFlag::default();
/// flag.raise();
/// assert!(flag.is_raised());
/// assert!(!flag.answer(), "the cancel came before anything was computed");
/// assert!(!flag.is_raised());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<Counts>);

/// The number of cancels in each state. Each count only grows.
// A mere boolean would not do: two cancels may overlap, and one that was heeded early must not end later work on
// arrival.
#[derive(Debug, Default)]
struct Counts {
    /// Cancels that were announced.
    raised: AtomicUsize,
    /// Cancels for which a computation has ended, or which have arrived.
    heeded: AtomicUsize,
    /// Cancels that have arrived.
    answered: AtomicUsize,
}

impl PartialEq for StopFlag {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl StopFlag {
    /// Asks computations to end. One [`answer`](Self::answer) belongs to each call.
    pub fn raise(&self) {
        self.0.raised.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether computations must end.
    pub fn is_raised(&self) -> bool {
        // Relaxed loads, because the flag guards no data: a late sight of it costs one more message of work.
        self.0.raised.load(Ordering::Relaxed) > self.0.heeded.load(Ordering::Relaxed)
    }

    /// Lowers the flag, because the current work was ended for it.
    pub(crate) fn heed(&self) {
        self.0.heeded.fetch_max(self.0.raised.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Lowers the flag for one cancel that has arrived. Returns whether the work was already ended for this cancel.
    pub fn answer(&self) -> bool {
        // The maximum, because `heed` may have counted this cancel and later ones before.
        let answered = self.0.answered.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.heeded.fetch_max(answered, Ordering::SeqCst) >= answered
    }
}
