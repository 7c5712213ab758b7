//! A client for OpenAI Chat Completions, as OpenAI and every compatible server speak it. The wire itself is
//! [`longhaul_wire::chat`].

mod client;
pub(crate) mod count;
pub(crate) mod discover;

use std::time::Duration;

use crate::Endpoint;

pub use client::OpenAiChat;
pub use longhaul_wire::chat::{API, Family, family, request, stream};

/// The first segment of the API's paths at its maker.
pub(crate) const VERSION: &str = "v1";

/// One model behind one server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The model and its server; the key is sent as `Authorization: Bearer …`.
    pub endpoint: Endpoint,
    /// What its server does in its own way; `None`: as its host tells, else as it answers.
    pub family: Option<Family>,
    /// How long what the server said of itself holds before [`limits`](crate::Provider::limits) asks again.
    pub reread_after: Duration,
}

impl Config {
    /// A model without key, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Endpoint::new("openai-compatible", base_url, model).into()
    }
}

impl From<Endpoint> for Config {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, family: None, reread_after: discover::REREAD_AFTER }
    }
}
