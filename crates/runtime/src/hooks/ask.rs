//! What hooks are asked, and what they answer.

use longhaul_core::ids::{CallId, SessionId};
use longhaul_core::run::PreCompactInput;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::HookEvent;

/// A question of one event.
pub(super) trait HookRequest: Serialize + Send + Sync {
    const EVENT: HookEvent;
    type Answer: HookResponse;

    fn session_id(&self) -> &SessionId;
}

/// An answer of one event; the default says nothing.
pub(super) trait HookResponse: DeserializeOwned + Default {
    /// The names of its fields in JSON.
    const FIELDS: &'static [&'static str];
}

macro_rules! asks {
    ($($ask:ty => $event:ident, $answer:ty, $fields:expr;)*) => {$(
        impl HookRequest for $ask {
            const EVENT: HookEvent = HookEvent::$event;
            type Answer = $answer;

            fn session_id(&self) -> &SessionId {
                &self.session_id
            }
        }

        impl HookResponse for $answer {
            const FIELDS: &'static [&'static str] = $fields;
        }
    )*};
}

asks! {
    PreCompactRequest => PreCompact, PreCompactResponse, &["cancel", "reason", "customInstructions", "customSummary"];
    PreToolUseRequest => PreToolUse, PreToolUseResponse, &["decision", "reason", "args"];
    PostToolUseRequest => PostToolUse, PostToolUseResponse, &["addedContext"];
    UserPromptSubmitRequest => UserPromptSubmit, UserPromptSubmitResponse, &["block", "reason", "addedContext"];
}

/// A compaction is about to begin. As JSON it also has `hook` and `deadlineMs`, the time for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PreCompactRequest {
    /// The session.
    pub session_id: SessionId,
    /// Who wants it.
    pub trigger: PreCompactTrigger,
    /// Why, in words.
    pub reason: String,
    /// What the next request has, in tokens.
    pub current_tokens: u64,
    /// What it should have, in tokens.
    pub target_tokens: u64,
    /// Messages that the model is shown now.
    pub message_count: u64,
    /// What goes away.
    pub what_goes: CompactionScope,
    /// What a person said about the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_instructions: Option<String>,
}

impl PreCompactRequest {
    /// Describes a compaction of the session, or of a conversation of the gateway, that `session_id` names.
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
                messages: ask.messages_gone,
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

/// Who wants a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PreCompactTrigger {
    /// A person.
    Manual,
    /// The loop.
    Auto,
}

/// What a compaction takes away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactionScope {
    /// How many messages.
    pub messages: u64,
    /// The handles of their spans of the log, as `recall` takes them.
    pub handles: Vec<String>,
}

/// What is to become of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreCompactResponse {
    /// It should not be.
    pub cancel: bool,
    /// Why not, for people.
    pub reason: Option<String>,
    /// What the summary should heed, in the place of what a person said.
    pub custom_instructions: Option<String>,
    /// The summary itself: no model is asked for one.
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
    /// Its arguments.
    pub args: Value,
}

/// Whether a tool may run, and with which arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreToolUseResponse {
    /// `None` is the same as [`PreToolUseDecision::Allow`].
    pub decision: Option<PreToolUseDecision>,
    /// Why not, in words for the model.
    pub reason: Option<String>,
    /// What the tool is run with, in the place of what the model wrote.
    pub args: Option<Map<String, Value>>,
}

/// Whether a tool may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreToolUseDecision {
    /// The hook does not mind. Rules and people have decided before it was asked.
    Allow,
    /// It does not run, and the model is told why.
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
    /// The arguments it was run with.
    pub args: Value,
    /// Whether it reports no error.
    pub success: bool,
    /// Its text, the first MiB of it; a line for each attachment.
    pub result: String,
}

/// What the model is told besides a tool's result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
    /// Its texts, one below the other.
    pub prompt: String,
}

/// What is to become of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserPromptSubmitResponse {
    /// It is refused.
    pub block: bool,
    /// Why, in words for the person.
    pub reason: Option<String>,
    /// Text for the model, behind the message.
    pub added_context: Option<String>,
}
