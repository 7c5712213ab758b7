//! Omissions: parts that the model's server refuses are left out of the view.

use super::pairing::without_native;
use crate::event::OmittedPart;
use crate::ids::{EditId, Seq};
use crate::message::{Message, Part, Role, ToolResult};

/// An omission: parts that were left out of the view together because a server refuses them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OmissionState {
    /// The omission's name, for an undo.
    pub id: EditId,
    /// The position of the omission's event in the log.
    pub seq: Seq,
    /// The parts that were left out.
    pub parts: Vec<OmittedPart>,
    /// The server's error message.
    pub reason: String,
    /// `true` until the omission is undone.
    pub active: bool,
}

/// The omissions of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Omissions {
    states: Vec<OmissionState>,
}

impl Omissions {
    /// Returns all omissions, oldest first, with the undone ones.
    pub(super) fn all(&self) -> &[OmissionState] {
        &self.states
    }

    /// Returns the names of the tools that are not offered because a server refuses their schemas.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        self.active_parts().filter_map(|part| match part {
            OmittedPart::Tool { name } => Some(name.as_str()),
            OmittedPart::Part { .. } => None,
        })
    }

    /// Returns the parts that are left out now.
    fn active_parts(&self) -> impl Iterator<Item = &OmittedPart> {
        self.states.iter().filter(|omission| omission.active).flat_map(|omission| &omission.parts)
    }

    /// Returns whether the omission `id` exists and is not undone.
    pub(super) fn is_active(&self, id: &EditId) -> bool {
        self.states.iter().any(|omission| omission.active && omission.id == *id)
    }

    /// Returns whether an active omission leaves out part `part` of the message at `seq`. The omission `except` does
    /// not count.
    pub(super) fn leaves_out(&self, seq: Seq, part: usize, except: Option<&EditId>) -> bool {
        let counts = |omission: &&OmissionState| omission.active && Some(&omission.id) != except;
        let mut omitted = self.states.iter().filter(counts).flat_map(|omission| &omission.parts);
        omitted.any(|omitted| match omitted {
            OmittedPart::Part { seq: at, part: which, .. } => (*at, *which) == (seq, part),
            OmittedPart::Tool { .. } => false,
        })
    }

    /// Adds an omission.
    pub(super) fn add(&mut self, seq: Seq, id: &EditId, parts: &[OmittedPart], reason: &str) {
        self.states.push(OmissionState {
            id: id.clone(),
            seq,
            parts: parts.to_vec(),
            reason: reason.to_owned(),
            active: true,
        });
    }

    /// Undoes the active omission `id`, and returns its parts; `None` if no such omission exists.
    pub(super) fn undo(&mut self, id: &EditId) -> Option<Vec<OmittedPart>> {
        let omission = self.states.iter_mut().find(|omission| omission.active && omission.id == *id)?;
        omission.active = false;
        Some(omission.parts.clone())
    }

    /// Returns the parts of the message at `seq` that are left out: the omission, the part's index and the note.
    pub(super) fn parts_of(&self, seq: Seq) -> impl Iterator<Item = (EditId, usize, String)> {
        let active = self.states.iter().filter(|omission| omission.active);
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
    let parts = match message.parts.as_slice() {
        parts if message.role == Role::Assistant => answer_parts(parts, omitted),
        [Part::ToolResult(result)] => {
            // The truncation marker belongs to the first text. Without that text the marker would be put into another
            // one.
            let first_text = result.content.iter().position(|part| part.as_text().is_some());
            let is_cut_gone = first_text.is_some_and(|at| omitted.iter().any(|(_, which, _)| *which == at));
            let truncated = result.truncated.clone().filter(|_| !is_cut_gone);
            let content = shown_parts(&result.content, omitted);
            vec![Part::ToolResult(ToolResult { content, truncated, ..result.clone() })]
        }
        parts => shown_parts(parts, omitted),
    };
    Message { parts, ..message.clone() }
}

/// Returns the parts that are not left out, with notes in the place of the others.
fn shown_parts(parts: &[Part], omitted: &[(EditId, usize, String)]) -> Vec<Part> {
    let shown = parts.iter().enumerate().filter_map(|(at, part)| {
        match omitted.iter().find(|(_, which, _)| *which == at) {
            Some((_, _, note)) => (!note.is_empty()).then(|| Part::text(note.as_str())),
            None => Some(part.clone()),
        }
    });
    shown.collect()
}

/// Returns the parts of an answer without the parts that are left out. A text or a call stays, and only the provider's
/// item of it is left out, which holds the refused signature.
///
/// An answer gets no note. It holds the model's own words, and a note among them would be read as the model's text.
fn answer_parts(parts: &[Part], omitted: &[(EditId, usize, String)]) -> Vec<Part> {
    let is_omitted = |at: usize| omitted.iter().any(|(_, which, _)| *which == at);
    // Items beside reasoning may refer to it: OpenAI refuses a call by its id if the reasoning before it is missing.
    let loses_reasoning =
        parts.iter().enumerate().any(|(at, part)| matches!(part, Part::Reasoning(_)) && is_omitted(at));
    let shown = parts.iter().enumerate().filter_map(|(at, part)| match part {
        Part::Text(_) | Part::ToolCall(_) if loses_reasoning || is_omitted(at) => {
            without_native(part.clone())
        }
        _ => (!is_omitted(at)).then(|| part.clone()),
    });
    shown.collect()
}
