//! Items of OpenAI's Responses.

use std::collections::BTreeMap;

use longhaul_core::deferral::CALL;
use serde_json::Value;

use super::UnwrappedEvent;
use crate::edit::deferral::ToolDeferral;
use crate::edit::deferral::answer::{responses_call, unwrapped};

/// Calls of `tool_call` that have not ended, by the index of their item; llama.cpp gives items no index.
#[derive(Default)]
pub(super) struct ResponsesHeldCalls(BTreeMap<Option<u64>, ResponsesHeldItem>);

#[derive(Default)]
struct ResponsesHeldItem {
    added: Value,
    deltas: Vec<Value>,
    done: Option<Value>,
}

impl ResponsesHeldCalls {
    pub(super) fn pass(&mut self, deferral: &ToolDeferral, data: &str) -> UnwrappedEvent {
        // A held call has to see its deltas, which do not have the tool's name.
        if self.0.is_empty() && !data.contains(CALL) {
            return UnwrappedEvent::AsItIs;
        }
        let Ok(mut event) = serde_json::from_str::<Value>(data) else { return UnwrappedEvent::AsItIs };
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        let index = event["output_index"].as_u64();
        let is_call = event["item"]["type"] == "function_call" && event["item"]["name"] == CALL;
        match kind.as_str() {
            "response.output_item.added" if is_call => {
                self.0.insert(index, ResponsesHeldItem { added: event, ..ResponsesHeldItem::default() });
                UnwrappedEvent::Replaced(Vec::new())
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                let Some(held) = self.0.get_mut(&index) else { return UnwrappedEvent::AsItIs };
                if kind.ends_with(".done") {
                    held.done = Some(event);
                } else {
                    held.deltas.push(event);
                }
                UnwrappedEvent::Replaced(Vec::new())
            }
            "response.output_item.done" if is_call => {
                if let Some(item) = called(deferral, &event["item"]) {
                    event["item"] = item;
                }
                let held = self.0.remove(&index).map(|held| held.events(&event["item"]));
                UnwrappedEvent::Replaced(held.into_iter().flatten().chain([event]).collect())
            }
            // The closing copy of the response repeats every call.
            _ if event["response"]["output"].is_array() => {
                match unwrapped(deferral, &event["response"].to_string()) {
                    Some(response) => {
                        event["response"] = serde_json::from_str(&response).unwrap_or_default();
                        UnwrappedEvent::Replaced(vec![event])
                    }
                    None => UnwrappedEvent::AsItIs,
                }
            }
            _ => UnwrappedEvent::AsItIs,
        }
    }
}

fn called(deferral: &ToolDeferral, item: &Value) -> Option<Value> {
    serde_json::from_str(&responses_call(deferral, &item.to_string())?).ok()
}

impl ResponsesHeldItem {
    /// Returns the events before the one that ends the item.
    fn events(self, item: &Value) -> Vec<Value> {
        let Self { mut added, deltas, done } = self;
        for name in ["name", "namespace"] {
            if let Some(value) = item.get(name) {
                added["item"][name] = value.clone();
            }
        }
        added["item"]["arguments"] = "".into();
        // The server has numbered its events without gaps. So the number of events must stay the same.
        let deltas = deltas.into_iter().enumerate().map(|(at, mut delta)| {
            // The first delta gets all arguments, and the others stay as empty events.
            delta["delta"] = if at == 0 { item["arguments"].clone() } else { "".into() };
            delta
        });
        let done = done.map(|mut done| {
            done["arguments"] = item["arguments"].clone();
            // Some servers name the tool here as well.
            if done.get("name").is_some() {
                done["name"] = item["name"].clone();
            }
            done
        });
        [added].into_iter().chain(deltas).chain(done).collect()
    }
}
