//! A model call in neutral form: the request, the events of the answer, and the error of a failed call.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, Part, ToolSpec};
use longhaul_core::refusal::PartRefusal;
use longhaul_core::usage::Usage;

use crate::server_error;

/// The placeholder for content whose bytes are missing, or that the wire cannot express. The caller has already replaced
/// content that the model's [`Limits`](crate::Limits) rule out.
pub const UNSUPPORTED: &str = "[unsupported content]";

/// A request for a model call: everything for the model to see, in order.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation: roles legal (user first, then assistant/tool/user in a valid order), every call
    /// answered, adjacent user messages already merged.
    pub messages: Vec<Message>,
    /// The tools the model may ask for; empty for none.
    pub tools: Vec<ToolSpec>,
    /// The model's choice between the tools.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens.
    pub max_output_tokens: Option<u64>,
    /// The bytes of the pictures and files in `messages`, by hash, and of no other content.
    pub media: BTreeMap<String, Bytes>,
    /// The addresses of media without bytes, by hash. The server itself fetches such media. Chat Completions,
    /// Responses (files too) and Messages support addresses.
    pub links: BTreeMap<String, String>,
    /// A name of the conversation. Servers with a prompt cache (`prompt_cache_key`) find the cached prefix by the
    /// name.
    pub cache_key: Option<String>,
    /// `true` if the pauses between the conversation's requests make a prompt cache worthwhile that lives for an hour
    /// instead of five minutes. Only Messages offers the choice.
    pub long_pauses: bool,
    /// Fields of the request alone. The fields override the settings' [`body`](crate::ModelSettings::body); groups
    /// are merged.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// The model's choice of tools: the model may, must or must not call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model may call a tool. Nothing is sent.
    #[default]
    Auto,
    /// The model must not call a tool, although tools are listed.
    None,
    /// The model must call a tool, whichever.
    Required,
    /// The model must call the named tool.
    Named(String),
}

/// An event of a model call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// More of a tool call's arguments.
    ToolInput {
        /// The position of the call among the answer's calls, from 0.
        index: usize,
        /// The tool's name, once known.
        name: Option<String>,
        /// More of the arguments.
        delta: String,
    },
    /// A complete part. The loop keeps the part even if the call is cancelled afterwards.
    PartDone(Part),
    /// The usage reported so far, in place of earlier reports.
    Usage(Usage),
    /// The end of the call. The answer's tool calls have the provider's ids. `call_id` repeats such an id, and the
    /// loop makes `call_id` unique.
    Finished(ModelAnswer),
}

/// A failed model call, with the status, the relevant headers, and the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The error code, the basis of a caller's decision.
    pub code: ErrorCode,
    /// The error message for people; never contains the key.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The wait requested by the provider.
    pub retry_after: Option<Duration>,
    /// `true` if the same request may succeed later.
    pub retryable: bool,
    /// `true` if the request was never sent, because the server could not be reached.
    pub unsent: bool,
    /// `true` if the server had begun to answer, and the answer broke off or held nothing.
    pub broke_off: bool,
    /// `true` for a refusal without any reason, as many proxies make in passing. The same request may succeed.
    pub gives_no_reason: bool,
    /// `true` if only a payment helps: the account has no credit, or its quota is used up.
    pub is_payment_due: bool,
    /// `true` if the error is about the text that the model wrote, so that the same request may succeed at once.
    pub is_bad_sample: bool,
    /// `true` if the model takes no tools, according to the error, or if the server was started without tools.
    pub refuses_tools: bool,
    /// The parameter that the error refuses by name, if the request can do without it.
    pub refused_parameter: Option<String>,
    /// The model's own output limit in tokens, if the error refuses a higher one.
    pub output_limit: Option<u64>,
    /// The refused part named by the error, if the same request would be refused again.
    pub refusal: Option<Box<PartRefusal>>,
    /// The input tokens named by the error.
    pub used_tokens: Option<u64>,
    /// The limit named by the error.
    pub limit_tokens: Option<u64>,
    /// The response body, as text, at most 64 KiB.
    pub body: Option<String>,
    /// The usage until the failure, if the stream had reported any.
    pub usage: Option<Usage>,
}

impl ProviderError {
    /// Returns an error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        // This is the default of the code. A reader that knows more of the error replaces it.
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
            broke_off: false,
            gives_no_reason: false,
            is_payment_due: false,
            is_bad_sample: false,
            refuses_tools: false,
            refused_parameter: None,
            output_limit: None,
            refusal: None,
            used_tokens: None,
            limit_tokens: None,
            body: None,
            usage: None,
        }
    }

    /// Returns the error of a stream with status 200. The payload is an error object or a sentence.
    pub fn in_answer(payload: &str) -> Self {
        server_error::from_answer(payload)
    }
}
