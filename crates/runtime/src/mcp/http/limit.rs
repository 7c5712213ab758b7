//! A limit on the single events of an endless stream.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

/// Passes bytes on until one event has more than `most` bytes, which ends the stream with an error.
pub(super) fn events(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + Unpin + 'static,
    most: usize,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let mut event = EventSizeCounter::default();
    bytes.map(move |chunk| {
        // The error's own text repeats the address.
        let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
        if event.longest_after(&chunk) > most {
            return Err(io::Error::other(format!("an event of more than {} MiB", most >> 20)));
        }
        Ok(chunk)
    })
}

/// The size of the arriving event. Events end with an empty line.
#[derive(Default)]
struct EventSizeCounter {
    bytes: usize,
    line_is_empty: bool,
}

impl EventSizeCounter {
    /// Counts a chunk and returns the maximum size that the event reached.
    fn longest_after(&mut self, chunk: &[u8]) -> usize {
        let mut longest = 0;
        for byte in chunk {
            self.bytes += 1;
            longest = longest.max(self.bytes);
            match byte {
                b'\n' if self.line_is_empty => self.bytes = 0,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::EventSizeCounter;

    #[test]
    fn events_are_measured_one_by_one() {
        let mut event = EventSizeCounter::default();
        assert_eq!(event.longest_after(b"data: 12345\n\n"), 13);
        assert_eq!(event.longest_after(b"data: 1\r\n\r\ndata"), 11);
        assert_eq!(event.bytes, 4);
        assert_eq!(event.longest_after(b": 1"), 7);
    }
}
