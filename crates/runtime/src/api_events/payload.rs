//! The payloads for watchers of each stored event.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, ErrorInfo, Event, EventBody, PartialAnswerReason, RunEnd, ViewEdit};
use longhaul_core::history::{History, LogEntryKind, OpenRun};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::{Message, ModelOrigin, Part, ToolCall, ToolStatus};
use longhaul_core::plan;
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::truncate;
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

use super::{EventContext, GO_ON, global_approval};

/// Returns the names and payloads of a stored event.
pub(super) fn payloads(
    session_id: &SessionId,
    event: &Event,
    around: &EventContext<'_>,
) -> Vec<(&'static str, Value)> {
    let history = around.run.history();
    match &event.body {
        EventBody::MessagesTaken { message, taken, coalesced, .. } => {
            let mut made = Vec::new();
            if !taken.is_empty() {
                let dequeued =
                    json!({ "count": taken.len(), "ids": taken, "coalesced": coalesced.is_some() });
                made.push(("message:dequeued", dequeued));
            }
            let (name, mut payload) = added(message, "typed");
            for (field, value) in metadata_fields(&event.body) {
                payload[field] = value;
            }
            made.push((name, payload));
            made
        }
        EventBody::NoteAdded { message, .. } => vec![added(message, source_of_note(message))],
        EventBody::RunStarted { run_id } => {
            vec![("run:started", json!({ "runId": run_id })), ("llm:thinking", json!({ "runId": run_id }))]
        }
        EventBody::AssistantAdded { message, step_id, cut, .. } => {
            let mut made = vec![answered(event.seq, message, *cut, history)];
            made.extend(
                message.tool_calls().map(|call| ("llm:tool-call", tool_call(call, step_id.as_str()))),
            );
            made
        }
        EventBody::StepFinished { step_id, usage, estimated_input, .. } => {
            step_finished(step_id.as_str(), usage.as_ref(), *estimated_input, around)
        }
        EventBody::StepFailed { step_id, code, message, is_permanent, .. } => {
            let is_passing_kind = matches!(
                code,
                ErrorCode::ContextOverflow
                    | ErrorCode::Network
                    | ErrorCode::TruncatedStream
                    | ErrorCode::Timeout
                    | ErrorCode::ThirdParty
                    | ErrorCode::RateLimitExceeded
            );
            // A failure of such a kind may still be for good: a redirect, a web page, a wrong certificate.
            let recoverable = is_passing_kind && !is_permanent;
            vec![(
                "llm:error",
                json!({ "error": message, "code": code, "context": { "stepId": step_id }, "recoverable": recoverable }),
            )]
        }
        EventBody::ToolStarted { call_id } => vec![("tool:started", json!({ "callId": call_id }))],
        EventBody::ToolFinished { .. } => tool_result(event.seq, history),
        EventBody::ApprovalRequested { approval_id, call_id } => {
            let call =
                history.open_calls().iter().find(|open| open.call.call_id == *call_id).map(|open| &open.call);
            let mut asked = json!({
                "approvalId": global_approval(session_id, approval_id), "callId": call_id, "toolName": null, "args": null, "argsText": null,
            });
            if let Some(call) = call {
                asked["toolName"] = json!(call.name);
                asked["args"] = call_arguments(call);
                asked["argsText"] = json!(call.arguments);
            }
            vec![("tool:approval-request", asked)]
        }
        EventBody::ApprovalResolved { approval_id, allowed, .. } => {
            let decision = if *allowed { "allow" } else { "deny" };
            vec![(
                "tool:approval-response",
                json!({ "approvalId": global_approval(session_id, approval_id), "decision": decision }),
            )]
        }
        EventBody::ViewEdited(edit) => {
            vec![edited(edit, around.survival), ("context:usage", crate::context::usage(around.run))]
        }
        EventBody::ViewRestored { edit_id } => {
            let tokens = around.run.meter().total;
            vec![("context:restored", json!({ "compactionId": edit_id, "tokens": tokens }))]
        }
        EventBody::PartsOmitted { edit_id, parts, reason } => {
            let payload = json!({ "compactionId": edit_id, "parts": parts, "reason": reason });
            vec![("context:omitted", payload), ("context:usage", crate::context::usage(around.run))]
        }
        EventBody::CompactionFailed { strategy, code, reason, .. } => {
            vec![("context:compact-failed", json!({ "strategy": strategy, "code": code, "reason": reason }))]
        }
        EventBody::ModelSwitched { to, .. } => {
            vec![("llm:switched", json!({ "newConfig": to, "historyRetained": true }))]
        }
        EventBody::RunFinished { run_id, reason, error } => {
            vec![("run:complete", complete(run_id.as_str(), *reason, error.as_ref(), around.open))]
        }
        EventBody::Parked { reason } => {
            vec![("session:parked", json!({ "reason": reason, "goOn": GO_ON }))]
        }
        EventBody::OrderPinned { order_id, text, source, from, replaces } => {
            let mut payload = json!({ "orderId": order_id, "text": text, "source": source });
            if let Some(from) = from {
                payload["fromSeq"] = json!(from);
            }
            if let Some(replaces) = replaces {
                payload["replaces"] = json!(replaces);
            }
            vec![("order:pinned", payload)]
        }
        EventBody::OrderEdited { order_id, text } => {
            vec![("order:edited", json!({ "orderId": order_id, "text": text }))]
        }
        EventBody::OrderRemoved { order_id } => vec![("order:removed", json!({ "orderId": order_id }))],
        // The start of a session, counts, the start of a step, recoveries and titles are for the log only.
        _ => Vec::new(),
    }
}

