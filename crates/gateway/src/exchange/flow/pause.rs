//! The detector of the stopping point of a streaming answer: only in its text, and between two words.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::usage::Usage;

use longhaul_wire::edit::{PartialResponse, StreamPosition};

/// The share of the window, in percent, at which an answer is stopped.
// Sessions pause answers at the same share (`core/run/pausing.rs`). See decision 0018.
const FULL_PERCENT: u64 = 90;

/// The wait for the end of a word, in tokens, bounded because some scripts have no blanks.
const GRACE_TOKENS: u64 = 48;

/// The wait for a blank that has not arrived yet, in tokens. The text is sent back without its trailing blank, and a
/// model need not repeat the same blank. Some servers end every piece with one, so the wait is bounded.
const BLANK_GRACE_TOKENS: u64 = 12;

/// The error of a learned tokenizer's count, in percent: the target accuracy for the next input.
const LEARNED_ERROR_PERCENT: u64 = 3;

/// The number of bytes for one count.
const BLOCK_BYTES: usize = 64;

/// Counts the output, and decides on the stopping point.
#[derive(Debug)]
pub(super) struct OutputPauseDetector {
    counter: Option<MessageTokenCounter>,
    /// The output of all streams at which the present stream is stopped, in tokens.
    at_tokens: u64,
    tokens: u64,
    counted: StreamedBytes,
    window: u64,
    /// The client's output limit, in tokens.
    limit: Option<u64>,
    /// The input of the present stream, in tokens.
    input: u64,
    /// The output of earlier streams, in tokens.
    before: u64,
    /// The reported output of the present stream, in tokens.
    reported: u64,
}

/// The lengths of the counted output, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct StreamedBytes {
    text: usize,
    reasoning: usize,
}

impl OutputPauseDetector {
    pub(super) fn new(window: u64, input: u64, limit: Option<u64>) -> Self {
        let mut pause = Self {
            counter: None,
            at_tokens: 0,
            tokens: 0,
            counted: StreamedBytes::default(),
            window,
            limit,
            input,
            before: 0,
            reported: 0,
        };
        pause.start_stream(window, input);
        pause
    }

    /// Starts a new stream whose input contains all earlier output.
    pub(super) fn start_stream(&mut self, window: u64, input: u64) {
        (self.window, self.input, self.before, self.reported) = (window, input, self.tokens, 0);
        self.set_end();
    }

    fn set_end(&mut self) {
        let room = (self.window * FULL_PERCENT / 100).saturating_sub(self.input);
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.before));
        // An answer that fits in any case is ended by the server, which counts the limit by its own tokenizer.
        let room = if left <= room { room.max(with_error(left)) } else { room };
        self.at_tokens = self.before.saturating_add(room);
    }

    /// Uses the server's report on the present stream. A larger input than estimated leaves less room. A report above
    /// the window is no valid count.
    pub(super) fn apply_reported_usage(&mut self, usage: &Usage) {
        if usage.input_tokens > self.input && usage.input_tokens <= self.window {
            self.input = usage.input_tokens;
            self.set_end();
        }
        if usage.total_tokens() <= self.window {
            self.reported = usage.output_tokens;
        }
    }

    /// Returns the output of all streams as counted or reported, whichever is larger, in tokens.
    fn written(&self) -> u64 {
        self.tokens.max(self.before + self.reported)
    }

    /// Returns the output of all streams by the gateway's count, in tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Counts new output.
    pub(super) fn count(&mut self, seen: &PartialResponse, counter: impl FnOnce() -> MessageTokenCounter) {
        let (text, reasoning) = (seen.text.len(), seen.reasoning.len());
        // A count per event would cost more than the relay itself: most events carry one token.
        if text + reasoning < self.counted.text + self.counted.reasoning + BLOCK_BYTES {
            return;
        }
        let counter = self.counter.get_or_insert_with(counter);
        let new_text = seen.text.get(self.counted.text..).unwrap_or_default();
        let new_reasoning = seen.reasoning.get(self.counted.reasoning..).unwrap_or_default();
        self.tokens += charged(counter, new_text) + charged(counter, new_reasoning);
        self.counted = StreamedBytes { text, reasoning };
    }

    /// Returns whether the answer is to be stopped before the event `next`. Only before more text: a finished answer is
    /// not continued.
    pub(super) fn is_due(&self, seen: &PartialResponse, next: impl FnOnce() -> PartialResponse) -> bool {
        // The limit is reached by the gateway's count. The server counts by its own, and its end is awaited.
        let is_all = self.limit.is_some_and(|limit| (limit..with_error(limit)).contains(&self.written()));
        // Reasoning and calls are never cut: a prefill can only continue text.
        if is_all
            || self.written() < self.at_tokens
            || seen.position != StreamPosition::Text
            || seen.finish.is_some()
        {
            return false;
        }
        let next = next();
        if next.text.is_empty() || next.finish.is_some() {
            return false;
        }
        let late = self.written() - self.at_tokens;
        let is_behind_blank = seen.text.ends_with(char::is_whitespace);
        let is_before_blank = next.text.starts_with(char::is_whitespace);
        // A cut before a blank leaves the blank to the rest: some wires refuse a request that ends with one
        // (decision 0018).
        late >= GRACE_TOKENS
            || is_before_blank && !is_behind_blank
            || is_behind_blank && late >= BLANK_GRACE_TOKENS
    }
}

