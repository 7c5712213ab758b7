//! A client for Google's Gemini API. The wire is [`longhaul_wire::gemini`].

mod client;
mod limits;

pub use self::client::GeminiProvider;
pub use longhaul_wire::gemini::{API, BASE_URL, GeminiStreamDecoder, encode_parts, request};
