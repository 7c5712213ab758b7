//! Tool calls that a model has written as text.

use serde_json::Value;

/// The beginnings of tool calls that families of models write as text.
const BEGINNINGS: [&str; 13] = [
    "<tool_call",
    "<|tool_call",
    "<tool_use",
    "<function_call",
    "<function=",
    "<invoke ",
    "<|python_tag|>",
    "<｜tool▁call",
    "[tool_call",
    "<|action_start|>",
    "[call ",
    "action:",
    "functions.",
];

/// Returns whether a text is a tool call and nothing else.
pub(super) fn is_tool_call(text: &str) -> bool {
    let text = unfenced(text.trim());
    let lower = text.to_ascii_lowercase();
    let begins = BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning));
    // `Action:` alone may be a heading. A call in the ReAct format has an input, too.
    if lower.starts_with("action:") && lower.contains("action input:") {
        return true;
    }
    if begins && !lower.starts_with("action:") {
        // A call with prose below may still be a summary: the check of the content decides.
        return !has_prose_below(&lower);
    }
    is_json_call(text) || is_code_call(text)
}

/// The keys of a server's report.
const STATUS_KEYS: &[&str] = &[
    "error",
    "errors",
    "message",
    "status",
    "code",
    "type",
    "detail",
    "details",
    "ok",
    "success",
    "param",
    "request_id",
];

/// Returns whether a text is a server's report of success or failure in JSON. Its key "error" is no heading.
pub(super) fn is_status(text: &str) -> bool {
    match serde_json::from_str::<Value>(unfenced(text.trim())) {
        Ok(Value::Object(fields)) => {
            !fields.is_empty() && fields.keys().all(|key| STATUS_KEYS.contains(&key.as_str()))
        }
        _ => false,
    }
}

/// Returns whether more than a few words follow the last bracket of a call.
fn has_prose_below(call: &str) -> bool {
    let rest = call.rsplit_once(['>', '}', ']', ')']).map_or(call, |(_, rest)| rest);
    rest.split_whitespace().count() > 12
}

fn unfenced(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, inner)| inner.trim())
}

fn is_json_call(text: &str) -> bool {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => !items.is_empty() && items.iter().all(is_call_object),
        Ok(value) => is_call_object(&value),
        // Models that call several tools write one object a line.
        Err(_) => {
            let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
            lines.peek().is_some()
                && lines
                    .all(|line| serde_json::from_str(line.trim()).is_ok_and(|value| is_call_object(&value)))
        }
    }
}

/// Returns whether a JSON value is a call in one of the forms that providers' formats have.
fn is_call_object(value: &Value) -> bool {
    let inner = ["function", "tool_call", "function_call"].iter().find_map(|key| value.get(*key));
    let is_named = has_any_key(value, &["name", "tool", "tool_name", "function"]);
    let has_input = has_any_key(value, &["arguments", "parameters", "args", "input", "tool_input"]);
    is_named && has_input
        || inner.is_some_and(|inner| inner.get("name").is_some())
        || value.get("tool_calls").is_some()
}

fn has_any_key(value: &Value, keys: &[&str]) -> bool {
    keys.iter().any(|key| value.get(*key).is_some())
}

/// Returns whether a text is a call in code: `read_file("a.rs")` or `[read_file(path="a.rs")]`, with a name and
/// arguments in brackets.
fn is_code_call(text: &str) -> bool {
    let text = text.trim_start_matches("print(").trim_matches(['[', ']', ';']);
    let Some((name, rest)) = text.split_once('(') else { return false };
    let is_name =
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || "_.".contains(char));
    is_name && rest.trim_end().ends_with(')') && !text.contains(". ")
}
