//! Ollama's native API, `/api/chat`. Its OpenAI route cannot be told how large the window is, nor that nothing
//! may be cut in silence; this one can.
//!
//! [`request`] and [`Decoder`] are pure translation, `client` is the only part that touches the network.

mod client;
mod limits;
mod messages;
pub mod request;
mod stream;

pub use self::client::Ollama;
pub use self::stream::Decoder;

/// The wire's name in an [`Origin`](longhaul_core::message::Origin).
pub const API: &str = "ollama";

/// Where Ollama listens if nobody says otherwise.
pub const BASE_URL: &str = "http://localhost:11434";
