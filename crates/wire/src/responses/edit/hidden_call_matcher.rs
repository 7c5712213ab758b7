//! Detection of hidden calls in a stream.

use std::collections::BTreeSet;

use super::item::BorrowedResponsesItem;
use super::stream_parser::ResponsesStreamEvent;

/// A matcher for the events about calls of some tools.
#[derive(Debug, Default)]
pub(super) struct HiddenCallMatcher {
    tools: Vec<&'static str>,
    /// The server's indices of the calls.
    hidden: BTreeSet<u64>,
    /// `true` if the newest item is such a call: llama.cpp gives items no indices.
    is_newest: bool,
    has_hidden: bool,
}

impl HiddenCallMatcher {
    pub(super) fn hide(&mut self, tool: &'static str) {
        self.tools.push(tool);
    }

    /// Begins another stream.
    pub(super) fn next_stream(&mut self) {
        // Indices restart in each stream; the hidden tools stay.
        *self = Self { tools: std::mem::take(&mut self.tools), ..Self::default() };
    }

    pub(super) fn has_hidden(&self) -> bool {
        self.has_hidden
    }

    /// Reports whether the event has the item of a hidden call.
    fn is_hidden_call(&self, payload: &ResponsesStreamEvent<'_>) -> bool {
        let item = payload.item.and_then(|raw| BorrowedResponsesItem::read(raw.get(), 0).ok());
        item.is_some_and(|item| {
            let name = item.text("name").unwrap_or_default();
            item.kind == "function_call" && self.tools.contains(&name.as_str())
        })
    }

    /// Reports whether an event is about a hidden call.
    pub(super) fn hides(&mut self, payload: &ResponsesStreamEvent<'_>) -> bool {
        // Most answers hide no tool, so their events are not looked at.
        if self.tools.is_empty() {
            return false;
        }
        let kind = payload.r#type.as_ref();
        if kind == "response.output_item.added" {
            self.is_newest = self.is_hidden_call(payload);
            self.has_hidden |= self.is_newest;
            self.hidden.extend(payload.output_index.filter(|_| self.is_newest));
            return self.is_newest;
        }
        match payload.output_index {
            Some(index) => self.hidden.contains(&index),
            None if kind == "response.output_item.done" => self.is_hidden_call(payload),
            None => self.is_newest && kind.starts_with("response.function_call_arguments."),
        }
    }
}
