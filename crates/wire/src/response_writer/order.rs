//! Reordering of events, so that a tool call is complete before the text between its pieces.

use std::collections::BTreeMap;

use crate::ModelEvent;

use super::ResponseWriter;
use crate::edit::GatewayError;

/// A writer for dialects in which one part follows another. A call that has begun gets all its arguments first;
/// the model's text in between comes behind it.
pub(super) struct OrderedResponseWriter<E> {
    inner: E,
    calls: BTreeMap<usize, ArgumentsProgress>,
    held: Vec<ModelEvent>,
}

impl<E: ResponseWriter> OrderedResponseWriter<E> {
    pub(super) fn new(inner: E) -> Self {
        Self { inner, calls: BTreeMap::new(), held: Vec::new() }
    }

    fn is_calling(&self) -> bool {
        self.calls.values().any(|arguments| !arguments.is_whole())
    }

    fn release(&mut self, out: &mut Vec<u8>) {
        std::mem::take(&mut self.held).iter().for_each(|event| self.inner.event(event, out));
    }
}

impl<E: ResponseWriter> ResponseWriter for OrderedResponseWriter<E> {
    fn event(&mut self, event: &ModelEvent, out: &mut Vec<u8>) {
        match event {
            ModelEvent::Text(_) | ModelEvent::Reasoning(_) if self.is_calling() => {
                self.held.push(event.clone());
            }
            ModelEvent::ToolInput { index, delta, .. } => {
                self.calls.entry(*index).or_default().read(delta);
                self.inner.event(event, out);
                if !self.held.is_empty() && !self.is_calling() {
                    self.release(out);
                }
            }
            ModelEvent::Finished(_) => {
                // `Finished` contains the held text too, and the writer appends what was not streamed. So held
                // text is dropped.
                self.held.retain(|event| !matches!(event, ModelEvent::Text(_)));
                self.release(out);
                self.inner.event(event, out);
            }
            _ => self.inner.event(event, out),
        }
    }

    fn write_error(&mut self, fault: &GatewayError, out: &mut Vec<u8>) {
        // An error has no copy of the text, so the held text goes out first.
        self.release(out);
        self.inner.write_error(fault, out);
    }
}

/// The progress of a call's arguments, read as JSON.
#[derive(Debug, Default)]
struct ArgumentsProgress {
    begun: bool,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl ArgumentsProgress {
    fn read(&mut self, more: &str) {
        for byte in more.bytes() {
            match byte {
                // First, because an escaped quotation mark does not end a string.
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => (self.begun, self.depth) = (true, self.depth + 1),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Reports whether the arguments' object is complete. Arguments that are no object may always continue.
    fn is_whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}
