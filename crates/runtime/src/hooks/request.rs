//! The requests to hooks, and their responses.

use longhaul_core::ids::{CallId, SessionId};
use longhaul_core::run::PreCompactInput;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::HookEvent;
use super::typed_hook::{TypedHook, TypedHooks};

/// A request of an event.
pub(super) trait HookRequest: Serialize + Send + Sync + Sized + 'static {
    const EVENT: HookEvent;
    type Answer: HookResponse;

    fn session_id(&self) -> &SessionId;

    /// Returns the event's closure, if set.
    fn closure(hooks: &TypedHooks) -> Option<&TypedHook<Self>>;

    /// Returns the place of the event's closure, to set it.
    fn closure_mut(hooks: &mut TypedHooks) -> &mut Option<TypedHook<Self>>;
}

/// A response to an event; the default changes nothing.
pub(super) trait HookResponse: DeserializeOwned + Default {
    /// The names of the response's fields in JSON.
    const FIELDS: &'static [&'static str];
}

macro_rules! asks {
    ($($ask:ty => $event:ident, $closure:ident, $answer:ty, $fields:expr;)*) => {$(
        impl HookRequest for $ask {
            const EVENT: HookEvent = HookEvent::$event;
            type Answer = $answer;

            fn session_id(&self) -> &SessionId {
                &self.session_id
            }

            fn closure(hooks: &TypedHooks) -> Option<&TypedHook<Self>> {
                hooks.$closure.as_ref()
            }

            fn closure_mut(hooks: &mut TypedHooks) -> &mut Option<TypedHook<Self>> {
                &mut hooks.$closure
            }
        }

        // The fields are listed again because serde drops unknown ones silently, and a mistyped field is logged.
        impl HookResponse for $answer {
            const FIELDS: &'static [&'static str] = $fields;
        }
    )*};
}

asks! {
    PreCompactRequest => PreCompact, pre_compact, PreCompactResponse, &["cancel", "reason", "customInstructions", "customSummary"];
    PreToolUseRequest => PreToolUse, pre_tool_use, PreToolUseResponse, &["decision", "reason", "args"];
    PostToolUseRequest => PostToolUse, post_tool_use, PostToolUseResponse, &["addedContext"];
    UserPromptSubmitRequest => UserPromptSubmit, user_prompt_submit, UserPromptSubmitResponse, &["block", "reason", "addedContext"];
}

/// A compaction is about to begin. The JSON form also has `hook` and `deadlineMs`, the time for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PreCompactRequest {
    /// The session.
    pub session_id: SessionId,
    /// The party behind the compaction.
    pub trigger: PreCompactTrigger,
    /// The reason, in words.
    pub reason: String,
    /// The size of the next request, in tokens.
    pub current_tokens: u64,
    /// The intended size of the next request, in tokens.
    pub target_tokens: u64,
    /// The messages in the model's present view.
    pub message_count: u64,
    /// The messages to be removed from the view.
    pub what_goes: CompactionScope,
    /// The instructions of a person for the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_instructions: Option<String>,
}

impl PreCompactRequest {
    /// Describes a compaction of the session, or of a conversation of the gateway, named by `session_id`.
    pub fn new(session_id: SessionId, ask: PreCompactInput) -> Self {
        let reason = serde_json::to_value(ask.reason).ok();
        Self {
            session_id,
            trigger: if ask.manual { PreCompactTrigger::Manual } else { PreCompactTrigger::Auto },
            reason: reason.and_then(|reason| reason.as_str().map(str::to_owned)).unwrap_or_default(),
            current_tokens: ask.current_tokens,
            target_tokens: ask.target_tokens,
            message_count: ask.message_count,
            what_goes: CompactionScope {
                messages: ask.dropped_messages,
                handles: ask.what_goes.iter().map(ToString::to_string).collect(),
            },
            custom_instructions: ask.custom_instructions,
        }
    }
}

impl From<PreCompactResponse> for longhaul_core::run::PreCompactOutput {
    fn from(answer: PreCompactResponse) -> Self {
        let PreCompactResponse { cancel, reason, custom_instructions, custom_summary } = answer;
        Self { cancel, reason, custom_instructions, custom_summary }
    }
}

/// The party behind a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PreCompactTrigger {
    /// A person.
    Manual,
    /// The loop.
    Auto,
}

/// The messages removed by a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactionScope {
    /// The number of messages.
    pub messages: u64,
    /// The handles of the messages' spans of the log, in the form for `recall`.
    pub handles: Vec<String>,
}

/// The decision about a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PreCompactResponse {
    /// True if the compaction should not happen.
    pub cancel: bool,
    /// The reason for a cancel, for people.
    pub reason: Option<String>,
    /// The instructions for the summary, in the place of those of a person.
    pub custom_instructions: Option<String>,
    /// The summary itself: no model is asked.
    pub custom_summary: Option<String>,
}

/// A tool is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PreToolUseRequest {
    /// The session.
    pub session_id: SessionId,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub call_id: CallId,
    /// The call's arguments.
    pub args: Value,
}

/// The decision whether a tool may run, and with which arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PreToolUseResponse {
    /// `None` is the same as [`PreToolUseDecision::Allow`].
    pub decision: Option<PreToolUseDecision>,
    /// The reason for a refusal, in words for the model.
    pub reason: Option<String>,
    /// The arguments for the tool, in the place of the model's.
    pub args: Option<Map<String, Value>>,
}

/// The decision whether a tool may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PreToolUseDecision {
    /// The hook does not mind. Rules and people have decided before the hook is asked.
    Allow,
    /// The tool does not run, and the model is given the reason.
    Deny,
}

/// A tool has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PostToolUseRequest {
    /// The session.
    pub session_id: SessionId,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub call_id: CallId,
    /// The arguments with which the tool ran.
    pub args: Value,
    /// True if the tool reports no error.
    pub success: bool,
    /// The result's text, at most the first MiB; a line for each attachment.
    pub result: String,
}

/// A text for the model besides a tool's result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PostToolUseResponse {
    /// Text for the model.
    pub added_context: Option<String>,
}

/// A message has come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserPromptSubmitRequest {
    /// The session.
    pub session_id: SessionId,
    /// The message's texts, each on lines of its own.
    pub prompt: String,
}

/// The decision about a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct UserPromptSubmitResponse {
    /// True if the message is refused.
    pub block: bool,
    /// The reason for a refusal, in words for the person.
    pub reason: Option<String>,
    /// Text for the model, behind the message.
    pub added_context: Option<String>,
}
