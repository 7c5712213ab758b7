//! The interface of a policy: its decision before each model call.

use std::sync::Arc;

use longhaul_core::budget::Budget;
use longhaul_core::ids::Millis;

use crate::lab::price::PriceTable;
use crate::lab::recording::SessionRecording;

/// A way to keep a conversation within its window.
pub(crate) trait ContextPolicy {
    /// Returns the policy's name in tables.
    fn name(&self) -> &str;

    /// Returns the sources of the policy's rules and numbers: one line for each parameter.
    fn sources(&self) -> Vec<String>;

    /// Returns true if the agent can get removed content back.
    fn has_recall(&self) -> bool {
        false
    }

    /// Returns the request before the entry `next` (always an assistant message) of `recording`: entries
    /// `0..next` have happened. Called once for each assistant message, in order.
    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest;
}

/// The facts known to a policy besides the conversation.
#[derive(Clone, Debug)]
pub(crate) struct PolicyInput {
    /// The budget of the request.
    pub(crate) budget: Budget,
    /// The prices of tokens.
    pub(crate) prices: PriceTable,
    /// Input tokens of the last request, as a provider reports them; 0 before the first.
    pub(crate) last_input: u64,
    /// Output tokens of the last answer.
    pub(crate) last_output: u64,
    /// `true` if the provider's cache still holds the last request.
    pub(crate) cache_is_warm: bool,
    /// The time of the call, if the recording has times.
    pub(crate) at: Option<Millis>,
}

/// The request of a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyRequest {
    /// The conversation as shown to the agent, without system prompt and tools.
    pub(crate) view: Vec<ViewSegment>,
    /// The model calls made for the request, besides the request itself.
    pub(crate) side_calls: Vec<SideCall>,
    /// The edit, if the view was shortened for this request.
    pub(crate) edit: Option<PolicyEdit>,
}

/// A message as sent.
#[derive(Clone, Debug)]
pub(crate) struct ViewSegment {
    /// The id of the text. Equal texts have equal ids.
    pub(crate) id: u64,
    /// The number of tokens.
    pub(crate) tokens: u64,
    /// The text.
    pub(crate) text: Arc<str>,
}

/// A model call for the policy alone, such as a summary or its check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideCall {
    /// Input in the provider's cache.
    pub(crate) cached_tokens: u64,
    /// Input outside the provider's cache.
    pub(crate) fresh_tokens: u64,
    /// Output.
    pub(crate) output_tokens: u64,
    /// `true` if the agent waits for the call.
    pub(crate) waits: bool,
}

/// One shortening edit of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyEdit {
    /// `true` if messages were replaced (a compaction), `false` if only tool results were cleared.
    pub(crate) compaction: bool,
    /// Tokens of the whole request before.
    pub(crate) before_tokens: u64,
    /// Tokens of the whole request after.
    pub(crate) after_tokens: u64,
    /// The reason, in words.
    pub(crate) why: String,
}

impl ViewSegment {
    /// Creates a segment with a text.
    pub(crate) fn new(text: impl Into<Arc<str>>, tokens: u64) -> Self {
        let text = text.into();
        let hash = blake3::hash(text.as_bytes());
        // 64 bits are enough to tell the texts of one session apart.
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self { id: u64::from_le_bytes(first), tokens, text }
    }
}
