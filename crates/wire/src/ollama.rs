//! Ollama's native API, `/api/chat`. The native route takes a window size, and a request to refuse instead of cutting
//! silently. Ollama's OpenAI route takes neither.

mod messages;
pub mod request;
mod stream;

pub use self::stream::OllamaStreamDecoder;

/// The wire's name in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
pub const API: &str = "ollama";

/// The base URL of Ollama with its default settings.
pub const BASE_URL: &str = "http://localhost:11434";
