//! What the routes answer.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

mod context;

use std::collections::BTreeMap;

use longhaul_core::error::ErrorCode;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

pub(crate) use self::context::*;
use super::part::{
    BlobRefSchema, MessageContentSchema, ModelOriginSchema, PartSchema, RoleSchema, TokenUsage,
    ToolOutcomeSchema,
};
use crate::problem::EDIT_CODES;

/// A problem document (RFC 9457).
#[derive(ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// `urn:longhaul:problem:` and the code.
    r#type: String,
    title: String,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    detail: String,
    code: ProblemCode,
    /// Tokens that the view would have (`context-overflow`).
    tokens: Option<u64>,
    /// Tokens that are usable (`context-overflow`).
    usable: Option<u64>,
}

/// Stable codes of problems and of errors in events.
pub(crate) struct ProblemCode;

impl PartialSchema for ProblemCode {
    fn schema() -> RefOr<Schema> {
        let codes = ErrorCode::ALL.iter().map(|code| code.as_str()).chain(EDIT_CODES);
        let kind = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes));
        kind.description(Some("Stable codes of problems and of errors in events.")).into()
    }
}

impl ToSchema for ProblemCode {}

/// Data of a client's own, kept with a message.
pub(crate) struct MessageMetadataSchema;

impl PartialSchema for MessageMetadataSchema {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        let object = object.additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
        let description =
            "Data of a client's own, kept with a message: at most 16 KiB of JSON and 32 levels.";
        object.description(Some(description)).into()
    }
}

impl ToSchema for MessageMetadataSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "MessageMetadata".into()
    }
}

#[derive(ToSchema)]
#[schema(as = Done)]
pub(crate) struct OkResponse {
    ok: bool,
}

#[derive(ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthResponse {
    /// `ok` or `ready`.
    status: String,
}

/// A message for the agent.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewMessage)]
pub(crate) struct SendMessageSchema {
    /// A new session if it is left out.
    session_id: Option<String>,
    /// For a new session: a configured agent by name; the usual one if it is left out.
    agent: Option<String>,
    content: MessageContentSchema,
    /// Kept and shown with the message, never shown to the model.
    metadata: Option<MessageMetadataSchema>,
}

/// What became of a message: taken at once, or queued for the next step.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Sent)]
pub(crate) enum SendMessageResponse {
    Taken(MessageTakenResponse),
    Queued(MessageQueuedResponse),
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SentNow)]
pub(crate) struct MessageTakenResponse {
    ok: bool,
    #[schema(schema_with = no)]
    queued: bool,
    session_id: String,
    /// Its name in the log.
    message_id: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SentLater)]
pub(crate) struct MessageQueuedResponse {
    ok: bool,
    #[schema(schema_with = yes)]
    queued: bool,
    session_id: String,
    /// Its place in the queue, from 1.
    position: u64,
    /// Its name in the queue.
    id: String,
    /// For people.
    message: String,
}

fn constant(value: bool) -> Object {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([value])).build()
}

/// It is always `true`.
fn yes() -> Object {
    constant(true)
}

/// It is always `false`.
fn no() -> Object {
    constant(false)
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
pub(crate) struct QueueListResponse {
    session_id: String,
    count: u64,
    entries: Vec<QueueEntry>,
}

/// A message that waits.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueEntry {
    id: String,
    /// From 1.
    position: u64,
    /// Milliseconds since 1970.
    queued_at: u64,
    parts: Vec<PartSchema>,
    /// What its client sent along.
    metadata: Option<MessageMetadataSchema>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueCleared)]
pub(crate) struct ClearQueueResponse {
    ok: bool,
    session_id: String,
    removed: Vec<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueChanged)]
pub(crate) struct ChangeQueueResponse {
    ok: bool,
    id: String,
    session_id: String,
}

#[derive(ToSchema)]
#[schema(as = QueuedContent)]
pub(crate) struct EditQueuedSchema {
    content: MessageContentSchema,
    /// The message keeps what it has if this is left out.
    metadata: Option<MessageMetadataSchema>,
}

/// What a session does.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Status)]
pub(crate) enum SessionStatusSchema {
    Idle,
    Streaming,
    ExecutingTools,
    WaitingApproval,
    Compacting,
    WaitingForServer,
    Parked,
}

