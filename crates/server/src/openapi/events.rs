//! The description of the events in a stream. `name`, `sessionId`, `seq` and `runId` are added to each where the document
//! is put together. A test reads an example of each description as a [`SessionEvent`](longhaul::SessionEvent).
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::answer::{
    AnswerCutSchema, ApprovalDecisionSchema, EditReasonSchema, ErrorInfoSchema, FinishReason,
    MessageMetadataSchema, OmittedPartSchema, OrderSourceSchema, ProblemCode, QueueEntry,
    RetentionReportSchema, SummaryCheckSchema, WaitReasonSchema,
};
use super::part::{BlobRefSchema, ModelOriginSchema, PartSchema, RoleSchema, TokenUsage, ToolOutcomeSchema};

/// The persistence of an event. Only a stored event has a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPersistence {
    Always,
    Sometimes,
    Never,
}

macro_rules! events {
    ($($kept:ident $event:literal $schema:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* })*) => {
        $(#[derive(ToSchema)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $schema { $($(#[$attribute])* $field: $kind,)* })*

        /// All events: the name, the schema, and the persistence.
        pub(crate) const EVENTS: &[(&str, &str, EventPersistence)] = &[$(($event, stringify!($schema), EventPersistence::$kept)),*];

        #[derive(utoipa::OpenApi)]
        #[openapi(components(schemas($($schema),*)))]
        pub(crate) struct Events;
    };
}

