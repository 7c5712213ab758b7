//! The client of the Gemini API.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelOrigin;
use reqwest::Url;

use super::{API, GeminiStreamDecoder, limits, request};
use crate::adaptations::LearnedAdaptations;
use crate::http::{self, BaseUrl, ProviderHttpClient, answer};
use crate::{Limits, ModelEndpoint, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_wire::gemini::{GeminiAdaptations, refusal};
use longhaul_wire::raw_json::RawObject;

/// The version in the path of a base URL.
const PATH_VERSION: &str = "v1beta";

/// The largest size of a count's answer, in bytes.
const MAX_COUNT_BYTES: usize = 1 << 20;

/// A model behind the Gemini API.
#[derive(Clone)]
pub struct GeminiProvider {
    endpoint: ModelEndpoint,
    base: BaseUrl,
    http: ProviderHttpClient,
    adaptations: LearnedAdaptations<GeminiAdaptations>,
}

impl GeminiProvider {
    /// Creates a client without connecting. The key is sent in the header `x-goog-api-key`, never in an address.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(endpoint: ModelEndpoint) -> Result<Self, ProviderError> {
        let base = BaseUrl::new(&endpoint.base_url, PATH_VERSION);
        let stream = stream_url(base.current(), &endpoint.model)?;
        let http =
            ProviderHttpClient::new(&stream, &endpoint.all_headers("x-goog-api-key", ""), endpoint.timeouts)?;
        let http = http.with_variables(&endpoint);
        Ok(Self { endpoint, base, http, adaptations: LearnedAdaptations::default() })
    }
}

/// Returns the address of a streamed answer.
fn stream_url(base: &str, model: &str) -> Result<Url, ProviderError> {
    let mut stream = model_url(base, model, ":streamGenerateContent")?;
    // Without this parameter the API streams the elements of one JSON array.
    stream.query_pairs_mut().append_pair("alt", "sse");
    Ok(stream)
}

/// Returns the address of the model, with a verb.
pub(super) fn model_url(base: &str, model: &str, verb: &str) -> Result<Url, ProviderError> {
    let name = request::resource(model) + verb;
    // A name such as `models/NAME` is two segments. As one segment its slash would be escaped.
    let segments: Vec<&str> = name.split('/').collect();
    http::endpoint(base, &segments)
}

impl fmt::Debug for GeminiProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GeminiProvider").field(&self.endpoint).finish()
    }
}

#[async_trait]
impl Provider for GeminiProvider {
    fn origin(&self) -> ModelOrigin {
        self.endpoint.origin(API)
    }

    async fn limits(&self) -> Limits {
        limits::fetch_limits(&self.http, &self.endpoint, &self.base).await
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.endpoint, self.adaptations.current())
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        let body = request::encode_count(request, &self.endpoint, self.adaptations.current())?;
        let url = model_url(self.base.current(), &self.endpoint.model, ":countTokens")?;
        let response = self.http.post(url, body).await.map_err(refusal::explain)?;
        let answer = http::collect(self.http.bytes(response), MAX_COUNT_BYTES).await;
        let answer = answer.map_err(|error| self.http.hide_secrets(error))?;
        // An answer that is no JSON object has no total either, so both cases end in one error.
        let counted: Option<RawObject> = serde_json::from_slice(&answer).ok();
        let total = counted.and_then(|counted| counted.tokens("totalTokens"));
        total.map(Some).ok_or_else(|| ProviderError::new(ErrorCode::ThirdParty, "the count holds no total"))
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        // The body has the pictures now: the request's copies would only fill memory while the model thinks.
        drop(request);
        let address = |base: &str| stream_url(base, &self.endpoint.model);
        let called = answer::call_at::<GeminiStreamDecoder>(&self.http, &self.base, address, body).await;
        called.map_err(|error| self.adaptations.learn_from(refusal::explain(error), GeminiAdaptations::learn))
    }
}
