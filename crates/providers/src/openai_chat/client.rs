//! The client of Chat Completions servers.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ModelOrigin;

use super::discover::ServerDiscovery;
use super::{API, OpenAiChatConfig, ServerFamily, VERSION, count, request};
use crate::adaptations::LearnedAdaptations;
use crate::http::{BaseUrl, ProviderHttpClient, answer};
use crate::{Limits, ModelEndpoint, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_wire::chat::RequestAdaptations;
use longhaul_wire::chat::stream::ChatStreamDecoder;

/// The path of a call, below the base URL.
const PATH: [&str; 2] = ["chat", "completions"];

/// A model behind OpenAI Chat Completions.
///
/// The server is recognised by the host, else in the first [`limits`](Provider::limits). Call `limits` before the
/// first call of the model.
#[derive(Clone)]
pub struct OpenAiChatProvider {
    endpoint: ModelEndpoint,
    base: BaseUrl,
    http: ProviderHttpClient,
    discovery: ServerDiscovery,
    /// The demands of this server, from its refusals in this process.
    adaptations: LearnedAdaptations<RequestAdaptations>,
}

impl OpenAiChatProvider {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(config: impl Into<OpenAiChatConfig>) -> Result<Self, ProviderError> {
        let OpenAiChatConfig { endpoint, family, reread_after } = config.into();
        let base = BaseUrl::new(&endpoint.base_url, VERSION);
        let url = base.endpoint(&PATH)?;
        let http = ProviderHttpClient::new(
            &url,
            &endpoint.all_headers("authorization", "Bearer "),
            endpoint.timeouts,
        )?;
        let http = http.with_variables(&endpoint);
        let discovery = ServerDiscovery::new(http.clone(), &endpoint, &base, family, reread_after);
        Ok(Self { endpoint, base, http, discovery, adaptations: LearnedAdaptations::default() })
    }

    /// Returns the server's family, as far as known, with what its refusals have demanded.
    pub fn family(&self) -> ServerFamily {
        self.adapted(self.discovery.family())
    }

    fn adapted(&self, family: ServerFamily) -> ServerFamily {
        self.adaptations.current().apply(family)
    }
}

impl fmt::Debug for OpenAiChatProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAiChatProvider").field(&self.endpoint).finish()
    }
}

#[async_trait]
impl Provider for OpenAiChatProvider {
    fn origin(&self) -> ModelOrigin {
        self.endpoint.origin(API)
    }

    async fn limits(&self) -> Limits {
        self.discovery.limits().await
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.endpoint, &self.family())
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        // A count may come before the first `limits`, when the family is still unknown.
        let family = self.adapted(self.discovery.ensure_family().await);
        let Some(counter) = family.counter.filter(|_| !count::has_media(request)) else { return Ok(None) };
        let body = request::encode(request, &self.endpoint, &family)?;
        count::ask(&self.http, self.base.current(), counter, &body).await
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        // The body has the pictures now: the request's copies would only fill memory while the model thinks.
        drop(request);
        let called = answer::call_below::<ChatStreamDecoder>(&self.http, &self.base, &PATH, body).await;
        called.map_err(|error| self.adaptations.learn_from(error, RequestAdaptations::learn))
    }
}
