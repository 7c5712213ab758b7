//! Calls in a stream. The tool behind a call of `tool_call` is known only when the call's arguments are complete.
//! Until then its events are held back; then the client's call is sent at once. All other events pass unchanged.

mod chat;
mod messages;
mod responses;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::ToolDeferral;
use crate::edit::{Dialect, SseEvent, SseReader};
use chat::ChatHeldCalls;
use messages::MessagesHeldCalls;
use responses::ResponsesHeldCalls;

/// A filter of an upstream's stream that gives the client's tools their calls.
pub struct CallUnwrapper {
    deferral: Arc<ToolDeferral>,
    events: SseReader,
    calls: HeldCalls,
    /// The number of bytes in held-back events.
    held_bytes: usize,
}

enum HeldCalls {
    Chat(ChatHeldCalls),
    Responses(ResponsesHeldCalls),
    Messages(MessagesHeldCalls),
}

/// The fate of an event.
enum UnwrappedEvent {
    /// The event passes unchanged.
    AsItIs,
    /// Other events replace the event; an empty list holds the event back.
    Replaced(Vec<Value>),
}

impl CallUnwrapper {
    /// Creates the filter of one stream.
    pub fn new(deferral: Arc<ToolDeferral>) -> Self {
        let calls = match deferral.dialect {
            Dialect::Chat => HeldCalls::Chat(ChatHeldCalls::default()),
            Dialect::Responses => HeldCalls::Responses(ResponsesHeldCalls::default()),
            Dialect::Messages => HeldCalls::Messages(MessagesHeldCalls::default()),
        };
        Self { deferral, events: SseReader::default(), calls, held_bytes: 0 }
    }

    /// Takes more of the stream. Returns the passing bytes, in whole events.
    pub fn take(&mut self, chunk: Bytes) -> Bytes {
        self.events.feed(chunk);
        let mut out = BytesMut::new();
        while let Some(raw) = self.events.next_event() {
            self.pass(&raw, &mut out);
        }
        out.freeze()
    }

    /// Returns the number of bytes that are held back, incomplete events among them. The reader of a stream
    /// bounds this number.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + self.events.begun_bytes()
    }

    /// Returns the rest once the stream is over: an event without its empty line.
    pub fn rest(&mut self) -> Bytes {
        let rest = self.events.take_rest();
        let mut out = BytesMut::new();
        self.pass(&rest, &mut out);
        out.freeze()
    }

    fn pass(&mut self, raw: &Bytes, out: &mut BytesMut) {
        let event = SseEvent::parse(raw);
        let passed = match &mut self.calls {
            HeldCalls::Chat(calls) => calls.pass(&self.deferral, &event.data),
            HeldCalls::Responses(calls) => calls.pass(&self.deferral, &event.data),
            HeldCalls::Messages(calls) => calls.pass(&self.deferral, &event.data),
        };
        match passed {
            UnwrappedEvent::AsItIs => out.extend_from_slice(raw),
            // An empty list means that the event is held back, so its bytes count until the call is complete.
            UnwrappedEvent::Replaced(events) => {
                self.held_bytes = if events.is_empty() { self.held_bytes + raw.len() } else { 0 };
                events.iter().for_each(|event| write_event(event, out));
            }
        }
    }
}

/// Writes an event. Dialects whose events have a type use the type as the event's name.
fn write_event(event: &Value, out: &mut BytesMut) {
    if let Some(name) = event.get("type").and_then(Value::as_str) {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    let data = match event {
        // Only `[DONE]` is a string here. It is no JSON, so it is written without quotes.
        Value::String(done) => done.clone(),
        event => event.to_string(),
    };
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}
