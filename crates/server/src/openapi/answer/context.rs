//! What the routes answer about the window, and about what makes room in it.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::super::part::TokenUsage;
use super::{no, yes};

/// How full the window is, what fills it, and on what the figures rest. Tokens throughout.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Context {
    total: u64,
    window: u64,
    percent: f64,
    system_prompt: u64,
    tools: Vec<ToolShare>,
    messages: MessageShare,
    framing: i64,
    /// Tool results shown as placeholders.
    pruned: u64,
    /// Messages shown as summaries or notes.
    compacted: u64,
    deferred_tools: u64,
    output_reserve: u64,
    free_space: u64,
    thresholds: Vec<Threshold>,
    basis: Basis,
    token_usage: TokenUsage,
    compaction_count: u64,
    source: String,
    counter: String,
    window_source: String,
    /// As a share.
    expected_error: f64,
}

#[derive(ToSchema)]
pub(crate) struct ToolShare {
    source: String,
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageShare {
    total: u64,
    text: u64,
    tool_results: u64,
    reasoning: u64,
    media: u64,
}

#[derive(ToSchema)]
pub(crate) struct Threshold {
    name: String,
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Basis {
    #[schema(required)]
    last_input_tokens: Option<u64>,
    #[schema(required)]
    last_output_tokens: Option<u64>,
    new_messages_estimate: u64,
    #[schema(required)]
    last_error_percent: Option<f64>,
}

/// What a compaction did, or would do.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Compacted {
    Made(CompactionMade),
    NotMade(CompactionNotMade),
    Planned(CompactionPlanned),
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionMade {
    ok: bool,
    #[schema(schema_with = yes)]
    compacted: bool,
    compaction: Compaction,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionNotMade {
    ok: bool,
    #[schema(schema_with = no)]
    compacted: bool,
    reason: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionPlanned {
    ok: bool,
    #[schema(schema_with = yes)]
    dry_run: bool,
    plan: CompactionPlan,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EditKind {
    Prune,
    Compaction,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EditReason {
    TokenLimit,
    OverflowError,
    ModelSwitch,
    Requested,
}

/// An edit of the view.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compaction {
    id: String,
    seq: u64,
    kind: EditKind,
    strategy: String,
    reason: EditReason,
    #[schema(required)]
    trigger: Option<u64>,
    why: String,
    active: bool,
    released: bool,
    undo: UndoNow,
    original_tokens: u64,
    compressed_tokens: u64,
    original_messages: u64,
    compressed_messages: u64,
    handles: Vec<String>,
    survival: Option<Survival>,
}

/// What an undo would come to now: `built-on` means that a later edit must be undone first.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UndoNow {
    Possible,
    Undone,
    BuiltOn,
    NoRoom,
}

#[derive(ToSchema)]
pub(crate) struct Compactions {
    compactions: Vec<Compaction>,
}

/// The outcome of the check of a model's summary.
#[derive(ToSchema)]
pub(crate) struct SummaryCheck {
    /// Whether the edit has a summary that passed the check; `false` for an extract in its place.
    checked: bool,
    /// Why earlier answers were refused, in words, oldest first.
    reasons: Vec<String>,
}

/// A part of a request that is left out because the model's server refuses it.
#[derive(ToSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum OmittedPart {
    /// A part of a message, or of the content of a tool result.
    Part {
        /// The position of the message.
        seq: u64,
        /// Its number in the message or the content, from 0.
        part: u64,
        /// What the model is shown in its place.
        note: String,
    },
    /// A tool: it is not offered.
    Tool {
        /// Its name.
        name: String,
    },
}

/// What an edit leaves of the facts, by class.
#[derive(ToSchema)]
pub(crate) struct Survival {
    classes: BTreeMap<String, Tally>,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tally {
    verbatim: u64,
    recoverable_by_model: u64,
    recoverable_by_user: u64,
    lost: u64,
}

/// What a compaction would do.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionPlan {
    action: PlannedAction,
    why: Option<String>,
    kind: Option<EditKind>,
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
    survival: Option<Survival>,
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
pub(crate) struct Restored {
    ok: bool,
    compaction_id: String,
    /// What the view has now.
    tokens: u64,
}

#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    ok: bool,
    compaction_id: String,
}

/// Standing orders.
#[derive(ToSchema)]
pub(crate) struct Orders {
    orders: Vec<StandingOrder>,
}

/// An instruction that holds beyond the next answer.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StandingOrder {
    id: String,
    text: String,
    source: OrderSource,
    /// The event that pinned it.
    seq: u64,
    /// The message it was said in, if it is known.
    from_seq: Option<u64>,
    state: OrderState,
    /// The order that holds instead.
    superseded_by: Option<String>,
}

/// Who made a standing order.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OrderSource {
    User,
    Model,
    Summary,
    Detected,
}

/// Whether a standing order holds.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OrderState {
    Active,
    Superseded,
    Removed,
}

#[derive(ToSchema)]
pub(crate) struct OrderPinned {
    ok: bool,
    /// Whether it was made now: an order that says the same is not made twice.
    created: bool,
    order: StandingOrder,
}

#[derive(ToSchema)]
pub(crate) struct OrderChanged {
    ok: bool,
    order: StandingOrder,
}
