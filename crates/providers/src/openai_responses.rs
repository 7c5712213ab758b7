//! A client for OpenAI's Responses API, as OpenAI and compatible servers speak it. The wire itself is
//! [`longhaul_wire::responses`].

mod client;

pub use self::client::OpenAiResponses;
pub use longhaul_wire::responses::{API, Decoder, encode_parts, request};

/// Where OpenAI's own API begins.
pub const BASE_URL: &str = "https://api.openai.com/v1";
