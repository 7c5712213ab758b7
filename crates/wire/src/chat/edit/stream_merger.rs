//! The merger of several Chat Completions streams into one answer.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::stream_parser::{ChatStreamChunk, ChatStreamParser};
use super::tool_call_filter::ChatToolCallFilter;
use crate::edit::repetition_filter::RepetitionFilter;
use crate::edit::{PartialResponse, SseEvent, StreamMerger, StreamParser};

/// The merger of an answer. The first stream passes unchanged, except for the end of the answer: the end is held
/// back.
#[derive(Debug, Default)]
pub struct ChatStreamMerger {
    watcher: ChatStreamParser,
    /// `true` if a stream was left: ids and indices may differ from then on.
    continued: bool,
    /// The identifying fields of the first chunk with such fields; every later chunk gets the same fields.
    head: Map<String, Value>,
    /// The number of calls in earlier streams.
    calls_before: usize,
    echo: RepetitionFilter,
    sieve: ChatToolCallFilter,
    /// `true` once the client has seen any part of the answer: the role comes first, and only once.
    is_begun: bool,
    /// `true` if the next text begins a paragraph, because the text belongs to another step.
    begins_paragraph: bool,
    /// The finish, the usage and `[DONE]`, held back until proven final.
    held: Vec<Vec<u8>>,
}

/// Fields of an answer's identity, the same in every chunk.
const HEAD: [&str; 5] = ["id", "object", "created", "model", "system_fingerprint"];

impl StreamMerger for ChatStreamMerger {
    fn pass_event(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let event = SseEvent::parse(raw);
        let data = event.data.trim();
        if data == "[DONE]" {
            self.watcher.read(&event);
            self.held.push(raw.to_vec());
            return;
        }
        // Nothing can follow an error, so the error is not held back like an end.
        if event.is_error() {
            self.watcher.read(&event);
            out.extend_from_slice(raw);
            return;
        }
        match self.sieve.pass(data) {
            None => self.chunk(&event, raw, out),
            Some(sifted) => {
                // The changed chunk is written as an event, because what follows reads events.
                let raw = format!("data: {}\n\n", Value::Object(sifted));
                self.chunk(&SseEvent::parse(raw.as_bytes()), raw.as_bytes(), out);
            }
        }
    }

    fn begin_next_stream(&mut self, prefill: &str) {
        self.continued = true;
        // The left stream's end is void, because another stream continues the answer.
        self.held.clear();
        self.calls_before = self.watcher.calls();
        self.watcher.go_on();
        self.sieve.next_stream();
        self.echo.expect_trimmed(prefill);
    }

    fn begin_requested_stream(&mut self, said: &str, gap: &str) {
        self.begin_next_stream("");
        self.echo.expect_about(said, gap);
    }

    fn notice(&mut self, text: &str, out: &mut Vec<u8>) {
        // Before the first chunk no id is known under which a notice could be written.
        if !self.head.is_empty() {
            self.write_text(text, out);
        }
    }

    fn hide_tool(&mut self, tool: &'static str) {
        self.sieve.hide(tool);
    }

    fn has_hidden(&self) -> bool {
        self.sieve.has_hidden()
    }

    fn next_step(&mut self, out: &mut Vec<u8>) {
        self.flush_echo(out);
        self.begin_next_stream("");
        // Text of two steps would run together without a paragraph between them.
        let said = &self.watcher.seen().text;
        self.begins_paragraph = !said.is_empty() && !said.ends_with("\n\n");
    }

