//! The part that touches the network.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::Origin;
use reqwest::Url;

use super::stream::Decoder;
use super::{API, Config, limits, request};
use crate::http::{self, Http, answer};
use crate::{Limits, ModelStream, Provider, ProviderError, Request};

/// A model behind OpenAI Chat Completions.
#[derive(Clone)]
pub struct OpenAiChat {
    config: Config,
    url: Url,
    http: Http,
}

impl OpenAiChat {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(config: Config) -> Result<Self, ProviderError> {
        let url = http::endpoint(&config.base_url, &["chat", "completions"])?;
        let http = Http::new(&url, &config.all_headers(), config.timeouts)?;
        Ok(Self { config, url, http })
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAiChat").field(&self.config).finish()
    }
}

#[async_trait]
impl Provider for OpenAiChat {
    fn origin(&self) -> Origin {
        let Config { provider, model, .. } = &self.config;
        Origin { provider: provider.clone(), api: API.to_owned(), model: model.clone() }
    }

    async fn limits(&self) -> Limits {
        limits::ask(&self.http, &self.config).await
    }

    fn render(&self, request: &Request) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.config)
    }

    async fn call(&self, request: Request) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        // Its pictures are in the body now: they need not be held twice while the model thinks.
        drop(request);
        answer::call::<Decoder>(&self.http, self.url.clone(), body).await
    }
}
