//! The answers of the routes about the window, and about edits that make room in it.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::super::part::TokenUsage;
use super::{no, yes};

/// The use of the context window: how full it is, what fills it, and where the figures come from. All counts are tokens.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Context)]
pub(crate) struct ContextUsageResponse {
    total: u64,
    window: u64,
    percent: f64,
    system_prompt: u64,
    tools: Vec<ToolTokensSchema>,
    messages: MessageTokensSchema,
    framing: i64,
    /// The number of tool results that the view shows as placeholders.
    pruned: u64,
    /// The number of messages that the view replaces by summaries or notes.
    compacted: u64,
    deferred_tools: u64,
    output_reserve: u64,
    free_space: u64,
    thresholds: Vec<ThresholdSchema>,
    basis: ContextBasisSchema,
    token_usage: TokenUsage,
    compaction_count: u64,
    source: String,
    counter: String,
    window_source: String,
    /// The expected error of `total`, as a share of 1.
    expected_error: f64,
}

#[derive(ToSchema)]
#[schema(as = ToolShare)]
pub(crate) struct ToolTokensSchema {
    source: String,
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageShare)]
pub(crate) struct MessageTokensSchema {
    total: u64,
    text: u64,
    tool_results: u64,
    reasoning: u64,
    media: u64,
}

#[derive(ToSchema)]
#[schema(as = Threshold)]
pub(crate) struct ThresholdSchema {
    name: String,
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Basis)]
pub(crate) struct ContextBasisSchema {
    #[schema(required)]
    last_input_tokens: Option<u64>,
    #[schema(required)]
    last_output_tokens: Option<u64>,
    new_messages_estimate: u64,
    #[schema(required)]
    last_error_percent: Option<f64>,
}

/// The outcome of a compaction, or its plan.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Compacted)]
pub(crate) enum CompactResponse {
    Made(CompactionMadeResponse),
    NotMade(NoCompactionResponse),
    Planned(CompactionPlanResponse),
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CompactionMade)]
pub(crate) struct CompactionMadeResponse {
    ok: bool,
    #[schema(schema_with = yes)]
    compacted: bool,
    compaction: CompactionSchema,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CompactionNotMade)]
pub(crate) struct NoCompactionResponse {
    ok: bool,
    #[schema(schema_with = no)]
    compacted: bool,
    reason: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CompactionPlanned)]
pub(crate) struct CompactionPlanResponse {
    ok: bool,
    #[schema(schema_with = yes)]
    dry_run: bool,
    plan: CompactionPlan,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = EditKind)]
pub(crate) enum EditKindSchema {
    Prune,
    Compaction,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EditReason)]
pub(crate) enum EditReasonSchema {
    TokenLimit,
    OverflowError,
    ModelSwitch,
    Requested,
}

/// An edit of the view.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Compaction)]
pub(crate) struct CompactionSchema {
    id: String,
    seq: u64,
    kind: EditKindSchema,
    strategy: String,
    reason: EditReasonSchema,
    #[schema(required)]
    trigger: Option<u64>,
    why: String,
    active: bool,
    released: bool,
    undo: UndoAvailability,
    original_tokens: u64,
    compressed_tokens: u64,
    original_messages: u64,
    compressed_messages: u64,
    handles: Vec<String>,
    survival: Option<RetentionReportSchema>,
}

/// The outcome that an undo would have now. `built-on` means that a later edit must be undone first.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = UndoNow)]
pub(crate) enum UndoAvailability {
    Possible,
    Undone,
    BuiltOn,
    NoRoom,
}

#[derive(ToSchema)]
#[schema(as = Compactions)]
pub(crate) struct CompactionListResponse {
    compactions: Vec<CompactionSchema>,
}

/// The outcome of the check of a model's summary.
#[derive(ToSchema)]
#[schema(as = SummaryCheck)]
pub(crate) struct SummaryCheckSchema {
    /// `true` if the edit has a summary that passed the check; `false` for an extract.
    checked: bool,
    /// The reasons why earlier answers were refused, oldest first.
    reasons: Vec<String>,
}

/// A part of a request that is left out because the model's server refuses it.
#[derive(ToSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[schema(as = OmittedPart)]
pub(crate) enum OmittedPartSchema {
    /// A part of a message, or of the content of a tool result.
    Part {
        /// The position of the message.
        seq: u64,
        /// The index in the message or the content, from 0.
        part: u64,
        /// The text that the model sees instead.
        note: String,
    },
    /// A tool, which is not offered to the model.
    Tool {
        /// The name of the tool.
        name: String,
    },
}

/// The number of facts that an edit keeps, by class.
#[derive(ToSchema)]
#[schema(as = Survival)]
pub(crate) struct RetentionReportSchema {
    classes: BTreeMap<String, RetentionCountsSchema>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tally)]
pub(crate) struct RetentionCountsSchema {
    verbatim: u64,
    recoverable_by_model: u64,
    recoverable_by_user: u64,
    lost: u64,
}

/// The plan of a compaction.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionPlan {
    action: PlannedAction,
    why: Option<String>,
    kind: Option<EditKindSchema>,
    strategy: Option<String>,
    messages: Option<u64>,
    original_tokens: Option<u64>,
    compressed_tokens: Option<u64>,
    original_messages: Option<u64>,
    compressed_messages: Option<u64>,
    floor_tokens: Option<u64>,
    summary_tokens: Option<u64>,
    cleared_results: Option<u64>,
    handles: Option<Vec<String>>,
    survival: Option<RetentionReportSchema>,
    survival_without_summary: Option<bool>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlannedAction {
    Nothing,
    Edit,
    Summarise,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Restored)]
pub(crate) struct UndoCompactionResponse {
    ok: bool,
    compaction_id: String,
    /// The tokens of the view now.
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Released)]
pub(crate) struct ReleaseCompactionResponse {
    ok: bool,
    compaction_id: String,
}

/// Standing orders.
#[derive(ToSchema)]
#[schema(as = Orders)]
pub(crate) struct StandingOrderListResponse {
    orders: Vec<StandingOrderSchema>,
}

/// An instruction that holds beyond the next answer.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StandingOrder)]
pub(crate) struct StandingOrderSchema {
    id: String,
    text: String,
    source: OrderSourceSchema,
    /// The position of the event that pinned the order.
    seq: u64,
    /// The position of the message that contains the order, if it is known.
    from_seq: Option<u64>,
    state: OrderStateSchema,
    /// The id of the order that replaces this one.
    superseded_by: Option<String>,
}

/// The author of a standing order.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OrderSource)]
pub(crate) enum OrderSourceSchema {
    User,
    Model,
    Summary,
    Detected,
}

/// The state of a standing order.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OrderState)]
pub(crate) enum OrderStateSchema {
    Active,
    Superseded,
    Removed,
}

#[derive(ToSchema)]
#[schema(as = OrderPinned)]
pub(crate) struct PinOrderResponse {
    ok: bool,
    /// `false` if an active order with the same text existed already.
    created: bool,
    order: StandingOrderSchema,
}

#[derive(ToSchema)]
#[schema(as = OrderChanged)]
pub(crate) struct ChangeOrderResponse {
    ok: bool,
    order: StandingOrderSchema,
}
