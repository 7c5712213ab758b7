//! Hooks: a user's checks before a compaction, before and after a tool, and on a message.
//!
//! A hook is asked with a JSON object and answers with one. The hook is a closure ([`ClosureHook`]), a command
//! ([`CommandHook`]) or a server ([`HttpHook`]). A hook that fails, is late or answers something else is logged and
//! ignored, without the words of the request: the run continues.
//!
//! A program sets a closure with types: [`AgentBuilder::on_pre_compact`](crate::AgentBuilder::on_pre_compact),
//! [`on_pre_tool_use`](crate::AgentBuilder::on_pre_tool_use),
//! [`on_post_tool_use`](crate::AgentBuilder::on_post_tool_use) and
//! [`on_user_prompt_submit`](crate::AgentBuilder::on_user_prompt_submit).
//!
//! ```
//! use std::time::Duration;
//! use longhaul::hooks::{HookSet, PromptDecision, UserPromptSubmitRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let hooks = HookSet::new().with_user_prompt_submit(
//!     |request| async move { PromptDecision::refuse_if(request.prompt.trim().is_empty(), "say something") },
//!     Duration::from_secs(10),
//! );
//! let ask = UserPromptSubmitRequest { session_id: "s-1".into(), prompt: " ".to_owned() };
//! let answer = hooks.user_prompt_submit(ask).await.unwrap();
//! assert!(answer.block);
//! # }
//! ```

mod approval;
mod closure;
mod command;
mod decision;
mod http;
mod pre_compact;
mod request;
#[cfg(test)]
mod tests;
mod typed_hook;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt;
use longhaul_core::ids::SessionId;
use serde::Serialize;
use serde_json::{Map, Value};

pub use self::approval::{ApprovalDecision, ApprovalHandler, ApprovalRequest};
pub use self::closure::ClosureHook;
pub use self::command::CommandHook;
pub use self::decision::{PromptDecision, ToolCallDecision};
pub use self::http::HttpHook;
pub use self::pre_compact::PreCompactDecision;
pub use self::request::{
    CompactionScope, PostToolUseRequest, PostToolUseResponse, PreCompactRequest, PreCompactResponse,
    PreCompactTrigger, PreToolUseDecision, PreToolUseRequest, PreToolUseResponse, UserPromptSubmitRequest,
    UserPromptSubmitResponse,
};
use self::request::{HookRequest, HookResponse};
use self::typed_hook::{TypedHook, TypedHooks};
use crate::async_strategy::AsyncStrategy;

/// The default time for a hook.
#[doc(hidden)]
pub const DEADLINE: Duration = Duration::from_secs(10);

/// The longest answer of a command or a server, in bytes.
#[doc(hidden)]
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The event at which a hook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a compaction.
    PreCompact,
    /// Before a tool runs, after the approval.
    PreToolUse,
    /// After a tool ran, before the result is cut and stored.
    PostToolUse,
    /// An incoming message, before queueing.
    UserPromptSubmit,
}

impl HookEvent {
    /// All events, in the order of a turn.
    pub(crate) const ALL: [Self; 4] =
        [Self::PreCompact, Self::PreToolUse, Self::PostToolUse, Self::UserPromptSubmit];

    /// Returns the event's name in the agent file and in requests to hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreCompact => "preCompact",
            Self::PreToolUse => "preToolUse",
            Self::PostToolUse => "postToolUse",
            Self::UserPromptSubmit => "userPromptSubmit",
        }
    }
}

/// A party with JSON requests as input and JSON answers as output.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Answers with a JSON object, or with `null` for no objection. At the deadline the future is dropped, which must
    /// end all work of the hook.
    ///
    /// # Errors
    /// [`HookError`]: the error is logged, so the text holds nothing of the request.
    async fn answer(&self, event: HookEvent, ask: Value) -> Result<Value, HookError>;
}

