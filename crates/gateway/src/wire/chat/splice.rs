//! One answer of several streams.

use serde_json::{Map, Value, json};

use super::super::echo::Echo;
use super::super::{Event, Seen, Splice, Watcher};
use super::stream::{ChatWatcher, Chunk};

/// Makes one answer. Of the first stream everything passes as it came; what ends the answer is held back.
#[derive(Debug, Default)]
pub struct ChatSplice {
    watcher: ChatWatcher,
    /// Whether a stream was left: from then on ids and numbers may differ.
    continued: bool,
    /// The first chunk that said whose it is: its fields are every later chunk's.
    head: Map<String, Value>,
    /// Calls of the streams that were left.
    calls_before: usize,
    echo: Echo,
    /// The finish, the usage and `[DONE]`, until it is known whether the answer ends there.
    held: Vec<Vec<u8>>,
}

/// Fields that name an answer, the same in every chunk.
const HEAD: [&str; 5] = ["id", "object", "created", "model", "system_fingerprint"];

impl Splice for ChatSplice {
    fn pass(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let event = Event::parse(raw);
        let data = event.data.trim();
        if data == "[DONE]" {
            self.watcher.read(&event);
            self.held.push(raw.to_vec());
            return;
        }
        let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(data) else {
            self.watcher.read(&event);
            out.extend_from_slice(raw);
            return;
        };
        let has_choices = chunk.choices.as_ref().is_some_and(|choices| !choices.is_empty());
        let ends = chunk.choices.iter().flatten().any(|choice| choice.finish_reason.is_some())
            || !has_choices && chunk.usage.is_some();
        if self.head.is_empty() && has_choices {
            self.head = head_of(data);
        }
        if !self.continued {
            self.watcher.take(&chunk, data);
            match ends {
                false => out.extend_from_slice(raw),
                true => self.hold_end(raw, data, out),
            }
            return;
        }
        if chunk.error.is_some() {
            self.watcher.take(&chunk, data);
            out.extend_from_slice(raw);
            return;
        }
        drop(chunk);
        let Ok(Value::Object(fields)) = serde_json::from_str(data) else { return };
        self.rewrite(fields, ends, out);
    }

    fn go_on(&mut self, prefill: &str) {
        self.continued = true;
        self.held.clear();
        self.calls_before = self.watcher.calls();
        self.watcher.go_on();
        // On this wire whitespace at the end is sent too, and what comes is new.
        let is_whole = prefill.trim_end().len() == prefill.len();
        self.echo.expect(if is_whole { prefill } else { "" });
    }

    fn go_on_about(&mut self, said: &str, gap: &str) {
        self.go_on("");
        self.echo.expect_about(said, gap);
    }

    fn notice(&mut self, text: &str, out: &mut Vec<u8>) {
        if !self.head.is_empty() {
            self.write_text(text, out);
        }
    }

    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        self.flush_echo(out);
        let held = std::mem::take(&mut self.held);
        let is_finished = self.watcher.seen().finish.is_some();
        if !is_finished {
            let choice = json!({ "index": 0, "delta": {}, "finish_reason": "length" });
            let mut chunk = self.head.clone();
            chunk.insert("choices".to_owned(), json!([choice]));
            let text = Value::Object(chunk).to_string();
            if let Ok(chunk) = serde_json::from_str(&text) {
                self.watcher.take(&chunk, &text);
            }
            write(&text, out);
        }
        let mut is_done = false;
        for raw in held {
            let data = Event::parse(&raw).data.trim();
            is_done |= data == "[DONE]";
            match self.counted(data, output_tokens_before) {
                Some(text) => write(&text, out),
                None => out.extend_from_slice(&raw),
            }
        }
        if !is_done {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    fn seen(&self) -> &Seen {
        self.watcher.seen()
    }
}

impl ChatSplice {
    /// Of a chunk that ends the first stream what it says beside that is passed, the rest is held.
    fn hold_end(&mut self, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        let Ok(Value::Object(mut end)) = serde_json::from_str(data) else { return };
        let says_something = choice_mut(&mut end).and_then(delta_mut).is_some_and(|delta| !is_blank(delta));
        if !says_something {
            self.held.push(raw.to_vec());
            return;
        }
        let mut said = end.clone();
        if let Some(choice) = choice_mut(&mut said) {
            choice.insert("finish_reason".to_owned(), Value::Null);
        }
        if let Some(delta) = choice_mut(&mut end).and_then(delta_mut) {
            delta.clear();
        }
        said.remove("usage");
        write(&Value::Object(said).to_string(), out);
        self.held.push(format!("data: {}\n\n", Value::Object(end)).into_bytes());
    }

