//! OpenAI Chat Completions, as OpenAI and every compatible server speak it (LM Studio, llama.cpp, vLLM,
//! OpenRouter, DeepSeek, Mistral, Groq …).
//!
//! [`request`] and [`stream`] are pure translation, `client` is the only part that touches the network.

mod client;
mod limits;
pub mod request;
mod response;
pub mod stream;

use std::fmt;

use serde_json::{Map, Value};

use crate::http::{self, Secret, Timeouts};
use crate::{Declared, Retention};

pub use client::OpenAiChat;

/// The name of this wire in [`Origin::api`](longhaul_core::message::Origin::api).
pub const API: &str = "openai-chat";

/// One model behind one server.
#[derive(Clone)]
pub struct Config {
    /// The provider's name as configured, for example `openai-compatible`.
    pub provider: String,
    /// Where the API begins, for example `http://localhost:1234/v1`.
    pub base_url: String,
    /// The model's name on that server.
    pub model: String,
    /// Sent as `Authorization: Bearer …`.
    pub api_key: Option<Secret>,
    /// Sent with every request; one named `authorization` replaces the key.
    pub headers: Vec<(String, Secret)>,
    /// Fields added to every request (temperature, reasoning effort …), over ours where both exist. `null`
    /// removes one of ours, for example `stream_options`. `messages` and `stream` stay.
    pub body: Map<String, Value>,
    /// What the user knows better than the server.
    pub declared: Declared,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How much plain reasoning text goes back to the model, as `reasoning_content`. Reasoning with proof (a
    /// signature, encrypted items) always goes back to the model that wrote it.
    pub send_reasoning: Retention,
    /// What the output limit is called.
    pub output_limit: OutputLimit,
}

/// What the output limit is called in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLimit {
    /// `max_tokens`: local and most compatible servers.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`: OpenAI's own newer models.
    MaxCompletionTokens,
}

impl Config {
    /// A model without key, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: "openai-compatible".to_owned(),
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            headers: Vec::new(),
            body: Map::new(),
            declared: Declared::default(),
            timeouts: Timeouts::default(),
            send_reasoning: Retention::default(),
            output_limit: OutputLimit::default(),
        }
    }

    /// All headers, the key among them.
    fn all_headers(&self) -> Vec<(String, Secret)> {
        let key = self
            .api_key
            .iter()
            .map(|key| ("authorization".to_owned(), Secret::new(format!("Bearer {}", key.expose()))));
        key.chain(self.headers.iter().cloned()).collect()
    }
}

/// Without headers, and without what a URL may hide: a password, a key in its query.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("provider", &self.provider)
            .field("server", &http::server(&self.base_url))
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
