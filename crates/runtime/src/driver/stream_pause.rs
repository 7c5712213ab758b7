//! The place of a pause in a streamed answer, for making room: in text only, between two words.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::Part;
use longhaul_core::meter::TokenRatios;
use longhaul_providers::ModelEvent;

/// The longest wait for the end of a word, in tokens. Some scripts have no blanks.
const GRACE_TOKENS: u64 = 48;

/// Counts the tokens of a streamed answer, and finds the place at which the answer pauses.
#[derive(Debug)]
pub(super) struct PausePointDetector {
    at_tokens: u64,
    counter: MessageTokenCounter,
    ratios: TokenRatios,
    written_tokens: u64,
    /// The tokens of text after the due place of the pause.
    overdue_tokens: u64,
    /// True as long as a model can continue all parts of the answer.
    is_text: bool,
}

impl PausePointDetector {
    /// Creates a detector that pauses at a number of output tokens, by the session's count.
    pub(super) fn new(at_tokens: u64, counter: MessageTokenCounter, ratios: TokenRatios) -> Self {
        Self { at_tokens, counter, ratios, written_tokens: 0, overdue_tokens: 0, is_text: true }
    }

    /// Returns the number of kept bytes of the text in `event` if the answer ends there; `seen` is the text before
    /// `event`.
    ///
    /// The blank after a word is left to the continuation: most vocabularies begin words with a blank, and no wire
    /// takes every text with a blank at the end.
    pub(super) fn take(&mut self, seen: &str, event: &ModelEvent) -> Option<usize> {
        let delta = match event {
            ModelEvent::Text(delta) => delta.as_str(),
            ModelEvent::Reasoning(delta) => {
                self.count(delta);
                return None;
            }
            ModelEvent::PartDone(Part::Text(_) | Part::Reasoning(_)) | ModelEvent::Usage(_) => return None,
            // A cut call could not be continued: no wire takes a part of its arguments back.
            _ => {
                self.is_text = false;
                return None;
            }
        };
        let tokens = self.count(delta);
        if !self.is_text || self.written_tokens < self.at_tokens {
            return None;
        }
        self.overdue_tokens += tokens;
        let is_late = self.overdue_tokens >= GRACE_TOKENS;
        let ends_in_word = delta.chars().next_back().is_some_and(|last| !last.is_whitespace());
        end_of_word(seen, delta).or_else(|| (is_late && ends_in_word).then_some(delta.len()))
    }

    /// Counts a piece alone, and returns the number of tokens: models send about a token at a time.
    fn count(&mut self, delta: &str) -> u64 {
        if delta.is_empty() {
            return 0;
        }
        // A piece is about a token, and the estimate of a single letter can be zero.
        let tokens = self.ratios.apply(&self.counter.text_counter().groups(delta)).max(1);
        self.written_tokens += tokens;
        tokens
    }
}

/// Returns the first place in `delta` before which a word ends and at which a blank begins.
fn end_of_word(seen: &str, delta: &str) -> Option<usize> {
    let mut before = seen.chars().next_back();
    delta.char_indices().find_map(|(at, char)| {
        let ends = char.is_whitespace() && before.is_some_and(|before| !before.is_whitespace());
        before = Some(char);
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use longhaul_core::message::ReasoningPart;

    use super::*;

    fn pause(at: u64) -> PausePointDetector {
        PausePointDetector::new(at, MessageTokenCounter::default(), TokenRatios::default())
    }

    /// Returns the kept text of an answer in these pieces; `None` if the answer is not stopped.
    fn kept(at: u64, pieces: &[&str]) -> Option<String> {
        let mut pause = pause(at);
        let mut seen = String::new();
        for piece in pieces {
            if let Some(end) = pause.take(&seen, &ModelEvent::Text((*piece).to_owned())) {
                seen.push_str(&piece[..end]);
                return Some(seen);
            }
            seen.push_str(piece);
        }
        None
    }

    #[test]
    fn a_text_ends_with_a_word() {
        let words = ["Once", " upon", " a", " ti", "me", " there", " was"];
        assert_eq!(kept(4, &words).as_deref(), Some("Once upon a"));
        assert_eq!(kept(1, &["Once ", "upon ", "a "]).as_deref(), Some("Once"), "the blank goes to the rest");
        assert_eq!(kept(2, &["one", "\n\n", "two", "\n\n"]).as_deref(), Some("one"));
        assert_eq!(kept(1, &["\n", " ", "\n"]), None, "blanks are no text");
        assert_eq!(kept(100, &words), None);
    }

    #[test]
    fn a_script_without_blanks_is_not_waited_for_without_end() {
        let pieces = vec!["漢字"; 200];
        let kept = kept(10, &pieces).unwrap();
        assert!((10..150).contains(&kept.chars().count()), "{kept}");
    }

    #[test]
    fn reasoning_counts_and_is_not_cut() {
        let mut pause = pause(20);
        for _ in 0..100 {
            assert_eq!(pause.take("", &ModelEvent::Reasoning(" hm".to_owned())), None);
        }
        let thought = Part::Reasoning(ReasoningPart { text: " hm".repeat(100), native: None });
        assert_eq!(pause.take("", &ModelEvent::PartDone(thought)), None);
        assert_eq!(pause.take("", &ModelEvent::Text("So".to_owned())), None);
        assert_eq!(pause.take("So", &ModelEvent::Text(" be".to_owned())), Some(0));
    }

    #[test]
    fn nothing_is_cut_once_a_tool_was_asked_for() {
        let mut pause = pause(2);
        let input = ModelEvent::ToolInput { index: 0, name: Some("read".to_owned()), delta: String::new() };
        assert_eq!(pause.take("", &input), None);
        for _ in 0..100 {
            assert_eq!(pause.take("and", &ModelEvent::Text(" more".to_owned())), None);
        }
    }
}
