//! Blocks of Anthropic's Messages.

use std::collections::BTreeMap;

use longhaul_core::deferral::CALL;
use serde_json::{Value, json};

use super::UnwrappedEvent;
use crate::edit::deferral::ToolDeferral;

/// Calls of `tool_call` that have not ended, by the index of their block.
#[derive(Default)]
pub(super) struct MessagesHeldCalls(BTreeMap<u64, MessagesHeldBlock>);

struct MessagesHeldBlock {
    start: Value,
    arguments: String,
}

impl MessagesHeldCalls {
    pub(super) fn pass(&mut self, deferral: &ToolDeferral, data: &str) -> UnwrappedEvent {
        // A held call has to see its deltas, which do not have the tool's name.
        if self.0.is_empty() && !data.contains(CALL) {
            return UnwrappedEvent::AsItIs;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else { return UnwrappedEvent::AsItIs };
        let index = event["index"].as_u64();
        match (event["type"].as_str(), index) {
            (Some("content_block_start"), Some(index)) => {
                let block = &event["content_block"];
                if block["type"] != "tool_use" || block["name"] != CALL {
                    return UnwrappedEvent::AsItIs;
                }
                // Some servers give all arguments at once.
                let given = block["input"].as_object().filter(|input| !input.is_empty());
                let arguments =
                    given.map(|input| Value::Object(input.clone()).to_string()).unwrap_or_default();
                self.0.insert(index, MessagesHeldBlock { start: event, arguments });
                UnwrappedEvent::Replaced(Vec::new())
            }
            (Some("content_block_delta"), Some(index)) => match self.0.get_mut(&index) {
                Some(held) => {
                    held.arguments.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
                    UnwrappedEvent::Replaced(Vec::new())
                }
                None => UnwrappedEvent::AsItIs,
            },
            (Some("content_block_stop"), Some(index)) => match self.0.remove(&index) {
                Some(held) => UnwrappedEvent::Replaced(held.events(deferral, index, event).into()),
                None => UnwrappedEvent::AsItIs,
            },
            _ => UnwrappedEvent::AsItIs,
        }
    }
}

impl MessagesHeldBlock {
    fn events(self, deferral: &ToolDeferral, index: u64, stop: Value) -> [Value; 3] {
        let Self { mut start, mut arguments } = self;
        // A call that names no tool of the client stays `tool_call`, and the gateway answers it.
        if let Ok(made) = deferral.resolve(&arguments) {
            start["content_block"]["name"] = made.name.into();
            arguments = made.arguments;
        }
        // Anthropic starts every call with an empty `input`, and clients read the arguments from the deltas.
        start["content_block"]["input"] = json!({});
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments });
        [start, json!({ "type": "content_block_delta", "index": index, "delta": delta }), stop]
    }
}
