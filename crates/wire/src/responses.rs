//! OpenAI's Responses API, as OpenAI and compatible servers speak it (xAI, llama.cpp, vLLM, LM Studio …).
//!
//! Each output item is a part. An item of the same model is sent back unchanged: ids, encrypted reasoning, phases and
//! the argument bytes of calls. Nothing is stored at the provider: every request holds the whole conversation.

mod adaptation;
#[doc(hidden)]
pub mod edit;
mod encode;
mod input;
mod item;
pub mod request;
mod stream;

pub use self::adaptation::ResponsesAdaptations;
pub use self::encode::encode_parts;
pub use self::stream::ResponsesStreamDecoder;

/// The wire's name in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
pub const API: &str = "openai-responses";

/// The base URL of OpenAI's own API.
pub const BASE_URL: &str = "https://api.openai.com/v1";

#[cfg(test)]
mod tests;
