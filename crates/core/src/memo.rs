//! Derived values: what follows from other values and is computed once.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A value that is computed when it is first asked for. It follows from what stands beside it, so whether it was computed
/// yet makes no difference to the equality of what contains it.
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
    /// Returns the value if it was computed before.
    pub(crate) fn known(&self) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, which `compute` makes the first time.
    pub(crate) fn get(&self, compute: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(compute)
    }
}

/// A cache of values that follow from what stands beside it. It makes no difference to equality, and a copy begins with the
/// same content and goes its own way.
#[derive(Debug, Default)]
pub(crate) struct DerivedCache<T>(Mutex<T>);

impl<T> DerivedCache<T> {
    /// Returns the content, which nobody else changes meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
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