/// Returns the tokens of a text at the learned rate of the model's tokenizer, with the expected error; never less than
/// the estimate. A stop too early costs a pause, a stop too late costs the rest of the answer.
fn charged(counter: &MessageTokenCounter, text: &str) -> u64 {
    let estimated = counter.text(text);
    let Some(prior) = counter.prior() else { return estimated };
    let learned = prior.ratios().apply(&counter.text_counter().groups(text));
    estimated.max(learned.saturating_add((learned * LEARNED_ERROR_PERCENT).div_ceil(100)))
}

/// Returns whether `tokens` reach the share of the window at which an answer is stopped.
pub(super) fn is_full(tokens: u64, window: u64) -> bool {
    tokens.saturating_mul(100) >= window.saturating_mul(FULL_PERCENT)
}

/// Returns the largest plausible gateway count for `tokens` tokens of the server. A server that writes more ignores its
/// limit.
pub(super) fn with_error(tokens: u64) -> u64 {
    tokens.saturating_add(tokens / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> PartialResponse {
        PartialResponse {
            text: text.to_owned(),
            position: StreamPosition::Text,
            ..PartialResponse::default()
        }
    }

    fn due(pause: &mut OutputPauseDetector, seen: &PartialResponse, next: &str) -> bool {
        pause.count(seen, MessageTokenCounter::characters);
        pause.is_due(seen, || PartialResponse { text: next.to_owned(), ..PartialResponse::default() })
    }

    #[test]
    fn it_ends_at_ninety_percent_between_two_words() {
        let mut pause = OutputPauseDetector::new(1_000, 800, None);
        let words = "word ".repeat(78);
        assert!(!due(&mut pause, &seen(&format!("{words}word")), " x"), "fewer than 100 tokens");
        let full = format!("{words}{}word", "word ".repeat(22));
        assert!(due(&mut pause, &seen(&full), " and"));
        assert!(!due(&mut pause, &seen(&full), "s"), "in a word");
        assert!(due(&mut pause, &seen(&format!("{full} ")), "and"), "each piece ends with a blank");
        let mut pause = OutputPauseDetector::new(1_000, 800, None);
        let behind = "word ".repeat(82);
        assert!(!due(&mut pause, &seen(&behind), "and"), "a blank is still to come");
        assert!(due(&mut pause, &seen(behind.trim_end()), " and"));
        let thinking = PartialResponse { position: StreamPosition::Reasoning, ..seen(&full) };
        assert!(!due(&mut pause, &thinking, " and"));
        let calling = PartialResponse { position: StreamPosition::Call, ..seen(&full) };
        assert!(!due(&mut pause, &calling, " and"));
    }

    #[test]
    fn an_answer_that_has_room_is_not_stopped_however_long_it_is_by_our_count() {
        for (words, limit, expected) in
            [(130, 100, false), (160, 100, true), (145, 101, false), (145, 140, false), (145, 200, true)]
        {
            let mut pause = OutputPauseDetector::new(1_000, 800, Some(limit));
            let said = "four".repeat(words - 1) + "word";
            assert_eq!(due(&mut pause, &seen(&said), " x"), expected, "{words} of {limit}");
        }
        // What the server reports may leave it too little.
        let mut pause = OutputPauseDetector::new(1_000, 800, Some(100));
        let text = "word ".repeat(60);
        assert!(!due(&mut pause, &seen(text.trim_end()), " x"));
        pause.apply_reported_usage(&Usage { input_tokens: 850, ..Usage::default() });
        assert!(due(&mut pause, &seen(text.trim_end()), " x"));
    }

    #[test]
    fn a_script_without_blanks_is_not_waited_for_long() {
        let mut pause = OutputPauseDetector::new(1_000, 800, None);
        let text = "字".repeat(100 * 4 + 47 * 4);
        assert!(!due(&mut pause, &seen(&text), "字"));
        assert!(due(&mut pause, &seen(&"字".repeat(160 * 4)), "字"));
    }

    #[test]
    fn an_answer_that_is_finished_is_not_stopped_at_its_last_word() {
        let mut pause = OutputPauseDetector::new(1_000, 800, None);
        for text in ["word ".repeat(400), "字".repeat(400 * 4)] {
            assert!(due(&mut pause, &seen(&text), "x"));
            assert!(!due(&mut pause, &seen(&text), ""), "what comes is no text");
            let end =
                PartialResponse { finish: Some(longhaul_core::message::ModelStopReason::Stop), ..seen("x") };
            assert!(!pause.is_due(&seen(&text), || end));
        }
    }

    #[test]
    fn what_the_server_counts_is_less_room_where_it_is_more() {
        let text = "word ".repeat(60);
        let text = text.trim_end();
        let usage = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
        for (usage, expected) in [
            (usage(850, 1), true),
            (usage(400, 1), false),
            (usage(1_001, 1), false),
            (usage(800, 100), true),
            (usage(800, 99), false),
        ] {
            let mut pause = OutputPauseDetector::new(1_000, 800, None);
            assert!(!due(&mut pause, &seen(text), " x"));
            pause.apply_reported_usage(&usage);
            assert_eq!(due(&mut pause, &seen(text), " x"), expected, "{usage:?}");
            pause.start_stream(1_000, 400);
            assert!(!due(&mut pause, &seen(text), " x"), "the next stream has its own");
        }
    }

    #[test]
    fn the_next_stream_has_its_own_room() {
        let mut pause = OutputPauseDetector::new(1_000, 800, None);
        let text = "word ".repeat(101);
        let text = text.trim_end();
        assert!(due(&mut pause, &seen(text), " x"));
        pause.start_stream(1_000, 400);
        assert!(!due(&mut pause, &seen(text), " x"));
    }
}
