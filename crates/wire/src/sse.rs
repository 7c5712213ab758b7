//! Server-sent events: a reader for cutting a body at empty lines without a change of bytes, and the name and data of
//! an event. Format: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// The name and data of one server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's name, if any.
    pub name: Option<Cow<'a, str>>,
    /// The event's data: its `data:` lines joined by line feeds. Bytes that are no UTF-8 become U+FFFD. Empty for an
    /// event without data, such as a comment.
    pub data: Cow<'a, str>,
}

impl<'a> SseEvent<'a> {
    /// Parses one event, with or without the empty line that ends it.
    ///
    /// llama.cpp writes `error:` instead of `data:`. Such an event is named `error`.
    pub fn parse(raw: &'a [u8]) -> Self {
        let mut event = Self::default();
        let mut has_data = false;
        // A body may begin with a byte order mark.
        let raw = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
        for line in lines(raw) {
            let (field, value) = match line.iter().position(|byte| *byte == b':') {
                // The format allows one blank behind the colon, which is not part of the value.
                Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
                None => (line, &line[line.len()..]),
            };
            match field {
                b"event" => event.name = Some(String::from_utf8_lossy(value)),
                b"data" | b"error" if has_data => {
                    let data = event.data.to_mut();
                    data.push('\n');
                    data.push_str(&String::from_utf8_lossy(value));
                }
                b"data" | b"error" => {
                    has_data = true;
                    event.data = String::from_utf8_lossy(value);
                    if field == b"error" {
                        event.name = Some(Cow::Borrowed("error"));
                    }
                }
                _ => {}
            }
        }
        event
    }

    /// Reports whether the event's name says that it is an error.
    pub fn is_error(&self) -> bool {
        self.name.as_deref() == Some("error")
    }

    /// Returns the event without a borrow of the bytes it was parsed from.
    pub fn into_owned(self) -> SseEvent<'static> {
        SseEvent {
            name: self.name.map(|name| Cow::Owned(name.into_owned())),
            data: Cow::Owned(self.data.into_owned()),
        }
    }
}

/// Splits an event into its lines, which end with LF, CR or CRLF.
fn lines(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    // CRLF leaves an empty piece, which the filter removes like the event's closing line.
    raw.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty())
}

/// Reports whether a body that begins with these bytes is a stream of events; `None` if more bytes are needed.
/// Servers do not always state the content type.
pub fn is_event_stream(body: &[u8]) -> Option<bool> {
    const FIELDS: [&[u8]; 6] = [b":", b"data:", b"event:", b"id:", b"retry:", b"error:"];
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    if FIELDS.iter().any(|field| body.starts_with(field)) {
        return Some(true);
    }
    let may_become_one =
        FIELDS.iter().any(|field| field.starts_with(body)) || b"\xEF\xBB\xBF".starts_with(body);
    if may_become_one { None } else { Some(false) }
}

/// A reader that cuts a body into events, however the network cut it.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The bytes of an incomplete event.
    rest: BytesMut,
    /// The number of bytes of `rest` in which no end begins.
    searched: usize,
    /// The newest chunk, from which no event was cut yet.
    chunk: Bytes,
}

impl SseReader {
    /// Feeds more bytes of the body.
    pub fn feed(&mut self, chunk: Bytes) {
        // Most chunks hold whole events. Those are cut from the chunk without a copy.
        if self.rest.is_empty() && self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let before = std::mem::take(&mut self.chunk);
            self.rest.extend_from_slice(&before);
            self.rest.extend_from_slice(&chunk);
        }
    }

    /// Returns the next complete event, its empty line included.
    pub fn next_event(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            if let Some(end) = end_of_event(&self.chunk, 0) {
                return Some(self.chunk.split_to(end));
            }
            let chunk = std::mem::take(&mut self.chunk);
            self.rest.extend_from_slice(&chunk);
            // The end of an event may begin in the last three bytes: `\r\n\r` of `\r\n\r\n`.
            self.searched = self.rest.len().saturating_sub(3);
            return None;
        }
        match end_of_event(&self.rest, self.searched) {
            Some(end) => {
                self.searched = 0;
                Some(self.rest.split_to(end).freeze())
            }
            None => {
                // Bytes that were searched are not searched again, or a large event in small pieces would take
                // quadratic time.
                self.searched = self.rest.len().saturating_sub(3);
                None
            }
        }
    }

    /// Reports whether no event has begun.
    pub fn is_between(&self) -> bool {
        self.rest.is_empty() && self.chunk.is_empty()
    }

    /// Returns the number of bytes of the event that has begun.
    pub fn begun_bytes(&self) -> usize {
        self.rest.len() + self.chunk.len()
    }

    /// Reports whether the event that has begun is more than blank lines or a comment.
    pub fn has_begun(&self) -> bool {
        let begun = if self.rest.is_empty() { &self.chunk[..] } else { &self.rest[..] };
        begun.trim_ascii_start().first().is_some_and(|first| *first != b':')
    }

    /// Returns the rest of a finished body: an event without an empty line, or blank lines.
    pub fn take_rest(&mut self) -> Bytes {
        self.searched = 0;
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(&std::mem::take(&mut self.chunk));
        rest.freeze()
    }
}

