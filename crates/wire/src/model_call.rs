//! One model call in neutral form: the request, the events of its answer, and the error of a failed call.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, Part, ToolSpec};
use longhaul_core::refusal::PartRefusal;
use longhaul_core::usage::Usage;

use crate::server_error;

/// The text that replaces content which the wire cannot take, or whose bytes did not come. The loop above has already
/// replaced content that the model's [`Limits`](crate::Limits) rule out.
pub const UNSUPPORTED: &str = "[unsupported content]";

/// A request for one model call: everything the model will see, in order.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation: roles legal (user first, then assistant/tool/user in a valid order), every call
    /// answered, adjacent user messages already merged.
    pub messages: Vec<Message>,
    /// The tools the model may ask for; empty for none.
    pub tools: Vec<ToolSpec>,
    /// The choice that the model has between them.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens.
    pub max_output_tokens: Option<u64>,
    /// The bytes of every picture and file in `messages`, by hash; of nothing else.
    pub media: BTreeMap<String, Bytes>,
    /// Of those without bytes, the addresses from which the server takes them itself, by hash. Chat Completions,
    /// Responses (files too) and Messages know that.
    pub links: BTreeMap<String, String>,
    /// A name of the conversation, by which servers that take one (`prompt_cache_key`) find the cache of its beginning.
    pub cache_key: Option<String>,
    /// Fields of this request only, over those of the settings' [`body`](crate::ModelSettings::body); groups are merged.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// The model's choice of tools: whether it may, must or must not call one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model may call a tool. Nothing is sent.
    #[default]
    Auto,
    /// The model must not call a tool, although tools are listed.
    None,
    /// The model must call a tool, whichever.
    Required,
    /// The model must call this tool.
    Named(String),
}

/// One event of a model call.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// More of a tool call's arguments.
    ToolInput {
        /// Which of the answer's calls, from 0.
        index: usize,
        /// The tool, once known.
        name: Option<String>,
        /// More of the arguments.
        delta: String,
    },
    /// A part is complete: kept even if the call is cancelled after this.
    PartDone(Part),
    /// The usage reported so far; it replaces earlier reports.
    Usage(Usage),
    /// The call is over. Tool calls in it have the provider's ids; `call_id` repeats them and is made unique
    /// by the loop.
    Finished(ModelAnswer),
}

/// A failed model call: status, headers that matter and the body are kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What went wrong, as a caller decides on it.
    pub code: ErrorCode,
    /// What went wrong, in words; never contains the key.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Whether the request has never left: its server could not be reached.
    pub unsent: bool,
    /// Whether the error says that the model, or its server as it was started, takes no tools.
    pub refuses_tools: bool,
    /// What the error says of the part that it is about, if the same request would be refused again.
    pub refusal: Option<Box<PartRefusal>>,
    /// Input tokens that the error named.
    pub used_tokens: Option<u64>,
    /// The limit that the error named.
    pub limit_tokens: Option<u64>,
    /// The response body, as text, at most 64 KiB.
    pub body: Option<String>,
    /// What was used until then, if the stream had said so.
    pub usage: Option<Usage>,
}

impl ProviderError {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retryable = matches!(
            code,
            ErrorCode::RateLimitExceeded
                | ErrorCode::ThirdParty
                | ErrorCode::Network
                | ErrorCode::Timeout
                | ErrorCode::TruncatedStream
        );
        Self {
            code,
            message: message.into(),
            status: None,
            retry_after: None,
            retryable,
            unsent: false,
            refuses_tools: false,
            refusal: None,
            used_tokens: None,
            limit_tokens: None,
            body: None,
            usage: None,
        }
    }

    /// What a server put into an answer that it had begun with 200: an error object, or a sentence.
    pub fn in_answer(payload: &str) -> Self {
        server_error::from_answer(payload)
    }
}
