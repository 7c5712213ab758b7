//! Model providers: one thin adapter per wire format, pure translation plus one small client.
//!
//! A [`Provider`] makes one model call and nothing else: it never retries, never rewrites history, never
//! drops what it does not understand. The loop above decides. Two addresses are tried again, because nothing was done
//! there: a connection that this machine itself refuses, and a base URL without the version of its API.

mod answer_size;
pub mod anthropic;
mod body;
pub mod catalog;
pub mod connect;
mod ending;
mod endpoint;
pub mod gemini;
pub mod http;
pub mod known;
mod limits;
pub mod lines;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod overflow;
mod raw;
#[cfg(test)]
mod recorded;
pub mod refused;
pub mod scripted;
pub mod sse;
pub mod surrogates;
mod tokens;
pub mod valid;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Answer, Message, Origin, Part, ToolSpec};
use longhaul_core::refusal::Refusal;
use longhaul_core::usage::Usage;

pub use answer_size::{AnswerSize, AnswerTooLarge, MAX_ARGUMENT_BYTES, MAX_PARTS, MAX_TOOL_CALLS};
pub use endpoint::Endpoint;
pub use limits::{Ability, Declared, LimitSource, Limits, Retention};

/// What a model is shown instead of content that its wire cannot take, or whose bytes did not come. What the model's
/// [`Limits`] rule out the loop above has replaced by a note that names it, and text files by their text.
pub const UNSUPPORTED: &str = "[unsupported content]";

/// A model behind a wire.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Which model this is, over which wire.
    fn origin(&self) -> Origin;

    /// What is known of the model's limits and abilities. May ask the server; called once per session and
    /// after a limit was learned.
    async fn limits(&self) -> Limits;

    /// The exact bytes that would be sent for `request`, without sending them.
    ///
    /// # Errors
    /// [`ProviderError`] with code `invalid-request` if the request cannot be expressed on this wire.
    fn render(&self, request: &Request) -> Result<Bytes, ProviderError>;

    /// The input tokens of `request`, as the server itself counts them; `None` if it does not offer that.
    /// Asks the server: never in the way of a call.
    ///
    /// # Errors
    /// [`ProviderError`] if it was asked and gave no count.
    async fn count(&self, _request: &Request) -> Result<Option<u64>, ProviderError> {
        Ok(None)
    }

    /// Makes one call. The stream ends with exactly one [`ModelEvent::Finished`], or with an error: `refused` if
    /// the answer was withheld, which leaves what was seen of it to the caller.
    /// Dropping it closes the connection.
    ///
    /// # Errors
    /// [`ProviderError`] for everything that fails before the first event.
    async fn call(&self, request: Request) -> Result<ModelStream, ProviderError>;
}

/// A shared provider.
pub type SharedProvider = Arc<dyn Provider>;

/// The events of one model call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ProviderError>> + Send>>;

/// What is sent: everything the model will see, in order.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation: roles legal (user first, then assistant/tool/user in a valid order), every call
    /// answered, adjacent user messages already merged.
    pub messages: Vec<Message>,
    /// The tools the model may ask for; empty for none.
    pub tools: Vec<ToolSpec>,
    /// Whether it may, must or must not ask for one.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens.
    pub max_output_tokens: Option<u64>,
    /// The bytes of every picture and file in `messages`, by hash; of nothing else.
    pub media: BTreeMap<String, Bytes>,
    /// Of those without bytes, the addresses from which the server takes them itself, by hash. Chat Completions,
    /// Responses (files too) and Messages know that.
    pub links: BTreeMap<String, String>,
    /// Fields of this request only, over those of the endpoint's [`body`](Endpoint::body); groups are merged.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Whether the model may, must or must not ask for a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes: nothing is said.
    #[default]
    Auto,
    /// It must not, although tools are listed.
    None,
    /// It must, for any.
    Required,
    /// It must, for this one.
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
    /// What the provider reported so far; replaces what came before.
    Usage(Usage),
    /// The call is over. Tool calls in it have the provider's ids; `call_id` repeats them and is made unique
    /// by the loop.
    Finished(Answer),
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
    pub refusal: Option<Box<Refusal>>,
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
        http::failure::in_band(payload)
    }
}
