//! The kept part of a conversation in a peer.

use std::ops::Range;
use std::sync::Arc;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::{Message, Part, Role, ToolResult};

use crate::lab::policy::ViewSegment;
use crate::lab::recording::{RecordedMessage, SessionRecording};

/// The placeholder that both Claude Code and opencode write in place of a cleared result.
pub(super) const CLEARED: &str = "[Old tool result content cleared]";

/// The view of a peer, and the peer's position in the recording.
#[derive(Default)]
pub(super) struct RivalView {
    pub(super) items: Vec<RivalViewItem>,
    read: usize,
}

/// A message of the view.
#[derive(Clone)]
pub(super) struct RivalViewItem {
    pub(super) segment: ViewSegment,
    pub(super) role: Role,
    pub(super) origin: RivalItemOrigin,
}

/// The origin of a message in the view.
#[derive(Clone)]
pub(super) enum RivalItemOrigin {
    /// The recording, with its index.
    Entry(usize),
    /// A message of the recording, shortened on arrival.
    Shortened(usize, Arc<RecordedMessage>),
    /// A tool result of the recording whose content was cleared.
    Cleared(usize),
    /// A summary.
    Summary(Arc<RecordedMessage>),
    /// A message of the peer's own.
    Note(Arc<RecordedMessage>),
}

impl RivalView {
    /// Adds the entries up to `next`. `shorten` returns the shorter text of a tool result that is too long.
    pub(super) fn take(
        &mut self,
        recording: &SessionRecording,
        next: usize,
        shorten: impl Fn(&str) -> Option<String>,
    ) {
        for at in self.read..next {
            // An entry that was never sent, such as an answer lost in a crash, is in no view.
            let Some(segment) = recording.segment(at) else { continue };
            let entry = &recording.entries[at];
            let is_result = matches!(entry.kind, LogEntryKind::Result { .. });
            let shorter = if is_result { shorten(&entry.text) } else { None };
            self.items.push(match shorter {
                Some(text) => {
                    RivalViewItem::from_shortened_result(at, with_result(entry, &text, &recording.counter))
                }
                None => {
                    RivalViewItem { segment, role: entry.message.role, origin: RivalItemOrigin::Entry(at) }
                }
            });
        }
        // A call with an earlier position must not make the view read entries twice.
        self.read = self.read.max(next);
    }

    pub(super) fn tokens(&self) -> u64 {
        self.items.iter().map(|item| item.segment.tokens).sum()
    }

    pub(super) fn view(&self) -> Vec<ViewSegment> {
        self.items.iter().map(|item| item.segment.clone()).collect()
    }

    /// Replaces the content of results by `placeholder`.
    pub(super) fn clear_results(
        &mut self,
        recording: &SessionRecording,
        results: &[usize],
        placeholder: &str,
    ) {
        for at in results {
            if let Some(cleared) = self.items[*at].with_cleared_result(recording, placeholder) {
                self.items[*at] = cleared;
            }
        }
    }

    /// Replaces a range with `new`.
    pub(super) fn replace(&mut self, range: Range<usize>, new: Vec<RivalViewItem>) {
        self.items.splice(range, new);
    }

    /// Returns the start of the results after the newest answer.
    pub(super) fn after_answer(&self) -> usize {
        self.items.iter().rposition(|item| item.role == Role::Assistant).map_or(0, |at| at + 1)
    }
}

impl RivalViewItem {
    fn from_shortened_result(at: usize, entry: RecordedMessage) -> Self {
        Self {
            segment: ViewSegment::new(entry.text.clone(), entry.tokens),
            role: entry.message.role,
            origin: RivalItemOrigin::Shortened(at, Arc::new(entry)),
        }
    }

    /// Returns this tool result with `placeholder` instead of its content.
    pub(super) fn with_cleared_result(
        &self,
        recording: &SessionRecording,
        placeholder: &str,
    ) -> Option<Self> {
        let at = self.entry()?;
        let entry = with_result(&recording.entries[at], placeholder, &recording.counter);
        // A cleared result keeps its index, so that later passes still know its tool.
        Some(Self { origin: RivalItemOrigin::Cleared(at), ..Self::from_shortened_result(at, entry) })
    }

    /// Returns a tool result of which only `text` is left.
    pub(super) fn cut(&self, recording: &SessionRecording, text: &str) -> Option<Self> {
        let at = self.entry()?;
        Some(Self::from_shortened_result(at, with_result(&recording.entries[at], text, &recording.counter)))
    }

