//! Detection of an answer that repeats one passage without end.
//!
//! Small models fall into such loops, in text and in reasoning. The loop would go on up to the output limit, and a
//! model whose answers are continued has no such limit.

use std::collections::VecDeque;

/// The least length of the repeated end of an answer, in bytes. Tables, rulers and lists of equal lines are shorter.
const LEAST_REPEATED_BYTES: usize = 4_096;

/// The least number of repetitions.
const LEAST_TIMES: usize = 16;

/// The longest passage that is recognised, in bytes.
const MAX_PASSAGE_BYTES: usize = 1_024;

/// The end of the answer that is kept for the comparison, in bytes.
const MAX_KEPT_BYTES: usize = MAX_PASSAGE_BYTES * LEAST_TIMES;

/// The new bytes after which the end is examined again. A check reads the whole end, and deltas are a few bytes long.
const BYTES_BETWEEN_CHECKS: usize = 512;

/// Watches a streamed text for a passage that is repeated without end.
///
/// Only exact repetition counts. A counter that changes in each round makes the rounds different.
#[derive(Clone, Debug, Default)]
pub struct RepetitionDetector {
    end: VecDeque<u8>,
    unchecked: usize,
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
    /// Adds the next piece of the text. Returns the repetition at its end, if the text repeats itself without end.
    pub fn push(&mut self, piece: &str) -> Option<Repetition> {
        let bytes = &piece.as_bytes()[piece.len().saturating_sub(MAX_KEPT_BYTES)..];
        self.end.extend(bytes);
        let excess = self.end.len().saturating_sub(MAX_KEPT_BYTES);
        self.end.drain(..excess);
        self.unchecked += bytes.len();
        if self.unchecked < BYTES_BETWEEN_CHECKS || self.end.len() < LEAST_REPEATED_BYTES {
            return None;
        }
        self.unchecked = 0;
        repetition_at_end(self.end.make_contiguous())
    }
}

/// Returns whether a text ends with a passage that is repeated without end.
pub fn repeats_without_end(text: &str) -> bool {
    let end = &text.as_bytes()[text.len().saturating_sub(MAX_KEPT_BYTES)..];
    end.len() >= LEAST_REPEATED_BYTES && repetition_at_end(end).is_some()
}

/// Returns the shortest passage that the end of a text repeats often enough.
fn repetition_at_end(text: &[u8]) -> Option<Repetition> {
    // The Z function of the reversed text: `same[p]` bytes before the last `p` bytes equal the end of the text, so that
    // the last `p + same[p]` bytes have the period `p`.
    let at = |index: usize| text[text.len() - 1 - index];
    let mut same = vec![0; text.len()];
    let (mut left, mut right) = (0, 0);
    for period in 1..text.len() {
        let mut length = if period < right { same[period - left].min(right - period) } else { 0 };
        while period + length < text.len() && at(length) == at(period + length) {
            length += 1;
        }
        if period + length > right {
            (left, right) = (period, period + length);
        }
        same[period] = length;
        let repeated = period + length;
        if repeated >= LEAST_REPEATED_BYTES.max(period * LEAST_TIMES) {
            return Some(Repetition { passage_bytes: period, times: repeated / period });
        }
        if period == MAX_PASSAGE_BYTES {
            break;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a text in pieces of so many bytes, and returns the first repetition with the number of bytes sent.
    fn watch(text: &str, piece_bytes: usize) -> Option<(Repetition, usize)> {
        let mut detector = RepetitionDetector::default();
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
    fn a_passage_without_end_is_found_soon_in_pieces_of_any_size() {
        let passage = "I will now read the next file and list its ticket.\n";
        let text = format!("Here is the list.\n{}", passage.repeat(2_000));
        for piece_bytes in [1, 7, 512, 100_000] {
            let (found, sent) = watch(&text, piece_bytes).expect("a repetition");
            assert_eq!(found.passage_bytes, passage.len(), "{piece_bytes}");
            assert!(found.times >= LEAST_TIMES);
            assert!(sent <= LEAST_REPEATED_BYTES + 2 * BYTES_BETWEEN_CHECKS || piece_bytes > 512, "{sent}");
        }
    }

    #[test]
    fn long_passages_need_as_many_rounds() {
        let passage: String = (0..100).map(|line| format!("{line:09}\n")).collect();
        assert_eq!(watch(&passage.repeat(15), 10), None);
        assert_eq!(watch(&passage.repeat(17), 10).map(|(found, _)| found.passage_bytes), Some(passage.len()));
        let too_long: String = (0..110).map(|line| format!("{line:09}\n")).collect();
        assert_eq!(watch(&too_long.repeat(40), 10), None);
    }

    #[test]
    fn ordinary_long_texts_are_left_alone() {
        let table: String = (0..2_000).map(|row| format!("| {row} | ok | - |\n")).collect();
        let ruler = format!("{}\ntext\n", "-".repeat(3_000)).repeat(10);
        let equal_lines = format!("{}end\n", "    },\n".repeat(400)).repeat(5);
        for text in [table, ruler, equal_lines] {
            assert_eq!(watch(&text, 64), None);
        }
    }
}
