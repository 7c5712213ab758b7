//! The scripted provider for trials: an echo with tool calls on command.

use std::time::Duration;

use longhaul_core::message::{Message, Part, Role, ToolStatus};
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider, is_summary_request};
use serde_json::json;

/// Time before each piece of an answer.
const PACE: Duration = Duration::from_millis(12);

/// Returns a model that repeats its input. A message with a leading `!` is a call of `bash`, one
/// with a leading `@` a call of `read`.
pub(super) fn model(window: Option<u64>, max_output: Option<u64>) -> ScriptedProvider {
    let mut model = ScriptedProvider::new(ModelScript::closure(|request: &ModelRequest, _| {
        answer(request).map(|it| it.pace(PACE))
    }));
    model = model.model("echo");
    if let Some(window) = window {
        model = model.window(window);
    }
    if let Some(max_output) = max_output {
        model = model.max_output(max_output);
    }
    model
}

/// Returns the scripted answer. `None` leaves summaries to the provider's own summariser.
fn answer(request: &ModelRequest) -> Option<ScriptedAnswer> {
    // An echo of the whole order would be longer than what it replaces.
    if is_summary_request(request) {
        return None;
    }
    let last = request.messages.last()?;
    let answer = match last.role {
        Role::Tool => ScriptedAnswer::text(after_tools(request)),
        _ => said(&last.text(), !request.tools.is_empty()),
    };
    Some(answer)
}

fn said(text: &str, has_tools: bool) -> ScriptedAnswer {
    let text = text.trim();
    match (text.strip_prefix('!'), text.strip_prefix('@')) {
        // Without tools in the request a call would be invalid, so the text is echoed instead.
        (Some(command), _) if has_tools => call_answer("bash", "command", command),
        (_, Some(file)) if has_tools => call_answer("read", "path", file),
        _ => ScriptedAnswer::text(format!("You said: {text}")),
    }
}

fn call_answer(tool: &str, key: &str, argument: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(format!("I call {tool}.")).call(tool, json!({ key: argument.trim() }).to_string())
}

fn after_tools(request: &ModelRequest) -> String {
    // One step may have called several tools, and the results of a step stand together at the end.
    let results: Vec<&Message> =
        request.messages.iter().rev().take_while(|message| message.role == Role::Tool).collect();
    let parts = results.iter().flat_map(|message| &message.parts);
    let failed = parts.filter(|part| match part {
        Part::ToolResult(result) => result.status != ToolStatus::Completed,
        _ => false,
    });
    match failed.count() {
        0 => "The tool has answered.".to_owned(),
        _ => "The tool did not do it.".to_owned(),
    }
}
