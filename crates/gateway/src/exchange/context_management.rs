//! Context management at a client's request: `context_management` of the Messages and Responses APIs. Only the
//! provider's own server knows the field, so for every other upstream the gateway does the same work on its
//! view of the conversation.

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::{EditKind, ViewOperation};
use longhaul_core::history::{History, ViewItemKind};
use longhaul_core::meter;
use longhaul_core::plan::{self, ResultClearing};
use longhaul_wire::edit::{Dialect, ParseError, RequestEnvelope};
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::ConversationState;
use super::summary::PlannedEdit;
use super::targeted_request::TargetedRequest;
use super::view_editor::ViewEditor;

/// The field of the request and of the answer.
pub(super) const FIELD: &str = "context_management";

/// The edit for clearing old tool results.
const CLEAR_TOOL_USES: &str = "clear_tool_uses_20250919";

/// Anthropic's defaults: the trigger for clearing results, in input tokens, the number of remaining tool uses,
/// and the trigger for a compaction, in input tokens.
const CLEARING_TOKENS: u64 = 100_000;
const KEPT_TOOL_USES: u64 = 3;
const COMPACTION_TOKENS: u64 = 150_000;

/// The shapes of the edits, for errors.
const CLEAR_TOOL_USES_SHAPE: &str = "`trigger`, `keep` and `clear_at_least` are objects with a `type` and a `value` of 0 or more, \
                                     `exclude_tools` is a list of names";
const COMPACT_SHAPE: &str = "`trigger` is an object with a `type` and a `value` of 0 or more, `pause_after_compaction` is a \
                             boolean, `instructions` a string";

