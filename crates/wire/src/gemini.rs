//! Google's Gemini API, `generateContent` in its streamed form.
//!
//! A part with a thought signature is never merged with another. Such a part is sent back unchanged to its signer.
//! Plain text in chunks becomes a single part again.

mod adaptation;
mod call;
mod contents;
mod encode;
mod missing_answer;
mod path;
pub mod refusal;
pub mod request;
mod stream;

pub use self::adaptation::GeminiAdaptations;
pub(crate) use self::adaptation::demands_signatures;
pub(crate) use self::contents::NO_SIGNATURE;
pub use self::encode::encode_parts;
pub use self::stream::GeminiStreamDecoder;

/// The wire's name in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
pub const API: &str = "gemini";

/// The base URL of Google's own API.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

#[cfg(test)]
mod tests;
