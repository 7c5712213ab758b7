//! What a peer keeps of the conversation.

use std::ops::Range;
use std::sync::Arc;

use longhaul_core::estimate::Counter;
use longhaul_core::history::EntryKind;
use longhaul_core::message::{Message, Part, Role, ToolResult};

use crate::policy::Segment;
use crate::recording::{Recorded, Recording};

/// The view of a peer, and how far it has read the recording.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) items: Vec<Item>,
    read: usize,
}

/// A message of the view.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) segment: Segment,
    pub(super) role: Role,
    pub(super) origin: Origin,
}

/// Where a message of the view comes from.
#[derive(Clone)]
pub(super) enum Origin {
    /// The recording, with its index.
    Entry(usize),
    /// The recording, shortened when it came in.
    Shortened(usize, Arc<Recorded>),
    /// A tool result of the recording whose content was cleared.
    Cleared(usize),
    /// A summary.
    Summary(Arc<Recorded>),
    /// Something that the peer itself says.
    Note(Arc<Recorded>),
}

impl Thread {
    /// Takes in the entries up to `next`. `shorten` says what stays of a tool result that is too long.
    pub(super) fn take(
        &mut self,
        recording: &Recording,
        next: usize,
        shorten: impl Fn(&str) -> Option<String>,
    ) {
        for at in self.read..next {
            let Some(segment) = recording.segment(at) else { continue };
            let entry = &recording.entries[at];
            let is_result = matches!(entry.kind, EntryKind::Result { .. });
            let shorter = if is_result { shorten(&entry.text) } else { None };
            self.items.push(match shorter {
                Some(text) => Item::shortened(at, with_result(entry, &text, &recording.counter)),
                None => Item { segment, role: entry.message.role, origin: Origin::Entry(at) },
            });
        }
        self.read = self.read.max(next);
    }

    pub(super) fn tokens(&self) -> u64 {
        self.items.iter().map(|item| item.segment.tokens).sum()
    }

    pub(super) fn view(&self) -> Vec<Segment> {
        self.items.iter().map(|item| item.segment.clone()).collect()
    }

    /// Puts `new` in the place of a range.
    pub(super) fn replace(&mut self, range: Range<usize>, new: Vec<Item>) {
        self.items.splice(range, new);
    }

    /// Where the results begin that came after the newest answer.
    pub(super) fn after_answer(&self) -> usize {
        self.items.iter().rposition(|item| item.role == Role::Assistant).map_or(0, |at| at + 1)
    }
}

impl Item {
    fn shortened(at: usize, entry: Recorded) -> Self {
        Self {
            segment: Segment::new(entry.text.clone(), entry.tokens),
            role: entry.message.role,
            origin: Origin::Shortened(at, Arc::new(entry)),
        }
    }

    /// A tool result whose content is `placeholder` now.
    pub(super) fn cleared(&self, recording: &Recording, placeholder: &str) -> Option<Self> {
        let at = self.entry()?;
        let entry = with_result(&recording.entries[at], placeholder, &recording.counter);
        Some(Self { origin: Origin::Cleared(at), ..Self::shortened(at, entry) })
    }

    /// A tool result of which only `text` is left.
    pub(super) fn cut(&self, recording: &Recording, text: &str) -> Option<Self> {
        let at = self.entry()?;
        Some(Self::shortened(at, with_result(&recording.entries[at], text, &recording.counter)))
    }

    /// A summary, introduced by the peer's words around it: `frame` makes the whole message of its text.
    pub(super) fn summary(
        recorded: Recorded,
        role: Role,
        counter: &Counter,
        frame: impl Fn(&str) -> String,
    ) -> Self {
        let message = said(role, &frame(&recorded.text), counter);
        Self {
            segment: Segment::new(message.text, message.tokens),
            role,
            origin: Origin::Summary(Arc::new(recorded)),
        }
    }

    /// Something that the peer itself says.
    pub(super) fn note(text: &str, role: Role, counter: &Counter) -> Self {
        let message = said(role, text, counter);
        Self {
            segment: Segment::new(message.text.clone(), message.tokens),
            role,
            origin: Origin::Note(Arc::new(message)),
        }
    }

    /// Its index in the recording, cleared or not.
    pub(super) fn entry(&self) -> Option<usize> {
        match self.origin {
            Origin::Entry(at) | Origin::Shortened(at, _) | Origin::Cleared(at) => Some(at),
            Origin::Summary(_) | Origin::Note(_) => None,
        }
    }

    /// What it says; nothing if it was cleared.
    pub(super) fn recorded<'a>(&'a self, recording: &'a Recording) -> Option<&'a Recorded> {
        match &self.origin {
            Origin::Entry(at) => recording.entries.get(*at),
            Origin::Shortened(_, entry) | Origin::Summary(entry) | Origin::Note(entry) => Some(entry),
            Origin::Cleared(_) => None,
        }
    }

    /// The tool, if it is a result that still has its content.
    pub(super) fn tool<'a>(&self, recording: &'a Recording) -> Option<&'a str> {
        match (&self.origin, &recording.entries.get(self.entry()?)?.kind) {
            (Origin::Cleared(_), _) => None,
            (_, EntryKind::Result { tool }) => Some(tool),
            _ => None,
        }
    }

    pub(super) fn is_summary(&self) -> bool {
        matches!(self.origin, Origin::Summary(_))
    }

    pub(super) fn is_cleared(&self) -> bool {
        matches!(self.origin, Origin::Cleared(_))
    }

    /// A message of a person, or of the peer in a person's place; no summary.
    pub(super) fn is_user(&self) -> bool {
        self.role == Role::User && !self.is_summary()
    }

    /// How many tools it calls.
    pub(super) fn calls(&self, recording: &Recording) -> usize {
        self.entry().map_or(0, |at| recording.entries[at].message.tool_calls().count())
    }

    pub(super) fn text(&self) -> &str {
        &self.segment.text
    }

    pub(super) fn chars(&self) -> u64 {
        self.segment.text.chars().count() as u64
    }
}

/// A recorded tool result with another content.
pub(super) fn with_result(entry: &Recorded, content: &str, counter: &Counter) -> Recorded {
    let replaced = |part: &Part| match part {
        Part::ToolResult(result) => Part::ToolResult(ToolResult {
            content: vec![Part::text(content)],
            truncated: None,
            call_id: result.call_id.clone(),
            status: result.status,
        }),
        other => other.clone(),
    };
    let parts = entry.message.parts.iter().map(replaced).collect();
    let message = Message { parts, ..Message::clone(&entry.message) };
    let tokens = counter.message(&message);
    Recorded { message: message.into(), tokens, text: content.into(), ..entry.clone() }
}

/// Something that was said and not recorded.
fn said(role: Role, text: &str, counter: &Counter) -> Recorded {
    let message = Message { id: "said".into(), role, parts: vec![Part::text(text)], origin: None };
    let tokens = counter.message(&message);
    Recorded { seq: 0, at: None, message: message.into(), kind: EntryKind::Note, tokens, text: text.into() }
}

/// What stays of a text of more than `max_chars`: `head_chars` from its start, the rest of the room from its end.
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
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let tail_from = total - (max_chars - head_chars);
    Some(format!("{}{}{}", &text[..at(head_chars)], mark(total - max_chars), &text[at(tail_from)..]))
}