/// Why a run ended.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FinishReason {
    Stop,
    MaxSteps,
    Cancelled,
    Timeout,
    LoopDetected,
    Length,
    Error,
}

/// What is known of a session without opening it.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionBrief)]
pub(crate) struct SessionListEntry {
    id: String,
    #[schema(required)]
    title: Option<String>,
    /// Milliseconds since 1970.
    created_at: u64,
    updated_at: u64,
    /// The newest position of its log.
    last_seq: u64,
    /// Messages that wait.
    queued: u64,
    status: SessionStatusSchema,
    /// How its newest run ended, where nothing runs now and the end is among the newest of its log.
    last_finish_reason: Option<FinishReason>,
    last_error: Option<ErrorInfoSchema>,
}

#[derive(ToSchema)]
#[schema(as = Sessions)]
pub(crate) struct SessionListResponse {
    sessions: Vec<SessionListEntry>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub(crate) struct SessionResponse {
    id: String,
    #[schema(required)]
    title: Option<String>,
    /// Milliseconds since 1970.
    created_at: u64,
    updated_at: u64,
    /// The newest position of its log.
    last_seq: u64,
    /// Messages that wait.
    queued: u64,
    status: SessionStatusSchema,
    token_usage: TokenUsage,
    compaction_count: u64,
    /// The agent's name.
    agent: String,
    model: ModelOriginSchema,
    /// Why it rests for good.
    parked: Option<String>,
    /// How it goes on then.
    go_on: Option<String>,
    last_finish_reason: Option<FinishReason>,
    last_error: Option<ErrorInfoSchema>,
    /// Only while the status is `waiting_for_server`.
    waiting: Option<ServerWaitSchema>,
    /// Only in the answer to a fork.
    forked_from: Option<ForkOriginSchema>,
    /// The folder in which it began, if it is known.
    folder: Option<String>,
    /// Where it began in another folder than the one in which its tools work now: that, in words.
    folder_warning: Option<String>,
    /// The positions of damaged events, if there are any. The figures are those of what stands before the first.
    damaged: Option<Vec<u64>>,
    /// Why a damaged session cannot go on.
    error: Option<ErrorInfoSchema>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ForkedFrom)]
pub(crate) struct ForkOriginSchema {
    session_id: String,
    at_seq: u64,
}

#[derive(ToSchema)]
#[schema(as = Deleted)]
pub(crate) struct SessionDeletedResponse {
    ok: bool,
    id: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Messages)]
pub(crate) struct MessagePageResponse {
    messages: Vec<MessageSchema>,
    has_more: bool,
    /// Where the next page begins.
    #[schema(required)]
    after: Option<u64>,
    /// Where the page before ends.
    #[schema(required)]
    before: Option<u64>,
    /// The positions of damaged events among the messages, if there are any: what they said is lost, the rest is shown.
    damaged: Option<Vec<u64>>,
}

/// A message as the log has it.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Message)]
pub(crate) struct MessageSchema {
    id: String,
    seq: u64,
    /// Milliseconds since 1970.
    #[schema(required)]
    at: Option<u64>,
    role: RoleSchema,
    parts: Vec<PartSchema>,
    /// What its client sent along with a user message.
    metadata: Option<MessageMetadataSchema>,
    /// What clients sent along with the messages that became this one, by their ids in the queue.
    original_metadata: Option<BTreeMap<String, MessageMetadataSchema>>,
    is_note: Option<bool>,
    is_summary: Option<bool>,
    model: Option<ModelOriginSchema>,
    interrupted: Option<AnswerCutSchema>,
    /// Why an answer that is `lost` was cut off.
    error: Option<ErrorInfoSchema>,
    reasoning: Option<String>,
    /// The provider's own items, as JSON.
    reasoning_metadata: Option<Vec<String>>,
    tool_calls: Option<Vec<ToolCallSchema>>,
    token_usage: Option<TokenUsage>,
    /// When a summary took its place, in milliseconds since 1970.
    summarized_at: Option<u64>,
    tool_name: Option<String>,
    call_id: Option<String>,
    status: Option<ToolOutcomeSchema>,
    truncated: Option<bool>,
    /// When the tool began to run, in milliseconds since 1970; a call that never ran has none.
    started_at: Option<u64>,
    /// When a placeholder took its place, in milliseconds since 1970.
    compacted_at: Option<u64>,
}

