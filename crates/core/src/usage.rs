//! The usage that a provider reported for one call, with one meaning for all providers.

use serde::{Deserialize, Serialize};

use crate::message::RawJson;

/// Tokens of one model call.
///
/// The input *includes* cached tokens on every provider, and the output includes reasoning. Adapters normalise the
/// reports: Anthropic reports cache reads and writes beside its input, OpenAI and Gemini inside.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens that the model read, cached or not.
    pub input_tokens: u64,
    /// Tokens that the model wrote, reasoning included.
    pub output_tokens: u64,
    /// The part of `output_tokens` spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// The part of `input_tokens` read from the provider's prompt cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The part of `input_tokens` written to the provider's prompt cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The provider's own usage object, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawJson>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// Returns the input and output tokens together.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds `other` to a cumulative sum. Sums are for display and cost, never for a decision.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        // The provider's object describes one call and no sum.
        self.raw = None;
    }
}
