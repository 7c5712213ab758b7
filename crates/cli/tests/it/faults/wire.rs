//! The rules of a chat completion request, checked where a provider would.

use serde_json::Value;

/// Checks that every call has its result directly behind it, in order, that no result stands alone, and that
/// roles follow each other as they may.
pub(crate) fn check(request: &Value) -> Result<(), String> {
    let messages = request["messages"].as_array().ok_or("no messages")?;
    let (system, talk) = match messages.first() {
        Some(first) if first["role"] == "system" => (1, &messages[1..]),
        _ => (0, &messages[..]),
    };
    if talk.first().is_none_or(|first| first["role"] != "user") {
        return Err("the first message is not the user's".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for (index, message) in talk.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let at = |why: &str| Err(format!("message {}: {why}", index + system));
        match role {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if open.first() != Some(&id) {
                    return at(&format!("result {id}, open are {open:?}"));
                }
                open.remove(0);
            }
            "user" | "assistant" if !open.is_empty() => {
                return at(&format!("{role} while {open:?} are open"));
            }
            "user" | "assistant" if role == before => return at(&format!("two of {role}")),
            "user" => {}
            "assistant" => open = calls(message),
            _ => return at(&format!("role {role}")),
        }
        // Only an answer may lack content: with tool calls it is `null`.
        if role != "assistant" && is_empty(&message["content"]) {
            return at("no content");
        }
        before = role;
    }
    match before {
        "assistant" => Err("the last message is the model's own".to_owned()),
        _ if !open.is_empty() => Err(format!("{open:?} have no result")),
        _ => Ok(()),
    }
}

fn calls(message: &Value) -> Vec<&str> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    calls.iter().filter_map(|call| call["id"].as_str()).collect()
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// The text of the last user message.
pub(crate) fn last_user_text(request: &Value) -> String {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last = messages.iter().rfind(|message| message["role"] == "user");
    match last.map(|message| &message["content"]) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items.iter().filter_map(|item| item["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The ids of all calls that have a result in the request.
pub(crate) fn answered(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.iter().filter_map(|message| Some(message["tool_call_id"].as_str()?.to_owned())).collect()
}

#[test]
fn what_breaks_a_rule_is_seen() {
    use serde_json::json;
    let user = json!({ "role": "user", "content": "x" });
    let call = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "a" }, { "id": "b" }] });
    let said = json!({ "role": "assistant", "content": "x" });
    let good = [user.clone(), call.clone(), result("a"), result("b"), said.clone(), user.clone()];
    assert_eq!(check(&json!({ "messages": good })), Ok(()));
    for bad in [
        vec![],
        vec![said.clone(), user.clone()],
        vec![user.clone(), user.clone()],
        vec![user.clone(), said],
        vec![user.clone(), call.clone(), result("a")],
        vec![user.clone(), call.clone(), result("b"), result("a")],
        vec![user.clone(), call, result("a"), user.clone()],
        vec![user, result("a")],
    ] {
        assert!(check(&json!({ "messages": bad })).is_err(), "{bad:?}");
    }
}

fn result(id: &str) -> Value {
    serde_json::json!({ "role": "tool", "tool_call_id": id, "content": "x" })
}
