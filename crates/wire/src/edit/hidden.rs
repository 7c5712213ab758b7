//! Tool calls that the client does not see, written back into the next request.

use super::insertion::MessageListEntry;
use super::{PartialToolCall, RequestEnvelope};
use crate::raw_json::fields;

/// A step of the model, in the form of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStep {
    /// The step's items, as JSON texts.
    pub items: Vec<String>,
    /// The step's calls, in order.
    pub calls: Vec<PartialToolCall>,
}

/// A call with its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredToolCall {
    /// The call.
    pub call: PartialToolCall,
    /// The answer.
    pub result: String,
    /// `true` if the answer is an error.
    pub failed: bool,
}

/// A step of the model with only some calls at the client. The hidden calls are put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenCallReplay {
    /// The index of the step's first item.
    pub at: usize,
    /// The ids of the client's calls. A step with other ids is another step.
    pub shown: Vec<String>,
    /// The hidden calls, each with the number of shown calls before it.
    pub hidden: Vec<(usize, AnsweredToolCall)>,
    /// Items of the dialect before the step: earlier steps of the same answer, without any call at the client.
    pub rounds: Vec<String>,
    /// The number of `rounds` without text at the client either. The client has the text of the other rounds before
    /// the step's own.
    pub unshown: usize,
    /// The tokens of the hidden calls in the request.
    pub tokens: u64,
}

impl HiddenCallReplay {
    /// Returns the items before the step whose text is in the client's copy of the step.
    pub(crate) fn shown_rounds(&self) -> &[String] {
        self.rounds.get(self.unshown..).unwrap_or_default()
    }

    /// Returns the step's parts with the hidden calls in their places, each with a flag: `true` for a call.
    pub(crate) fn with_hidden_calls(
        &self,
        shown: Vec<(bool, String)>,
        written: impl Fn(&PartialToolCall) -> String,
    ) -> Vec<String> {
        let mut all = Vec::with_capacity(shown.len() + self.hidden.len());
        let mut hidden = self.hidden.iter().peekable();
        let mut calls = 0;
        for (is_call, part) in shown {
            // A hidden call is only inserted before a call, so that text between calls keeps its place.
            while let Some((_, hidden)) = hidden.next_if(|(before, _)| is_call && *before <= calls) {
                all.push(written(&hidden.call));
            }
            calls += usize::from(is_call);
            all.push(part);
        }
        all.extend(hidden.map(|(_, hidden)| written(&hidden.call)));
        all
    }

    /// Reports whether `ids` are the client's calls of the step.
    pub(crate) fn has_shown_calls(&self, ids: &[String]) -> bool {
        self.shown == ids
    }
}

/// Returns arguments as an object: a call whose arguments are no object cannot be sent.
pub(crate) fn object(arguments: &str) -> &str {
    if fields(arguments).is_some() { arguments } else { "{}" }
}

/// Returns the rest of a text that begins with the texts in `said`, one after another; `None` if the text begins
/// otherwise.
pub(crate) fn strip_shown_texts<'t>(
    text: &'t str,
    said: &mut std::collections::VecDeque<String>,
) -> Option<&'t str> {
    let mut rest = text;
    let mut is_other = false;
    while let Some(next) = said.front() {
        // The blanks between two texts come from the merger or from the client, so they do not have to agree.
        let Some(behind) = rest.trim_start().strip_prefix(next.trim()) else { break };
        (rest, is_other) = (behind.trim_start_matches('\n'), true);
        said.pop_front();
    }
    is_other.then_some(rest)
}

/// Takes a message out of a list for a change. Returns the position and the text. `None` if the message is no
/// separate entry.
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
            // The range is split around the item, and empty pieces of it are left out.
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

    fn hidden(before: usize, id: &str) -> (usize, AnsweredToolCall) {
        let call = PartialToolCall { id: id.to_owned(), ..PartialToolCall::default() };
        (before, AnsweredToolCall { call, ..AnsweredToolCall::default() })
    }

    /// Returns the ids of the shown items with the hidden calls between them.
    fn woven(hidden: Vec<(usize, AnsweredToolCall)>, shown: &[&str]) -> String {
        let replay = HiddenCallReplay { hidden, ..HiddenCallReplay::default() };
        let shown = shown.iter().map(|id| (*id != "text", (*id).to_owned())).collect();
        replay.with_hidden_calls(shown, |call| call.id.clone()).join(" ")
    }

    #[test]
    fn calls_come_back_in_their_order() {
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
