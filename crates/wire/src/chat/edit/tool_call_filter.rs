//! Removal of hidden calls from a stream.

use serde_json::{Map, Value, json};

/// A filter for chunks: removes the calls of some tools, and renumbers the others.
#[derive(Debug, Default)]
pub(super) struct ChatToolCallFilter {
    tools: Vec<&'static str>,
    /// The calls of the stream.
    calls: Vec<FilteredToolCall>,
    newest_id: String,
}

/// A call of the stream.
#[derive(Debug)]
struct FilteredToolCall {
    /// The server's index of the call.
    index: u64,
    name: String,
    /// The decision to show the call, once the call's name is complete: some servers send names in pieces.
    is_shown: Option<bool>,
    /// The pieces from before the decision.
    held: Vec<Value>,
}

impl ChatToolCallFilter {
    pub(super) fn hide(&mut self, tool: &'static str) {
        self.tools.push(tool);
    }

    /// Begins another stream.
    pub(super) fn next_stream(&mut self) {
        *self = Self { tools: std::mem::take(&mut self.tools), ..Self::default() };
    }

    pub(super) fn has_hidden(&self) -> bool {
        self.calls.iter().any(|call| call.is_shown == Some(false))
    }

    fn has_held(&self) -> bool {
        self.calls.iter().any(|call| !call.held.is_empty())
    }

    /// Returns the chunk without hidden calls; `None` if the chunk stays unchanged.
    pub(super) fn pass(&mut self, data: &str) -> Option<Map<String, Value>> {
        let had_held = self.has_held();
        // Most chunks hold no call, and a search in the text is cheaper than a parse.
        if self.tools.is_empty() || !had_held && !data.contains("\"tool_calls\"") {
            return None;
        }
        let Ok(Value::Object(mut chunk)) = serde_json::from_str(data) else { return None };
        let choice = chunk.get_mut("choices")?.get_mut(0)?.as_object_mut()?;
        let is_end = choice.get("finish_reason").is_some_and(Value::is_string);
        let delta = choice.entry("delta").or_insert_with(|| json!({})).as_object_mut()?;
        let pieces = delta.get_mut("tool_calls").and_then(Value::as_array_mut).map(std::mem::take);
        let mut shown = Vec::new();
        for piece in pieces.into_iter().flatten() {
            self.piece(piece, &mut shown);
        }
        if is_end {
            self.release(&mut shown);
        }
        if shown.is_empty() {
            delta.remove("tool_calls");
        } else {
            delta.insert("tool_calls".to_owned(), shown.into());
        }
        // As long as nothing is hidden or held, the chunk keeps its server's bytes.
        (had_held || self.has_held() || self.has_hidden()).then_some(chunk)
    }

    fn piece(&mut self, piece: Value, shown: &mut Vec<Value>) {
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
                // A new call begins, so the name of the one before is complete.
                self.release(shown);
                self.calls.push(FilteredToolCall {
                    index,
                    name: String::new(),
                    is_shown: None,
                    held: Vec::new(),
                });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.is_shown.is_none() {
            call.name.push_str(piece["function"]["name"].as_str().unwrap_or_default());
            let has_arguments = piece["function"]["arguments"].as_str().is_some_and(|said| !said.is_empty());
            let is_hidden = self.tools.contains(&call.name.as_str());
            // A name such as `rec` may still become `recall`: the call waits until its name can no longer be a hidden
            // one.
            let begins_one = self.tools.iter().any(|tool| tool.starts_with(call.name.as_str()));
            let may_go_on = !has_arguments && !is_hidden && begins_one;
            call.held.push(piece);
            if may_go_on {
                return;
            }
            call.is_shown = Some(!is_hidden);
            return self.let_out(at, shown);
        }
        call.held.push(piece);
        self.let_out(at, shown);
    }

    /// Shows the undecided calls, because their names are complete now.
    fn release(&mut self, shown: &mut Vec<Value>) {
        for at in 0..self.calls.len() {
            let call = &mut self.calls[at];
            if call.is_shown.is_none() {
                call.is_shown = Some(true);
                self.let_out(at, shown);
            }
        }
    }

