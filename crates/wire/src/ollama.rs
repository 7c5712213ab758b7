//! Ollama's native API, `/api/chat`. Its OpenAI route takes no window size and cannot be told to refuse instead of
//! cutting silently; this route takes both.

mod messages;
pub mod request;
mod stream;

pub use self::stream::OllamaStreamDecoder;

/// The name of this wire in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
pub const API: &str = "ollama";

/// The base URL of Ollama with its default settings.
pub const BASE_URL: &str = "http://localhost:11434";