/// The reason why a hook gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook could not be started or set up.
    #[error("it could not be started: {0}")]
    NotStarted(String),
    /// The hook's process ended with an error.
    #[error("it ended with {0}")]
    Ended(String),
    /// The hook's address has no listener.
    #[error("it cannot be reached")]
    Unreachable,
    /// The connection ended early.
    #[error("the connection to it broke")]
    Broken,
    /// The hook's server answered with a status other than 2xx.
    #[error("it answered HTTP {0}")]
    Status(u16),
    /// The answer has more than [`MAX_ANSWER_BYTES`].
    #[error("its answer has more than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
    /// The answer is no JSON object, or has a field of the wrong kind.
    #[error("its answer is not a JSON object with the fields of this hook")]
    NotAnAnswer,
    /// The hook took too long.
    #[error("it did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The hook panicked.
    #[error("it panicked")]
    Panicked,
    /// Any other failure, in words fit for the log.
    #[error("{0}")]
    Failed(String),
}

/// The hooks of an agent: at most one for each event, and at most one handler of approvals.
#[derive(Clone, Default)]
pub struct HookSet {
    slots: BTreeMap<HookEvent, RegisteredHook>,
    /// The program's own hooks. An event has a hook in `slots` or here, not both.
    typed: TypedHooks,
    approval_handler: Option<Arc<dyn ApprovalHandler>>,
    /// The strategy with texts of its own, asked after the PreCompact hook about compactions that the strategy planned.
    async_strategy: Option<Arc<dyn AsyncStrategy>>,
}

#[derive(Clone)]
struct RegisteredHook {
    hook: Arc<dyn Hook>,
    deadline: Duration,
}

impl HookSet {
    /// Creates a set without hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set with `hook` for `event`, in the place of any other. The hook has `deadline` to answer.
    #[must_use]
    pub fn with(mut self, event: HookEvent, hook: Arc<dyn Hook>, deadline: Duration) -> Self {
        // Closure and hook are stored apart, and the one that is set last replaces the other.
        self.typed.remove(event);
        self.slots.insert(event, RegisteredHook { hook, deadline });
        self
    }

