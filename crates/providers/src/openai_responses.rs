//! A client for OpenAI's Responses API, as OpenAI and compatible servers speak it. The wire itself is
//! [`longhaul_wire::responses`].

mod client;

pub use self::client::OpenAiResponsesProvider;
pub use longhaul_wire::responses::{API, BASE_URL, ResponsesStreamDecoder, encode_parts, request};
