//! What watchers are told: the events of the API, one flat JSON object each.
//!
//! Durable announcements have a `seq` and are made from stored events, after the commit; the others (deltas,
//! progress, notices) pass by.

use std::sync::Arc;

use longhaul_core::event::{EditKind, Event, EventBody, FORMAT, RunEnd, ViewEdit};
use longhaul_core::history::{FoldError, History, OpenRun};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::{Message, Origin, Part, ToolCall, ToolStatus};
use longhaul_core::run::{Effect, Input, Notice, Run, Settings};
use longhaul_core::survival::{self, Survival};
use longhaul_core::usage::Usage;
use serde_json::{Map, Value, json};

/// One announcement.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// Its name, for example `llm:chunk`.
    pub name: &'static str,
    /// The session.
    pub session_id: SessionId,
    /// Position of the stored event it was made from; `None` if nothing was stored.
    pub seq: Option<Seq>,
    /// Whether it is the last of those that its stored event means: who has it has them all.
    pub ends_event: bool,
    /// The rest.
    pub payload: Map<String, Value>,
}

impl Announcement {
    /// An announcement that passes by. A payload that is no object is dropped.
    pub fn passing(name: &'static str, session_id: &SessionId, payload: Value) -> Self {
        let payload = object(payload);
        Self { name, session_id: session_id.clone(), seq: None, ends_event: false, payload }
    }

    /// The flat JSON form: `{name, sessionId, seq?, …}`.
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("name".to_owned(), self.name.into());
        all.insert("sessionId".to_owned(), self.session_id.as_str().into());
        if let Some(seq) = self.seq {
            all.insert("seq".to_owned(), seq.into());
        }
        all.extend(self.payload.clone());
        Value::Object(all)
    }

    /// A text field of the payload, empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.payload.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