/// What went wrong: the stable code, and words for people.
#[derive(ToSchema)]
#[schema(as = Failed)]
pub(crate) struct ErrorInfoSchema {
    code: ProblemCode,
    message: String,
}

/// Why an answer is not whole.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Cut)]
pub(crate) enum AnswerCutSchema {
    Cancelled,
    Lost,
    Paused,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCall)]
pub(crate) struct ToolCallSchema {
    call_id: String,
    tool_name: String,
    /// The arguments; `null` if what the model wrote is no JSON.
    #[schema(required)]
    args: Option<serde_json::Value>,
    /// The arguments as the model wrote them.
    args_text: String,
    #[schema(required)]
    status: Option<ToolCallStatusSchema>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CallStatus)]
pub(crate) enum ToolCallStatusSchema {
    Pending,
    Running,
    Completed,
    Error,
    Cancelled,
    Interrupted,
}

#[derive(ToSchema)]
#[schema(as = Cancelled)]
pub(crate) struct CancelRunResponse {
    ok: bool,
    cancelled: bool,
    #[schema(required)]
    persisted: Option<CancelledRunRemains>,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Persisted)]
pub(crate) enum CancelledRunRemains {
    PartialAssistant,
    ToolsInProgress,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resumed)]
pub(crate) struct ResumeRunResponse {
    ok: bool,
    session_id: String,
    status: SessionStatusSchema,
    resumed: bool,
    /// Why not.
    reason: Option<String>,
    /// Where it began in another folder than the one in which its tools work now: that, in words.
    folder_warning: Option<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Retried)]
pub(crate) struct RetryRunResponse {
    ok: bool,
    session_id: String,
    /// Whether the session waited for its model's server.
    retried: bool,
}

/// A wait for the model's server.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiting)]
pub(crate) struct ServerWaitSchema {
    reason: WaitReasonSchema,
    /// The attempt that comes, from 1 for the first repetition.
    attempt: u64,
    /// Milliseconds since 1970.
    next_attempt_at: u64,
    last_error: ErrorInfoSchema,
}

/// Why a model call is made again.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = WaitReason)]
pub(crate) enum WaitReasonSchema {
    Outage,
    RateLimit,
    BrokenAnswer,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Recalled)]
pub(crate) struct RecallResponse {
    session_id: String,
    /// The original, or the hits one below the other; empty if nothing matches.
    text: String,
    /// What matches a `query`, the best first; left out where a handle was given.
    hits: Option<Vec<RecallHit>>,
}

/// A message that matches.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecallHit {
    handle: String,
    /// Where it is in the log.
    seq: u64,
    /// Whose words these are: `user`, `assistant`, `note`, `result of TOOL`.
    speaker: String,
    /// The words and what stands around them.
    text: String,
}

/// Content that was stored.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Uploaded)]
pub(crate) struct UploadResponse {
    hash: String,
    bytes: u64,
    media_type: String,
    #[schema(required)]
    name: Option<String>,
    #[schema(required)]
    width: Option<u32>,
    #[schema(required)]
    height: Option<u32>,
    part: UploadedPart,
}

/// The part to send it as.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UploadedPart {
    /// `image` or `file`.
    r#type: String,
    blob: BlobRefSchema,
    media_type: String,
    #[schema(required)]
    name: Option<String>,
}

/// A tool that asks.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub(crate) struct ApprovalSchema {
    /// On the whole server.
    approval_id: String,
    session_id: String,
    call_id: String,
    tool_name: String,
    /// The arguments; `null` if what the model wrote is no JSON.
    #[schema(required)]
    args: Option<serde_json::Value>,
    /// The arguments as the model wrote them.
    args_text: String,
}

#[derive(ToSchema)]
#[schema(as = Approvals)]
pub(crate) struct ApprovalListResponse {
    approvals: Vec<ApprovalSchema>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Decided)]
pub(crate) enum ApprovalDecisionSchema {
    Allow,
    Deny,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApprovalDecided)]
pub(crate) struct AnswerApprovalResponse {
    ok: bool,
    approval_id: String,
    session_id: String,
    decision: ApprovalDecisionSchema,
}

/// One event; what it can be is put in where the document is put together.
#[derive(ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventSchema {}
