//! Events as they are read on their way.

use bytes::Bytes;

use longhaul_wire::surrogates::{SurrogateJoiner, is_ping};

use longhaul_wire::edit::{PartialResponse, SseEvent, SseReader, StreamParser, StreamPosition, WireCodec};

/// Reads a chunk of a stream that passes as it is.
pub(super) fn parse_chunk(
    watcher: &mut dyn StreamParser,
    events: &mut SseReader,
    chunk: Bytes,
) -> ParsedChunk {
    let begun = events.begun_bytes() > 0;
    events.feed(chunk.clone());
    let (mut whole_bytes, mut joined) = (0, Vec::new());
    let mut watched = ParsedChunk::default();
    while let Some(raw) = events.next_event() {
        watcher.read(&SseEvent::parse(&raw));
        whole_bytes += raw.len();
        watched.says |= says_more(&raw, watcher.seen());
        watched.has_unread_error |= is_unread_error(&raw);
        if begun {
            joined.extend_from_slice(&raw);
        }
    }
    watched.out = if begun { joined.into() } else { chunk.slice(..whole_bytes) };
    watched
}

/// What was read of a chunk.
#[derive(Default)]
pub(super) struct ParsedChunk {
    /// What of it ends with an event, as it came; what is behind waits for the rest of its own.
    pub(super) out: Bytes,
    /// Whether that is more than comments and pings.
    pub(super) says: bool,
    pub(super) has_unread_error: bool,
}

/// Returns whether an event is an error that no client reads: llama.cpp has a field of its own for it.
pub(super) fn is_unread_error(raw: &[u8]) -> bool {
    raw.starts_with(b"error:")
}

/// Events of which every character is whole: bytes that are no text become U+FFFD, and an event that ends inside a
/// character waits for the next.
#[derive(Default)]
pub(super) struct CharacterFilter(SurrogateJoiner);

impl CharacterFilter {
    pub(super) fn take(&mut self, raw: Bytes) -> Vec<Bytes> {
        // What only keeps the line alive ends no waiting.
        let passes = |text: &str| self.0.lets_pass(text) || is_comment(&raw);
        if std::str::from_utf8(&raw).is_ok_and(passes) {
            return vec![raw];
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        self.0.take(text).into_iter().map(Bytes::from).collect()
    }

    pub(super) fn rest(&mut self) -> Option<Bytes> {
        self.0.rest().map(Bytes::from)
    }
}

/// What an event brings.
pub(super) fn seen_in(wire: &dyn WireCodec, raw: &[u8]) -> PartialResponse {
    let mut watcher = wire.stream_parser();
    watcher.read(&SseEvent::parse(raw));
    watcher.seen().clone()
}

/// The text that an event brings.
pub(super) fn said_by(wire: &dyn WireCodec, raw: &[u8]) -> String {
    seen_in(wire, raw).text
}

/// Returns whether an event says nothing to a reader.
pub(super) fn is_comment(raw: &[u8]) -> bool {
    SseEvent::parse(raw).data.is_empty()
}

/// Returns whether an event is more than a sign of life. Signs are enough where the model may be at something that
/// it does not show.
pub(super) fn says_more(raw: &[u8], seen: &PartialResponse) -> bool {
    let works_unseen = matches!(seen.position, StreamPosition::Reasoning | StreamPosition::Call);
    let data = SseEvent::parse(raw).data;
    works_unseen || !data.is_empty() && !is_ping(&data)
}

/// Returns whether the end of a body, which has no empty line, is an event all the same (or nothing).
pub(super) fn is_whole(rest: &[u8]) -> bool {
    let event = SseEvent::parse(rest);
    let data = event.data.trim();
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    !rest.is_empty() && (data == "[DONE]" || rest.trim_ascii().is_empty() || !data.is_empty() && is_json())
}