    fn let_out(&mut self, at: usize, shown: &mut Vec<Value>) {
        let number = self.calls[..at].iter().filter(|call| call.is_shown == Some(true)).count();
        let call = &mut self.calls[at];
        for mut piece in std::mem::take(&mut call.held) {
            // A server that gives no indices gets none added.
            if piece.get("index").is_some_and(Value::is_u64) {
                piece["index"] = number.into();
            }
            shown.extend((call.is_shown == Some(true)).then_some(piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_keep_their_order_and_are_numbered_without_gaps() {
        let mut sieve = ChatToolCallFilter::default();
        sieve.hide("recall");
        let mut shown = Vec::new();
        for piece in [
            json!({ "index": 0, "id": "a", "function": { "name": "read", "arguments": "" } }),
            json!({ "index": 1, "id": "b", "function": { "name": "recall", "arguments": "" } }),
            json!({ "index": 1, "function": { "arguments": "{}" } }),
            json!({ "index": 2, "id": "c", "function": { "name": "write", "arguments": "" } }),
            json!({ "index": 2, "function": { "arguments": "x" } }),
            json!({ "index": 0, "function": { "arguments": "y" } }),
        ] {
            let chunk = json!({ "choices": [{ "delta": { "tool_calls": [piece] } }] });
            let passed = sieve.pass(&chunk.to_string()).map_or(chunk, Value::Object);
            let pieces = passed["choices"][0]["delta"]["tool_calls"].as_array().cloned();
            shown.extend(pieces.unwrap_or_default().into_iter().map(|piece| piece["index"].clone()));
        }
        assert_eq!(shown, [0, 1, 1, 0]);
        assert!(sieve.has_hidden());
        sieve.next_stream();
        assert!(!sieve.has_hidden());
    }

    #[test]
    fn a_call_without_a_number_is_told_by_its_id() {
        let mut sieve = ChatToolCallFilter::default();
        sieve.hide("recall");
        let mut pass = |calls: Value| {
            sieve.pass(&json!({ "choices": [{ "delta": { "tool_calls": calls } }] }).to_string())
        };
        let call =
            |id: &str, name: &str| json!({ "id": id, "function": { "name": name, "arguments": "{}" } });
        assert!(pass(json!([call("a", "read")])).is_none(), "nothing is hidden yet");
        let chunk = pass(json!([call("b", "recall"), call("c", "write")])).unwrap();
        assert_eq!(chunk["choices"][0]["delta"]["tool_calls"], json!([call("c", "write")]));
    }

    #[test]
    fn a_name_that_comes_in_pieces_is_known() {
        let piece = |index: u64, name: &str, arguments: &str| json!({ "index": index, "function": { "name": name, "arguments": arguments } });
        let chunk = |piece: Value| json!({ "choices": [{ "delta": { "tool_calls": [piece] } }] }).to_string();
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }).to_string();
        let told = |pieces: &[Value]| {
            let mut sieve = ChatToolCallFilter::default();
            sieve.hide("recall");
            let mut said = String::new();
            for data in pieces.iter().cloned().map(chunk).chain([end.clone()]) {
                let passed = sieve.pass(&data).unwrap_or_else(|| serde_json::from_str(&data).unwrap());
                for piece in passed["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
                    let function = &piece["function"];
                    let text = |name: &str| function[name].as_str().unwrap_or_default().to_owned();
                    said.push_str(&format!("{}{}{} ", piece["index"], text("name"), text("arguments")));
                }
            }
            (said, sieve.has_hidden())
        };
        assert_eq!(
            told(&[piece(0, "rec", ""), piece(0, "all", ""), piece(0, "", "{}")]),
            (String::new(), true)
        );
        let (shown, has_hidden) = told(&[piece(0, "rec", ""), piece(0, "ord", ""), piece(0, "", "{}")]);
        assert_eq!((shown.as_str(), has_hidden), ("0rec 0ord 0{} ", false));
        let (shown, has_hidden) = told(&[piece(0, "rec", ""), piece(1, "recall", "{}"), piece(2, "re", "")]);
        assert_eq!((shown.as_str(), has_hidden), ("0rec 1re ", true), "names that are complete so");
    }
}
