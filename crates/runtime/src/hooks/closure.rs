//! A hook that is a closure of the program that uses this library.

use async_trait::async_trait;
use serde_json::Value;

use super::{Hook, HookError, HookEvent};

/// A closure that makes a future. It must not block: what blocks cannot be ended at the deadline.
#[derive(Clone, Copy)]
pub struct ClosureHook<F>(F);

impl<F, A> ClosureHook<F>
where
    F: Fn(Value) -> A + Send + Sync,
    A: Future<Output = Result<Value, HookError>> + Send,
{
    /// The ask in, the answer out; which event it is says the ask's field `hook`.
    pub fn new(closure: F) -> Self {
        Self(closure)
    }
}

#[async_trait]
impl<F, A> Hook for ClosureHook<F>
where
    F: Fn(Value) -> A + Send + Sync,
    A: Future<Output = Result<Value, HookError>> + Send,
{
    async fn answer(&self, _: HookEvent, ask: Value) -> Result<Value, HookError> {
        (self.0)(ask).await
    }
}

impl<F> std::fmt::Debug for ClosureHook<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClosureHook")
    }
}
