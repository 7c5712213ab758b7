//! A client for OpenAI Chat Completions, for OpenAI and every compatible server. The wire is [`longhaul_wire::chat`].

mod client;
pub(crate) mod count;
pub(crate) mod discover;

use std::time::Duration;

use crate::ModelEndpoint;

pub use client::OpenAiChatProvider;
pub use longhaul_wire::chat::{API, ServerFamily, family, request, stream};

/// The first segment of the API's paths at OpenAI.
pub(crate) const VERSION: &str = "v1";

/// The configuration of a client for a model behind a Chat Completions server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenAiChatConfig {
    /// The model and the server; the key is sent as `Authorization: Bearer …`.
    pub endpoint: ModelEndpoint,
    /// The family of the server; `None`: the family of the host, else of the answers.
    pub family: Option<ServerFamily>,
    /// The validity period of the server's facts before [`limits`](crate::Provider::limits) asks again.
    pub reread_after: Duration,
}

impl OpenAiChatConfig {
    /// Creates the configuration of a model without key, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        ModelEndpoint::new("openai-compatible", base_url, model).into()
    }
}

impl From<ModelEndpoint> for OpenAiChatConfig {
    fn from(endpoint: ModelEndpoint) -> Self {
        Self { endpoint, family: None, reread_after: discover::REREAD_AFTER }
    }
}
