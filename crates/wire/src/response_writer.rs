//! Writers of a model's answer in the dialect of a client whose upstream speaks another one.

mod chat;
mod messages;
mod order;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use crate::ModelEvent;
use bytes::Bytes;
use longhaul_core::message::{ModelAnswer, Part, ToolCall, given_arguments};

use crate::edit::{Dialect, GatewayError};
use crate::responses::edit::NamespacedTool;
use order::OrderedResponseWriter;

/// The fields of an answer that are known before the model has written anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// Our id of the answer, without the dialect's prefix.
    pub id: String,
    /// The model, as the client named it.
    pub model: String,
    /// The time at which the answer began, in seconds since 1970.
    pub created: u64,
    /// Our count of the input, for a dialect that reports input tokens before the model answers.
    pub input_tokens: u64,
    /// `true` if the client asked for usage in the stream (Chat Completions only; the other dialects always
    /// report usage).
    pub include_usage: bool,
    /// Tools whose input is a text instead of JSON (Responses: `custom`).
    pub custom_tools: Vec<String>,
    /// Tools that the client has in a namespace (Responses), by the names that the model knows.
    pub namespaced_tools: BTreeMap<String, NamespacedTool>,
}

/// A writer of one answer as a stream.
pub trait ResponseWriter: Send {
    /// Writes one event of the model call. After [`ModelEvent::Finished`] the stream is complete.
    fn event(&mut self, event: &ModelEvent, out: &mut Vec<u8>);

    /// Ends the stream with an error, because the call has failed.
    fn write_error(&mut self, fault: &GatewayError, out: &mut Vec<u8>);
}

/// Creates a writer for a stream in `dialect`.
pub fn stream(dialect: Dialect, head: ResponseHead) -> Box<dyn ResponseWriter> {
    match dialect {
        Dialect::Chat => Box::new(chat::ChatResponseWriter::new(head)),
        Dialect::Messages => {
            // These two dialects write one part after another, and a model may mix its calls and its text.
            Box::new(OrderedResponseWriter::new(messages::MessagesResponseWriter::new(head)))
        }
        Dialect::Responses => {
            Box::new(OrderedResponseWriter::new(responses::ResponsesResponseWriter::new(head)))
        }
    }
}

/// Returns the answer as the body for a client that asked for no stream.
pub fn whole(dialect: Dialect, head: &ResponseHead, answer: &ModelAnswer) -> Bytes {
    match dialect {
        Dialect::Chat => chat::whole(head, answer),
        Dialect::Messages => messages::whole(head, answer),
        Dialect::Responses => responses::whole(head, answer),
    }
}

/// The sizes of the streamed content, which show the part that the answer's last event still adds.
#[derive(Debug, Default)]
struct StreamedByteCounts {
    text_bytes: usize,
    reasoning_bytes: usize,
}

impl StreamedByteCounts {
    /// Returns the text of the whole answer that no event brought.
    fn unsaid_text(&self, answer: &ModelAnswer) -> Option<String> {
        rest(answer.parts.iter().filter_map(Part::as_text), self.text_bytes)
    }

    /// Returns the reasoning of the whole answer that no event brought.
    fn unsaid_reasoning(&self, answer: &ModelAnswer) -> Option<String> {
        let thoughts = answer.parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
        // Paragraphs that were streamed with a gap between them are longer than their parts.
        if self.reasoning_bytes > 0 { None } else { rest(thoughts, 0) }
    }
}

/// A call of the model in a stream. Only one call is written at a time; pieces of other calls wait.
#[derive(Debug, Default)]
struct StreamedToolCall {
    /// The index of the call in the model's events.
    index: usize,
    name: String,
    waiting: String,
    sent_bytes: usize,
    begun: bool,
}

/// Adds a piece to a call, which may be new. Returns the call's position in the list.
fn grow(calls: &mut Vec<StreamedToolCall>, index: usize, name: Option<&str>, delta: &str) -> usize {
    let place = calls.iter().position(|call| call.index == index).unwrap_or(calls.len());
    if place == calls.len() {
        calls.push(StreamedToolCall { index, ..StreamedToolCall::default() });
    }
    if let Some(call) = calls.get_mut(place) {
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.waiting.push_str(delta);
    }
    place
}

/// Returns the parts of the answer's calls that no event brought: index, name and the rest of the arguments.
fn unsaid_calls(known: &[StreamedToolCall], answer: &ModelAnswer) -> Vec<(usize, String, String)> {
    calls(answer)
        .enumerate()
        .map(|(place, call)| {
            // A call without arguments may have had no event of its own.
            let said = known.iter().find(|said| said.index == place);
            let said_bytes = said.map_or(0, |said| said.sent_bytes + said.waiting.len());
            // `get`, because a server may have streamed more than its final copy has.
            let rest = call.arguments.get(said_bytes..).unwrap_or_default();
            (place, call.name.clone(), rest.to_owned())
        })
        .collect()
}

fn rest<'a>(texts: impl Iterator<Item = &'a str>, said_bytes: usize) -> Option<String> {
    let whole: String = texts.collect();
    // `get`, since a count that is no boundary of a character would panic as an index.
    whole.get(said_bytes..).filter(|rest| !rest.is_empty()).map(str::to_owned)
}

/// Returns the calls of an answer.
fn calls(answer: &ModelAnswer) -> impl Iterator<Item = &ToolCall> {
    answer.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Returns a call's id for the client: the provider's, else one of our own. The provider's id is not known in a
/// stream.
fn call_id(prefix: &str, head: &ResponseHead, index: usize, call: Option<&ToolCall>) -> String {
    let known = call.and_then(|call| call.provider_id.clone()).filter(|id| !id.is_empty());
    known.unwrap_or_else(|| format!("{prefix}_{}_{index}", head.id))
}

/// Returns arguments as a JSON object; a text that is none becomes the field `arguments`.
fn arguments_object(arguments: &str) -> serde_json::Value {
    match serde_json::from_str(given_arguments(arguments)) {
        Ok(serde_json::Value::Object(object)) => serde_json::Value::Object(object),
        _ => serde_json::json!({ "arguments": arguments }),
    }
}
