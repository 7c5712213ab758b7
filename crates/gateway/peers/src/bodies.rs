//! Requests of Chat Completions from a recorded coding session with tools, of any length.

use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};

pub(crate) const MODEL: &str = "mock";

const SESSION: &str = "badlogic__pi-mono/before-compaction.jsonl";

/// The place in the first message for a number that differs between conversations.
const MARK: &str = "0000000000000000";

/// The system prompt, which the recording leaves out.
const SYSTEM: &str = "You are a coding assistant. You read, change and run files of the user's project with your tools, \
    explain what you do in a few words, and ask before anything that cannot be undone.";

/// The messages of a session, as JSON.
pub(crate) struct Session {
    messages: Vec<(Role, Value)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    Tool,
}

/// A request with a place for the number of its conversation.
pub(crate) struct Request {
    head: String,
    messages: Vec<String>,
    pub(crate) calls: usize,
}

impl Session {
    /// Reads the recorded session. Returns `None` without the fixtures.
    pub(crate) fn read(trajectories: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(trajectories.join(SESSION)).ok()?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let messages: Vec<Value> = lines.map(|mut line| line["message"].take()).collect();
        Some(Self { messages: turned(&messages) })
    }

    /// Returns the beginning of the session, of `bytes` or a little more, with answers and results cut to
    /// `most_text_bytes`. The request ends with a user's message or a result.
    pub(crate) fn request(&self, bytes: usize, most_text_bytes: usize) -> Request {
        let head = format!(r#"{{"model":"{MODEL}","messages":["#);
        let mut request = Request { head, messages: Vec::new(), calls: 0 };
        request.messages.push(json!({ "role": "system", "content": SYSTEM }).to_string());
        let mut length = tail(false).len();
        for (at, (role, message)) in self.messages.iter().enumerate() {
            let mut message = message.clone();
            if at == 0 {
                let text = message["content"].as_str().unwrap_or_default();
                message["content"] = format!("[{MARK}] {text}").into();
            }
            if let (Role::Assistant | Role::Tool, Some(text)) = (role, message["content"].as_str()) {
                message["content"] = cut(text, most_text_bytes).into();
            }
            request.calls += message["tool_calls"].as_array().map_or(0, Vec::len);
            let text = message.to_string();
            length += text.len() + 1;
            request.messages.push(text);
            let next_answers = self.messages.get(at + 1).is_none_or(|(next, _)| *next != Role::Tool);
            if length >= bytes && *role != Role::Assistant && next_answers {
                break;
            }
        }
        request
    }
}

impl Request {
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Returns the whole request.
    pub(crate) fn body(&self, number: u64, stream: bool) -> Bytes {
        self.first(self.messages.len(), number, stream)
    }

    /// Returns the request with its first messages only.
    pub(crate) fn first(&self, messages: usize, number: u64, stream: bool) -> Bytes {
        let size: usize = self.messages.iter().take(messages).map(|message| message.len() + 1).sum();
        let tail = tail(stream);
        let mut body = String::with_capacity(self.head.len() + size + tail.len());
        body.push_str(&self.head);
        for (at, message) in self.messages.iter().take(messages).enumerate() {
            if at > 0 {
                body.push(',');
            }
            match message.find(MARK).filter(|_| at == 1) {
                Some(place) => {
                    body.push_str(&message[..place]);
                    body.push_str(&format!("{number:016x}"));
                    body.push_str(&message[place + MARK.len()..]);
                }
                None => body.push_str(message),
            }
        }
        body.push_str(&tail);
        body.into()
    }

    /// Returns the number of messages in each request of the session: up to each answer, and up to the end.
    pub(crate) fn steps(&self) -> Vec<usize> {
        let is_answer = |message: &String| message.starts_with(r#"{"role":"assistant""#);
        let answers = self.messages.iter().enumerate().filter(|(_, message)| is_answer(message));
        answers.map(|(at, _)| at).chain([self.messages.len()]).collect()
    }
}

fn tail(stream: bool) -> String {
    let tool = |name: &str, what: &str, fields: Value| {
        let required: Vec<&String> =
            fields.as_object().map(|fields| fields.keys().collect()).unwrap_or_default();
        json!({ "type": "function", "function": {
            "name": name, "description": what,
            "parameters": { "type": "object", "properties": fields, "required": required },
        }})
    };
    let text = |what: &str| json!({ "type": "string", "description": what });
    let path = text("Where the file is.");
    let tools = json!([
        tool("read", "Reads a file.", json!({ "path": path })),
        tool("write", "Writes a file, whole.", json!({ "path": path, "content": text("All of it.") })),
        tool(
            "edit",
            "Replaces a text that stands in a file once.",
            json!({ "path": path, "oldText": text("What is there."), "newText": text("What is to be there.") })
        ),
        tool("bash", "Runs a command.", json!({ "command": text("For the shell.") })),
    ]);
    let options = if stream { r#","stream_options":{"include_usage":true}"# } else { "" };
    format!(r#"],"tools":{tools},"max_tokens":1024,"stream":{stream}{options}}}"#)
}

fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the recording's messages for Chat Completions, without calls that have no result and results without a call.
fn turned(messages: &[Value]) -> Vec<(Role, Value)> {
    let mut turned = Vec::new();
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        at += 1;
        match message["role"].as_str() {
            Some("user") => turned.push((Role::User, json!({ "role": "user", "content": text(message) }))),
            Some("assistant") => {
                let results: Vec<&Value> =
                    messages[at..].iter().take_while(|next| next["role"] == "toolResult").collect();
                at += results.len();
                answer(message, &results, &mut turned);
            }
            _ => {}
        }
    }
    turned
}

fn answer(message: &Value, results: &[&Value], turned: &mut Vec<(Role, Value)>) {
    let parts = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let result = |call: &Value| results.iter().find(|result| result["toolCallId"] == call["id"]);
    let calls: Vec<&Value> =
        parts.iter().filter(|part| part["type"] == "toolCall" && result(part).is_some()).collect();
    let said = text(message);
    if said.is_empty() && calls.is_empty() {
        return;
    }
    let content = if said.is_empty() { Value::Null } else { said.into() };
    let mut answer = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        let call = |call: &&Value| {
            json!({ "id": call["id"], "type": "function", "function": {
                "name": call["name"], "arguments": call["arguments"].to_string(),
            }})
        };
        answer["tool_calls"] = calls.iter().map(call).collect();
    }
    turned.push((Role::Assistant, answer));
    for call in calls {
        let Some(result) = result(call) else { continue };
        let said = json!({ "role": "tool", "tool_call_id": call["id"], "content": text(result) });
        turned.push((Role::Tool, said));
    }
}

fn text(message: &Value) -> String {
    let parts = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}