    fn end_with_text(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.head.is_empty() {
            return;
        }
        self.flush_echo(out);
        let said = &self.watcher.seen().text;
        let gap = if said.trim().is_empty() || said.ends_with("\n\n") { "" } else { "\n\n" };
        // The parser counts what the client has seen, added text included.
        self.watcher.text(text);
        self.write_text(&format!("{gap}{text}"), out);
        self.is_begun = true;
        self.held
            .iter_mut()
            // The client sees no call, so the finish reason must not announce one.
            .for_each(|raw| *raw = with_finish(raw, &["tool_calls", "function_call"], "stop"));
    }

    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        // Held text is part of the answer unless it was a repetition, so it goes out before the end.
        self.flush_echo(out);
        if self.echo.says_nothing() {
            // The model only repeated its earlier text, so the answer is incomplete. Its end must not claim
            // otherwise.
            self.held.iter_mut().for_each(|raw| *raw = with_finish(raw, &["stop"], "length"));
        }
        let held = std::mem::take(&mut self.held);
        let is_finished = self.watcher.seen().finish.is_some();
        // Clients wait for a finish reason.
        if !is_finished {
            let choice = json!({ "index": 0, "delta": {}, "finish_reason": self.missing_reason(&held) });
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
            let event = SseEvent::parse(&raw);
            let data = event.data.trim();
            is_done |= data == "[DONE]";
            match self.counted(data, output_tokens_before) {
                Some(text) => write(&text, out),
                None => out.extend_from_slice(&raw),
            }
        }
        // Some servers close without `[DONE]`, but clients may wait for it.
        if !is_done {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    fn seen(&self) -> &PartialResponse {
        self.watcher.seen()
    }
}

impl ChatStreamMerger {
    /// Returns the finish reason of an answer whose server gave none. `[DONE]` alone shows that text and calls are whole.
    /// Without it the answer was cut, and `length` says so.
    fn missing_reason(&self, held: &[Vec<u8>]) -> &'static str {
        let seen = self.watcher.seen();
        let is_done = held.iter().any(|raw| SseEvent::parse(raw).data.trim() == "[DONE]");
        if !is_done || seen.error.is_some() || self.echo.says_nothing() {
            return "length";
        }
        // A call that stops in the middle of its arguments must not run.
        let mut calls = seen.calls.iter();
        match seen.calls.is_empty() {
            true if !seen.text.is_empty() => "stop",
            false if calls.all(|call| serde_json::from_str::<&RawValue>(&call.arguments).is_ok()) => {
                "tool_calls"
            }
            _ => "length",
        }
    }

    fn chunk(&mut self, event: &SseEvent<'_>, raw: &[u8], out: &mut Vec<u8>) {
        let data = event.data.trim();
        let Ok(chunk) = serde_json::from_str::<ChatStreamChunk<'_>>(data) else {
            // What is no chunk passes unchanged: a client may know a form that the gateway does not.
            self.watcher.read(event);
            out.extend_from_slice(raw);
            return;
        };
        let has_choices = chunk.choices.as_ref().is_some_and(|choices| !choices.is_empty());
        // OpenAI reports usage in a chunk without choices, behind the chunk with the finish reason.
        let ends = chunk.choices.iter().flatten().any(|choice| choice.finish_reason.is_some())
            || !has_choices && chunk.usage.is_some();
        // Azure's first chunk has no choices and an empty id, so the first chunk with choices gives the identity.
        if self.head.is_empty() && has_choices {
            self.head = head_of(data);
        }
        if !self.continued {
            self.watcher.take(&chunk, data);
            // A chunk that held only a hidden call is an empty shell now.
            let is_empty = self.sieve.has_hidden() && !ends && is_shell(data);
            self.is_begun |= has_choices && !is_empty;
            if ends {
                self.hold_end(raw, data, out);
            } else if !is_empty {
                out.extend_from_slice(raw);
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

    /// Holds back a chunk at the end of the first stream or of a choice. The chunk's other content is passed.
    fn hold_end(&mut self, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        let Ok(Value::Object(mut end)) = serde_json::from_str(data) else { return };
        let says_something = choices_mut(&mut end).filter_map(delta_mut).any(|delta| !is_blank(delta));
        if !says_something {
            self.held.push(raw.to_vec());
            return;
        }
        let mut said = end.clone();
        for choice in choices_mut(&mut said) {
            choice.insert("finish_reason".to_owned(), Value::Null);
        }
        // Other choices in this chunk have not ended, and their content goes out with `said`.
        if let Some(choices) = end.get_mut("choices").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice.get("finish_reason").is_some_and(|reason| !reason.is_null()));
        }
        // The probabilities belong to the text, which has gone out already.
        choices_mut(&mut end)
            .filter_map(|choice| choice.get_mut("logprobs"))
            .for_each(|of| *of = Value::Null);
        choices_mut(&mut end).filter_map(delta_mut).for_each(Map::clear);
        // The held end still has the usage, which must be reported once.
        said.remove("usage");
        write(&Value::Object(said).to_string(), out);
        self.held.push(format!("data: {}\n\n", Value::Object(end)).into_bytes());
    }

