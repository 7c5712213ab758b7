//! The wire format of Google's `generateContent` API. Translation only: there is no client yet.
//!
//! [`Decoder`] turns the chunks of one streamed answer into parts, [`encode_parts`] turns the parts of an
//! assistant message back into the parts of a `model` content. A part with a thought signature is never merged
//! with another and goes back as it came; plain text that was cut into chunks is one part again.

mod call;
mod encode;
mod path;
mod stream;

pub use self::encode::encode_parts;
pub use self::stream::Decoder;

/// The wire's name in an [`Origin`](longhaul_core::message::Origin).
pub const API: &str = "gemini";

#[cfg(test)]
mod tests;
