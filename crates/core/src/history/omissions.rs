//! Omissions: parts that the model's server refuses are left out of the view.

use crate::event::{OmittedPart, PartialAnswerReason};
use crate::ids::{EditId, Seq};
use crate::message::{Message, Part, Role, ToolResult};

use super::{History, LogEntry, LogEntryKind};

/// An omission: parts that were left out of the view together because a server refuses them.
#[derive(Clone, Debug, PartialEq)]
pub struct OmissionState {
    /// The omission's name, by which it is undone.
    pub id: EditId,
    /// The position of its event in the log.
    pub seq: Seq,
    /// The parts that were left out.
    pub parts: Vec<OmittedPart>,
    /// The server's error message.
    pub reason: String,
    /// `true` until the omission is undone.
    pub active: bool,
}

impl History {
    /// Returns all omissions, oldest first, undone ones among them.
    pub fn omissions(&self) -> &[OmissionState] {
        &self.omissions
    }

    /// Returns whether a tool is not offered because a server refuses its schema.
    pub fn omits_tool(&self, tool: &str) -> bool {
        self.omitted_tools().any(|name| name == tool)
    }

    /// Returns the names of the tools that are not offered because a server refuses their schemas.
    pub fn omitted_tools(&self) -> impl Iterator<Item = &str> {
        self.active_parts().filter_map(|part| match part {
            OmittedPart::Tool { name } => Some(name.as_str()),
            OmittedPart::Part { .. } => None,
        })
    }

    /// Returns the parts that are left out now.
    fn active_parts(&self) -> impl Iterator<Item = &OmittedPart> {
        self.omissions.iter().filter(|omission| omission.active).flat_map(|omission| &omission.parts)
    }

    /// Returns whether an active omission leaves out part `part` of the message at `seq`. The omission `except` does
    /// not count.
    pub fn is_omitted(&self, seq: Seq, part: usize, except: Option<&EditId>) -> bool {
        let counts = |omission: &&OmissionState| omission.active && Some(&omission.id) != except;
        let mut omitted = self.omissions.iter().filter(counts).flat_map(|omission| &omission.parts);
        omitted.any(|omitted| match omitted {
            OmittedPart::Part { seq: at, part: which, .. } => (*at, *which) == (seq, part),
            OmittedPart::Tool { .. } => false,
        })
    }

    pub(super) fn add_omission(&mut self, seq: Seq, id: &EditId, parts: &[OmittedPart], reason: &str) {
        self.omissions.push(OmissionState {
            id: id.clone(),
            seq,
            parts: parts.to_vec(),
            reason: reason.to_owned(),
            active: true,
        });
        self.show_again(seq, parts);
    }

    /// Undoes the active omission `id`, and returns whether such an omission exists.
    pub(super) fn restore_omission(&mut self, seq: Seq, id: &EditId) -> bool {
        let found = self.omissions.iter_mut().find(|omission| omission.active && omission.id == *id);
        let Some(omission) = found else { return false };
        omission.active = false;
        let parts = omission.parts.clone();
        self.show_again(seq, &parts);
        true
    }

    /// Builds the messages of `parts` again under the active omissions, and then the view.
    fn show_again(&mut self, seq: Seq, parts: &[OmittedPart]) {
        for part in parts {
            let OmittedPart::Part { seq: at, .. } = part else { continue };
            self.show_entry_again(*at);
        }
        self.rebuild(seq);
        self.note_edited();
        // The view has another size now: a compaction that was in vain before may succeed.
        self.settled_tokens = None;
    }

    /// Builds the shown form of the message at `seq` again. The last piece of an answer shows the whole answer, so
    /// later pieces of the same answer are built again too.
    fn show_entry_again(&mut self, seq: Seq) {
        let Ok(first) = self.entries.binary_search_by_key(&seq, |entry| entry.seq) else { return };
        let begins = self.entries[first].begins;
        for at in first..self.entries.len() {
            if self.entries[at].begins != begins {
                continue;
            }
            let paused = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));
            let before =
                self.entries[..at].iter().rfind(|entry| entry.begins == begins && entry.kind == paused);
            let before = before.and_then(LogEntry::shown).cloned();
            let active: Vec<(EditId, usize, String)> = self.omitted_of(self.entries[at].seq).collect();
            let (counter, entry) = (&self.counter, &mut self.entries[at]);
            entry.show_without(&active, before.as_deref(), counter);
        }
    }

    /// Returns the parts of the message at `seq` that are left out: the omission, the part's index and the note.
    fn omitted_of(&self, seq: Seq) -> impl Iterator<Item = (EditId, usize, String)> {
        let active = self.omissions.iter().filter(|omission| omission.active);
        active.flat_map(move |omission| {
            omission.parts.iter().filter_map(move |part| match part {
                OmittedPart::Part { seq: at, part, note } if *at == seq => {
                    Some((omission.id.clone(), *part, note.clone()))
                }
                _ => None,
            })
        })
    }
}

/// Returns a message without the parts that are left out. A note takes the place of each part, except in an answer.
pub(super) fn without_parts(message: &Message, omitted: &[(EditId, usize, String)]) -> Message {
    // An answer holds the model's own words. A note among them would be read as the model's text.
    let keeps_notes = message.role != Role::Assistant;
    let shown = |parts: &[Part]| -> Vec<Part> {
        let shown = parts.iter().enumerate().filter_map(|(at, part)| {
            match omitted.iter().find(|(_, which, _)| *which == at) {
                Some((_, _, note)) => (keeps_notes && !note.is_empty()).then(|| Part::text(note.as_str())),
                None => Some(part.clone()),
            }
        });
        shown.collect()
    };
    let parts = match message.parts.as_slice() {
        [Part::ToolResult(result)] => {
            // The truncation marker belongs to the first text. Without that text the marker would be put into another
            // one.
            let first_text = result.content.iter().position(|part| part.as_text().is_some());
            let is_cut_gone = first_text.is_some_and(|at| omitted.iter().any(|(_, which, _)| *which == at));
            let truncated = result.truncated.clone().filter(|_| !is_cut_gone);
            let content = shown(&result.content);
            vec![Part::ToolResult(ToolResult { content, truncated, ..result.clone() })]
        }
        parts => shown(parts),
    };
    Message { parts, ..message.clone() }
}
