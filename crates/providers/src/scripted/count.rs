//! How a scripted model counts tokens: what it reports, and what it enforces.

use longhaul_core::estimate::{REPLY_PRIMING_TOKENS, message_tokens, part_tokens, text_tokens, tool_tokens};
use longhaul_core::message::{Part, ToolSpec};

use crate::ModelRequest;

/// A token count with a known error.
///
/// `input = bias × (messages and tools as the core estimates them + overheads)`. With a bias other than 1 the
/// model's truth differs from what the same estimator says elsewhere: a test of a meter that is off.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedTokenCounter {
    /// Factor on everything, output included. Not negative.
    pub bias: f64,
    /// Tokens around the system prompt, if there is one.
    pub system_overhead: u64,
    /// Tokens around the list of tools, if there is one.
    pub tools_overhead: u64,
}

impl Default for ScriptedTokenCounter {
    fn default() -> Self {
        Self { bias: 1.0, system_overhead: 4, tools_overhead: 12 }
    }
}

impl ScriptedTokenCounter {
    /// The default count, with every number multiplied by `bias`.
    pub fn biased(bias: f64) -> Self {
        Self { bias, ..Self::default() }
    }

    /// Tokens of a request.
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

    /// The most unscaled tokens that scale to no more than `tokens`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the conversion saturates, and a room beyond 2^52 tokens has no end"
    )]
    pub(super) fn unscale(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.bias).floor() as u64
    }

    /// Tokens of a text that the model writes, before the bias.
    pub(super) fn text(&self, text: &str) -> u64 {
        text_tokens(text)
    }

    /// Tokens of a part that the model writes, before the bias.
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
