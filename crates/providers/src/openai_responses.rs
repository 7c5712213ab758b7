//! A client for OpenAI's Responses API, for OpenAI and compatible servers. The wire is [`longhaul_wire::responses`].

mod client;

pub use self::client::OpenAiResponsesProvider;
pub use longhaul_wire::responses::{API, BASE_URL, ResponsesStreamDecoder, encode_parts, request};
