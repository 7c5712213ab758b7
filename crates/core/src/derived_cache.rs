//! Derived values, which follow from other values and are computed once.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A value that is computed at the first request.
///
/// The value follows from neighbours in the same struct. Two structs are therefore equal whether the value was
/// computed yet or not.
#[derive(Clone, Debug)]
pub(crate) struct LazyValue<T>(OnceLock<T>);

impl<T> Default for LazyValue<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> PartialEq for LazyValue<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> LazyValue<T> {
    /// Returns the value if an earlier request has computed it.
    pub(crate) fn known(&self) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, and computes it by `compute` at the first request.
    pub(crate) fn get(&self, compute: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(compute)
    }
}

/// A cache of values that follow from their neighbours in the same struct.
///
/// The cache does not count in comparisons. A copy begins with the same content and then changes on its own.
#[derive(Debug, Default)]
pub(crate) struct DerivedCache<T>(Mutex<T>);

impl<T> DerivedCache<T> {
    /// Returns the content under an exclusive lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // A panic leaves at worst an incomplete cache, so poisoning is no reason to stop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Clone for DerivedCache<T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

impl<T> PartialEq for DerivedCache<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
