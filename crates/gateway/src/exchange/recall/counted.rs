//! What is put back into a request, as the meter counts it.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::{Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use longhaul_core::usage::Usage;

use super::super::UpstreamAttempt;
use super::RecallRounds;
use longhaul_wire::edit::{AnsweredToolCall, Dialect, HiddenCallReplay, PartialToolCall};

/// What putting steps together again adds to a request, in tokens.
pub(in crate::exchange) fn replay_tokens(replays: &[HiddenCallReplay]) -> u64 {
    replays.iter().map(|replay| replay.tokens).sum()
}

/// A step's output by our count: what the client has of it, and what it has not. In tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exchange) struct OutputDivision {
    pub(super) shown: u64,
    pub(super) hidden: u64,
}

impl OutputDivision {
    /// What was reported, of the output only the client's share. Reasoning is the client's.
    pub(in crate::exchange) fn shown_of(self, usage: Usage) -> Usage {
        let said = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
        let hidden = said.saturating_mul(self.hidden) / (self.shown + self.hidden).max(1);
        Usage { output_tokens: usage.output_tokens - hidden, ..usage }
    }
}

/// Calls as they stand in a step, in tokens.
fn call_tokens<'c>(counter: &MessageTokenCounter, calls: impl Iterator<Item = &'c PartialToolCall>) -> u64 {
    let tokens = |call: &PartialToolCall| {
        counter.part(&Part::ToolCall(ToolCall {
            call_id: call.id.as_str().into(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            provider_id: None,
            native: None,
        }))
    };
    calls.map(tokens).sum()
}

/// What a call is answered, as a message of its own, in tokens.
fn result_tokens(counter: &MessageTokenCounter, answered: &AnsweredToolCall) -> u64 {
    let result = ToolResult {
        call_id: answered.call.id.as_str().into(),
        status: ToolStatus::Completed,
        content: vec![Part::text(answered.result.as_str())],
        truncated: None,
    };
    counter.part(&Part::ToolResult(result)) + counter.framing().message
}

impl UpstreamAttempt {
    /// How tokens are counted here.
    pub(super) fn counter(&self) -> MessageTokenCounter {
        (self.exchange.inner.parts.counter)(&self.target.origin())
    }

    /// How a step is divided that says a text, calls the client's tools and ours.
    pub(super) fn division(
        &self,
        text: &str,
        theirs: &[PartialToolCall],
        ours: &[PartialToolCall],
    ) -> OutputDivision {
        let counter = self.counter();
        let said = counter.framing().message + counter.text(text);
        let hidden = call_tokens(&counter, ours.iter());
        OutputDivision { shown: said + call_tokens(&counter, theirs.iter()), hidden }
    }

    /// What a step's hidden calls and the steps before it add to the client's copy of it, in tokens.
    pub(super) fn added_tokens(&self, hidden: &[(usize, AnsweredToolCall)], rounds: &RecallRounds) -> u64 {
        let counter = self.counter();
        let calls = call_tokens(&counter, hidden.iter().map(|(_, answered)| &answered.call));
        let results: u64 = hidden.iter().map(|(_, answered)| result_tokens(&counter, answered)).sum();
        calls + results + self.round_tokens(&counter, rounds)
    }

    /// Steps that the client was not shown, in tokens. What the client has of their words is part of its own copy.
    fn round_tokens(&self, counter: &MessageTokenCounter, rounds: &RecallRounds) -> u64 {
        let unread = || rounds.items.iter().map(|item| counter.text(item)).sum();
        let messages = |items: &[String]| self.neutral_items(items).ok();
        let Some(all) = messages(&rounds.items) else { return unread() };
        let shown = messages(rounds.items.get(rounds.unshown..).unwrap_or_default()).unwrap_or_default();
        let tokens: u64 = all.iter().map(|message| counter.message(message)).sum();
        tokens.saturating_sub(shown.iter().map(|message| self.shown_tokens(counter, message)).sum())
    }

    /// What of a step's message the client has too, in tokens: its text, and its reasoning where clients send that back.
    fn shown_tokens(&self, counter: &MessageTokenCounter, message: &Message) -> u64 {
        let sends_reasoning = self.exchange.wire.dialect() != Dialect::Chat;
        let is_shown = |part: &&Part| match part {
            Part::Text(_) => true,
            Part::Reasoning(_) => sends_reasoning,
            _ => false,
        };
        let by_model = message.role == Role::Assistant;
        message.parts.iter().filter(|part| by_model && is_shown(part)).map(|part| counter.part(part)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_share_of_an_output_is_what_it_has() {
        let usage =
            |output_tokens, reasoning_tokens| Usage { output_tokens, reasoning_tokens, ..Usage::default() };
        let shown = |shown, hidden, output, reasoning| {
            OutputDivision { shown, hidden }.shown_of(usage(output, reasoning)).output_tokens
        };
        assert_eq!(shown(30, 10, 80, 0), 60);
        assert_eq!(shown(30, 10, 180, 100), 160, "it has all of the reasoning");
        assert_eq!(shown(30, 0, 80, 0), 80);
        assert_eq!(shown(0, 0, 80, 0), 80, "nothing is known to be hidden");
        assert_eq!(shown(30, 10, 80, 90), 80, "a report that makes no sense");
    }
}