    /// Sets a closure that decides about compactions. The closure replaces any other PreCompact hook. The closure has
    /// `deadline` to decide and must not block. A panic or a late decision is logged and ignored.
    ///
    /// ```
    /// use longhaul::hooks::{DEADLINE, HookEvent, HookSet, PreCompactDecision};
    ///
    /// let hooks = HookSet::new().with_pre_compact(
    ///     |request| async move {
    ///         match request.what_goes.messages {
    ///             0..10 => PreCompactDecision::cancel("too little would go"),
    ///             _ => PreCompactDecision::Proceed,
    ///         }
    ///     },
    ///     DEADLINE,
    /// );
    /// assert!(hooks.has(HookEvent::PreCompact));
    /// ```
    #[must_use]
    pub fn with_pre_compact<F, A>(self, decide: F, deadline: Duration) -> Self
    where
        F: Fn(PreCompactRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PreCompactDecision> + Send + 'static,
    {
        self.with_typed(TypedHook::new(decide, deadline))
    }

    /// Sets a closure that decides about tool calls, after their approval. The closure replaces any other PreToolUse
    /// hook. The closure has `deadline` to decide and must not block. A panic or a late decision is logged and ignored.
    #[must_use]
    pub fn with_pre_tool_use<F, A>(self, decide: F, deadline: Duration) -> Self
    where
        F: Fn(PreToolUseRequest) -> A + Send + Sync + 'static,
        A: Future<Output = ToolCallDecision> + Send + 'static,
    {
        self.with_typed(TypedHook::new(decide, deadline))
    }

    /// Sets a closure that may add a text for the model to a tool's result. The closure replaces any other PostToolUse
    /// hook. The closure has `deadline` to answer and must not block. A panic or a late answer is logged and ignored.
    #[must_use]
    pub fn with_post_tool_use<F, A>(self, comment: F, deadline: Duration) -> Self
    where
        F: Fn(PostToolUseRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Option<String>> + Send + 'static,
    {
        self.with_typed(TypedHook::new(comment, deadline))
    }

    /// Sets a closure that decides about incoming messages. The closure replaces any other UserPromptSubmit hook. The
    /// closure has `deadline` to decide and must not block. A panic or a late decision is logged and ignored.
    #[must_use]
    pub fn with_user_prompt_submit<F, A>(self, decide: F, deadline: Duration) -> Self
    where
        F: Fn(UserPromptSubmitRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PromptDecision> + Send + 'static,
    {
        self.with_typed(TypedHook::new(decide, deadline))
    }

    /// Sets the closure of an event.
    fn with_typed<Q: HookRequest>(mut self, hook: TypedHook<Q>) -> Self {
        // One hook decides at each event: two answers could contradict each other.
        self.slots.remove(&Q::EVENT);
        *Q::closure_mut(&mut self.typed) = Some(hook);
        self
    }

    /// Sets a handler of tool calls in need of approval. People can decide, too: the first decision counts.
    #[must_use]
    pub fn with_approval_handler(mut self, handler: Arc<dyn ApprovalHandler>) -> Self {
        self.approval_handler = Some(handler);
        self
    }

    /// Returns the handler of approvals, if set.
    pub fn approval_handler(&self) -> Option<&Arc<dyn ApprovalHandler>> {
        self.approval_handler.as_ref()
    }

    /// Sets the strategy with replacement texts of its own.
    #[must_use]
    pub fn with_async_strategy(mut self, strategy: Arc<dyn AsyncStrategy>) -> Self {
        self.async_strategy = Some(strategy);
        self
    }

    /// Returns the named strategy, if the strategy writes replacement texts.
    pub(crate) fn async_strategy(&self, name: &str) -> Option<Arc<dyn AsyncStrategy>> {
        self.async_strategy.clone().filter(|strategy| strategy.name() == name)
    }

    /// Returns the set with the hooks of `other` for the events that have none here.
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (event, hook) in other.slots {
            if !self.has(event) {
                self.slots.insert(event, hook);
            }
        }
        self
    }

    /// Returns the set without a hook at that event.
    pub(crate) fn without(mut self, event: HookEvent) -> Self {
        self.slots.remove(&event);
        self.typed.remove(event);
        self
    }

    /// Returns whether any hook is asked at that event.
    pub fn has(&self, event: HookEvent) -> bool {
        self.slots.contains_key(&event) || self.typed.deadline(event).is_some()
    }

    /// Returns the time limit of a PreCompact hook, plus the limit of a strategy with texts of its own; `None` without
    /// either.
    pub fn pre_compact_deadline(&self) -> Option<Duration> {
        let closure = self.typed.deadline(HookEvent::PreCompact);
        let hook = closure.or_else(|| self.slots.get(&HookEvent::PreCompact).map(|slot| slot.deadline));
        let strategy = self.async_strategy.as_ref().map(|strategy| strategy.deadline());
        hook.into_iter().chain(strategy).reduce(Duration::saturating_add)
    }

    /// Asks before a compaction. `None` without a hook or an answer.
    pub async fn pre_compact(&self, ask: PreCompactRequest) -> Option<PreCompactResponse> {
        self.ask(ask).await
    }

    /// Asks before a tool runs. `None` without a hook or an answer.
    pub async fn pre_tool_use(&self, ask: PreToolUseRequest) -> Option<PreToolUseResponse> {
        self.ask(ask).await
    }

    /// Asks after a tool ran. `None` without a hook or an answer.
    pub async fn post_tool_use(&self, ask: PostToolUseRequest) -> Option<PostToolUseResponse> {
        self.ask(ask).await
    }

    /// Asks about a message. `None` without a hook or an answer.
    pub async fn user_prompt_submit(&self, ask: UserPromptSubmitRequest) -> Option<UserPromptSubmitResponse> {
        self.ask(ask).await
    }

    async fn ask<Q: HookRequest>(&self, ask: Q) -> Option<Q::Answer> {
        let (started, session_id) = (Instant::now(), ask.session_id().clone());
        let answered = match Q::closure(&self.typed) {
            Some(closure) => closure.answer(ask).await,
            None => self.slots.get(&Q::EVENT)?.answer(&ask).await,
        };
        let answer = heeded(Q::EVENT, &session_id, answered);
        log_answer(Q::EVENT, &session_id, answer.is_some(), started);
        answer
    }
}

impl fmt::Debug for HookSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadline =
            |event| self.typed.deadline(event).or_else(|| self.slots.get(&event).map(|slot| slot.deadline));
        let asked = HookEvent::ALL.into_iter().filter_map(|event| Some((event.as_str(), deadline(event)?)));
        f.debug_map().entries(asked).finish()
    }
}

