//! Chunks of OpenAI's Chat Completions.

use longhaul_core::deferral::CALL;
use serde_json::{Map, Value, json};

use super::UnwrappedEvent;
use crate::edit::deferral::ToolDeferral;

/// The stream's calls.
#[derive(Default)]
pub(super) struct ChatHeldCalls {
    calls: Vec<ChatHeldCall>,
    newest_id: String,
    /// The fields that every chunk of the stream has, for chunks of our own.
    shell: Map<String, Value>,
}

struct ChatHeldCall {
    /// The server's index of the call.
    index: u64,
    name: String,
    arguments: String,
    /// `true` if the client gets the call's pieces as they come.
    is_passed: bool,
    /// `true` once the whole call has been sent.
    is_over: bool,
    /// The pieces of the call that are held back.
    held: Vec<Value>,
}

impl ChatHeldCalls {
    pub(super) fn pass(&mut self, deferral: &ToolDeferral, data: &str) -> UnwrappedEvent {
        let had_held = self.has_held();
        // A cheap search first, since most chunks have no calls and need no parse.
        if !had_held && !data.contains("\"tool_calls\"") {
            return UnwrappedEvent::AsItIs;
        }
        if data.trim() == "[DONE]" {
            return self.before_done(deferral, data);
        }
        let Ok(Value::Object(mut chunk)) = serde_json::from_str(data) else { return UnwrappedEvent::AsItIs };
        self.keep_shell(&chunk);
        let mut shown = Vec::new();
        let Some(choice) = first_choice(&mut chunk) else { return UnwrappedEvent::AsItIs };
        let is_end = choice.get("finish_reason").is_some_and(Value::is_string);
        let delta = choice.entry("delta").or_insert_with(|| json!({}));
        let pieces = delta.get_mut("tool_calls").and_then(Value::as_array_mut).map(std::mem::take);
        for piece in pieces.into_iter().flatten() {
            self.piece(deferral, piece, &mut shown);
        }
        if is_end {
            // The finish reason ends all calls, so what is held is complete.
            self.release(deferral, &mut shown);
        }
        // Nothing of ours is in this chunk, so it keeps the server's bytes.
        if !had_held && !self.has_held() && !shown.iter().any(|piece| piece["is_ours"] == true) {
            return UnwrappedEvent::AsItIs;
        }
        shown.iter_mut().filter_map(Value::as_object_mut).for_each(|piece| _ = piece.remove("is_ours"));
        let Some(delta) = delta.as_object_mut() else { return UnwrappedEvent::AsItIs };
        if shown.is_empty() {
            delta.remove("tool_calls");
        } else {
            delta.insert("tool_calls".to_owned(), shown.into());
        }
        // A chunk whose calls are all held back would be empty. A chunk with usage or a finish reason is needed all
        // the same.
        let says_nothing = delta.values().all(Value::is_null) && !is_end;
        let has_usage = chunk.get("usage").is_some_and(|usage| !usage.is_null());
        UnwrappedEvent::Replaced(if says_nothing && !has_usage {
            Vec::new()
        } else {
            vec![Value::Object(chunk)]
        })
    }

    /// Releases the calls before the end of a stream that gives no finish reason.
    fn before_done(&mut self, deferral: &ToolDeferral, done: &str) -> UnwrappedEvent {
        let mut shown = Vec::new();
        self.release(deferral, &mut shown);
        shown.iter_mut().filter_map(Value::as_object_mut).for_each(|piece| _ = piece.remove("is_ours"));
        let mut chunk = self.shell.clone();
        chunk.insert("choices".to_owned(), json!([{ "index": 0, "delta": { "tool_calls": shown } }]));
        UnwrappedEvent::Replaced(vec![Value::Object(chunk), done.trim().into()])
    }

    fn has_held(&self) -> bool {
        self.calls.iter().any(|call| !call.is_passed && !call.is_over)
    }

    fn keep_shell(&mut self, chunk: &Map<String, Value>) {
        if self.shell.is_empty() {
            let common =
                chunk.iter().filter(|(key, _)| ["id", "object", "created", "model"].contains(&key.as_str()));
            self.shell = common.map(|(key, value)| (key.clone(), value.clone())).collect();
        }
    }

    fn piece(&mut self, deferral: &ToolDeferral, piece: Value, shown: &mut Vec<Value>) {
        let id = piece["id"].as_str().unwrap_or_default().to_owned();
        // Some servers give no index: a new id is a new call.
        let newest = self.calls.last().map(|call| call.index);
        let is_new = !id.is_empty() && id != self.newest_id;
        let index = match (piece["index"].as_u64(), newest) {
            (Some(index), _) => index,
            (None, None) => 0,
            (None, Some(newest)) => newest + u64::from(is_new),
        };
        if !id.is_empty() {
            self.newest_id = id;
        }
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None => {
                // A new call begins, so the one before is complete.
                self.release(deferral, shown);
                self.calls.push(ChatHeldCall::new(index));
                self.calls.len() - 1
            }
        };
        match self.calls.get_mut(at) {
            // A malformed piece is passed on, for the client to judge.
            Some(call) if piece["function"].is_object() => call.take(piece, shown),
            _ => shown.push(piece),
        }
    }

    /// Releases the calls that were held back, because they are complete.
    fn release(&mut self, deferral: &ToolDeferral, shown: &mut Vec<Value>) {
        self.calls.iter_mut().filter(|call| !call.is_passed && !call.is_over).for_each(|call| {
            call.release(deferral, shown);
        });
    }
}

impl ChatHeldCall {
    fn new(index: u64) -> Self {
        Self {
            index,
            name: String::new(),
            arguments: String::new(),
            is_passed: false,
            is_over: false,
            held: Vec::new(),
        }
    }

    fn take(&mut self, piece: Value, shown: &mut Vec<Value>) {
        let function = &piece["function"];
        self.name.push_str(function["name"].as_str().unwrap_or_default());
        self.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
        self.held.push(piece);
        // Some servers send names in pieces, so a prefix of `tool_call` is held back too.
        let may_be_ours =
            CALL.starts_with(self.name.as_str()) && (self.arguments.is_empty() || self.name == CALL);
        if self.is_passed || self.is_over || !may_be_ours {
            self.is_passed = true;
            shown.append(&mut self.held);
        }
    }

    /// Releases the client's call as one piece, or another call in its own pieces.
    fn release(&mut self, deferral: &ToolDeferral, shown: &mut Vec<Value>) {
        self.is_over = true;
        let mut held = std::mem::take(&mut self.held).into_iter();
        let made = if self.name == CALL { deferral.resolve(&self.arguments).ok() } else { None };
        let Some(made) = made else { return shown.extend(held.map(ours)) };
        let Some(mut piece) = held.next() else { return };
        piece["function"]["name"] = made.name.into();
        piece["function"]["arguments"] = made.arguments.into();
        shown.push(ours(piece));
    }
}

/// Marks a piece that comes later than its server sent it.
fn ours(mut piece: Value) -> Value {
    // The mark tells delayed pieces from those of the present chunk. It is removed before a chunk is written.
    piece["is_ours"] = true.into();
    piece
}

fn first_choice(chunk: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    chunk.get_mut("choices")?.get_mut(0)?.as_object_mut()
}
