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
use super::part::{BlobRef, Content, Origin, Outcome, Part, Role, TokenUsage};
use crate::problem::EDIT_CODES;

/// A problem document (RFC 9457).
#[derive(ToSchema)]
pub(crate) struct Problem {
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
pub(crate) struct MessageMetadata;

impl PartialSchema for MessageMetadata {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        let object = object.additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
        let description =
            "Data of a client's own, kept with a message: at most 16 KiB of JSON and 32 levels.";
        object.description(Some(description)).into()
    }
}

impl ToSchema for MessageMetadata {}

#[derive(ToSchema)]
pub(crate) struct Done {
    ok: bool,
}

#[derive(ToSchema)]
pub(crate) struct Health {
    /// `ok` or `ready`.
    status: String,
}

/// A message for the agent.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewMessage {
    /// A new session if it is left out.
    session_id: Option<String>,
    /// For a new session: a configured agent by name; the usual one if it is left out.
    agent: Option<String>,
    content: Content,
    /// Kept and shown with the message, never shown to the model.
    metadata: Option<MessageMetadata>,
}

/// What became of a message: taken at once, or queued for the next step.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Sent {
    Taken(SentNow),
    Queued(SentLater),
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentNow {
    ok: bool,
    #[schema(schema_with = no)]
    queued: bool,
    session_id: String,
    /// Its name in the log.
    message_id: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentLater {
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
pub(crate) struct Queue {
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
    parts: Vec<Part>,
    /// What its client sent along.
    metadata: Option<MessageMetadata>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueCleared {
    ok: bool,
    session_id: String,
    removed: Vec<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueChanged {
    ok: bool,
    id: String,
    session_id: String,
}

#[derive(ToSchema)]
pub(crate) struct QueuedContent {
    content: Content,
    /// The message keeps what it has if this is left out.
    metadata: Option<MessageMetadata>,
}

/// What a session does.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
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
pub(crate) struct SessionBrief {
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
    status: Status,
    /// How its newest run ended, where nothing runs now and the end is among the newest of its log.
    last_finish_reason: Option<FinishReason>,
    last_error: Option<Failed>,
}

#[derive(ToSchema)]
pub(crate) struct Sessions {
    sessions: Vec<SessionBrief>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
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
    status: Status,
    token_usage: TokenUsage,
    compaction_count: u64,
    /// The agent's name.
    agent: String,
    model: Origin,
    /// Why it rests for good.
    parked: Option<String>,
    /// How it goes on then.
    go_on: Option<String>,
    last_finish_reason: Option<FinishReason>,
    last_error: Option<Failed>,
    /// Only while the status is `waiting_for_server`.
    waiting: Option<Waiting>,
    /// Only in the answer to a fork.
    forked_from: Option<ForkedFrom>,
    /// The positions of damaged events, if there are any. The figures are those of what stands before the first.
    damaged: Option<Vec<u64>>,
    /// Why a damaged session cannot go on.
    error: Option<Failed>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkedFrom {
    session_id: String,
    at_seq: u64,
}

#[derive(ToSchema)]
pub(crate) struct Deleted {
    ok: bool,
    id: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Messages {
    messages: Vec<Message>,
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
pub(crate) struct Message {
    id: String,
    seq: u64,
    /// Milliseconds since 1970.
    #[schema(required)]
    at: Option<u64>,
    role: Role,
    parts: Vec<Part>,
    /// What its client sent along with a user message.
    metadata: Option<MessageMetadata>,
    /// What clients sent along with the messages that became this one, by their ids in the queue.
    original_metadata: Option<BTreeMap<String, MessageMetadata>>,
    is_note: Option<bool>,
    is_summary: Option<bool>,
    model: Option<Origin>,
    interrupted: Option<Cut>,
    /// Why an answer that is `lost` was cut off.
    error: Option<Failed>,
    reasoning: Option<String>,
    /// The provider's own items, as JSON.
    reasoning_metadata: Option<Vec<String>>,
    tool_calls: Option<Vec<ToolCall>>,
    token_usage: Option<TokenUsage>,
    /// When a summary took its place, in milliseconds since 1970.
    summarized_at: Option<u64>,
    tool_name: Option<String>,
    call_id: Option<String>,
    status: Option<Outcome>,
    truncated: Option<bool>,
    /// When the tool began to run, in milliseconds since 1970; a call that never ran has none.
    started_at: Option<u64>,
    /// When a placeholder took its place, in milliseconds since 1970.
    compacted_at: Option<u64>,
}

/// What went wrong: the stable code, and words for people.
#[derive(ToSchema)]
pub(crate) struct Failed {
    code: ProblemCode,
    message: String,
}

/// Why an answer is not whole.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cut {
    Cancelled,
    Lost,
    Paused,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall {
    call_id: String,
    tool_name: String,
    /// JSON, as the model wrote it.
    args: String,
    #[schema(required)]
    status: Option<CallStatus>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallStatus {
    Pending,
    Running,
    Completed,
    Error,
    Cancelled,
    Interrupted,
}

#[derive(ToSchema)]
pub(crate) struct Cancelled {
    ok: bool,
    cancelled: bool,
    #[schema(required)]
    persisted: Option<Persisted>,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Persisted {
    PartialAssistant,
    ToolsInProgress,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resumed {
    ok: bool,
    session_id: String,
    status: Status,
    resumed: bool,
    /// Why not.
    reason: Option<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Retried {
    ok: bool,
    session_id: String,
    /// Whether the session waited for its model's server.
    retried: bool,
}

/// A wait for the model's server.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    reason: WaitReason,
    /// The attempt that comes, from 1 for the first repetition.
    attempt: u64,
    /// Milliseconds since 1970.
    next_attempt_at: u64,
    last_error: Failed,
}

/// Why a model call is made again.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WaitReason {
    Outage,
    RateLimit,
    BrokenAnswer,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recalled {
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
pub(crate) struct Uploaded {
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
    blob: BlobRef,
    media_type: String,
    #[schema(required)]
    name: Option<String>,
}

/// A tool that asks.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Approval {
    /// On the whole server.
    approval_id: String,
    session_id: String,
    call_id: String,
    tool_name: String,
    /// JSON, as the model wrote it.
    args: String,
}

#[derive(ToSchema)]
pub(crate) struct Approvals {
    approvals: Vec<Approval>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decided {
    Allow,
    Deny,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalDecided {
    ok: bool,
    approval_id: String,
    session_id: String,
    decision: Decided,
}

/// One event; what it can be is put in where the document is put together.
#[derive(ToSchema)]
pub(crate) struct Event {}