impl RegisteredHook {
    async fn answer<Q: HookRequest>(&self, ask: &Q) -> Result<Q::Answer, HookError> {
        let asked = self.object(ask)?;
        typed(answer_within(self.deadline, async { self.hook.answer(Q::EVENT, asked).await }).await?)
    }

    /// Returns the request as a JSON object, with the event's name first.
    fn object<Q: HookRequest>(&self, ask: &Q) -> Result<Value, HookError> {
        let mut object = Map::from_iter([("hook".to_owned(), Q::EVENT.as_str().into())]);
        match serde_json::to_value(ask) {
            Ok(Value::Object(fields)) => object.extend(fields),
            _ => return Err(HookError::Failed("it could not be asked".to_owned())),
        }
        if Q::EVENT == HookEvent::PreCompact {
            // Only this hook may write a summary, and needs to know how long that may take.
            object.insert("deadlineMs".to_owned(), (self.deadline.as_millis() as u64).into());
        }
        Ok(Value::Object(object))
    }
}

/// Returns an answer, unless the answer is late or the hook panics. A closure may panic before there is a future, and
/// after.
async fn answer_within<T>(
    deadline: Duration,
    answering: impl Future<Output = Result<T, HookError>>,
) -> Result<T, HookError> {
    // Nothing of a hook that panicked is used again, so its state need not be sound.
    match tokio::time::timeout(deadline, AssertUnwindSafe(answering).catch_unwind()).await {
        Ok(answered) => answered.map_err(|_| HookError::Panicked)?,
        Err(_) => Err(HookError::Late(deadline)),
    }
}

fn log_answer(event: HookEvent, session_id: &SessionId, has_answered: bool, started: Instant) {
    tracing::debug!(
        hook = event.as_str(),
        session = session_id.as_str(),
        has_answered,
        duration_ms = started.elapsed().as_millis() as u64,
        "a hook was asked"
    );
}

/// Returns the answer; an error is logged instead.
fn heeded<A>(event: HookEvent, session_id: &SessionId, answered: Result<A, HookError>) -> Option<A> {
    answered
        .inspect_err(|error| {
            tracing::warn!(hook = event.as_str(), session = session_id.as_str(), %error, "a hook is ignored");
        })
        .ok()
}

/// Returns the answer in the type of the event. Unknown fields are ignored but counted in the log, because a field may
/// be mistyped.
fn typed<A: HookResponse>(answer: Value) -> Result<A, HookError> {
    let fields = match answer {
        Value::Null => return Ok(A::default()),
        Value::Object(fields) => fields,
        _ => return Err(HookError::NotAnAnswer),
    };
    let unknown = fields.keys().filter(|field| !A::FIELDS.contains(&field.as_str())).count();
    if unknown > 0 {
        let known = A::FIELDS.join(", ");
        tracing::warn!(unknown, %known, "a hook's answer has fields that are not known");
    }
    // The words of this error quote the answer, which must not get into the log.
    serde_json::from_value(Value::Object(fields)).map_err(|_| HookError::NotAnAnswer)
}

/// Parses the output of a command or a server as JSON; empty output is `null`.
fn parse_output(bytes: &[u8]) -> Result<Value, HookError> {
    match bytes.trim_ascii() {
        [] => Ok(Value::Null),
        bytes => serde_json::from_slice(bytes).map_err(|_| HookError::NotAnAnswer),
    }
}

fn to_bytes(ask: &impl Serialize) -> Result<Vec<u8>, HookError> {
    serde_json::to_vec(ask).map_err(|_| HookError::Failed("it could not be asked".to_owned()))
}

/// Returns a hook's words for the model, under a line with the hook's name.
pub(crate) fn marked(event: HookEvent, words: &str) -> String {
    format!("\n[{} hook]\n{words}", event.as_str())
}
