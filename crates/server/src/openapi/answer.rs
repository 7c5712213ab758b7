//! The answers of the routes.
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
    /// The tokens that the view would have (`context-overflow`).
    tokens: Option<u64>,
    /// The usable tokens of the window (`context-overflow`).
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
        let description = "A client's own data, stored with a message: at most 16 KiB of JSON and 32 levels.";
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
    /// The session. Without it, a new session is created.
    session_id: Option<String>,
    /// For a new session: the name of a configured agent. Without it, the default agent.
    agent: Option<String>,
    content: MessageContentSchema,
    /// Data that is stored and returned with the message and never shown to the model.
    metadata: Option<MessageMetadataSchema>,
}

/// The outcome of sending a message: taken at once, or queued for the next step.
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
    /// The message's id in the log.
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
    /// The position in the queue, from 1.
    position: u64,
    /// The message's id in the queue.
    id: String,
    /// A text for people.
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

/// A queued message.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueEntry {
    id: String,
    /// The position in the queue, from 1.
    position: u64,
    /// Milliseconds since 1970.
    queued_at: u64,
    parts: Vec<PartSchema>,
    /// The metadata that the client sent.
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
    /// The new metadata. Without it, the message keeps its metadata.
    metadata: Option<MessageMetadataSchema>,
}

/// The status of a session.
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

/// The reason why a run ended.
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

/// A session in the list of sessions.
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
    /// The position of the log's newest event.
    last_seq: u64,
    /// The number of queued messages.
    queued: u64,
    status: SessionStatusSchema,
    /// The finish reason of the newest run. Absent during a run, and if the end is not among the newest events.
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
    /// The position of the log's newest event.
    last_seq: u64,
    /// The number of queued messages.
    queued: u64,
    status: SessionStatusSchema,
    token_usage: TokenUsage,
    compaction_count: u64,
    /// The agent's name.
    agent: String,
    model: ModelOriginSchema,
    /// The reason why the session is parked.
    parked: Option<String>,
    /// The action that makes the session continue.
    go_on: Option<String>,
    last_finish_reason: Option<FinishReason>,
    last_error: Option<ErrorInfoSchema>,
    /// The wait for the model's server. Only while the status is `waiting_for_server`.
    waiting: Option<ServerWaitSchema>,
    /// The origin of a fork. Only in the response that creates it.
    forked_from: Option<ForkOriginSchema>,
    /// The folder in which the session was created, if it is known.
    folder: Option<String>,
    /// A warning, if the session was created in another folder than the one in which its tools work now.
    folder_warning: Option<String>,
    /// The positions of damaged events, if there are any. The other fields describe the log before the first of them.
    damaged: Option<Vec<u64>>,
    /// The reason why a damaged session cannot continue.
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
    /// The value of `after` for the next page.
    #[schema(required)]
    after: Option<u64>,
    /// The value of `before` for the previous page.
    #[schema(required)]
    before: Option<u64>,
    /// The ends of runs on this page that did not end with their answer, if there are any.
    run_ends: Option<Vec<RunEndSchema>>,
    /// The positions of damaged events on this page, if there are any. Their content is lost; the rest is complete.
    damaged: Option<Vec<u64>>,
}

/// The end of a run that failed, was cancelled, or reached a limit.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunEnd)]
pub(crate) struct RunEndSchema {
    seq: u64,
    /// Milliseconds since 1970.
    at: u64,
    run_id: String,
    finish_reason: FinishReason,
    error: Option<ErrorInfoSchema>,
}

/// A message of the log.
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
    /// The metadata that the client sent with a user message.
    metadata: Option<MessageMetadataSchema>,
    /// The metadata of the queued messages that were joined into this one, by their ids in the queue.
    original_metadata: Option<BTreeMap<String, MessageMetadataSchema>>,
    is_note: Option<bool>,
    is_summary: Option<bool>,
    model: Option<ModelOriginSchema>,
    interrupted: Option<AnswerCutSchema>,
    /// The error that cut off an answer marked `lost` or `paused`.
    error: Option<ErrorInfoSchema>,
    /// The id of the paused answer that a `lost` attempt was to continue.
    continues: Option<String>,
    reasoning: Option<String>,
    /// The provider's own items, as JSON.
    reasoning_metadata: Option<Vec<String>>,
    tool_calls: Option<Vec<ToolCallSchema>>,
    token_usage: Option<TokenUsage>,
    /// The time when a summary replaced the message, in milliseconds since 1970.
    summarized_at: Option<u64>,
    tool_name: Option<String>,
    call_id: Option<String>,
    status: Option<ToolOutcomeSchema>,
    truncated: Option<bool>,
    /// The time when the tool started, in milliseconds since 1970. Absent if the call never ran.
    started_at: Option<u64>,
    /// The time when a placeholder replaced the result, in milliseconds since 1970.
    compacted_at: Option<u64>,
}

/// An error: a stable code and a message for people.
#[derive(ToSchema)]
#[schema(as = Failed)]
pub(crate) struct ErrorInfoSchema {
    code: ProblemCode,
    message: String,
}

/// The reason why an answer is incomplete.
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
    /// The arguments as JSON, or `null` if the model wrote invalid JSON.
    #[schema(required)]
    args: Option<serde_json::Value>,
    /// The arguments as text, as the model wrote them.
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
    /// The reason why nothing was resumed.
    reason: Option<String>,
    /// A warning, if the session was created in another folder than the one in which its tools work now.
    folder_warning: Option<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Retried)]
pub(crate) struct RetryRunResponse {
    ok: bool,
    session_id: String,
    /// `true` if the session was waiting, so that an attempt was made at once.
    retried: bool,
}

/// A wait for the model's server.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiting)]
pub(crate) struct ServerWaitSchema {
    reason: WaitReasonSchema,
    /// The number of the next attempt: 1 is the first repetition.
    attempt: u64,
    /// Milliseconds since 1970.
    next_attempt_at: u64,
    last_error: ErrorInfoSchema,
}

/// The reason why a model call is repeated.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = WaitReason)]
pub(crate) enum WaitReasonSchema {
    Outage,
    RateLimit,
    BrokenAnswer,
    Refusal,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Recalled)]
pub(crate) struct RecallResponse {
    session_id: String,
    /// The original, or all hits as one text; empty if nothing matches.
    text: String,
    /// The messages that match a `query`, the best first. Absent if a handle was given.
    hits: Option<Vec<RecallHit>>,
}

/// A message that matches the query.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecallHit {
    handle: String,
    /// The position in the log.
    seq: u64,
    /// The speaker: `user`, `assistant`, `note`, or `result of TOOL`.
    speaker: String,
    /// An excerpt with the matching words.
    text: String,
}

/// Stored content.
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

/// The part that refers to the content in a message.
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

/// A tool call that waits for approval.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub(crate) struct ApprovalSchema {
    /// The id of the approval, unique on the server.
    approval_id: String,
    session_id: String,
    call_id: String,
    tool_name: String,
    /// The arguments as JSON, or `null` if the model wrote invalid JSON.
    #[schema(required)]
    args: Option<serde_json::Value>,
    /// The arguments as text, as the model wrote them.
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
