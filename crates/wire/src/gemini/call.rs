//! Function calls, whole or in pieces.

use longhaul_core::message::{RawJson, ToolCall};

use super::path::GeminiArgumentsBuilder;
use crate::raw_json::{self, RawObject};

/// Returns a function call that arrived whole.
pub(super) fn whole(part: RawJson, function: &RawObject, index: usize) -> ToolCall {
    // Gemini leaves `args` out of a call without arguments.
    let arguments = function.get("args").filter(|args| *args != "null").unwrap_or("{}").to_owned();
    tool_call(function, arguments, index, Some(part))
}

/// Returns a call with the provider's id if it gave one. Otherwise the call gets an id of ours, which is never
/// sent.
fn tool_call(function: &RawObject, arguments: String, index: usize, native: Option<RawJson>) -> ToolCall {
    let provider_id = function.text("id").filter(|id| !id.is_empty());
    let call_id = provider_id.clone().unwrap_or_else(|| format!("call_{index}"));
    ToolCall {
        call_id: call_id.into(),
        name: function.text("name").unwrap_or_default(),
        arguments,
        provider_id,
        native,
    }
}

/// Reports whether more of this call follows.
pub(super) fn goes_on(function: &RawObject) -> bool {
    function.get("willContinue") == Some("true")
}

/// A function call whose arguments arrive in pieces.
#[derive(Debug)]
pub(super) struct PendingFunctionCall {
    /// The first part of the call, with its signature.
    part: RawObject,
    function: RawObject,
    arguments: GeminiArgumentsBuilder,
    pub(super) index: usize,
}

impl PendingFunctionCall {
    pub(super) fn new(part: RawObject, function: RawObject, index: usize) -> Self {
        let mut pending = Self {
            part,
            arguments: GeminiArgumentsBuilder::default(),
            index,
            function: RawObject::default(),
        };
        pending.grow(&function);
        // The rebuilt call goes back to Google whole, so it must not announce more pieces.
        for (key, value) in
            function.fields().filter(|(key, _)| !matches!(*key, "willContinue" | "partialArgs"))
        {
            if let Some(value) = raw_json::value(value) {
                pending.function.set(key, value);
            }
        }
        pending
    }

    pub(super) fn grow(&mut self, function: &RawObject) {
        for entry in function.list("partialArgs").iter().filter_map(|entry| RawObject::parse(entry.get())) {
            self.arguments.add(&entry);
        }
    }

    /// Returns the call with its arguments so far. Only a complete call has bytes to send back.
    pub(super) fn call(mut self, complete: bool) -> ToolCall {
        let arguments = self.arguments.to_json();
        let index = self.index;
        if let Some(args) = raw_json::value(&arguments) {
            self.function.set("args", args);
        }
        if let Some(function) = raw_json::value(self.function.to_json().as_str()) {
            self.part.set("functionCall", function);
        }
        // Half a call has no valid arguments, and Google would refuse it.
        let native = complete.then(|| self.part.to_json());
        tool_call(&self.function, arguments, index, native)
    }
}
