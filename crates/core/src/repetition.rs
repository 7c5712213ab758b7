//! Detection of an answer that repeats one passage without end.
//!
//! Small models fall into such loops, in text and in reasoning. The loop goes on until the window is full, and a model
//! whose answers are continued then gets another window.

use std::collections::VecDeque;

/// The least length of a repetition without end, in bytes. Texts for a purpose, such as tables and tests, are shorter.
const LEAST_REPEATED_BYTES: usize = 16 << 10;

/// The bytes of a repetition without end for each token of the model's window: about half of the window.
const BYTES_PER_TOKEN: u64 = 2;

/// The least number of repetitions.
const LEAST_TIMES: usize = 16;

/// The longest passage that is recognised, in bytes.
const MAX_PASSAGE_BYTES: usize = 1_024;

/// The largest end of an answer that is kept, in bytes.
const MAX_KEPT_BYTES: u64 = 1 << 20;

/// Watches a streamed text for a passage that is repeated without end.
///
/// Only exact repetition counts. A counter that changes in each round makes the rounds different.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct RepetitionDetector {
    end: VecDeque<u8>,
    unchecked: usize,
    least_bytes: usize,
}

/// A passage that an answer repeats without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// The length of the passage, in bytes.
    pub passage_bytes: usize,
    /// The number of times that the passage stands at the end of the text, as far as the detector remembers.
    pub times: usize,
}

impl RepetitionDetector {
    /// Creates a detector for a model with a window of so many tokens. A repetition counts once it fills about half of
    /// the window.
    pub fn new(window_tokens: u64) -> Self {
        let bytes = window_tokens.saturating_mul(BYTES_PER_TOKEN).min(MAX_KEPT_BYTES);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { end: VecDeque::new(), unchecked: 0, least_bytes: bytes.max(LEAST_REPEATED_BYTES) }
    }

    /// Adds the next piece of the text. Returns the repetition at its end, if the text repeats itself without end.
    pub fn push(&mut self, piece: &str) -> Option<Repetition> {
        let bytes = &piece.as_bytes()[piece.len().saturating_sub(self.least_bytes)..];
        self.end.extend(bytes);
        let excess = self.end.len().saturating_sub(self.least_bytes);
        self.end.drain(..excess);
        self.unchecked += bytes.len();
        // A check reads the whole end, and deltas are a few bytes long.
        if self.unchecked < self.least_bytes / 8 || self.end.len() < self.least_bytes {
            return None;
        }
        self.unchecked = 0;
        repetition_of(self.end.make_contiguous())
    }
}

/// Returns the shortest passage that the whole text repeats.
fn repetition_of(text: &[u8]) -> Option<Repetition> {
    // The Z function: `same[p]` bytes from `p` on equal the beginning of the text, so that the first `p + same[p]` bytes
    // have the period `p`.
    let last = MAX_PASSAGE_BYTES.min(text.len() / LEAST_TIMES);
    let mut same = vec![0; last + 1];
    let (mut left, mut right) = (0, 0);
    for period in 1..=last {
        let mut length = if period < right { same[period - left].min(right - period) } else { 0 };
        while period + length < text.len() && text[length] == text[period + length] {
            length += 1;
        }
        if period + length > right {
            (left, right) = (period, period + length);
        }
        same[period] = length;
        if period + length == text.len() {
            return Some(Repetition { passage_bytes: period, times: text.len() / period });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 10_000;
    const LEAST_BYTES: usize = 20_000;

    /// Sends a text in pieces of so many bytes, and returns the first repetition with the number of bytes sent.
    fn watch(text: &str, piece_bytes: usize) -> Option<(Repetition, usize)> {
        let mut detector = RepetitionDetector::new(WINDOW);
        let mut sent = 0;
        for piece in text.as_bytes().chunks(piece_bytes) {
            sent += piece.len();
            let piece = std::str::from_utf8(piece).expect("ASCII");
            if let Some(found) = detector.push(piece) {
                return Some((found, sent));
            }
        }
        None
    }

    #[test]
    fn a_passage_without_end_is_found_in_pieces_of_any_size() {
        let passage = "I will now read the next file and list its ticket.\n";
        let text = format!("Here is the list.\n{}", passage.repeat(2_000));
        for piece_bytes in [1, 7, 512, 100_000] {
            let (found, sent) = watch(&text, piece_bytes).expect("a repetition");
            assert_eq!(found.passage_bytes, passage.len(), "{piece_bytes}");
            assert!(found.times >= LEAST_TIMES);
            assert!(sent <= LEAST_BYTES * 5 / 4 || piece_bytes > 512, "{sent}");
        }
    }

    #[test]
    fn shorter_repetitions_and_longer_passages_are_left_alone() {
        let passage: String = (0..100).map(|line| format!("{line:09}\n")).collect();
        assert_eq!(watch(&passage.repeat(19), 10), None);
        assert_eq!(watch(&passage.repeat(25), 10).map(|(found, _)| found.passage_bytes), Some(passage.len()));
        let too_long: String = (0..110).map(|line| format!("{line:09}\n")).collect();
        assert_eq!(watch(&too_long.repeat(40), 10), None);
        assert_eq!(watch(&"word ".repeat(3_500), 64), None);
    }

    #[test]
    fn ordinary_long_texts_are_left_alone() {
        let table: String = (0..4_000).map(|row| format!("| {row} | ok | - |\n")).collect();
        let ruler = format!("{}\ntext\n", "-".repeat(15_000)).repeat(10);
        for text in [table, ruler] {
            assert_eq!(watch(&text, 64), None);
        }
    }

    #[test]
    fn a_larger_window_leaves_more_room_for_repetition() {
        let text = "word ".repeat(50_000);
        assert_eq!(RepetitionDetector::new(200_000).push(&text), None);
        assert!(RepetitionDetector::new(4_000).push(&text).is_some());
    }
}
