//! Google's Gemini API, `generateContent` in its streamed form.
//!
//! [`request`] and [`Decoder`] are pure translation, `client` is the only part that touches the network. A part
//! with a thought signature is never merged with another and goes back as it came, to the model that signed
//! it; plain text that was cut into chunks is one part again.

mod call;
mod client;
mod contents;
mod encode;
mod limits;
mod path;
mod refusal;
pub mod request;
mod stream;
mod withheld;

pub use self::client::Gemini;
pub use self::encode::encode_parts;
pub use self::stream::Decoder;

/// The wire's name in an [`Origin`](longhaul_core::message::Origin).
pub const API: &str = "gemini";

/// Where Google serves it.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

#[cfg(test)]
mod tests;
