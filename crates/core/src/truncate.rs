//! Truncation at the source: the parts that stay of a tool's output that is too long for the model.
//!
//! [`truncate`] chooses the parts before the output is stored. [`render`] puts the marker between head and tail when
//! the view is built, because only then the handle is known: the result's position in the log.

use crate::estimate::MessageTokenCounter;
use crate::ids::{LogHandle, LogRange, Seq};
use crate::message::{OutputTruncation, Part, ToolResult};

/// The first words of every marker.
#[doc(hidden)]
pub const MARKER: &str = "[Output truncated - exceeded maximum length]";

/// Number of times that a cut is shortened before only the marker stays. Each try is at most three quarters of the
/// last.
const TRIES: u32 = 16;

/// The share of the head when both ends are kept, in percent.
const HEAD_PERCENT: u64 = 20;

/// The length of each end of a text that [`both_ends`] cuts, in characters, where the room is small.
pub(crate) const MIN_END_CHARS: u64 = 60;

/// The largest distance to a line end to which a cut moves, in bytes.
const LINE_SEARCH_BYTES: usize = 2_000;

/// The limits of a text for a model. Both limits hold, the marker included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimit {
    /// The largest number of characters.
    pub max_chars: u64,
    /// The largest number of tokens.
    pub max_tokens: u64,
}

/// The end of a text that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TruncationMode {
    /// The start, as for a file.
    Head,
    /// The end, as for a log.
    Tail,
    /// Both ends: one fifth of the room for the start, four fifths for the end.
    Both,
}

/// A truncated text: a start and an end of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncatedText {
    /// The start and the end, one after the other.
    pub kept: String,
    /// The beginning of the end, in bytes of `kept`.
    pub head_bytes: usize,
    /// The number of characters left out between both.
    pub omitted_chars: u64,
    /// The number of characters of the whole text.
    pub total_chars: u64,
}

/// Cuts a text down to a limit; `None` if the text fits.
///
/// A cut never goes through a character, and prefers line ends. The limits hold for the text that [`render`] returns,
/// if there is room for the marker at all: from 64 tokens and 256 characters on. Below that size the marker stands
/// alone.
///
/// ```
/// use longhaul_core::estimate::MessageTokenCounter;
/// use longhaul_core::truncate::{TruncationMode, TextLimit, truncate};
/// let limit = TextLimit { max_chars: 400, max_tokens: 10_000 };
/// assert_eq!(truncate("short", &limit, TruncationMode::Both, MessageTokenCounter::structured()), None);
/// let text = "one line\n".repeat(100);
/// let cut = truncate(&text, &limit, TruncationMode::Head, MessageTokenCounter::structured()).unwrap();
/// assert!(cut.kept.ends_with("line\n"));
/// assert_eq!(cut.total_chars, 900);
/// ```
pub fn truncate(
    text: &str,
    limit: &TextLimit,
    keep: TruncationMode,
    counter: &MessageTokenCounter,
) -> Option<TruncatedText> {
    let total_chars = text.chars().count() as u64;
    if total_chars <= limit.max_chars && counter.text(text) <= limit.max_tokens {
        return None;
    }
    // The handle is not known yet, so room is kept for the longest marker, with two line breaks.
    let longest_marker = longest_marker(total_chars);
    let room_chars = limit.max_chars.saturating_sub(longest_marker.chars().count() as u64 + 2);
    let mut chars = room_chars.min(total_chars.saturating_sub(1));
    for _ in 0..TRIES {
        let ends = TextEnds::choose(text, chars, keep);
        let tokens = counter.text(&ends.with(&longest_marker));
        if tokens <= limit.max_tokens {
            return Some(ends.cut(total_chars));
        }
        chars = shorter(chars, limit.max_tokens, tokens);
    }
    // Nothing fits beside the marker: the marker alone still leads to the whole output.
    Some(TextEnds { head: "", tail: "" }.cut(total_chars))
}