fn object(payload: Value) -> Map<String, Value> {
    match payload {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What is known around a stored event when it is announced.
pub(crate) struct Around<'a> {
    /// The loop, the event folded in.
    pub(crate) run: &'a Run,
    /// The run that was open before the event.
    pub(crate) open: Option<&'a OpenRun>,
    /// What an edit of the view left of it.
    pub(crate) survival: Option<&'a Survival>,
}

/// The announcements of a stored event.
pub(crate) fn of_event(session_id: &SessionId, event: &Event, around: &Around<'_>) -> Vec<Announcement> {
    let run_id = around.open.map(|run| run.id.as_str().to_owned());
    let made = payloads(event, around).into_iter().map(|(name, payload)| {
        let mut payload = object(payload);
        if let Some(run_id) = &run_id {
            payload.entry("runId").or_insert_with(|| run_id.as_str().into());
        }
        Announcement {
            name,
            session_id: session_id.clone(),
            seq: Some(event.seq),
            ends_event: false,
            payload,
        }
    });
    let mut made: Vec<Announcement> = made.collect();
    if let Some(last) = made.last_mut() {
        last.ends_event = true;
    }
    made
}

/// The run that an event belongs to: the one that was open before it, or the one that it begins.
pub(crate) fn run_around(before: Option<OpenRun>, event: &Event, history: &History) -> Option<OpenRun> {
    match &event.body {
        EventBody::RunStarted { .. } => before.or_else(|| history.open_run().cloned()),
        _ => before,
    }
}

/// Makes the announcements of a stored log again, exactly as they were made when its events were stored.
///
/// The log is given from its first event on, in order; announcements come only of the events that are asked
/// for. One replay serves one reading of the log.
#[derive(Debug)]
pub struct Replay {
    session_id: SessionId,
    run: Run,
}

impl Replay {
    pub(crate) fn new(session_id: SessionId, settings: Arc<Settings>) -> Self {
        Self { session_id, run: Run::new(settings, History::default()) }
    }

    /// The position that was given last.
    pub fn seq(&self) -> Seq {
        self.run.history().last_seq()
    }

    /// Takes the next event without making announcements.
    ///
    /// # Errors
    /// [`FoldError`] if it does not follow; nothing has changed then.
    pub fn pass(&mut self, event: &Event) -> Result<(), FoldError> {
        let last = self.seq();
        if event.seq != last + 1 {
            return Err(FoldError::Gap { last, found: event.seq });
        }
        if event.format > FORMAT {
            return Err(FoldError::Newer { seq: event.seq, format: event.format });
        }
        // A loop at rest folds what it is asked to record, and does nothing else.
        let effects = self.run.handle(Input::Record(Vec::new()));
        if let Some(Effect::Append { id, .. }) = effects.into_iter().next() {
            self.run.handle(Input::Appended { id, events: vec![event.clone()] });
        }
        Ok(())
    }

    /// Takes the next event and makes its announcements.
    ///
    /// # Errors
    /// As [`Replay::pass`].
    pub fn take(&mut self, event: &Event) -> Result<Vec<Announcement>, FoldError> {
        let open = self.run.history().open_run().cloned();
        let before = matches!(event.body, EventBody::ViewEdited(_)).then(|| shown(&self.run));
        self.pass(event)?;
        let survival = before.map(|before| survival_of(&before, &self.run));
        let open = run_around(open, event, self.run.history());
        let around = Around { run: &self.run, open: open.as_ref(), survival: survival.as_ref() };
        Ok(of_event(&self.session_id, event, &around))
    }
}

/// What the model is shown.
pub(crate) fn shown(run: &Run) -> Vec<Arc<Message>> {
    run.history().view().iter().map(|item| Arc::clone(&item.message)).collect()
}

/// What an edit left of what was shown: in a session every rest can be recalled by the model.
pub(crate) fn survival_of(before: &[Arc<Message>], run: &Run) -> Survival {
    let before: Vec<&Message> = before.iter().map(AsRef::as_ref).collect();
    let after: String = shown(run).iter().map(|message| crate::recall::plain_text(message) + "\n").collect();
    survival::survey(&before, &after, true)
}

fn payloads(event: &Event, around: &Around<'_>) -> Vec<(&'static str, Value)> {
    let history = around.run.history();
    match &event.body {
        EventBody::MessagesTaken { message, taken, coalesced } => {
            let mut made = Vec::new();
            if !taken.is_empty() {
                let dequeued =
                    json!({ "count": taken.len(), "ids": taken, "coalesced": coalesced.is_some() });
                made.push(("message:dequeued", dequeued));
            }
            made.push(added(message));
            made
        }
        EventBody::NoteAdded { message, .. } => vec![added(message)],
        EventBody::RunStarted { run_id } => {
            vec![("run:started", json!({ "runId": run_id })), ("llm:thinking", json!({ "runId": run_id }))]
        }
        EventBody::AssistantAdded { message, step_id, .. } => {
            let mut made = vec![added(message)];
            made.extend(
                message.tool_calls().map(|call| ("llm:tool-call", tool_call(call, step_id.as_str()))),
            );
            made
        }
        EventBody::StepFinished { step_id, usage, estimated_input, .. } => {
            step_finished(step_id.as_str(), usage.as_ref(), *estimated_input, around)
        }
        EventBody::StepFailed { step_id, code, message, .. } => {
            let recoverable = *code == longhaul_core::error::ErrorCode::ContextOverflow;
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
            let (name, arguments) =
                call.map_or((None, None), |call| (Some(&call.name), Some(&call.arguments)));
            vec![(
                "tool:approval-request",
                json!({ "approvalId": approval_id, "callId": call_id, "toolName": name, "args": arguments }),
            )]
        }
        EventBody::ApprovalResolved { approval_id, allowed, .. } => {
            let decision = if *allowed { "allow" } else { "deny" };
            vec![("tool:approval-response", json!({ "approvalId": approval_id, "decision": decision }))]
        }
        EventBody::ViewEdited(edit) => {
            vec![edited(edit, around.survival), ("context:usage", crate::context::usage(around.run))]
        }
        EventBody::ViewRestored { edit_id } => {
            let tokens = around.run.meter().total;
            vec![("context:restored", json!({ "compactionId": edit_id, "tokens": tokens }))]
        }
        EventBody::CompactionFailed { strategy, code, reason, .. } => {
            vec![("context:compact-failed", json!({ "strategy": strategy, "code": code, "reason": reason }))]
        }
        EventBody::ModelSwitched { to } => {
            vec![("llm:switched", json!({ "newConfig": to, "historyRetained": true }))]
        }
        EventBody::RunFinished { run_id, reason, error } => {
            vec![("run:complete", complete(run_id.as_str(), *reason, error.as_ref(), around.open))]
        }
        EventBody::Parked { reason } => vec![("session:parked", json!({ "reason": reason }))],
        EventBody::SessionStarted { .. }
        | EventBody::StepStarted(_)
        | EventBody::RangeReleased { .. }
        | EventBody::Recovered { .. }
        | EventBody::TitleSet { .. } => Vec::new(),
    }
}

fn added(message: &Message) -> (&'static str, Value) {
    ("message:added", json!({ "messageId": message.id, "role": message.role, "parts": message.parts }))
}

fn tool_call(call: &ToolCall, step_id: &str) -> Value {
    json!({ "toolName": call.name, "args": call.arguments, "callId": call.call_id, "stepId": step_id })
}

fn step_finished(
    step_id: &str,
    usage: Option<&Usage>,
    estimated: u64,
    around: &Around<'_>,
) -> Vec<(&'static str, Value)> {
    let history = around.run.history();
    // A step that was stopped before it said anything has used tokens and no message.
    let message_id = format!("m-{step_id}");
    let newest = history.entries().iter().rev().map(|entry| &entry.message);
    let message = newest.take(1).find(|message| message.id.as_str() == message_id);
    let origin = history.model().cloned().unwrap_or(Origin {
        provider: String::new(),
        api: String::new(),
        model: String::new(),
    });
    let mut response = json!({
        "stepId": step_id,
        "content": message.map(|message| message.text()).unwrap_or_default(),
        "provider": origin.provider,
        "model": origin.model,
    });
    if let Some(usage) = usage {
        response["tokenUsage"] = token_usage(usage);
    }
    let reasoning: String = message.map(|message| reasoning(message)).unwrap_or_default();
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

/// Usage in the API's names.
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
    let longhaul_core::history::EntryKind::Result { tool } = &entry.kind else { return Vec::new() };
    let Some(Part::ToolResult(result)) = entry.message.parts.first() else { return Vec::new() };
    let mut payload = json!({
        "toolName": tool,
        "callId": result.call_id,
        "success": result.status == ToolStatus::Completed,
        "status": result.status,
        "sanitized": result.content,
        "truncated": result.truncated.is_some(),
    });
    if let Some(truncation) = &result.truncated {
        payload["omittedChars"] = truncation.omitted_chars.into();
        payload["totalChars"] = truncation.total_chars.into();
    }
    vec![("llm:tool-result", payload)]
}

fn edited(edit: &ViewEdit, survival: Option<&Survival>) -> (&'static str, Value) {
    let saved = edit.original_tokens.saturating_sub(edit.compressed_tokens);
    match edit.kind {
        EditKind::Prune => (
            "context:pruned",
            json!({ "prunedCount": edit.ops.len(), "savedTokens": saved, "compactionId": edit.id,
                    "originalTokens": edit.original_tokens, "compressedTokens": edit.compressed_tokens }),
        ),
        EditKind::Compaction => (
            "context:compressed",
            json!({
                "compactionId": edit.id, "strategy": edit.strategy, "reason": edit.reason,
                "trigger": edit.trigger_tokens, "originalTokens": edit.original_tokens,
                "compressedTokens": edit.compressed_tokens, "originalMessages": edit.original_messages,
                "compressedMessages": edit.compressed_messages, "survival": survival,
                "costNote": edit.why,
            }),
        ),
    }
}

fn complete(
    run_id: &str,
    reason: RunEnd,
    error: Option<&longhaul_core::event::ErrorInfo>,
    open: Option<&OpenRun>,
) -> Value {
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

/// The announcement of a notice.
pub(crate) fn of_notice(session_id: &SessionId, notice: &Notice) -> Announcement {
    let (name, payload) = match notice {
        Notice::Compacting { strategy, reason, trigger_tokens } => (
            "context:compacting",
            json!({ "strategy": strategy, "reason": reason, "trigger": trigger_tokens }),
        ),
        Notice::CompactionFailed { strategy, code, reason } => {
            ("context:compact-failed", json!({ "strategy": strategy, "code": code, "reason": reason }))
        }
        Notice::Retrying { code, message, attempt, after_ms } => (
            "llm:error",
            json!({ "error": message, "code": code, "context": { "attempt": attempt, "retryAfterMs": after_ms }, "recoverable": true }),
        ),
    };
    Announcement::passing(name, session_id, payload)
}
