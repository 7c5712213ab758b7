//! The field `thinking` of a request: the configured value, unless the API would refuse it.

use longhaul_core::message::{Message, Part, Role};
use serde_json::{Value, json};

use super::super::MessagesConfig;
use super::{StaleReasoningPolicy, assistant};
use crate::raw_json;
use crate::{ModelRequest, ToolChoice};

/// Returns the field `thinking`, if the request has one.
///
/// With a fixed budget the API refuses a forced tool. The API also refuses a turn after a loss of the first answer's
/// reasoning, for example by a change of the model. Such requests have no `thinking`.
pub(super) fn of(
    request: &ModelRequest,
    config: &MessagesConfig,
    stale: StaleReasoningPolicy,
) -> Option<Value> {
    let configured = config.settings.body.get("thinking");
    let has_budget = kind(configured) == Some("enabled");
    // Adaptive thinking has neither restriction.
    if has_budget && (is_forced(request) || lost_its_reasoning(request, config)) {
        return None;
    }
    match (configured, stale) {
        (Some(Value::Null), _) => None,
        (configured, StaleReasoningPolicy::Unsaid) => configured.cloned(),
        (configured, StaleReasoningPolicy::Drop) => Some(dropping(configured)),
    }
}

/// Reports whether all reasoning is left out: some reasoning is stale, and without thinking the server cannot be
/// asked to drop the stale part.
pub(super) fn leaves_reasoning_out(config: &MessagesConfig, stale: StaleReasoningPolicy) -> bool {
    let configured = config.settings.body.get("thinking");
    let can_ask = matches!(kind(configured), Some("adaptive" | "enabled")) || configured.is_none();
    stale == StaleReasoningPolicy::Drop && !can_ask
}

/// Returns the thinking field for dropping stale reasoning at the server. Source: Anthropic's page "Preserved
/// thinking" and `ThinkingConfigAdaptiveParam` of Anthropic's SDK for Python, 2.12.0.
fn dropping(configured: Option<&Value>) -> Value {
    let mut thinking = configured.cloned().unwrap_or_else(|| json!({ "type": "adaptive" }));
    let thinks = matches!(kind(Some(&thinking)), Some("adaptive" | "enabled"));
    if let Some(fields) = thinking.as_object_mut().filter(|_| thinks) {
        fields.entry("block_binding").or_insert_with(|| json!({ "prefix_mismatch_behavior": "drop_block" }));
    }
    thinking
}

fn kind(thinking: Option<&Value>) -> Option<&str> {
    thinking?.get("type")?.as_str()
}

fn is_forced(request: &ModelRequest) -> bool {
    !request.tools.is_empty() && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
}

/// Reports whether the current turn called tools, and the turn's first answer does not begin with reasoning.
fn lost_its_reasoning(request: &ModelRequest, config: &MessagesConfig) -> bool {
    let messages = &request.messages;
    // A user message right behind results belongs to the same turn for the API, so it starts none.
    let mut newest_first = (0..messages.len()).rev();
    let start = newest_first
        .find(|at| messages[*at].role == Role::User && (*at == 0 || messages[at - 1].role != Role::Tool));
    let start = start.unwrap_or_default();
    let turn = &messages[start..];
    let first = turn.iter().find(|message| message.role == Role::Assistant);
    let asked = turn.iter().any(|message| message.role == Role::Tool);
    asked && first.is_some_and(|answer| !begins_with_reasoning(answer, config))
}

fn begins_with_reasoning(answer: &Message, config: &MessagesConfig) -> bool {
    let own = raw_json::is_own(answer, &config.origin());
    match answer.parts.iter().find(|part| !part.as_text().is_some_and(|text| text.trim().is_empty())) {
        // Reasoning of another model is not sent, so it does not count as a beginning.
        Some(Part::Reasoning(reasoning)) => assistant::own_reasoning(reasoning, own).is_some(),
        _ => false,
    }
}