/// Cuts a text to its beginning and end in at most `max_tokens` tokens, with the note of [`left_out`] between them. The
/// ends have at least `min_chars` characters together, also where they have more tokens. `None` if the text has no more
/// characters.
///
/// Unlike [`truncate`], this keeps no room for the longest marker, and uses the limit up to the last word. The marker of
/// a cut result in a view costs more than the whole text of a small result.
pub(crate) fn both_ends(
    text: &str,
    max_tokens: u64,
    min_chars: u64,
    counter: &MessageTokenCounter,
) -> Option<TruncatedText> {
    let total_chars = text.chars().count() as u64;
    if total_chars <= min_chars {
        return None;
    }
    let note = left_out(total_chars);
    // `low` characters are kept in any case or fit, and `high` characters are all or do not fit.
    let (mut low, mut high) = (min_chars, total_chars);
    let mut ends = TextEnds::choose_both(text, low);
    while high - low > 1 + low / 128 {
        // In steps that double at first: the kept part of a long text is often short, and counting takes time.
        let middle = low.saturating_mul(2).clamp(low + 1, low + (high - low) / 2);
        let longer = TextEnds::choose_both(text, middle);
        if counter.text(&longer.with(&note)) <= max_tokens {
            (low, ends) = (middle, longer);
        } else {
            high = middle;
        }
    }
    Some(ends.cut(total_chars))
}

/// Returns the note in place of `chars` characters of a result that a view shows by its beginning and end.
pub(crate) fn left_out(chars: u64) -> String {
    format!("[{chars} characters left out]")
}

/// Returns a number of characters that should fit, at most three quarters of `chars`.
fn shorter(chars: u64, max_tokens: u64, tokens: u64) -> u64 {
    // The marker takes up to 60 tokens, and does not shrink with the text.
    let room = max_tokens.saturating_sub(60).max(1);
    (chars.saturating_mul(room) / tokens.max(1)).min(chars / 4 * 3)
}

/// The start and the end that stay.
struct TextEnds<'a> {
    head: &'a str,
    tail: &'a str,
}

impl<'a> TextEnds<'a> {
    /// Returns the ends of `text`, together at most `chars` characters. `chars` is less than the text has.
    fn choose(text: &'a str, chars: u64, keep: TruncationMode) -> Self {
        let head_chars = match keep {
            TruncationMode::Head => chars,
            TruncationMode::Tail => 0,
            TruncationMode::Both => chars * HEAD_PERCENT / 100,
        };
        Self::with_lengths(text, head_chars, chars - head_chars)
    }

    /// Returns both ends of `text`, together at most `chars` characters. The head has [`MIN_END_CHARS`] where `chars` are
    /// few. `chars` is less than the text has.
    fn choose_both(text: &'a str, chars: u64) -> Self {
        let head_chars = (chars * HEAD_PERCENT / 100).max(MIN_END_CHARS.min(chars / 2));
        Self::with_lengths(text, head_chars, chars - head_chars)
    }

    fn with_lengths(text: &'a str, head_chars: u64, tail_chars: u64) -> Self {
        let head = first_chars(text, head_chars);
        // The tail is taken from behind the head, so that the ends never overlap.
        let tail = last_chars(text.get(head.len()..).unwrap_or_default(), tail_chars);
        Self { head: to_line_end(head), tail: from_line_start(tail) }
    }

    fn with(&self, marker: &str) -> String {
        join(self.head, marker, self.tail)
    }

    fn cut(&self, total_chars: u64) -> TruncatedText {
        let kept = [self.head, self.tail].concat();
        let omitted_chars = total_chars - kept.chars().count() as u64;
        TruncatedText { kept, head_bytes: self.head.len(), omitted_chars, total_chars }
    }
}

