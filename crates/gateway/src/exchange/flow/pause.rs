//! Where an answer that streams is stopped: in its text only, between two words.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::usage::Usage;

use longhaul_wire::edit::{PartialResponse, StreamPosition};

/// The share of the window, in percent, at which an answer is stopped.
const FULL_PERCENT: u64 = 90;

/// How long the end of a word is waited for, in tokens. Some scripts have no blanks.
const GRACE_TOKENS: u64 = 48;

/// How long a blank is waited for that has not been said yet, in tokens. What ends with a blank is sent back without it, and
/// a model need not say the same one again; some servers end each piece with one.
const BLANK_GRACE_TOKENS: u64 = 12;

/// What a learned tokenizer's count of a text may be off by, in percent: the goal for the next input.
const LEARNED_ERROR_PERCENT: u64 = 3;

/// Bytes that are counted at a time.
const BLOCK_BYTES: usize = 64;

/// Counts what comes, and says where it is to end.
#[derive(Debug)]
pub(super) struct OutputPauseDetector {
    counter: Option<MessageTokenCounter>,
    /// Tokens of output, of all streams, at which the present one is stopped.
    at_tokens: u64,
    tokens: u64,
    counted: StreamedBytes,
    window: u64,
    /// What the client wants at most, in tokens.
    limit: Option<u64>,
    /// Input of the present stream, in tokens.
    input: u64,
    /// Output of the streams before it, in tokens.
    before: u64,
    /// Output of the present stream, as far as it was reported, in tokens.
    reported: u64,
}

/// What was counted, in bytes.
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

    /// A new stream begins, whose input has all that was written so far.
    pub(super) fn start_stream(&mut self, window: u64, input: u64) {
        (self.window, self.input, self.before, self.reported) = (window, input, self.tokens, 0);
        self.set_end();
    }

    fn set_end(&mut self) {
        let room = (self.window * FULL_PERCENT / 100).saturating_sub(self.input);
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.before));
        // What has room in any case ends by the server's own count.
        let room = if left <= room { room.max(with_error(left)) } else { room };
        self.at_tokens = self.before.saturating_add(room);
    }

    /// The server says what the present stream has read and written so far: where that is more than was thought, it is less
    /// room. More than the window is no count.
    pub(super) fn apply_reported_usage(&mut self, usage: &Usage) {
        if usage.input_tokens > self.input && usage.input_tokens <= self.window {
            self.input = usage.input_tokens;
            self.set_end();
        }
        if usage.total_tokens() <= self.window {
            self.reported = usage.output_tokens;
        }
    }

    /// Output of all streams, as it was counted or reported, whichever is more, in tokens.
    fn written(&self) -> u64 {
        self.tokens.max(self.before + self.reported)
    }

    /// Output of all streams, in tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Counts what is new.
    pub(super) fn count(&mut self, seen: &PartialResponse, counter: impl FnOnce() -> MessageTokenCounter) {
        let (text, reasoning) = (seen.text.len(), seen.reasoning.len());
        if text + reasoning < self.counted.text + self.counted.reasoning + BLOCK_BYTES {
            return;
        }
        let counter = self.counter.get_or_insert_with(counter);
        let new = |all: &str, from: usize| charged(counter, all.get(from..).unwrap_or_default());
        self.tokens += new(&seen.text, self.counted.text) + new(&seen.reasoning, self.counted.reasoning);
        self.counted = StreamedBytes { text, reasoning };
    }

    /// Returns whether it is to end before what comes next, which is `next` alone. Only before more text: what is
    /// finished is not gone on with.
    pub(super) fn is_due(&self, seen: &PartialResponse, next: impl FnOnce() -> PartialResponse) -> bool {
        // By our count that was all that is wanted; the server goes by its own.
        let is_all = self.limit.is_some_and(|limit| (limit..with_error(limit)).contains(&self.written()));
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
        late >= GRACE_TOKENS
            || is_before_blank && !is_behind_blank
            || is_behind_blank && late >= BLANK_GRACE_TOKENS
    }
}

/// Tokens of a text as the model's tokenizer charges, where that was learned, with the expected error; never less than the
/// estimate. Room that is gone too early costs a pause, room that is gone too late the rest of the answer.
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

/// What so many tokens may be by our count. A server that writes more does not keep to its limit.
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
