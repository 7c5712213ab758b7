//! A client for Google's Gemini API. The wire itself is [`longhaul_wire::gemini`].

mod client;
mod limits;

pub use self::client::Gemini;
pub use longhaul_wire::gemini::{API, Decoder, encode_parts, request};

/// Where Google serves it.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
