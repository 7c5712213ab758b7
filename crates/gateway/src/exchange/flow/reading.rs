//! The parsing of events on their way to the client.

use bytes::Bytes;

use longhaul_wire::surrogates::{SurrogateJoiner, is_ping};

use longhaul_wire::edit::{
    Dialect, PartialResponse, SseEvent, SseReader, StreamParser, StreamPosition, WireCodec, is_error_event_of,
};

/// Reads a chunk of a stream that passes as it is.
pub(super) fn parse_chunk(
    dialect: Dialect,
    watcher: &mut dyn StreamParser,
    events: &mut SseReader,
    chunk: Bytes,
) -> ParsedChunk {
    // A chunk at an event boundary is passed on without a copy.
    let begun = events.begun_bytes() > 0;
    events.feed(chunk.clone());
    let (mut whole_bytes, mut joined) = (0, Vec::new());
    let mut watched = ParsedChunk::default();
    while let Some(raw) = events.next_event() {
        let had_error = watcher.seen().error.is_some();
        watcher.read(&SseEvent::parse(&raw));
        let is_error = !had_error && watcher.seen().error.is_some();
        whole_bytes += raw.len();
        watched.says |= says_more(&raw, watcher.seen());
        watched.has_unread_error |= is_unread_error(dialect, &raw, is_error);
        if begun {
            joined.extend_from_slice(&raw);
        }
    }
    watched.out = if begun { joined.into() } else { chunk.slice(..whole_bytes) };
    watched
}

/// The parse of a chunk.
#[derive(Default)]
pub(super) struct ParsedChunk {
    /// The bytes of complete events. Bytes behind the last event wait for the rest of their own.
    pub(super) out: Bytes,
    /// Set if the chunk has more than comments and pings.
    pub(super) says: bool,
    pub(super) has_unread_error: bool,
}

/// Returns whether an event is an error unknown to clients, which would see only the end of the stream. `is_error` tells
/// whether the event was read as an error.
pub(super) fn is_unread_error(dialect: Dialect, raw: &[u8], is_error: bool) -> bool {
    // llama.cpp uses a field name of its own, which parsers of events ignore.
    raw.starts_with(b"error:") || is_error && !is_error_event_of(dialect, &SseEvent::parse(raw))
}

/// A filter for events with complete characters. Invalid bytes become U+FFFD, and an event that ends inside a character
/// waits for the next one.
#[derive(Default)]
pub(super) struct CharacterFilter(SurrogateJoiner);

impl CharacterFilter {
    pub(super) fn take(&mut self, raw: Bytes) -> Vec<Bytes> {
        // A keep-alive comment must not flush the half character that waits.
        if std::str::from_utf8(&raw).is_ok_and(|text| self.0.lets_pass(text) || is_comment(&raw)) {
            return vec![raw];
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        self.0.take(text).into_iter().map(Bytes::from).collect()
    }

    pub(super) fn rest(&mut self) -> Option<Bytes> {
        self.0.rest().map(Bytes::from)
    }
}

/// Returns the content of an event.
pub(super) fn seen_in(wire: &dyn WireCodec, raw: &[u8]) -> PartialResponse {
    let mut watcher = wire.stream_parser();
    watcher.read(&SseEvent::parse(raw));
    watcher.seen().clone()
}

/// Returns the text of an event.
pub(super) fn said_by(wire: &dyn WireCodec, raw: &[u8]) -> String {
    seen_in(wire, raw).text
}

/// Returns whether an event has no data for a reader.
pub(super) fn is_comment(raw: &[u8]) -> bool {
    SseEvent::parse(raw).data.is_empty()
}

/// Returns whether an event is more than a sign of life. During reasoning or a call a sign of life is enough, because
/// the model may be at work on hidden content.
pub(super) fn says_more(raw: &[u8], seen: &PartialResponse) -> bool {
    let works_unseen = matches!(seen.position, StreamPosition::Reasoning | StreamPosition::Call);
    let data = SseEvent::parse(raw).data;
    works_unseen || !data.is_empty() && !is_ping(&data)
}

/// Returns whether the end of a body without an empty line is a complete event, or blank.
pub(super) fn is_whole(rest: &[u8]) -> bool {
    let event = SseEvent::parse(rest);
    let data = event.data.trim();
    !rest.is_empty() && (data == "[DONE]" || rest.trim_ascii().is_empty() || is_json(data))
}

fn is_json(data: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
}
