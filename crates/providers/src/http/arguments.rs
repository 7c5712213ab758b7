//! Normalisation of tool calls without arguments: every wire and every server writes such calls differently.

use std::collections::BTreeMap;

use longhaul_core::message::{ModelAnswer, Part, may_be_no_arguments};

use crate::ModelEvent;

/// The largest size of a call's held-back arguments, in bytes. A flood of blanks is scanned only once.
const MAX_HELD_BYTES: usize = 64;

/// A filter from empty arguments to `{}`, in the events of an answer.
///
/// Arguments are held back while they may still turn out to be empty: after `null`, a viewer could not be shown `{}`.
#[derive(Debug, Default)]
pub(super) struct EmptyArgumentsFilter {
    /// The received arguments of each call; `None` once the arguments have content.
    begun: BTreeMap<usize, Option<String>>,
}

impl EmptyArgumentsFilter {
    /// Returns the events with settled arguments.
    pub(super) fn filter_events(&mut self, events: Vec<ModelEvent>) -> Vec<ModelEvent> {
        events.into_iter().filter_map(|event| self.event(event)).collect()
    }

    fn event(&mut self, event: ModelEvent) -> Option<ModelEvent> {
        match event {
            ModelEvent::ToolInput { index, name, delta } => self.input(index, name, delta),
            ModelEvent::PartDone(part) => Some(ModelEvent::PartDone(settled(part))),
            other => Some(other),
        }
    }

    fn input(&mut self, index: usize, name: Option<String>, delta: String) -> Option<ModelEvent> {
        let is_new = !self.begun.contains_key(&index);
        let begun = self.begun.entry(index).or_insert_with(|| Some(String::new()));
        let delta = match begun {
            None => delta,
            Some(held) => {
                held.push_str(&delta);
                // The pieces `nu` and `ll` make `null`, so only the joined text can decide.
                if held.len() <= MAX_HELD_BYTES && may_be_no_arguments(held) {
                    String::new()
                } else {
                    begun.take().unwrap_or_default()
                }
            }
        };
        // A viewer learns of a call from its first event, even an empty one.
        (is_new || name.is_some() || !delta.is_empty()).then_some(ModelEvent::ToolInput {
            index,
            name,
            delta,
        })
    }
}

/// Returns the answer with settled arguments.
pub(super) fn settled_answer(mut answer: ModelAnswer) -> ModelAnswer {
    answer.parts = answer.parts.into_iter().map(settled).collect();
    answer
}

fn settled(part: Part) -> Part {
    match part {
        Part::ToolCall(mut call) => {
            call.settle_arguments();
            Part::ToolCall(call)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deltas(pieces: &[&str]) -> Vec<String> {
        let mut arguments = EmptyArgumentsFilter::default();
        let events =
            pieces.iter().map(|piece| ModelEvent::ToolInput { index: 0, name: None, delta: (*piece).into() });
        let shown = arguments.filter_events(events.collect()).into_iter().map(|event| match event {
            ModelEvent::ToolInput { delta, .. } => delta,
            other => panic!("{other:?}"),
        });
        shown.collect()
    }

    #[test]
    fn what_says_nothing_is_held_back() {
        assert_eq!(deltas(&["", "nu", "ll"]), [""]);
        assert_eq!(deltas(&[" ", "\n"]), [""]);
        assert_eq!(deltas(&["\"", "\""]), [""]);
        assert_eq!(deltas(&["", "{\"a\"", ":1}", ""]), ["", "{\"a\"", ":1}"]);
        assert_eq!(deltas(&[" ", "{", "}"]), ["", " {", "}"]);
        assert_eq!(deltas(&["n", "o"]), ["", "no"]);
    }
}