/// Returns a `message:added` event. `source` names the author: only `typed` messages came from a person.
fn added(message: &Message, source: &str) -> (&'static str, Value) {
    let payload =
        json!({ "messageId": message.id, "role": message.role, "source": source, "parts": message.parts });
    ("message:added", payload)
}

/// Returns the metadata fields of a user message: `metadata` of a message sent alone, `originalMetadata` by message id
/// of a message joined from several. There are none for a message without metadata.
pub fn metadata_fields(body: &EventBody) -> Vec<(&'static str, Value)> {
    let EventBody::MessagesTaken { metadata, coalesced, .. } = body else { return Vec::new() };
    let alone = metadata.as_ref().map(|metadata| ("metadata", json!(metadata)));
    let of_several = coalesced.as_ref().map(|coalesced| &coalesced.original_metadata);
    let of_several = of_several.filter(|metadata| !metadata.is_empty());
    alone.into_iter().chain(of_several.map(|metadata| ("originalMetadata", json!(metadata)))).collect()
}

/// Returns the payload of an answer. A partial answer has its reason; a continued answer also names the paused answer.
fn answered(
    seq: Seq,
    message: &Message,
    cut: Option<PartialAnswerReason>,
    history: &History,
) -> (&'static str, Value) {
    let (name, mut payload) = added(message, "model");
    if let Some(cut) = cut {
        payload["interrupted"] = json!(cut);
    }
    if cut == Some(PartialAnswerReason::Paused) {
        payload["paused"] = true.into();
    }
    let begun =
        history.entry(seq).filter(|entry| entry.goes_on()).and_then(|entry| history.entry(entry.begins));
    if let Some(begun) = begun {
        payload["continues"] = json!(begun.message.id);
    }
    (name, payload)
}

/// Returns the source of a note. An imported summary without the mark of a compaction is a note too.
fn source_of_note(message: &Message) -> &'static str {
    if message.text().starts_with(plan::MARK) { "summary" } else { "note" }
}

fn tool_call(call: &ToolCall, step_id: &str) -> Value {
    json!({
        "toolName": call.name, "args": call_arguments(call), "argsText": call.arguments, "callId": call.call_id,
        "stepId": step_id,
    })
}

/// Returns the arguments of a call as JSON: an empty object if the model wrote none, and `null` for text other than
/// JSON.
pub fn call_arguments(call: &ToolCall) -> Value {
    match call.arguments.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or(Value::Null),
    }
}

