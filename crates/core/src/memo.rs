//! Values that follow from others and are computed once.

use std::sync::OnceLock;

/// A value that is computed when it is first asked for. It follows from what stands beside it, so whether it was computed
/// yet makes no difference to the equality of what contains it.
#[derive(Clone, Debug)]
pub(crate) struct Memo<T>(OnceLock<T>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> PartialEq for Memo<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Memo<T> {
    /// Returns the value, which `compute` makes the first time.
    pub(crate) fn get(&self, compute: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(compute)
    }
}