/// The wishes of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContextManagement {
    clearing: Option<ToolUseClearing>,
    /// The client's trigger for a compaction, in input tokens.
    compaction_tokens: Option<u64>,
    /// The parts of the field without effect in the gateway, as paths.
    pub(super) ignored: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolUseClearing {
    trigger: ClearingTrigger,
    rule: ResultClearing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClearingTrigger {
    InputTokens(u64),
    ToolUses(u64),
}

/// A number with its unit, as in `{"type": "input_tokens", "value": 30000}`.
#[derive(Deserialize)]
struct Threshold {
    #[serde(rename = "type")]
    unit: String,
    value: u64,
}

#[derive(Deserialize)]
struct ClearToolUses {
    trigger: Option<Threshold>,
    keep: Option<Threshold>,
    clear_at_least: Option<Threshold>,
    exclude_tools: Option<Vec<String>>,
    clear_tool_inputs: Option<Value>,
}

#[derive(Deserialize)]
struct Compact {
    trigger: Option<Threshold>,
    pause_after_compaction: Option<bool>,
    instructions: Option<String>,
}

impl ContextManagement {
    /// Reads the field of a request; `None` if the request has none or the dialect has no such field.
    ///
    /// # Errors
    /// [`ParseError`] if the field does not have its documented shape.
    pub(super) fn read(dialect: Dialect, envelope: &RequestEnvelope) -> Result<Option<Self>, ParseError> {
        let Some(raw) = envelope.other(FIELD).filter(|raw| *raw != "null") else { return Ok(None) };
        let value: Value = serde_json::from_str(raw).map_err(|_| ParseError::field(FIELD, "not JSON"))?;
        let (edits, path) = match dialect {
            Dialect::Messages if !value.is_object() => {
                return Err(ParseError::field(FIELD, "must be an object with a list `edits`"));
            }
            Dialect::Messages => (value.get("edits").cloned().unwrap_or_else(|| json!([])), "edits"),
            Dialect::Responses => (value, ""),
            // Chat Completions has no such field, so a server's own extension of that name is left alone.
            Dialect::Chat => return Ok(None),
        };
        let edits = edits.as_array().ok_or_else(|| ParseError::field(FIELD, "must be a list of edits"))?;
        let mut wishes = Self::default();
        for (index, edit) in edits.iter().enumerate() {
            let place = match path {
                "" => format!("{FIELD}[{index}]"),
                path => format!("{FIELD}.{path}[{index}]"),
            };
            wishes.add(&place, edit).map_err(|why| ParseError::field(place.as_str(), why))?;
        }
        Ok(Some(wishes))
    }

    fn add(&mut self, place: &str, edit: &Value) -> Result<(), String> {
        let kind = edit.get("type").and_then(Value::as_str).ok_or("must be an object with a `type`")?;
        match kind {
            CLEAR_TOOL_USES => {
                let asked = ClearToolUses::deserialize(edit).map_err(|_| shape_of(CLEAR_TOOL_USES_SHAPE))?;
                if asked.clear_tool_inputs.as_ref().is_some_and(|asked| *asked != Value::Bool(false)) {
                    // A call whose arguments are gone would be another call, and undo could not restore it.
                    self.ignored.push(format!("{place}.clear_tool_inputs"));
                }
                self.clearing = Some(ToolUseClearing::from_request(asked)?);
            }
            "compact_20260112" => {
                let asked = Compact::deserialize(edit).map_err(|_| shape_of(COMPACT_SHAPE))?;
                let tokens = tokens_in(asked.trigger, "trigger")?.unwrap_or(COMPACTION_TOKENS);
                self.compaction_tokens = Some(tokens);
                if asked.pause_after_compaction == Some(true) {
                    self.ignored.push(format!("{place}.pause_after_compaction"));
                }
                if asked.instructions.is_some() {
                    self.ignored.push(format!("{place}.instructions"));
                }
            }
            // OpenAI's own spelling of the same wish.
            "compaction" => {
                let threshold = edit.get("compact_threshold").filter(|value| !value.is_null());
                let tokens =
                    threshold.map(|value| value.as_u64().ok_or("`compact_threshold` must be a number"));
                // Without a number the client leaves the trigger to the configuration.
                self.compaction_tokens = tokens.transpose()?.or(self.compaction_tokens);
            }
            // Which reasoning another model's server takes is decided by that server's rules.
            kind => self.ignored.push(format!("{place} ({kind})")),
        }
        Ok(())
    }

    /// Returns the trigger of the client's compaction.
    pub(super) fn trigger(&self) -> Option<StrategyTrigger> {
        self.compaction_tokens.map(StrategyTrigger::Tokens)
    }

    /// Returns a name that differs for wishes that lead to different views.
    pub(super) fn policy_name(&self) -> String {
        format!("{:?}/{:?}", self.clearing, self.compaction_tokens)
    }
}

impl ToolUseClearing {
    fn from_request(asked: ClearToolUses) -> Result<Self, String> {
        let trigger = match asked.trigger {
            None => ClearingTrigger::InputTokens(CLEARING_TOKENS),
            Some(Threshold { unit, value }) => match unit.as_str() {
                "input_tokens" => ClearingTrigger::InputTokens(value),
                "tool_uses" => ClearingTrigger::ToolUses(value),
                _ => return Err(format!("`trigger` counts `{unit}`; it must be input_tokens or tool_uses")),
            },
        };
        let keep = match asked.keep {
            Some(keep) if keep.unit != "tool_uses" => {
                return Err(format!("`keep` counts `{}`; it must be tool_uses", keep.unit));
            }
            keep => keep.map_or(KEPT_TOOL_USES, |keep| keep.value),
        };
        let rule = ResultClearing {
            keep_results: usize::try_from(keep).unwrap_or(usize::MAX),
            excluded_tools: asked.exclude_tools.unwrap_or_default(),
            minimum_tokens: tokens_in(asked.clear_at_least, "clear_at_least")?.unwrap_or(0),
        };
        Ok(Self { trigger, rule })
    }

    /// Returns whether the request has reached the trigger.
    fn is_due(&self, history: &History, fixed_tokens: u64) -> bool {
        match self.trigger {
            ClearingTrigger::InputTokens(most) => meter::read(history, fixed_tokens).total >= most,
            ClearingTrigger::ToolUses(most) => {
                let shown = history
                    .view()
                    .iter()
                    .filter(|item| matches!(item.kind, ViewItemKind::Result { cleared: None, .. }));
                shown.count() as u64 >= most
            }
        }
    }
}

/// Returns the error of an edit without the documented shape.
fn shape_of(shape: &str) -> String {
    format!("has not the documented shape: {shape}")
}

/// Returns the value of a threshold in tokens.
fn tokens_in(threshold: Option<Threshold>, name: &str) -> Result<Option<u64>, String> {
    match threshold {
        Some(Threshold { unit, .. }) if unit != "input_tokens" => {
            Err(format!("`{name}` counts `{unit}`; it must be input_tokens"))
        }
        threshold => Ok(threshold.map(|threshold| threshold.value)),
    }
}

impl ViewEditor {
    /// Clears old tool results as the client asks. Returns the reason if something was cleared.
    pub(super) async fn clear_as_asked(
        &self,
        state: &mut ConversationState,
        fixed_tokens: u64,
    ) -> Option<(EditKind, String)> {
        let clearing = self.request.context_management()?.clearing.as_ref()?;
        if !clearing.is_due(&state.log.history, fixed_tokens) {
            return None;
        }
        let (history, budget) = (&state.log.history, self.budget.token_budget());
        let clear =
            || plan::clear_results(history, fixed_tokens, &budget, &self.budget.policy, &clearing.rule);
        let edit = self.request.work(clear).await?;
        let why = edit.why.clone();
        self.commit(state, PlannedEdit::as_wanted(edit)).await;
        Some((EditKind::Prune, why))
    }
}

impl TargetedRequest {
    /// Returns the field for the answer: the tool results missing from the request. `None` if the client's API
    /// or the upstream's own answer has no such field.
    pub(super) fn applied_edits(&self, history: &History) -> Option<String> {
        // Responses has no field for the edits that were made.
        let is_asked =
            self.proxied.wire.dialect() == Dialect::Messages && self.context_management().is_some();
        is_asked.then(|| {
            let active = history.edits().iter().filter(|state| state.active);
            let clearing: Vec<_> = active.filter(|state| state.edit.kind == EditKind::Prune).collect();
            let ops = clearing.iter().flat_map(|state| &state.edit.ops);
            let uses = ops.filter(|op| matches!(op, ViewOperation::Placeholder { .. })).count();
            let saved = clearing.iter().map(|state| {
                let edit = &state.edit;
                edit.original_tokens.saturating_sub(edit.compressed_tokens)
            });
            let edit = json!({
                "type": CLEAR_TOOL_USES,
                "cleared_tool_uses": uses,
                "cleared_input_tokens": saved.sum::<u64>(),
            });
            let edits: Vec<Value> = Some(edit).into_iter().filter(|_| uses > 0).collect();
            json!({ "applied_edits": edits }).to_string()
        })
    }
}
