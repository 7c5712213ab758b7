//! Bounds on the memory of an answer.

use bytes::Bytes;
use futures_util::StreamExt;

use super::{ByteStream, too_large_error};
use crate::{ModelEvent, ProviderError};
use longhaul_wire::{AnswerTooLarge, MAX_ARGUMENT_BYTES};

/// The largest size of an answer's text, reasoning and arguments together, in bytes: 8 million tokens.
const MAX_SAID_BYTES: usize = 32 << 20;

/// The sizes of an answer's content so far.
#[derive(Debug, Default)]
pub(super) struct AnswerByteCounts {
    bytes: usize,
    /// The bytes of tool calls' arguments.
    argument_bytes: usize,
}

impl AnswerByteCounts {
    /// Adds the content of `events`.
    ///
    /// # Errors
    /// `third-party` once the content exceeds a bound.
    pub(super) fn count(&mut self, events: &[ModelEvent]) -> Result<(), ProviderError> {
        self.bytes += events.iter().map(said_bytes).sum::<usize>();
        self.argument_bytes += events.iter().map(argument_bytes).sum::<usize>();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(AnswerTooLarge::Arguments.into());
        }
        if self.bytes > MAX_SAID_BYTES {
            return Err(too_large_error("what the answer says", MAX_SAID_BYTES));
        }
        Ok(())
    }
}

fn said_bytes(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => text.len(),
        other => argument_bytes(other),
    }
}

fn argument_bytes(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::ToolInput { delta, .. } => delta.len(),
        _ => 0,
    }
}

/// Returns the bytes, with an error once an event is longer than `limit`. An event ends with the line if `by_line`,
/// else with an empty line.
pub(super) fn events(bytes: ByteStream, by_line: bool, limit: usize) -> ByteStream {
    let mut event = EventByteCount::default();
    Box::pin(bytes.map(move |chunk| {
        let chunk: Bytes = chunk?;
        // The reader buffers an event until its end, so an endless event must be stopped before the reader.
        if event.push_chunk(&chunk, by_line) > limit {
            return Err(too_large_error("one event of the answer", limit));
        }
        Ok(chunk)
    }))
}

/// The size of the arriving event.
#[derive(Debug, Default)]
struct EventByteCount {
    bytes: usize,
    /// `true` if the event's last line has content.
    in_line: bool,
}

impl EventByteCount {
    /// Returns the largest length so far, of the present event or of a later event in the chunk.
    fn push_chunk(&mut self, chunk: &[u8], by_line: bool) -> usize {
        let mut longest = 0;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let line = piece.strip_suffix(b"\n");
            self.bytes += piece.len();
            self.in_line |= !line.unwrap_or(piece).trim_ascii().is_empty();
            longest = longest.max(self.bytes);
            // Only an empty line ends a server-sent event, but every line end is an event's end in NDJSON.
            if line.is_some() && (by_line || !self.in_line) {
                self.bytes = 0;
            }
            // An unfinished line goes on in the next chunk. A finished line leaves nothing behind.
            self.in_line &= line.is_none();
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(chunks: &[&[u8]], by_line: bool) -> usize {
        let mut event = EventByteCount::default();
        chunks.iter().map(|chunk| event.push_chunk(chunk, by_line)).max().unwrap()
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        for (body, most) in [
            ("data: a\n\ndata: bc\n\n", 10),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 11),
            ("data: a\ndata: b\ndata: c", 23),
            ("\n\n\n\n", 1),
        ] {
            assert_eq!(longest(&[body.as_bytes()], false), most, "{body:?}");
            let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            assert_eq!(longest(&bytes, false), most, "{body:?}, byte by byte");
        }
        assert_eq!(longest(&[b"{\"a\":1}\n{}\n{", b"}\n"], true), 8, "a line is an event");
    }

    #[test]
    fn everything_said_counts() {
        let input = ModelEvent::ToolInput { index: 0, name: None, delta: "x".repeat(MAX_ARGUMENT_BYTES - 1) };
        let half = "x".repeat((MAX_SAID_BYTES - MAX_ARGUMENT_BYTES) / 2);
        let mut said = AnswerByteCounts::default();
        said.count(&[ModelEvent::Text(half.clone()), ModelEvent::Reasoning(half), input]).unwrap();
        let error = said.count(&[ModelEvent::Text("xyz".to_owned())]).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.retryable),
            ("what the answer says was given up after 32 MiB", false)
        );
    }

    #[test]
    fn the_arguments_of_all_calls_count_together() {
        let piece =
            |index| ModelEvent::ToolInput { index, name: None, delta: "x".repeat(MAX_ARGUMENT_BYTES / 2) };
        let mut said = AnswerByteCounts::default();
        said.count(&[piece(0), piece(1)]).unwrap();
        let more = ModelEvent::ToolInput { index: 2, name: None, delta: "x".to_owned() };
        assert_eq!(said.count(&[more]).unwrap_err(), ProviderError::from(AnswerTooLarge::Arguments));
    }
}
