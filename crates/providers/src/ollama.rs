//! A client for Ollama's native API. The wire is [`longhaul_wire::ollama`].

mod client;
mod limits;

pub use self::client::OllamaProvider;
pub use longhaul_wire::ollama::{API, BASE_URL, OllamaStreamDecoder, request};
