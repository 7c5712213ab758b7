//! The wire format of Anthropic's Messages API. Translation only: there is no client yet.
//!
//! [`Decoder`] turns the events of one streamed answer into parts, [`encode_parts`] turns the parts of an
//! assistant message back into content blocks. A block of the same model goes back as it came: signatures,
//! redacted reasoning, citations and the argument bytes of tool calls are not touched.

mod block;
mod encode;
mod stream;

pub use self::encode::encode_parts;
pub use self::stream::Decoder;

/// The wire's name in an [`Origin`](longhaul_core::message::Origin).
pub const API: &str = "anthropic-messages";

#[cfg(test)]
mod tests;
