//! The client of the Gemini API.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelOrigin;
use reqwest::Url;

use super::{API, GeminiStreamDecoder, limits, request};
use crate::http::{self, ProviderHttpClient, answer};
use crate::{Limits, ModelEndpoint, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_wire::gemini::refusal;
use longhaul_wire::raw_json::RawObject;

/// The largest size of a count's answer, in bytes.
const MAX_COUNT_BYTES: usize = 1 << 20;

/// A model behind the Gemini API.
#[derive(Clone)]
pub struct GeminiProvider {
    endpoint: ModelEndpoint,
    http: ProviderHttpClient,
    stream: Url,
    count: Url,
    about: Url,
}

impl GeminiProvider {
    /// Creates a client without connecting. The key is sent in the header `x-goog-api-key`, never in an address.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(endpoint: ModelEndpoint) -> Result<Self, ProviderError> {
        let mut stream = url(&endpoint, ":streamGenerateContent")?;
        // Without this parameter the API streams the elements of one JSON array.
        stream.query_pairs_mut().append_pair("alt", "sse");
        let http =
            ProviderHttpClient::new(&stream, &endpoint.all_headers("x-goog-api-key", ""), endpoint.timeouts)?;
        let http = http.with_variables(&endpoint.variables);
        let (count, about) = (url(&endpoint, ":countTokens")?, url(&endpoint, "")?);
        Ok(Self { endpoint, http, stream, count, about })
    }
}

/// Returns the address of the model, with a verb.
fn url(endpoint: &ModelEndpoint, verb: &str) -> Result<Url, ProviderError> {
    let name = request::resource(&endpoint.model) + verb;
    // A name such as `models/NAME` is two segments. As one segment its slash would be escaped.
    let segments: Vec<&str> = name.split('/').collect();
    http::endpoint(&endpoint.base_url, &segments)
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
        limits::ask(&self.http, &self.endpoint, self.about.clone()).await
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.endpoint)
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        let body = request::encode_count(request, &self.endpoint)?;
        let response = self.http.post(self.count.clone(), body).await.map_err(refusal::explain)?;
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
        answer::call::<GeminiStreamDecoder>(&self.http, self.stream.clone(), body)
            .await
            .map_err(refusal::explain)
    }
}