events! {
    Always "message:added" MessageAdded {
        message_id: String,
        role: RoleSchema,
        source: MessageSourceSchema,
        parts: Vec<PartSchema>,
        /// The metadata that the client sent with a user message.
        metadata: Option<MessageMetadataSchema>,
        /// The metadata of the queued messages that were joined into this one, by their ids in the queue.
        original_metadata: Option<BTreeMap<String, MessageMetadataSchema>>,
        /// The reason why the answer is incomplete.
        interrupted: Option<AnswerCutSchema>,
        /// `true` if another message continues this answer.
        paused: Option<bool>,
        /// The id of the message that this one continues.
        continues: Option<String>,
    }
    Always "message:dequeued" MessageDequeued { count: u64, ids: Vec<String>, coalesced: bool, }
    Always "run:started" RunStarted { run_id: String, }
    Always "run:complete" RunComplete {
        run_id: String,
        finish_reason: FinishReason,
        steps: u64,
        #[schema(required)]
        usage: Option<TokenUsage>,
        error: Option<RunError>,
    }
    Always "session:parked" SessionParked { reason: String, go_on: String, }
    Always "llm:thinking" LlmThinking {}
    Always "llm:response" LlmResponse {
        step_id: String,
        content: String,
        reasoning: Option<String>,
        provider: String,
        model: String,
        token_usage: Option<TokenUsage>,
    }
    Always "llm:tool-call" LlmToolCall {
        tool_name: String,
        /// The arguments as JSON, or `null` if the model wrote invalid JSON.
        #[schema(required)]
        args: Option<serde_json::Value>,
        /// The arguments as text, as the model wrote them.
        args_text: String,
        call_id: String,
        step_id: String,
    }
    Always "llm:tool-result" LlmToolResult {
        tool_name: String,
        call_id: String,
        success: bool,
        status: ToolOutcomeSchema,
        sanitized: Vec<PartSchema>,
        truncated: bool,
        omitted_chars: Option<u64>,
        total_chars: Option<u64>,
        /// The blob with the whole output.
        raw_result: Option<BlobRefSchema>,
    }
    Always "llm:switched" LlmSwitched { new_config: ModelOriginSchema, history_retained: bool, }
    Never "run:waiting" RunWaiting {
        reason: WaitReasonSchema,
        /// The number of the next attempt: 1 is the first repetition.
        attempt: u64,
        /// Milliseconds since 1970.
        next_attempt_at: u64,
        last_error: ErrorInfoSchema,
    }
    Sometimes "llm:error" LlmError {
        error: String,
        code: ProblemCode,
        /// The failed model call. Absent in an error outside of a call.
        context: Option<ErrorContext>,
        recoverable: bool,
    }
    Never "llm:unsupported-input" LlmUnsupportedInput {
        /// The text that the model sees instead.
        errors: Vec<String>,
        provider: String,
        model: Option<String>,
        /// The media type of the part.
        file_type: Option<String>,
        details: Option<UnsupportedMediaSchema>,
    }
    Never "llm:chunk" LlmChunk {
        step_id: String,
        message_id: String,
        chunk_type: ChunkKindSchema,
        content: String,
        /// The number of characters of this kind (text or reasoning) before the chunk.
        offset: u64,
        is_complete: Option<bool>,
    }
    Never "llm:tool-input" LlmToolInput {
        step_id: String,
        index: u64,
        /// The name of the tool in the first chunk of a call, then `null`.
        #[schema(required)]
        tool_name: Option<String>,
        delta: String,
    }
    Never "llm:snapshot" LlmSnapshot {
        step_id: String,
        message_id: String,
        parts: Vec<PartialOutputSchema>,
        offset: u64,
        reasoning_offset: u64,
    }
    Always "tool:started" ToolStarted { call_id: String, }
    Never "tool:output" ToolOutput { call_id: String, text: String, offset: u64, }
    Always "tool:approval-request" ToolApprovalRequest {
        approval_id: String,
        call_id: String,
        #[schema(required)]
        tool_name: Option<String>,
        /// The arguments as JSON, or `null` if the model wrote invalid JSON.
        #[schema(required)]
        args: Option<serde_json::Value>,
        /// The arguments as text, as the model wrote them.
        #[schema(required)]
        args_text: Option<String>,
    }
    Always "tool:approval-response" ToolApprovalResponse { approval_id: String, decision: ApprovalDecisionSchema, }
    Always "context:usage" ContextUsage {
        total: u64,
        window: u64,
        percent: f64,
        output_reserve: u64,
        free_space: u64,
        expected_error: f64,
        /// The tokens of `total` that are estimated.
        estimated: u64,
        compaction_count: u64,
    }
    Always "context:estimate" ContextEstimate { estimated: u64, actual: u64, error_percent: f64, }
    Always "context:pruned" ContextPruned {
        pruned_count: u64,
        saved_tokens: u64,
        compaction_id: String,
        strategy: String,
        reason: EditReasonSchema,
        original_tokens: u64,
        compressed_tokens: u64,
        /// A sentence that says what was done and why.
        cost_note: String,
    }
    Always "context:compressed" ContextCompressed {
        compaction_id: String,
        strategy: String,
        reason: EditReasonSchema,
        trigger: u64,
        original_tokens: u64,
        compressed_tokens: u64,
        original_messages: u64,
        compressed_messages: u64,
        #[schema(required)]
        survival: Option<RetentionReportSchema>,
        cost_note: String,
        /// The outcome of the check of the summary, if a model was asked for one.
        summary: Option<SummaryCheckSchema>,
    }
    Always "context:compact-failed" ContextCompactFailed { strategy: String, code: ProblemCode, reason: String, }
    Always "context:omitted" ContextOmitted {
        /// The id by which the omission is undone.
        compaction_id: String,
        parts: Vec<OmittedPartSchema>,
        /// The error message of the model's server.
        reason: String,
    }
    Always "context:restored" ContextRestored { compaction_id: String, tokens: u64, }
    Always "order:pinned" OrderPinnedEvent {
        order_id: String,
        text: String,
        source: OrderSourceSchema,
        /// The position of the message that contains the order, if it is known.
        from_seq: Option<u64>,
        /// The id of the order that this one replaces.
        replaces: Option<String>,
    }
    Always "order:edited" OrderEditedEvent { order_id: String, text: String, }
    Always "order:removed" OrderRemovedEvent { order_id: String, }
    Never "context:compacting" ContextCompacting {
        strategy: String,
        reason: EditReasonSchema,
        trigger: u64,
    }
    Never "message:queued" MessageQueued { id: String, position: u64, }
    Never "message:edited" MessageEdited { id: String, }
    Never "message:removed" MessageRemoved { id: String, }
    Never "queue:snapshot" QueueSnapshot { entries: Vec<QueueEntry>, }
    Never "stream:gap" StreamGap { from: u64, to: u64, }
}

/// Details of a picture or file that the model does not accept.
#[derive(ToSchema)]
#[schema(as = UnsupportedDetails)]
pub(crate) struct UnsupportedMediaSchema {
    #[schema(required)]
    name: Option<String>,
}

/// The source of a message.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Source)]
pub(crate) enum MessageSourceSchema {
    Typed,
    Note,
    Summary,
    Model,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Voice)]
pub(crate) enum ChunkKindSchema {
    Text,
    Reasoning,
}

/// The partial output of one kind.
#[derive(ToSchema)]
#[schema(as = Spoken)]
pub(crate) struct PartialOutputSchema {
    r#type: ChunkKindSchema,
    text: String,
}

#[derive(ToSchema)]
pub(crate) struct RunError {
    code: ProblemCode,
    message: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorContext {
    step_id: Option<String>,
}
