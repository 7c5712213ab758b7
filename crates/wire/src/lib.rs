//! The wire formats of model servers, read and written by pure functions: Chat Completions, Responses, Messages, Gemini
//! and Ollama.
//!
//! Nothing here opens a socket, reads a clock or keeps state between calls. A provider's quirk is handled in a single
//! place, for every reader of the wire: the clients in `longhaul-providers`, the gateway, imports, agents posing as
//! models, and the fuzz targets.
//!
//! - [`chat`], [`responses`], [`messages`], [`gemini`], [`ollama`]: a [`ModelRequest`] to bytes, and the bytes of an
//!   answer to [`ModelEvent`]s, a module for each wire.
//! - [`server_error`], [`overflow`], [`refused_part`]: the meaning of an error, in any server's words.
//! - [`catalog`], [`Limits`]: the known limits and abilities of models.
//! - [`surrogates`], [`token_count`], [`validation`]: parts shared by all wires.

#[doc(hidden)]
pub mod added_fields;
mod answer_size;
#[doc(hidden)]
pub mod base_url;
pub mod catalog;
pub mod chat;
#[doc(hidden)]
pub mod edit;
mod empty_answer;
mod field_fault;
pub(crate) mod finish;
pub mod gemini;
mod limits;
pub mod messages;
mod model_call;
pub mod ollama;
mod output_limit;
pub mod overflow;
#[doc(hidden)]
pub mod param_mapping;
mod provider_kind;
#[doc(hidden)]
pub mod raw_json;
#[cfg(test)]
mod recorded;
mod refused_parameter;
#[doc(hidden)]
pub mod refused_part;
#[doc(hidden)]
pub mod request_body;
#[doc(hidden)]
pub mod response_writer;
pub mod responses;
#[doc(hidden)]
pub mod server_error;
mod settings;
pub mod sse;
mod stream_decoder;
#[doc(hidden)]
pub mod surrogates;
#[doc(hidden)]
pub mod token_count;
#[doc(hidden)]
pub mod usage;
pub mod validation;

pub use answer_size::{AnswerSize, AnswerTooLarge, MAX_ARGUMENT_BYTES, MAX_PARTS, MAX_TOOL_CALLS};
pub use limits::{DeclaredLimits, FeatureSupport, LimitSource, Limits, ReasoningScope};
pub use model_call::{ModelEvent, ModelRequest, ProviderError, ToolChoice, UNSUPPORTED};
pub use provider_kind::ProviderKind;
pub use settings::ModelSettings;
pub use stream_decoder::StreamDecoder;
