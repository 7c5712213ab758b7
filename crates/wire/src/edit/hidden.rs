//! Calls of the model's that the client is not shown: what a request says of them.

use super::insertion::MessageListEntry;
use super::{PartialToolCall, RequestEnvelope};
use crate::raw_json::fields;

/// A step of the model's as a request has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStep {
    /// Its items, as JSON texts.
    pub items: Vec<String>,
    /// Its calls, in order.
    pub calls: Vec<PartialToolCall>,
}

/// A call with what it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredToolCall {
    /// The call.
    pub call: PartialToolCall,
    /// The answer.
    pub result: String,
    /// Whether it is an error.
    pub failed: bool,
}

/// A step of the model's of which the client has only some of the calls: the others are put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenCallReplay {
    /// The first item of the step.
    pub at: usize,
    /// The ids of the calls that the client has: a step with others is another one.
    pub shown: Vec<String>,
    /// The calls that it has not, each with how many of the shown ones come before it.
    pub hidden: Vec<(usize, AnsweredToolCall)>,
    /// Items of this dialect before the step: earlier ones of the same answer, of which the client has no call at all.
    pub rounds: Vec<String>,
    /// How many of these the client has no words of either: it has those of the others before the step's own.
    pub unshown: usize,
    /// What putting it back adds, in tokens.
    pub tokens: u64,
}

impl HiddenCallReplay {
    /// The items before the step whose words are in the client's copy of it.
    pub(crate) fn shown_rounds(&self) -> &[String] {
        self.rounds.get(self.unshown..).unwrap_or_default()
    }

    /// What the step says, each part with whether it is a call, with the hidden calls in their places.
    pub(crate) fn with_hidden_calls(
        &self,
        shown: Vec<(bool, String)>,
        written: impl Fn(&PartialToolCall) -> String,
    ) -> Vec<String> {
        let mut all = Vec::with_capacity(shown.len() + self.hidden.len());
        let mut hidden = self.hidden.iter().peekable();
        let mut calls = 0;
        for (is_call, part) in shown {
            while let Some((_, hidden)) = hidden.next_if(|(before, _)| is_call && *before <= calls) {
                all.push(written(&hidden.call));
            }
            calls += usize::from(is_call);
            all.push(part);
        }
        all.extend(hidden.map(|(_, hidden)| written(&hidden.call)));
        all
    }

    /// Returns whether these are the calls that the client has of this step.
    pub(crate) fn has_shown_calls(&self, ids: &[String]) -> bool {
        self.shown == ids
    }
}

/// Arguments as an object: what is none is no call that can be sent.
pub(crate) fn object(arguments: &str) -> &str {
    if fields(arguments).is_some() { arguments } else { "{}" }
}

/// What is left of a text that begins with what was said before it, one text after another; `None` if it does not.
pub(crate) fn strip_shown_texts<'t>(
    text: &'t str,
    said: &mut std::collections::VecDeque<String>,
) -> Option<&'t str> {
    let mut rest = text;
    let mut is_other = false;
    while let Some(next) = said.front() {
        let Some(behind) = rest.trim_start().strip_prefix(next.trim()) else { break };
        (rest, is_other) = (behind.trim_start_matches('\n'), true);
        said.pop_front();
    }
    is_other.then_some(rest)
}

/// Takes a message out of a list, so that it can be changed: where it stood, and how it is written there. `None` if it
/// is not there by itself.
pub(crate) fn take_message(
    envelope: &RequestEnvelope,
    slots: &mut Vec<MessageListEntry>,
    item: usize,
) -> Option<(usize, String)> {
    let at = slots.iter().position(|slot| match slot {
        MessageListEntry::Keep(range) => range.contains(&item),
        MessageListEntry::Change(index, _) => *index == item,
        MessageListEntry::Own(_) | MessageListEntry::Say(_) => false,
    })?;
    match &slots[at] {
        MessageListEntry::Keep(range) => {
            let parts = [range.start..item, item..item + 1, item + 1..range.end];
            let before = usize::from(!parts[0].is_empty());
            let parts = parts.into_iter().filter(|part| !part.is_empty()).map(MessageListEntry::Keep);
            slots.splice(at..=at, parts.collect::<Vec<_>>());
            Some((at + before, envelope.item(item).to_owned()))
        }
        MessageListEntry::Change(_, text) => Some((at, text.clone())),
        MessageListEntry::Own(_) | MessageListEntry::Say(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_in_their_order() {
        let hidden = |before: usize, id: &str| {
            let call = PartialToolCall { id: id.to_owned(), ..PartialToolCall::default() };
            (before, AnsweredToolCall { call, ..AnsweredToolCall::default() })
        };
        let woven = |hidden: Vec<(usize, AnsweredToolCall)>, shown: &[&str]| {
            let replay = HiddenCallReplay { hidden, ..HiddenCallReplay::default() };
            let shown = shown.iter().map(|id| (*id != "text", (*id).to_owned())).collect();
            replay.with_hidden_calls(shown, |call| call.id.clone()).join(" ")
        };
        assert_eq!(woven(vec![hidden(0, "x")], &["a", "b"]), "x a b");
        assert_eq!(woven(vec![hidden(1, "x"), hidden(1, "y")], &["a", "b"]), "a x y b");
        assert_eq!(woven(vec![hidden(0, "x"), hidden(2, "y")], &["a", "b"]), "x a b y");
        assert_eq!(woven(vec![hidden(9, "y")], &["a"]), "a y");
        assert_eq!(
            woven(vec![hidden(0, "x"), hidden(1, "y")], &["text", "a", "text", "b"]),
            "text x a text y b"
        );
    }
}