/// Returns the end of the first event at or after `from`, its empty line included.
fn end_of_event(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let line_end = at + found;
        let after = skip_end_of_line(bytes, line_end);
        match bytes.get(after) {
            // A `\r` at the very end may be half of an end of line.
            None => return None,
            Some(b'\n' | b'\r') => {
                // The line feed of this `\r` may come with the next chunk and would then begin the next event.
                if bytes[after] == b'\r' && after + 1 == bytes.len() {
                    return None;
                }
                return Some(skip_end_of_line(bytes, after));
            }
            Some(_) => at = after,
        }
    }
    None
}

fn skip_end_of_line(bytes: &[u8], at: usize) -> usize {
    if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut events = SseReader::default();
        let mut all = Vec::new();
        for piece in pieces {
            events.feed(Bytes::copy_from_slice(piece));
            while let Some(event) = events.next_event() {
                all.push(event.to_vec());
            }
        }
        let rest = events.take_rest();
        all.extend((!rest.is_empty()).then(|| rest.to_vec()));
        all
    }

    #[test]
    fn every_cut_gives_the_same_events() {
        for end in ["\n", "\r\n"] {
            let body =
                "event: a\ndata: {\"x\":\"é\"}\n\n: hello\n\ndata: 1\n\ndata: [DONE]\n\n".replace('\n', end);
            let expected = cut(&[body.as_bytes()]);
            assert_eq!(expected.len(), 4);
            assert_eq!(expected.concat(), body.as_bytes(), "no byte is lost");
            for place in 0..=body.len() {
                let (a, b) = body.as_bytes().split_at(place);
                let found = cut(&[a, b]);
                assert_eq!(found.concat(), body.as_bytes(), "cut at {place}");
                let parsed = |events: &[Vec<u8>]| -> Vec<(Option<String>, String)> {
                    let event = |raw: &Vec<u8>| {
                        let event = SseEvent::parse(raw);
                        (event.name.map(Cow::into_owned), event.data.into_owned())
                    };
                    events.iter().map(event).collect()
                };
                assert_eq!(parsed(&found), parsed(&expected), "cut at {place} with {end:?}");
            }
            let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            assert_eq!(cut(&bytes).concat(), body.as_bytes());
        }
    }

    #[test]
    fn a_stream_is_known_by_how_it_is_event_stream() {
        for stream in
            ["data: {}", "event: a", ": ping", "\r\n\ndata:1", "\u{feff}data: 1", "error: {}", "id: 7"]
        {
            assert_eq!(is_event_stream(stream.as_bytes()), Some(true), "{stream}");
            let known: Vec<_> =
                (0..stream.len()).filter_map(|end| is_event_stream(&stream.as_bytes()[..end])).collect();
            assert!(known.iter().all(|known| *known), "{stream}: never denied");
        }
        for other in ["{\"data\": 1}", "<html>", "database gone", "data", "evil: data: 1"] {
            assert_ne!(is_event_stream(other.as_bytes()), Some(true), "{other}");
        }
        assert_eq!(is_event_stream(b"{"), Some(false));
        assert_eq!((is_event_stream(b""), is_event_stream(b"dat")), (None, None));
    }

    #[test]
    fn an_event_is_its_name_and_data() {
        let event = SseEvent::parse(b"event: message_start\ndata: {\"a\":1}\n\n");
        assert_eq!(event, SseEvent { name: Some("message_start".into()), data: "{\"a\":1}".into() });
        assert_eq!(SseEvent::parse(b": comment\n\n"), SseEvent::default());
        assert_eq!(SseEvent::parse(b"data:[DONE]\n").data, "[DONE]");
        let event = SseEvent::parse(b"error: {\"code\":500}\n\n");
        assert_eq!(event, SseEvent { name: Some("error".into()), data: "{\"code\":500}".into() });
        assert_eq!(SseEvent::parse("\u{feff}data: 1\n\n".as_bytes()).data, "1", "a byte order mark");
        assert_eq!(SseEvent::parse(b"data: a\r\ndata:b\r\ndata\r\n\r\n").data, "a\nb\n", "lines are joined");
        assert_eq!(SseEvent::parse(b"data: caf\xe9\n\n").data, "caf\u{fffd}");
    }
}