    /// Writes a chunk of a later stream as a chunk of the first.
    fn rewrite(&mut self, mut fields: Map<String, Value>, ends: bool, out: &mut Vec<u8>) {
        // To the client all streams are one answer with one id.
        for (key, value) in &self.head {
            fields.insert(key.clone(), value.clone());
        }
        let is_begun = self.is_begun;
        if let Some(delta) = choice_mut(&mut fields).and_then(delta_mut) {
            if is_begun {
                // A client expects the role once, with the first chunk of the answer.
                delta.remove("role");
            }
            self.number(delta);
            self.without_echo(delta);
        }
        // The parser reads the chunk before the paragraph is added, so that its text stays the model's own.
        let mut text = Value::Object(fields.clone()).to_string();
        if let Ok(chunk) = serde_json::from_str(&text) {
            self.watcher.take(&chunk, &text);
        }
        let said = choice_mut(&mut fields).and_then(delta_mut).and_then(|delta| delta.get_mut("content"));
        if let Some(Value::String(said)) = said
            && !said.is_empty()
            && std::mem::take(&mut self.begins_paragraph)
        {
            said.insert_str(0, "\n\n");
            text = Value::Object(fields.clone()).to_string();
        }
        if ends {
            self.flush_echo(out);
            let event = format!("data: {text}\n\n").into_bytes();
            self.hold_end(&event, &text, out);
            return;
        }
        let delta = choice_mut(&mut fields).and_then(delta_mut);
        if delta.is_none_or(|delta| !is_blank(delta) || !is_begun && delta.contains_key("role")) {
            self.is_begun = true;
            write(&text, out);
        }
    }

    fn number(&self, delta: &mut Map<String, Value>) {
        let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(index) = call.get("index").and_then(Value::as_u64) {
                // Each stream counts its calls from 0, but for the client all calls belong to one answer.
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

    /// Writes text after a suspected repetition was ruled out.
    fn flush_echo(&mut self, out: &mut Vec<u8>) {
        let Some(rest) = self.echo.end() else { return };
        self.watcher.text(&rest);
        self.write_text(&rest, out);
    }

    /// Writes a chunk with text.
    fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        let mut chunk = self.head.clone();
        let mut choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        if !self.is_begun {
            choice["delta"]["role"] = "assistant".into();
        }
        chunk.insert("choices".to_owned(), json!([choice]));
        write(&Value::Object(chunk).to_string(), out);
    }

    /// Returns the chunk with the usage of the whole answer, if there is usage and the answer has several
    /// streams.
    fn counted(&self, data: &str, output_tokens_before: u64) -> Option<String> {
        if !self.continued {
            return None;
        }
        let mut chunk: Value = serde_json::from_str(data).ok()?;
        let usage = chunk.get_mut("usage")?.as_object_mut()?;
        let [completion, prompt] = ["completion_tokens", "prompt_tokens"]
            .map(|key| usage.get(key).and_then(Value::as_u64).unwrap_or(0));
        let output = completion + output_tokens_before;
        let total = prompt + output;
        usage.insert("completion_tokens".to_owned(), output.into());
        usage.insert("total_tokens".to_owned(), total.into());
        Some(chunk.to_string())
    }
}

fn head_of(data: &str) -> Map<String, Value> {
    let Ok(Value::Object(fields)) = serde_json::from_str(data) else { return Map::new() };
    fields.into_iter().filter(|(key, _)| HEAD.contains(&key.as_str())).collect()
}

fn choices_mut(fields: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let choices = fields.get_mut("choices").and_then(Value::as_array_mut);
    choices.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn choice_mut(fields: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    fields.get_mut("choices")?.as_array_mut()?.first_mut()?.as_object_mut()
}

fn delta_mut(choice: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    choice.get_mut("delta")?.as_object_mut()
}

/// Reports whether a chunk has no content at all, not even identifying fields.
fn is_shell(data: &str) -> bool {
    let Ok(Value::Object(mut chunk)) = serde_json::from_str(data) else { return false };
    !choice_mut(&mut chunk)
        .and_then(delta_mut)
        .is_none_or(|delta| !is_blank(delta) || delta.contains_key("role"))
}

/// Reports whether a delta has no content: no fields, or empty ones.
fn is_blank(delta: &Map<String, Value>) -> bool {
    delta.iter().all(|(key, value)| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || key == "role",
        Value::Array(list) => list.is_empty(),
        _ => false,
    })
}

/// Returns an event of the end with `finish` in place of any of `reasons`.
fn with_finish(raw: &[u8], reasons: &[&str], finish: &str) -> Vec<u8> {
    replaced_finish(raw, reasons, finish).unwrap_or_else(|| raw.to_vec())
}

/// Returns the event with another finish reason, if the event's reason is among `reasons`.
fn replaced_finish(raw: &[u8], reasons: &[&str], finish: &str) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut end)) = serde_json::from_str(&SseEvent::parse(raw).data) else {
        return None;
    };
    let reason = choice_mut(&mut end)?.get_mut("finish_reason")?;
    if !reasons.contains(&reason.as_str()?) {
        return None;
    }
    *reason = finish.into();
    Some(format!("data: {}\n\n", Value::Object(end)).into_bytes())
}

fn write(data: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data.as_bytes());
    out.extend_from_slice(b"\n\n");
}
