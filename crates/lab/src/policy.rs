//! The interface of a policy: its decision before each model call.

use std::sync::Arc;

use longhaul_core::budget::Budget;
use longhaul_core::ids::Millis;

use crate::price::PriceTable;
use crate::recording::SessionRecording;

/// A way to keep a conversation within its window.
pub trait ContextPolicy {
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
pub struct PolicyInput {
    /// The budget of the request.
    pub budget: Budget,
    /// The prices of tokens.
    pub prices: PriceTable,
    /// Input tokens of the last request, as a provider reports them; 0 before the first.
    pub last_input: u64,
    /// Output tokens of the last answer.
    pub last_output: u64,
    /// `true` if the provider's cache still holds the last request.
    pub cache_is_warm: bool,
    /// The time of the call, if the recording has times.
    pub at: Option<Millis>,
}

/// The request of a policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyRequest {
    /// The conversation as shown to the agent, without system prompt and tools.
    pub view: Vec<ViewSegment>,
    /// The model calls made for the request, besides the request itself.
    pub side_calls: Vec<SideCall>,
    /// The edit, if the view was shortened for this request.
    pub edit: Option<PolicyEdit>,
}

/// A message as sent.
#[derive(Clone, Debug)]
pub struct ViewSegment {
    /// The id of the text. Equal texts have equal ids.
    pub id: u64,
    /// The number of tokens.
    pub tokens: u64,
    /// The text.
    pub text: Arc<str>,
}

/// A model call for the policy alone, such as a summary or its check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCall {
    /// Input in the provider's cache.
    pub cached_tokens: u64,
    /// Input outside the provider's cache.
    pub fresh_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// `true` if the agent waits for the call.
    pub waits: bool,
}

/// One shortening edit of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEdit {
    /// `true` if messages were replaced (a compaction), `false` if only tool results were cleared.
    pub compaction: bool,
    /// Tokens of the whole request before.
    pub before_tokens: u64,
    /// Tokens of the whole request after.
    pub after_tokens: u64,
    /// The reason, in words.
    pub why: String,
}

impl ViewSegment {
    /// Creates a segment with a text.
    pub fn new(text: impl Into<Arc<str>>, tokens: u64) -> Self {
        let text = text.into();
        let hash = blake3::hash(text.as_bytes());
        // 64 bits are enough to tell the texts of one session apart.
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self { id: u64::from_le_bytes(first), tokens, text }
    }
}
