//! The log of a session for operators, at `info`: messages, decisions with their reasons, and costs.
//!
//! Nothing is a warning here: the session's events report failures to its user.
//!
//! A line has names and figures, never the words of a conversation: logs are kept in other places than sessions, and
//! for other eyes. The span around a session's driver names the session.

use std::collections::HashMap;

use longhaul_core::event::{EditKind, Event, EventBody, StepStart, ViewEdit};
use longhaul_core::ids::{CallId, Millis, SessionId};
use longhaul_core::message::{Message, Part, ToolResult};
use longhaul_core::usage::Usage;

/// The figures of an open run, for later log lines.
#[derive(Debug, Default)]
pub(super) struct OperatorLog {
    run_started_at: Millis,
    step_started_at: Millis,
    steps: u32,
    usage: Usage,
    /// Open calls: the tool's name, and the time of the start.
    calls: HashMap<CallId, (String, Millis)>,
}

impl OperatorLog {
    /// Logs a stored event.
    pub(super) fn log_event(&mut self, event: &Event) {
        match &event.body {
            EventBody::MessagesTaken { message, taken, .. } => log_message(message, taken.len()),
            EventBody::RunStarted { run_id } => {
                // A fresh value drops the calls that an interrupted run left open.
                *self = Self { run_started_at: event.at, ..Self::default() };
                tracing::info!(run = run_id.as_str(), "a run started");
            }
            EventBody::StepStarted(start) => {
                self.step_started_at = event.at;
                self.steps += 1;
                log_call(start);
            }
            EventBody::AssistantAdded { message, .. } => {
                for call in message.tool_calls() {
                    self.calls.insert(call.call_id.clone(), (call.name.clone(), event.at));
                }
            }
            EventBody::StepFinished { step_id, usage, .. } => {
                self.log_answer(step_id.as_str(), usage.as_ref(), event.at);
            }
            EventBody::StepFailed { step_id, code, message, used_tokens, limit_tokens, .. } => {
                tracing::info!(
                    step = step_id.as_str(),
                    code = code.as_str(),
                    used_tokens,
                    limit_tokens,
                    duration_ms = event.at.saturating_sub(self.step_started_at),
                    "the model call failed: {message}"
                )
            }
            EventBody::ToolStarted { call_id } => {
                if let Some((_, started_at)) = self.calls.get_mut(call_id) {
                    *started_at = event.at;
                }
            }
            EventBody::ToolFinished { result } => self.log_result(result, event.at),
            EventBody::ApprovalRequested { call_id, .. } => {
                tracing::info!(tool = self.tool_of(call_id), "a person is asked to allow a call");
            }
            EventBody::ApprovalResolved { call_id, allowed, .. } => {
                tracing::info!(
                    tool = self.tool_of(call_id),
                    allowed,
                    "the question about a call was answered"
                );
            }
            EventBody::ViewEdited(edit) => log_edit(edit),
            EventBody::ViewRestored { edit_id } => {
                tracing::info!(edit = edit_id.as_str(), "an edit of the view was undone");
            }
            EventBody::PartsOmitted { edit_id, parts, reason } => {
                let (edit, parts) = (edit_id.as_str(), parts.len());
                tracing::info!(edit, parts, "parts that the server refuses were left out: {reason}");
            }
            EventBody::CompactionFailed { strategy, code, reason, .. } => {
                tracing::info!(strategy, code = code.as_str(), "a compaction failed: {reason}");
            }
            EventBody::ModelSwitched { to, .. } => {
                tracing::info!(provider = to.provider, model = to.model, "the session has another model");
            }
            EventBody::RunFinished { run_id, reason, error } => tracing::info!(
                run = run_id.as_str(),
                ?reason,
                error = error.as_ref().map(|error| error.message.as_str()),
                steps = self.steps,
                input_tokens = self.usage.input_tokens,
                cached_tokens = self.usage.cache_read_tokens,
                output_tokens = self.usage.output_tokens,
                duration_ms = event.at.saturating_sub(self.run_started_at),
                "a run ended"
            ),
            EventBody::Recovered { cause, attempts } => {
                tracing::info!(attempts, "the session was taken over after a crash: {cause}");
            }
            EventBody::Parked { reason } => tracing::info!("the session waits for a person: {reason}"),
            _ => {}
        }
    }