    /// A chunk of a later stream as one of the first.
    fn rewrite(&mut self, mut fields: Map<String, Value>, ends: bool, out: &mut Vec<u8>) {
        for (key, value) in &self.head {
            fields.insert(key.clone(), value.clone());
        }
        if let Some(delta) = choice_mut(&mut fields).and_then(delta_mut) {
            delta.remove("role");
            self.number(delta);
            self.without_echo(delta);
        }
        let text = Value::Object(fields.clone()).to_string();
        if let Ok(chunk) = serde_json::from_str(&text) {
            self.watcher.take(&chunk, &text);
        }
        if ends {
            self.flush_echo(out);
            let event = format!("data: {text}\n\n").into_bytes();
            self.hold_end(&event, &text, out);
        } else if choice_mut(&mut fields).and_then(delta_mut).is_none_or(|delta| !is_blank(delta)) {
            write(&text, out);
        }
    }

    fn number(&self, delta: &mut Map<String, Value>) {
        let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(index) = call.get("index").and_then(Value::as_u64) {
                call["index"] = (index + self.calls_before as u64).into();
            }
        }
    }

    fn without_echo(&mut self, delta: &mut Map<String, Value>) {
        let Some(Value::String(text)) = delta.get("content") else { return };
        match self.echo.pass(text).filter(|new| !new.is_empty()) {
            Some(new) => delta.insert("content".to_owned(), new.into()),
            None => delta.remove("content"),
        };
    }

    /// What was held as a possible repetition and is none.
    fn flush_echo(&mut self, out: &mut Vec<u8>) {
        let Some(rest) = self.echo.end() else { return };
        self.watcher.text(&rest);
        self.write_text(&rest, out);
    }

    /// A chunk with text.
    fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        let mut chunk = self.head.clone();
        let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        chunk.insert("choices".to_owned(), json!([choice]));
        write(&Value::Object(chunk).to_string(), out);
    }

    /// The chunk with the usage of the whole answer, if it has any and the answer has several streams.
    fn counted(&self, data: &str, output_tokens_before: u64) -> Option<String> {
        if !self.continued {
            return None;
        }
        let mut chunk: Value = serde_json::from_str(data).ok()?;
        let usage = chunk.get_mut("usage")?.as_object_mut()?;
        let number =
            |usage: &Map<String, Value>, key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        let output = number(usage, "completion_tokens") + output_tokens_before;
        let total = number(usage, "prompt_tokens") + output;
        usage.insert("completion_tokens".to_owned(), output.into());
        usage.insert("total_tokens".to_owned(), total.into());
        Some(chunk.to_string())
    }
}

fn head_of(data: &str) -> Map<String, Value> {
    let Ok(Value::Object(fields)) = serde_json::from_str(data) else { return Map::new() };
    fields.into_iter().filter(|(key, _)| HEAD.contains(&key.as_str())).collect()
}

fn choice_mut(fields: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    fields.get_mut("choices")?.as_array_mut()?.first_mut()?.as_object_mut()
}

fn delta_mut(choice: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    choice.get_mut("delta")?.as_object_mut()
}

/// Whether nothing is said: no fields, or empty ones.
fn is_blank(delta: &Map<String, Value>) -> bool {
    delta.iter().all(|(key, value)| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || key == "role",
        Value::Array(list) => list.is_empty(),
        _ => false,
    })
}

fn write(data: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data.as_bytes());
    out.extend_from_slice(b"\n\n");
}
