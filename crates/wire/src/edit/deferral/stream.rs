//! Calls in a stream. Which tool a call of `tool_call` means is known when its arguments are whole: until then its events
//! are held back, and then it comes at once as a call of the client's tool. Everything else passes as it comes.

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
    /// Bytes of events that are held back.
    held_bytes: usize,
}

enum HeldCalls {
    Chat(ChatHeldCalls),
    Responses(ResponsesHeldCalls),
    Messages(MessagesHeldCalls),
}

/// What becomes of an event.
enum UnwrappedEvent {
    /// It passes as it came.
    AsItIs,
    /// These take its place; none if it is held back.
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

    /// Takes more of the stream. Returns what passes of it, in whole events.
    pub fn take(&mut self, chunk: Bytes) -> Bytes {
        self.events.feed(chunk);
        let mut out = BytesMut::new();
        while let Some(raw) = self.events.next_event() {
            self.pass(&raw, &mut out);
        }
        out.freeze()
    }

    /// Returns the number of bytes that are held back, events without an end among them. Whoever reads a stream bounds it.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + self.events.begun_bytes()
    }

    /// Returns what is left when the stream is over: an event without its empty line.
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
            UnwrappedEvent::Replaced(events) => {
                self.held_bytes = if events.is_empty() { self.held_bytes + raw.len() } else { 0 };
                events.iter().for_each(|event| write_event(event, out));
            }
        }
    }
}

/// Writes an event: dialects whose events have a type name them by it.
fn write_event(event: &Value, out: &mut BytesMut) {
    if let Some(name) = event.get("type").and_then(Value::as_str) {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    let data = match event {
        Value::String(done) => done.clone(),
        event => event.to_string(),
    };
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}
