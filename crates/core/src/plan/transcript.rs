//! A part of the conversation as text, in pieces for the window of a summariser.

use super::{extract, role_name};
use crate::history::{ViewItem, ViewItemKind};
use crate::meter::TokenIncrement;

/// The length to which a tool result is shortened in its middle when the whole transcript is too long, in characters.
const CLIPPED_CHARS: usize = 2_000;

/// Messages as text, each with a size in tokens.
pub(super) struct SummaryTranscript<'a> {
    lines: Vec<TranscriptLine>,
    increment: &'a TokenIncrement,
}

struct TranscriptLine {
    text: String,
    tokens: u64,
    is_result: bool,
}

impl<'a> SummaryTranscript<'a> {
    /// Creates the transcript of some items. Each message begins with a line that has `mark`. No author of a message
    /// could know the mark, so no message can imitate such a line.
    pub(super) fn of<'v>(
        items: impl Iterator<Item = &'v ViewItem>,
        mark: &str,
        increment: &'a TokenIncrement,
    ) -> Self {
        let lines = items.map(|item| {
            let (role, said) = (role_name(item.message.role), extract::plain_text(&item.message));
            let text = format!("<{role} {mark}>\n{said}\n");
            let is_result = matches!(item.kind, ViewItemKind::Result { .. });
            TranscriptLine { tokens: increment.text(&text), text, is_result }
        });
        Self { lines: lines.collect(), increment }
    }

    fn tokens(&self) -> u64 {
        self.lines.iter().map(|line| line.tokens).sum()
    }
}

/// Returns the transcript in at most `most` pieces of at most `room` tokens each, and whether older messages were
/// skipped for that. Long tool results are shortened before any message is skipped.
pub(super) fn pieces(transcript: &SummaryTranscript<'_>, room: u64, most: usize) -> (Vec<String>, bool) {
    let increment = transcript.increment;
    // Up to four requests may read results whole. Beyond that, shortened results save model calls.
    let is_much = transcript.tokens() > room.saturating_mul(most.min(4) as u64);
    let mut pieces: Vec<(String, u64)> = Vec::new();
    for line in &transcript.lines {
        let clipped = (is_much && line.is_result).then(|| clip(&line.text)).flatten();
        let (text, tokens) = match &clipped {
            Some(text) => (text.as_str(), increment.text(text)),
            None => (line.text.as_str(), line.tokens),
        };
        match pieces.last_mut().filter(|(_, used)| used + tokens <= room) {
            Some((piece, used)) => {
                piece.push_str(text);
                *used += tokens;
            }
            None if tokens <= room => pieces.push((text.to_owned(), tokens)),
            None => pieces.extend(split(text, room, increment).into_iter().map(|part| (part, room))),
        }
    }
    // The oldest messages are skipped, because their handle still leads to them.
    let skipped = pieces.len().saturating_sub(most);
    (pieces.into_iter().skip(skipped).map(|(piece, _)| piece).collect(), skipped > 0)
}

/// Returns the beginning and the end of a long text; `None` if the text is short enough.
fn clip(text: &str) -> Option<String> {
    let chars = text.chars().count();
    if chars <= CLIPPED_CHARS {
        return None;
    }
    let half = CLIPPED_CHARS / 2;
    let head = text.char_indices().nth(half).map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().nth(chars - half).map_or(text.len(), |(at, _)| at);
    Some(format!("{}\n[… {} characters …]\n{}", &text[..head], chars - CLIPPED_CHARS, &text[tail..]))
}

/// Splits a text into parts of at most `room` tokens each.
fn split(text: &str, room: u64, increment: &TokenIncrement) -> Vec<String> {
    let tokens = increment.text(text).max(1);
    let chars = text.chars().count();
    if tokens <= room || chars < 2 {
        return vec![text.to_owned()];
    }
    let wanted = ((chars as u64).saturating_mul(room) / tokens) as usize;
    let at = text.char_indices().nth(wanted.clamp(1, chars - 1)).map_or(text.len(), |(at, _)| at);
    let mut parts = Vec::new();
    let (mut head, mut rest) = (&text[..at], &text[at..]);
    // The share is an average: a denser stretch is halved until it fits.
    loop {
        if increment.text(head) <= room || head.chars().count() < 2 {
            parts.push(head.to_owned());
            if rest.is_empty() {
                return parts;
            }
            let take = rest.char_indices().nth(wanted.max(1)).map_or(rest.len(), |(at, _)| at);
            (head, rest) = rest.split_at(take);
        } else {
            let half = head.chars().count() / 2;
            let at = head.char_indices().nth(half).map_or(head.len(), |(at, _)| at);
            let start = text.len() - rest.len() - head.len();
            (head, rest) = (&text[start..start + at], &text[start + at..]);
        }
    }
}
