//! A part of the conversation as text, in pieces for the window of a summariser.

use super::{extract, role_name};
use crate::history::{ViewItem, ViewItemKind};
use crate::meter::TokenIncrement;

/// The length to which a tool result is shortened in its middle when the whole transcript is too long, in characters.
const CLIPPED_CHARS: usize = 2_000;

/// Messages that become text for a summariser.
pub(super) struct SummaryTranscript<'a> {
    items: Vec<&'a ViewItem>,
    mark: &'a str,
    increment: &'a TokenIncrement,
}

impl<'a> SummaryTranscript<'a> {
    /// Creates the transcript of some items. Each message begins with a line that has `mark`. No author of a message
    /// could know the mark, so no message can imitate such a line.
    pub(super) fn of(
        items: impl Iterator<Item = &'a ViewItem>,
        mark: &'a str,
        increment: &'a TokenIncrement,
    ) -> Self {
        Self { items: items.collect(), mark, increment }
    }

    /// Returns the transcript in at most `most` pieces of at most `room` tokens each, and whether older messages were
    /// skipped for that. Long tool results are shortened before any message is skipped.
    pub(super) fn pieces(&self, room: u64, most: usize) -> (Vec<String>, bool) {
        let (lines, are_skipped) = self.newest_lines(room, most);
        let mut pieces: Vec<(String, u64)> = Vec::new();
        for (text, tokens) in lines {
            match pieces.last_mut().filter(|(_, used)| used + tokens <= room) {
                Some((piece, used)) => {
                    piece.push_str(&text);
                    *used += tokens;
                }
                None if tokens <= room => pieces.push((text, tokens)),
                None => {
                    pieces.extend(split(&text, room, self.increment).into_iter().map(|part| (part, room)));
                }
            }
        }
        // The oldest messages are skipped, because their handle still leads to them.
        let skipped = pieces.len().saturating_sub(most);
        (pieces.into_iter().skip(skipped).map(|(piece, _)| piece).collect(), are_skipped || skipped > 0)
    }

    /// Returns the newest messages as text with their tokens, in order and as many as `most` pieces can hold, and whether
    /// older ones are left out.
    fn newest_lines(&self, room: u64, most: usize) -> (Vec<(String, u64)>, bool) {
        // Up to four requests may read results whole. Beyond that, shortened results save model calls.
        let all: u64 = self.items.iter().map(|item| item.tokens).sum();
        let is_much = all > room.saturating_mul(most.min(4) as u64);
        let mut left = room.saturating_mul(most as u64);
        let mut lines = Vec::new();
        // From the newest back: a log can be many times longer than what is read, and its text would fill memory.
        for item in self.items.iter().rev() {
            if left == 0 {
                break;
            }
            let line = self.line(item, is_much);
            left = left.saturating_sub(line.1);
            lines.push(line);
        }
        lines.reverse();
        let are_skipped = lines.len() < self.items.len();
        (lines, are_skipped)
    }

    /// Returns a message as text with its tokens.
    fn line(&self, item: &ViewItem, is_much: bool) -> (String, u64) {
        let (role, said) = (role_name(item.message.role), extract::plain_text(&item.message));
        let text = format!("<{role} {}>\n{said}\n", self.mark);
        let is_result = matches!(item.kind, ViewItemKind::Result { .. });
        let text = (is_much && is_result).then(|| clip(&text)).flatten().unwrap_or(text);
        let tokens = self.increment.text(&text);
        (text, tokens)
    }
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
