//! The output of a command: bounded in memory, and decoded into text.

use std::collections::VecDeque;

/// A buffer for the first and the last part of a stream, each half of the limit.
#[derive(Debug)]
pub(super) struct OutputCapture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    lost_bytes: u64,
}

/// The captured output of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CapturedOutput {
    /// The text; invalid UTF-8 became U+FFFD.
    pub(super) text: String,
    /// The number of bytes that were no UTF-8.
    pub(super) invalid_bytes: usize,
    /// The number of bytes that were dropped from the middle.
    pub(super) lost_bytes: u64,
}

impl OutputCapture {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit_bytes / 2, lost_bytes: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Half of the room is for the beginning, and half for the newest output.
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        self.lose(self.tail.len().saturating_sub(self.half));
    }

    fn lose(&mut self, count: usize) {
        self.tail.drain(..count);
        self.lost_bytes += count as u64;
    }

    pub(super) fn finish(mut self) -> CapturedOutput {
        if self.lost_bytes > 0 {
            self.cut_between_characters();
            let note = format!("\n[{} bytes of output are lost here]\n", self.lost_bytes);
            self.head.extend_from_slice(note.as_bytes());
        }
        self.head.extend(self.tail);
        let invalid_bytes = self.head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        let text = match String::from_utf8(self.head) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        CapturedOutput { text, invalid_bytes, lost_bytes: self.lost_bytes }
    }

    fn cut_between_characters(&mut self) {
        // Half a character at the cut would count as invalid, although the command wrote valid text.
        let cut = unfinished(&self.head);
        self.head.truncate(self.head.len() - cut);
        self.lost_bytes += cut as u64;
        // A cut character leaves at most three continuation bytes behind.
        let rest = self.tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        self.lose(rest);
    }
}

/// Decodes a byte stream that may be split anywhere.
#[derive(Debug, Default)]
pub(super) struct LossyUtf8Decoder {
    pending: Vec<u8>,
}

impl LossyUtf8Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let keep = self.pending.split_off(self.pending.len() - unfinished(&self.pending));
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = keep;
        text
    }
}

/// Returns the number of bytes at the end that begin an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    // A UTF-8 character has at most four bytes, so an incomplete one has at most three.
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        if !is_continuation(byte) {
            return if back < length(byte) { back } else { 0 };
        }
    }
    0
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn length(first: u8) -> usize {
    match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_all_below_the_limit() {
        let mut capture = OutputCapture::new(8);
        capture.push(b"abc");
        capture.push(b"defgh");
        let done = capture.finish();
        assert_eq!((done.text.as_str(), done.lost_bytes), ("abcdefgh", 0));
    }

    #[test]
    fn loses_the_middle_and_counts_it() {
        let mut capture = OutputCapture::new(8);
        for chunk in ["0123", "4567", "89ab", "cdef"] {
            capture.push(chunk.as_bytes());
        }
        let done = capture.finish();
        assert_eq!(done.text, "0123\n[8 bytes of output are lost here]\ncdef");
        assert_eq!(done.lost_bytes, 8);
    }

    #[test]
    fn memory_stays_within_a_few_times_the_limit() {
        let limit = 256 * 1024;
        let mut capture = OutputCapture::new(limit);
        let chunk = vec![b'x'; 64 * 1024];
        for _ in 0..100_000_000 / chunk.len() {
            capture.push(&chunk);
            assert!(capture.head.capacity() + capture.tail.capacity() < 4 * limit);
        }
    }

    #[test]
    fn never_loses_half_a_character() {
        let text = "äöü".repeat(40);
        for limit in 8..40 {
            let mut capture = OutputCapture::new(limit);
            text.as_bytes().chunks(7).for_each(|chunk| capture.push(chunk));
            let done = capture.finish();
            assert_eq!(done.invalid_bytes, 0, "limit {limit}");
            let shown = done.text.chars().filter(|c| "äöü".contains(*c)).count() * 2;
            assert_eq!(shown as u64 + done.lost_bytes, text.len() as u64);
        }
    }

    #[test]
    fn invalid_bytes_are_counted_and_shown() {
        let mut capture = OutputCapture::new(100);
        capture.push(b"a\xff\xfeb");
        let done = capture.finish();
        assert_eq!((done.text.as_str(), done.invalid_bytes), ("a\u{fffd}\u{fffd}b", 2));
    }

    proptest::proptest! {
        #[test]
        fn decoding_in_pieces_equals_decoding_at_once(text in "\\PC{0,40}", size in 1usize..6) {
            let mut decoder = LossyUtf8Decoder::default();
            let pieces: String = text.as_bytes().chunks(size).map(|piece| decoder.push(piece)).collect();
            proptest::prop_assert_eq!(pieces, text);
        }
    }
}
