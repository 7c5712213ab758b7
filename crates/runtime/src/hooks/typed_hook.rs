//! Hooks of the embedding program: closures with types in place of JSON.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::request::HookRequest;
use super::{
    HookError, HookEvent, PostToolUseRequest, PreCompactRequest, PreToolUseRequest, UserPromptSubmitRequest,
    answer_within,
};

/// The closures of a hook set, at most one for each event.
#[derive(Clone, Default)]
pub(super) struct TypedHooks {
    pub(super) pre_compact: Option<TypedHook<PreCompactRequest>>,
    pub(super) pre_tool_use: Option<TypedHook<PreToolUseRequest>>,
    pub(super) post_tool_use: Option<TypedHook<PostToolUseRequest>>,
    pub(super) user_prompt_submit: Option<TypedHook<UserPromptSubmitRequest>>,
}

impl TypedHooks {
    /// Returns the time for the closure of an event; `None` without a closure.
    pub(super) fn deadline(&self, event: HookEvent) -> Option<Duration> {
        match event {
            HookEvent::PreCompact => self.pre_compact.as_ref().map(|hook| hook.deadline),
            HookEvent::PreToolUse => self.pre_tool_use.as_ref().map(|hook| hook.deadline),
            HookEvent::PostToolUse => self.post_tool_use.as_ref().map(|hook| hook.deadline),
            HookEvent::UserPromptSubmit => self.user_prompt_submit.as_ref().map(|hook| hook.deadline),
        }
    }

    /// Removes the closure of an event.
    pub(super) fn remove(&mut self, event: HookEvent) {
        match event {
            HookEvent::PreCompact => self.pre_compact = None,
            HookEvent::PreToolUse => self.pre_tool_use = None,
            HookEvent::PostToolUse => self.post_tool_use = None,
            HookEvent::UserPromptSubmit => self.user_prompt_submit = None,
        }
    }
}

type AnswerRequest<Q> = dyn Fn(Q) -> BoxFuture<'static, <Q as HookRequest>::Answer> + Send + Sync;

/// A closure that answers requests of one event.
pub(super) struct TypedHook<Q: HookRequest> {
    closure: Arc<AnswerRequest<Q>>,
    deadline: Duration,
}

impl<Q: HookRequest> TypedHook<Q> {
    /// Creates a hook from a closure whose decisions become answers.
    pub(super) fn new<F, A>(decide: F, deadline: Duration) -> Self
    where
        F: Fn(Q) -> A + Send + Sync + 'static,
        A: Future + Send + 'static,
        A::Output: Into<Q::Answer>,
    {
        let closure = move |request| -> BoxFuture<'static, Q::Answer> {
            let deciding = decide(request);
            Box::pin(async move { Into::<Q::Answer>::into(deciding.await) })
        };
        Self { closure: Arc::new(closure), deadline }
    }

    /// Returns the answer to a request, unless the closure panics or is late.
    pub(super) async fn answer(&self, request: Q) -> Result<Q::Answer, HookError> {
        answer_within(self.deadline, async { Ok((self.closure)(request).await) }).await
    }
}

impl<Q: HookRequest> Clone for TypedHook<Q> {
    fn clone(&self) -> Self {
        Self { closure: Arc::clone(&self.closure), deadline: self.deadline }
    }
}