    /// Returns a summary in the peer's own words: `frame` makes the whole message from the summary's text.
    pub(super) fn summary(
        recorded: RecordedMessage,
        role: Role,
        counter: &MessageTokenCounter,
        frame: impl Fn(&str) -> String,
    ) -> Self {
        let message = said(role, &frame(&recorded.text), counter);
        Self {
            segment: ViewSegment::new(message.text, message.tokens),
            role,
            origin: RivalItemOrigin::Summary(Arc::new(recorded)),
        }
    }

    /// Returns a message of the peer's own.
    pub(super) fn note(text: &str, role: Role, counter: &MessageTokenCounter) -> Self {
        let message = said(role, text, counter);
        Self {
            segment: ViewSegment::new(message.text.clone(), message.tokens),
            role,
            origin: RivalItemOrigin::Note(Arc::new(message)),
        }
    }

    /// Returns the message's index in the recording, cleared or not.
    pub(super) fn entry(&self) -> Option<usize> {
        match self.origin {
            RivalItemOrigin::Entry(at) | RivalItemOrigin::Shortened(at, _) | RivalItemOrigin::Cleared(at) => {
                Some(at)
            }
            RivalItemOrigin::Summary(_) | RivalItemOrigin::Note(_) => None,
        }
    }

    /// Returns the recorded message, or nothing if cleared.
    pub(super) fn recorded<'a>(&'a self, recording: &'a SessionRecording) -> Option<&'a RecordedMessage> {
        match &self.origin {
            RivalItemOrigin::Entry(at) => recording.entries.get(*at),
            RivalItemOrigin::Shortened(_, entry)
            | RivalItemOrigin::Summary(entry)
            | RivalItemOrigin::Note(entry) => Some(entry),
            RivalItemOrigin::Cleared(_) => None,
        }
    }

    /// Returns the tool, if the message is a result that still has its content.
    pub(super) fn tool<'a>(&self, recording: &'a SessionRecording) -> Option<&'a str> {
        match (&self.origin, &recording.entries.get(self.entry()?)?.kind) {
            (RivalItemOrigin::Cleared(_), _) => None,
            (_, LogEntryKind::Result { tool }) => Some(tool),
            _ => None,
        }
    }

    pub(super) fn is_summary(&self) -> bool {
        matches!(self.origin, RivalItemOrigin::Summary(_))
    }

    pub(super) fn is_cleared(&self) -> bool {
        matches!(self.origin, RivalItemOrigin::Cleared(_))
    }

    /// Reports whether the message is a person's, or the peer's in a person's place, and no summary.
    pub(super) fn is_user(&self) -> bool {
        self.role == Role::User && !self.is_summary()
    }

    /// Returns the number of tools called in the message.
    pub(super) fn calls(&self, recording: &SessionRecording) -> usize {
        self.entry().map_or(0, |at| recording.entries[at].message.tool_calls().count())
    }

    pub(super) fn text(&self) -> &str {
        &self.segment.text
    }

    pub(super) fn chars(&self) -> u64 {
        self.segment.text.chars().count() as u64
    }
}

/// Returns a recorded tool result with another content.
pub(super) fn with_result(
    entry: &RecordedMessage,
    content: &str,
    counter: &MessageTokenCounter,
) -> RecordedMessage {
    let parts = entry
        .message
        .parts
        .iter()
        .map(|part| match part {
            Part::ToolResult(result) => Part::ToolResult(ToolResult {
                content: vec![Part::text(content)],
                truncated: None,
                call_id: result.call_id.clone(),
                status: result.status,
            }),
            other => other.clone(),
        })
        .collect();
    // The content changes and the call's id stays: a result without its call would be refused.
    let message = Message { parts, ..Message::clone(&entry.message) };
    let tokens = counter.message(&message);
    RecordedMessage { message: message.into(), tokens, text: content.into(), ..entry.clone() }
}

/// Returns a message outside the recording.
fn said(role: Role, text: &str, counter: &MessageTokenCounter) -> RecordedMessage {
    let message = Message { id: "said".into(), role, parts: vec![Part::text(text)], origin: None };
    let tokens = counter.message(&message);
    RecordedMessage {
        seq: 0,
        at: None,
        message: message.into(),
        kind: LogEntryKind::Note,
        tokens,
        text: text.into(),
    }
}

/// Returns the remains of a text of more than `max_chars`: `head_chars` from its start, the rest from its
/// end.
pub(super) fn ends(
    text: &str,
    max_chars: usize,
    head_chars: usize,
    mark: impl Fn(usize) -> String,
) -> Option<String> {
    let total = text.chars().count();
    if total <= max_chars {
        return None;
    }
    // Counted in characters and not in bytes, because the rivals' limits are.
    let tail_from = total - (max_chars - head_chars);
    Some(format!(
        "{}{}{}",
        &text[..byte_at(text, head_chars)],
        mark(total - max_chars),
        &text[byte_at(text, tail_from)..]
    ))
}

fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}
