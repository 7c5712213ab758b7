//! The token counter of a scripted model, for reported and enforced counts.

use longhaul_core::estimate::{REPLY_PRIMING_TOKENS, message_tokens, part_tokens, text_tokens, tool_tokens};
use longhaul_core::message::{Part, ToolSpec};

use crate::ModelRequest;

/// A token count with a known error.
///
/// `input = bias × (messages and tools by the core's estimate + overheads)`. With a bias other than 1, the model's
/// count differs from the same estimator's count elsewhere. Tests use the bias to make a meter wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScriptedTokenCounter {
    /// The factor on every count, output included. Not negative.
    pub bias: f64,
    /// Tokens around the system prompt, if any.
    pub system_overhead: u64,
    /// Tokens around the list of tools, if any.
    pub tools_overhead: u64,
}

impl Default for ScriptedTokenCounter {
    fn default() -> Self {
        Self { bias: 1.0, system_overhead: 4, tools_overhead: 12 }
    }
}

impl ScriptedTokenCounter {
    /// Returns the default counter, with every count multiplied by `bias`.
    pub fn biased(bias: f64) -> Self {
        Self { bias, ..Self::default() }
    }

    /// Returns the tokens of a request.
    pub fn input(&self, request: &ModelRequest) -> u64 {
        let messages: u64 = request.messages.iter().map(message_tokens).sum();
        self.scale(
            self.system(&request.system) + self.tools(&request.tools) + messages + REPLY_PRIMING_TOKENS,
        )
    }

    /// Applies the bias, rounding up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52, and a negative bias is 0"
    )]
    pub(super) fn scale(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.bias).ceil() as u64
    }

    /// Returns the largest unscaled number of tokens for at most `tokens` scaled tokens.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the conversion saturates, and a room beyond 2^52 tokens has no end"
    )]
    pub(super) fn unscale(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.bias).floor() as u64
    }

    /// Returns the tokens of an output text, before the bias.
    pub(super) fn text(&self, text: &str) -> u64 {
        text_tokens(text)
    }

    /// Returns the tokens of an output part, before the bias.
    pub(super) fn part(&self, part: &Part) -> u64 {
        part_tokens(part)
    }

    fn system(&self, system: &str) -> u64 {
        if system.is_empty() { 0 } else { self.system_overhead + text_tokens(system) }
    }

    fn tools(&self, tools: &[ToolSpec]) -> u64 {
        if tools.is_empty() { 0 } else { self.tools_overhead + tools.iter().map(tool_tokens).sum::<u64>() }
    }
}
