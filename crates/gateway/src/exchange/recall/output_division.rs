//! Token counts of hidden steps and calls restored in a request.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::{Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use longhaul_core::usage::Usage;

use super::{HiddenSteps, RecallRounds};
use longhaul_wire::edit::{AnsweredToolCall, Dialect, HiddenCallReplay, PartialToolCall};

/// Returns the replays' tokens in a request.
pub(in crate::exchange) fn replay_tokens(replays: &[HiddenCallReplay]) -> u64 {
    replays.iter().map(|replay| replay.tokens).sum()
}

/// The tokens of a step's output by the gateway's count, split into the client's part and the hidden part.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exchange) struct OutputDivision {
    pub(super) shown: u64,
    pub(super) hidden: u64,
}

impl OutputDivision {
    /// Returns the reported usage with only the client's share of the output. All reasoning counts as the client's.
    pub(in crate::exchange) fn shown_of(self, usage: Usage) -> Usage {
        // The server's count covers the whole output, and only the gateway knows the split. The reported total is
        // therefore divided in the proportion of the gateway's own counts.
        let said = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
        let hidden = said.saturating_mul(self.hidden) / (self.shown + self.hidden).max(1);
        Usage { output_tokens: usage.output_tokens - hidden, ..usage }
    }
}

/// Returns the tokens of a call inside a step.
fn call_tokens(counter: &MessageTokenCounter, call: &PartialToolCall) -> u64 {
    counter.part(&Part::ToolCall(ToolCall {
        call_id: call.id.as_str().into(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        provider_id: None,
        native: None,
    }))
}

/// Returns the tokens of a call's result as a message of its own.
fn result_tokens(counter: &MessageTokenCounter, answered: &AnsweredToolCall) -> u64 {
    let result = ToolResult {
        call_id: answered.call.id.as_str().into(),
        status: ToolStatus::Completed,
        content: vec![Part::text(answered.result.as_str())],
        truncated: None,
    };
    counter.part(&Part::ToolResult(result)) + counter.framing().message
}

impl HiddenSteps<'_> {
    /// Returns the division of a step's output: its text and the client's calls are shown, `ours` are hidden.
    pub(super) fn division(
        &self,
        text: &str,
        theirs: &[PartialToolCall],
        ours: &[PartialToolCall],
    ) -> OutputDivision {
        let counter = self.request.counter();
        let said = counter.framing().message + counter.text(text);
        let shown: u64 = theirs.iter().map(|call| call_tokens(&counter, call)).sum();
        let hidden = ours.iter().map(|call| call_tokens(&counter, call)).sum();
        OutputDivision { shown: said + shown, hidden }
    }

    /// Returns the tokens that hidden calls and the steps before them add to the client's copy of a step.
    pub(super) fn added_tokens(&self, hidden: &[(usize, AnsweredToolCall)], rounds: &RecallRounds) -> u64 {
        let counter = self.request.counter();
        let answers = hidden
            .iter()
            .map(|(_, answered)| call_tokens(&counter, &answered.call) + result_tokens(&counter, answered));
        answers.sum::<u64>() + self.round_tokens(&counter, rounds)
    }

    /// Returns the tokens of hidden steps, without the text of the client's own copy.
    pub(super) fn round_tokens(&self, counter: &MessageTokenCounter, rounds: &RecallRounds) -> u64 {
        let reader = self.request.reader();
        let Ok(all) = reader.neutral_items(&rounds.items) else {
            // Items that cannot be parsed are counted as text. The count may be too high, never zero.
            return rounds.items.iter().map(|item| counter.text(item)).sum();
        };
        let shown = rounds.items.get(rounds.unshown..).unwrap_or_default();
        let shown = reader.neutral_items(shown).unwrap_or_default();
        let tokens: u64 = all.iter().map(|message| counter.message(message)).sum();
        tokens.saturating_sub(shown.iter().map(|message| self.shown_tokens(counter, message)).sum())
    }

    /// Returns the tokens of the parts that the client has, too: text, and reasoning if the dialect's clients send
    /// reasoning back.
    pub(super) fn shown_tokens(&self, counter: &MessageTokenCounter, message: &Message) -> u64 {
        let sends_reasoning = self.request.proxied.wire.dialect() != Dialect::Chat;
        if message.role != Role::Assistant {
            return 0;
        }
        let shown = message.parts.iter().filter(|part| match part {
            Part::Text(_) => true,
            Part::Reasoning(_) => sends_reasoning,
            _ => false,
        });
        shown.map(|part| counter.part(part)).sum()
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