    fn log_answer(&mut self, step: &str, usage: Option<&Usage>, at: Millis) {
        let usage = usage.cloned().unwrap_or_default();
        tracing::info!(
            step,
            input_tokens = usage.input_tokens,
            cached_tokens = usage.cache_read_tokens,
            output_tokens = usage.output_tokens,
            calls = self.calls.len(),
            duration_ms = at.saturating_sub(self.step_started_at),
            "the model answered"
        );
        self.usage.add(&usage);
    }

    fn log_result(&mut self, result: &ToolResult, at: Millis) {
        // A call that another process started is unknown here, and has no duration.
        let (tool, started_at) = self.calls.remove(&result.call_id).unwrap_or_default();
        let texts = result.content.iter().filter_map(Part::as_text);
        tracing::info!(
            tool,
            status = ?result.status,
            chars = texts.map(|text| text.chars().count()).sum::<usize>(),
            omitted_chars = result.truncated.as_ref().map(|truncation| truncation.omitted_chars),
            duration_ms = if started_at == 0 { 0 } else { at.saturating_sub(started_at) },
            "a tool call ended"
        );
    }

    fn tool_of(&self, call: &CallId) -> &str {
        self.calls.get(call).map_or("", |(tool, _)| tool.as_str())
    }
}

/// Logs the error of the estimate of a call's input, in tokens, once for each call with a usage report.
pub(super) fn log_estimate(session_id: &SessionId, event: &EventBody) {
    let EventBody::StepFinished { step_id, usage: Some(usage), estimated_input, .. } = event else {
        return;
    };
    let (estimated, actual) = (*estimated_input, usage.input_tokens);
    // A server that reports no usage would look like an estimate that is wrong by all its tokens.
    if actual == 0 {
        return;
    }
    let error = estimated as i64 - actual as i64;
    let error_percent = (error as f64 * 10_000.0 / actual as f64).round() / 100.0;
    let (session, step) = (session_id.as_str(), step_id.as_str());
    tracing::info!(session, step, estimated, actual, error, error_percent, "input estimated");
}

fn is_media(part: &Part) -> bool {
    matches!(part, Part::Image(_) | Part::File(_))
}

fn log_message(message: &Message, taken: usize) {
    tracing::info!(
        messages = taken.max(1),
        chars = message.text().chars().count(),
        media = message.parts.iter().filter(|part| is_media(part)).count(),
        "a message of the user entered the conversation"
    );
}

fn log_call(start: &StepStart) {
    tracing::info!(
        step = start.step_id.as_str(),
        model = start.model.model,
        purpose = ?start.purpose,
        estimated_input = start.estimated_input,
        fixed_tokens = start.fixed_tokens,
        window = start.window_tokens,
        max_output = start.max_output_tokens,
        "the model is called"
    );
}

fn log_edit(edit: &ViewEdit) {
    let what = match edit.kind {
        EditKind::Prune => "old tool results were pruned",
        EditKind::Compaction => "the conversation was compacted",
    };
    tracing::info!(
        edit = edit.id.as_str(),
        strategy = edit.strategy,
        reason = ?edit.reason,
        trigger_tokens = edit.trigger_tokens,
        tokens_before = edit.original_tokens,
        tokens_after = edit.compressed_tokens,
        messages_before = edit.original_messages,
        messages_after = edit.compressed_messages,
        summary_tokens = edit.usage.as_ref().map(|usage| usage.output_tokens),
        "{what}: {}",
        edit.why
    );
}
