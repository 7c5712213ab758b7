//! A request to end long computations early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A flag that tells long computations to end early. Clones share it.
///
/// Whoever cancels raises the flag and then sends the cancel itself. A computation over a long log looks at the flag
/// once per message and leaves out the rest once it is raised. The loop then drops the result, ends what goes on as
/// cancelled and lowers the flag, so that what comes next is computed as usual. The flag makes no difference to the
/// equality of what contains it.
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
#[derive(Debug, Default)]
struct Counts {
    raised: AtomicUsize,
    /// Those that a computation has ended for, or that were answered.
    heeded: AtomicUsize,
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

    /// Returns whether computations are to end.
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed) > self.0.heeded.load(Ordering::Relaxed)
    }

    /// Lowers the flag because what went on was ended for it.
    pub(crate) fn heed(&self) {
        self.0.heeded.fetch_max(self.0.raised.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Lowers the flag because a cancel has arrived for which it was raised. Returns whether what went on was ended for
    /// it already.
    pub fn answer(&self) -> bool {
        let answered = self.0.answered.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.heeded.fetch_max(answered, Ordering::SeqCst) >= answered
    }
}