fn first_chars(text: &str, chars: u64) -> &str {
    let end = text.char_indices().nth(chars as usize).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

fn last_chars(text: &str, chars: u64) -> &str {
    let Some(back) = (chars as usize).checked_sub(1) else { return "" };
    let start = text.char_indices().rev().nth(back).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

/// Ends `head` at the last line end, if that costs at most a fifth of the head.
fn to_line_end(head: &str) -> &str {
    let window = head.floor_char_boundary(head.len() - search_bytes(head));
    match head.get(window..).and_then(|last| last.rfind('\n')) {
        Some(at) => head.get(..=window + at).unwrap_or(head),
        None => head,
    }
}

/// Starts `tail` at the first line start, if that costs at most a fifth of the tail.
fn from_line_start(tail: &str) -> &str {
    let window = tail.floor_char_boundary(search_bytes(tail));
    match tail.get(..window).and_then(|first| first.find('\n')) {
        Some(at) => tail.get(at + 1..).unwrap_or(tail),
        None => tail,
    }
}

fn search_bytes(text: &str) -> usize {
    (text.len() / 5).min(LINE_SEARCH_BYTES)
}

/// Returns the marker in place of the omitted text.
///
/// ```
/// use longhaul_core::ids::{LogHandle, LogRange};
/// assert_eq!(
///     longhaul_core::truncate::marker(1_234, 5_678, LogHandle(LogRange::one(42))),
///     "[Output truncated - exceeded maximum length] 1,234 of 5,678 characters left out; the whole is lh:42",
/// );
/// ```
#[doc(hidden)]
pub fn marker(omitted_chars: u64, total_chars: u64, handle: LogHandle) -> String {
    let (omitted, total) = (grouped(omitted_chars), grouped(total_chars));
    format!("{MARKER} {omitted} of {total} characters left out; the whole is {handle}")
}

/// Returns the addition to the marker of an output that was longer than a blob may be.
fn lost_note(lost_bytes: u64) -> String {
    format!(". Its last {} bytes were too many to keep.", grouped(lost_bytes))
}

/// Returns the longest marker that can be needed: with any handle and any number of lost bytes.
fn longest_marker(total_chars: u64) -> String {
    let far = LogHandle(LogRange::one(Seq::from(u32::MAX)));
    marker(total_chars, total_chars, far) + &lost_note(u64::from(u32::MAX))
}

/// Returns the text that the model is shown: head, marker on a line of its own, tail. `seq` is the position of the
/// result.
#[doc(hidden)]
pub fn render(kept: &str, truncation: &OutputTruncation, seq: Seq) -> String {
    let handle = LogHandle(LogRange::one(seq));
    let mut marker = marker(truncation.omitted_chars, truncation.total_chars, handle);
    if truncation.lost_bytes > 0 {
        marker.push_str(&lost_note(truncation.lost_bytes));
    }
    // A stored boundary that lies inside a character must not make `split_at` panic.
    let (head, tail) = kept.split_at(kept.floor_char_boundary(truncation.head_bytes));
    join(head, &marker, tail)
}

/// Returns the shown form of a text that was cut: head, marker on a line of its own, tail. `seq` is the position of
/// the whole. The marker names no handle if there is no tool that resolves handles.
pub(crate) fn shortened(cut: &TruncatedText, seq: Seq, has_recall: bool) -> String {
    let marker = if has_recall {
        marker(cut.omitted_chars, cut.total_chars, LogHandle(LogRange::one(seq)))
    } else {
        let (omitted, total) = (grouped(cut.omitted_chars), grouped(cut.total_chars));
        format!("{MARKER} {omitted} of {total} characters left out")
    };
    let (head, tail) = cut.kept.split_at(cut.head_bytes);
    join(head, &marker, tail)
}

/// Returns the content of a result as people and the model are shown it. The first text of a truncated result has the
/// marker. `seq` is the position of the result.
#[doc(hidden)]
pub fn shown_content(result: &ToolResult, seq: Seq) -> Vec<Part> {
    let mut content = result.content.clone();
    if let Some(truncation) = &result.truncated
        && let Some(Part::Text(text)) = content.iter_mut().find(|part| part.as_text().is_some())
    {
        text.text = render(&text.text, truncation, seq);
    }
    content
}

fn join(head: &str, marker: &str, tail: &str) -> String {
    let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let after = if tail.is_empty() { "" } else { "\n" };
    [head, before, marker, after, tail].concat()
}

/// Returns a number with commas: `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    // By hand, because the standard library formats no separators.
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
