//! The wire format of OpenAI's Responses API. Translation only: there is no client yet.
//!
//! [`Decoder`] turns the events of one streamed response into parts, one for each output item, and
//! [`encode_parts`] turns the parts of an assistant message back into input items. An item of the same model
//! goes back as it came: ids, encrypted reasoning, phases and the argument bytes of calls are not touched.

mod encode;
mod item;
mod stream;

pub use self::encode::encode_parts;
pub use self::stream::Decoder;

/// The wire's name in an [`Origin`](longhaul_core::message::Origin).
pub const API: &str = "openai-responses";

#[cfg(test)]
mod tests;
