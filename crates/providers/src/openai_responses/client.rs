//! The client of Responses servers.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ModelOrigin;
use serde::Deserialize;

use super::{API, ResponsesStreamDecoder, request};
use crate::adaptations::LearnedAdaptations;
use crate::http::{BaseUrl, ProviderHttpClient, answer};
use crate::openai_chat::VERSION;
use crate::openai_chat::count;
use crate::openai_chat::discover::{REREAD_AFTER, ServerDiscovery};
use crate::{
    FeatureSupport, Limits, ModelEndpoint, ModelRequest, ModelStream, Provider, ProviderError, ReasoningScope,
};
use longhaul_wire::responses::ResponsesAdaptations;
use longhaul_wire::token_count::ReportedTokenCount;

/// The path of a call, below the base URL.
const PATH: [&str; 1] = ["responses"];

/// A model behind OpenAI's Responses API.
#[derive(Clone)]
pub struct OpenAiResponsesProvider {
    endpoint: ModelEndpoint,
    base: BaseUrl,
    http: ProviderHttpClient,
    discovery: ServerDiscovery,
    adaptations: LearnedAdaptations<ResponsesAdaptations>,
}

impl OpenAiResponsesProvider {
    /// Creates a client without connecting. The key is sent as `Authorization: Bearer …`.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(endpoint: ModelEndpoint) -> Result<Self, ProviderError> {
        let base = BaseUrl::new(&endpoint.base_url, VERSION);
        let url = base.endpoint(&PATH)?;
        let http = ProviderHttpClient::new(
            &url,
            &endpoint.all_headers("authorization", "Bearer "),
            endpoint.timeouts,
        )?;
        let http = http.with_variables(&endpoint);
        let discovery = ServerDiscovery::new(http.clone(), &endpoint, &base, None, REREAD_AFTER);
        Ok(Self { endpoint, base, http, discovery, adaptations: LearnedAdaptations::default() })
    }

    /// Sets the validity period of the server's facts before [`limits`](Provider::limits) asks again.
    #[must_use]
    pub fn reread_after(mut self, pause: Duration) -> Self {
        self.discovery = ServerDiscovery::new(self.http.clone(), &self.endpoint, &self.base, None, pause);
        self
    }
}

impl fmt::Debug for OpenAiResponsesProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAiResponsesProvider").field(&self.endpoint).finish()
    }
}

#[async_trait]
impl Provider for OpenAiResponsesProvider {
    fn origin(&self) -> ModelOrigin {
        self.endpoint.origin(API)
    }

    /// Returns the limits. Over the Responses API no server continues an answer, and a model is shown the reasoning
    /// of the current turn (<https://platform.openai.com/docs/guides/reasoning>).
    async fn limits(&self) -> Limits {
        // The discovery speaks for Chat Completions servers, so two of its facts do not hold on this wire.
        let known = self.discovery.limits().await;
        Limits { prefill: FeatureSupport::No, reasoning: Some(ReasoningScope::Turn), ..known }
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::encode_adapted(request, &self.endpoint, self.adaptations.current())
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        #[derive(Deserialize)]
        struct Counted {
            input_tokens: ReportedTokenCount,
        }
        let body = request::countable(&self.render(request)?)?;
        let url = self.base.endpoint(&["responses", "input_tokens"])?;
        let counted = count::post::<Counted>(&self.http, url, body).await?;
        Ok(counted.map(|counted| counted.input_tokens.0))
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        // The body has the pictures now: the request's copies would only fill memory while the model thinks.
        drop(request);
        let called = answer::call_below::<ResponsesStreamDecoder>(&self.http, &self.base, &PATH, body).await;
        called.map_err(|error| self.adaptations.learn_from(error, ResponsesAdaptations::learn))
    }
}
