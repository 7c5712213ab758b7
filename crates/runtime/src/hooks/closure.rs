//! A hook made of a closure of the embedding program.

use async_trait::async_trait;
use serde_json::Value;

use super::{Hook, HookError, HookEvent};

/// A closure with a future as the result. The closure must not block: a blocking call cannot be ended at the deadline.
#[derive(Clone, Copy)]
pub struct ClosureHook<F>(F);

impl<F, A> ClosureHook<F>
where
    F: Fn(Value) -> A + Send + Sync,
    A: Future<Output = Result<Value, HookError>> + Send,
{
    /// Creates a hook from a closure from request to answer. The request's field `hook` names the event.
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
