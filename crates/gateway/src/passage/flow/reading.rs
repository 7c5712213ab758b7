//! Events as they are read on their way.

use bytes::Bytes;

use crate::wire::{Event, Events, Seen, Watcher, Wire};

/// What of a chunk ends with an event, as it came, and whether that is more than comments; what is behind waits for the
/// rest of its own.
pub(super) fn watched(watcher: &mut dyn Watcher, events: &mut Events, chunk: Bytes) -> (Bytes, bool) {
    let begun = events.begun_bytes() > 0;
    events.feed(chunk.clone());
    let (mut whole_bytes, mut joined, mut says) = (0, Vec::new(), false);
    while let Some(raw) = events.next_event() {
        watcher.read(&Event::parse(&raw));
        whole_bytes += raw.len();
        says |= !is_comment(&raw);
        if begun {
            joined.extend_from_slice(&raw);
        }
    }
    (if begun { joined.into() } else { chunk.slice(..whole_bytes) }, says)
}

/// What an event brings.
pub(super) fn seen_in(wire: &dyn Wire, raw: &[u8]) -> Seen {
    let mut watcher = wire.watcher();
    watcher.read(&Event::parse(raw));
    watcher.seen().clone()
}

/// The text that an event brings.
pub(super) fn said_by(wire: &dyn Wire, raw: &[u8]) -> String {
    seen_in(wire, raw).text
}

/// Whether an event says nothing to a reader.
pub(super) fn is_comment(raw: &[u8]) -> bool {
    Event::parse(raw).data.is_empty()
}

/// Whether the end of a body, which has no empty line, is an event all the same (or nothing).
pub(super) fn is_whole(rest: &[u8]) -> bool {
    let data = Event::parse(rest).data.trim();
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    !rest.is_empty() && (data == "[DONE]" || rest.trim_ascii().is_empty() || !data.is_empty() && is_json())
}
