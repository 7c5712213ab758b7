//! The reasoning in a request, and the form of the reasoning.

use longhaul_core::message::{Message, Part, ReasoningPart, Role};
use serde_json::value::RawValue;

use super::super::family::{ReasoningReplay, ServerFamily};
use super::super::response::NativeReasoningDetails;

/// A mask of the messages with plain reasoning to send back.
pub(super) struct ReasoningReplayMask(Vec<bool>);

impl ReasoningReplayMask {
    pub(super) fn new(messages: &[Message], replay: ReasoningReplay) -> Self {
        let last_user = messages.iter().rposition(is_user).unwrap_or_default();
        Self(match replay {
            ReasoningReplay::Never => vec![false; messages.len()],
            ReasoningReplay::Turn => (0..messages.len()).map(|index| index > last_user).collect(),
            ReasoningReplay::ToolTurns => tool_turns(messages),
            ReasoningReplay::Always => vec![true; messages.len()],
        })
    }

    pub(super) fn of(&self, index: usize) -> bool {
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// Returns for each message whether a tool was called between the surrounding user messages.
fn tool_turns(messages: &[Message]) -> Vec<bool> {
    let mut shown = Vec::with_capacity(messages.len() + 1);
    for turn in messages.split(is_user) {
        let has_calls = turn.iter().any(|message| message.tool_calls().next().is_some());
        shown.resize(shown.len() + turn.len(), has_calls);
        // `split` leaves the user message out. The mask needs an entry for it to stay aligned.
        shown.push(false);
    }
    shown
}

fn is_user(message: &Message) -> bool {
    message.role == Role::User
}

pub(super) fn parts(message: &Message) -> impl Iterator<Item = &ReasoningPart> {
    message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning),
        _ => None,
    })
}

/// Returns the plain reasoning of a message in the mask; `own` is `true` if the model itself wrote the message.
pub(super) fn plain(message: &Message, own: bool, replay: ReasoningReplay) -> Option<String> {
    let text: String = parts(message).filter(|_| own).map(|reasoning| reasoning.text.as_str()).collect();
    // DeepSeek demands the field beside every call. For another model's call it takes an empty text.
    let is_asked_for = replay == ReasoningReplay::ToolTurns && message.tool_calls().next().is_some();
    (!text.is_empty() || is_asked_for).then_some(text)
}

/// Returns a router's reasoning details, to be sent back.
pub(super) fn details<'a>(message: &'a Message, family: &ServerFamily) -> Option<&'a RawValue> {
    parts(message).find_map(|reasoning| {
        let native: NativeReasoningDetails<'_> =
            serde_json::from_str(reasoning.native.as_ref()?.as_str()).ok()?;
        (family.unsigned_details || native.are_proven()).then_some(native.reasoning_details)
    })
}