fn step_finished(
    step_id: &str,
    usage: Option<&Usage>,
    estimated: u64,
    around: &EventContext<'_>,
) -> Vec<(&'static str, Value)> {
    let history = around.run.history();
    // A step that was stopped before it said anything has used tokens and no message.
    let message_id = format!("m-{step_id}");
    let newest = history.entries().last().filter(|entry| entry.message.id.as_str() == message_id);
    // An answer that went on after a break or a pause is one answer, although each piece is a message of the log.
    let message = newest.map(|piece| history.whole(piece));
    // A log may have an answer and no step, if it was imported.
    let origin = history.model().cloned().unwrap_or(ModelOrigin {
        provider: String::new(),
        api: String::new(),
        model: String::new(),
    });
    let mut response = json!({
        "stepId": step_id,
        "content": message.as_ref().map(Message::text).unwrap_or_default(),
        "provider": origin.provider,
        "model": origin.model,
    });
    if let Some(usage) = usage {
        response["tokenUsage"] = token_usage(usage);
    }
    let reasoning: String = message.as_ref().map(reasoning).unwrap_or_default();
    if !reasoning.is_empty() {
        response["reasoning"] = reasoning.into();
    }
    let mut made = vec![("llm:response", response)];
    if let Some(usage) = usage.filter(|usage| usage.input_tokens > 0) {
        let actual = usage.input_tokens;
        let percent = (estimated as f64 - actual as f64) * 100.0 / actual as f64;
        made.push((
            "context:estimate",
            json!({ "estimated": estimated, "actual": actual, "errorPercent": percent }),
        ));
    }
    made.push(("context:usage", crate::context::usage(around.run)));
    made
}

fn reasoning(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    parts.collect()
}

/// Returns a usage report under the API's names.
pub fn token_usage(usage: &Usage) -> Value {
    json!({
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "totalTokens": usage.total_tokens(),
    })
}

fn tool_result(seq: Seq, history: &History) -> Vec<(&'static str, Value)> {
    let Some(entry) = history.entry(seq) else { return Vec::new() };
    let LogEntryKind::Result { tool } = &entry.kind else { return Vec::new() };
    let Some(Part::ToolResult(result)) = entry.message.parts.first() else { return Vec::new() };
    let mut payload = json!({
        "toolName": tool,
        "callId": result.call_id,
        "success": result.status == ToolStatus::Completed,
        "status": result.status,
        "sanitized": truncate::shown_content(result, seq),
        "truncated": result.truncated.is_some(),
    });
    if let Some(truncation) = &result.truncated {
        payload["omittedChars"] = truncation.omitted_chars.into();
        payload["totalChars"] = truncation.total_chars.into();
        payload["rawResult"] = json!(truncation.blob);
    }
    vec![("llm:tool-result", payload)]
}

fn edited(edit: &ViewEdit, survival: Option<&RetentionReport>) -> (&'static str, Value) {
    let saved = edit.original_tokens.saturating_sub(edit.compressed_tokens);
    match edit.kind {
        EditKind::Prune => (
            "context:pruned",
            json!({ "prunedCount": edit.ops.len(), "savedTokens": saved, "compactionId": edit.id,
                    "strategy": edit.strategy, "reason": edit.reason,
                    "originalTokens": edit.original_tokens, "compressedTokens": edit.compressed_tokens,
                    "costNote": edit.why }),
        ),
        EditKind::Compaction => ("context:compressed", compressed(edit, survival)),
    }
}

fn compressed(edit: &ViewEdit, survival: Option<&RetentionReport>) -> Value {
    let mut payload = json!({
        "compactionId": edit.id, "strategy": edit.strategy, "reason": edit.reason,
        "trigger": edit.trigger_tokens, "originalTokens": edit.original_tokens,
        "compressedTokens": edit.compressed_tokens, "originalMessages": edit.original_messages,
        "compressedMessages": edit.compressed_messages, "survival": survival,
        "costNote": edit.why,
    });
    if let Some(summary) = &edit.summary {
        payload["summary"] = json!({ "checked": summary.checked, "reasons": summary.reasons });
    }
    payload
}

fn complete(run_id: &str, reason: RunEnd, error: Option<&ErrorInfo>, open: Option<&OpenRun>) -> Value {
    let mut payload = json!({
        "runId": run_id,
        "finishReason": reason,
        "steps": open.map_or(0, |run| run.steps),
        "usage": open.map(|run| token_usage(&run.usage)),
    });
    if let Some(error) = error {
        payload["error"] = json!(error);
    }
    payload
}
