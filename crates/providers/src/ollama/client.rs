//! The client of Ollama's native API.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ModelOrigin;
use reqwest::Url;

use super::limits::OllamaInfoUrls;
use super::{API, OllamaStreamDecoder, limits, request};
use crate::http::{self, ProviderHttpClient, answer, base_without_operation};
use crate::{Limits, ModelEndpoint, ModelRequest, ModelStream, Provider, ProviderError};

/// A model behind Ollama.
///
/// Every call asks for the declared window, or for the loaded window of the last [`limits`](Provider::limits)
/// (`num_ctx`). Another client may have loaded the model with a smaller window meanwhile. Ollama then reloads the
/// model instead of working with a smaller window.
#[derive(Clone)]
pub struct OllamaProvider {
    endpoint: ModelEndpoint,
    http: ProviderHttpClient,
    chat: Url,
    addresses: OllamaInfoUrls,
    /// The loaded window in tokens; 0 for none.
    found: Arc<AtomicU64>,
    loads_first: bool,
}

impl OllamaProvider {
    /// Creates a client without connecting. A base URL of Ollama's other routes (`/v1`, `/api`) is accepted.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(endpoint: ModelEndpoint) -> Result<Self, ProviderError> {
        let base = base_without_operation(&endpoint.base_url);
        let base = base.trim_end_matches('/');
        // People take the address of the OpenAI-compatible API, or of the native one. Both stand below the root.
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/api")).unwrap_or(base);
        let chat = http::endpoint(base, &["api", "chat"])?;
        let addresses = OllamaInfoUrls {
            loaded: http::endpoint(base, &["api", "ps"])?,
            about: http::endpoint(base, &["api", "show"])?,
        };
        let http = ProviderHttpClient::new(
            &chat,
            &endpoint.all_headers("authorization", "Bearer "),
            endpoint.timeouts,
        )?;
        let http = http.with_variables(&endpoint);
        Ok(Self { endpoint, http, chat, addresses, found: Arc::default(), loads_first: false })
    }

    /// Lets [`limits`](Provider::limits) load an unloaded model, as the first call would. Only a loaded model has a
    /// known window. Loading may take as long as the answer to a call.
    #[must_use]
    pub fn loading_first(self) -> Self {
        Self { loads_first: true, ..self }
    }

    fn window(&self) -> Option<u64> {
        Some(self.found.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    /// Loads the model with the options of a call. An error is ignored here: the call will report the error.
    async fn load(&self) {
        if let Ok(body) = request::encode_load(&self.endpoint, self.window())
            && let Ok(response) = self.http.post(self.chat.clone(), body).await
        {
            // Ollama answers once the model is loaded. The content of its answer does not matter.
            let _ = http::collect(self.http.bytes(response), limits::MAX_INFO_BYTES).await;
        }
    }

    async fn ask(&self) -> limits::OllamaModelInfo {
        limits::fetch_info(&self.http, &self.addresses, &self.endpoint.model).await
    }
}

impl fmt::Debug for OllamaProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OllamaProvider").field(&self.endpoint).finish()
    }
}

#[async_trait]
impl Provider for OllamaProvider {
    fn origin(&self) -> ModelOrigin {
        self.endpoint.origin(API)
    }

    async fn limits(&self) -> Limits {
        let declared = limits::declared(&self.endpoint);
        if declared.is_complete() {
            return declared.over(limits::OllamaModelInfo::default().limits(None));
        }
        let mut found = self.ask().await;
        // Loading can take minutes, so it is done only if nothing else can tell the window.
        if self.loads_first && declared.window.is_none() && !found.has_window() {
            let begun = Instant::now();
            self.load().await;
            found = self.ask().await;
            tracing::info!(
                model = %self.endpoint.model,
                has_window = found.has_window(),
                elapsed_ms = begun.elapsed().as_millis() as u64,
                "Ollama loaded the model, because only a loaded model has a known window"
            );
        }
        let before = self.window();
        let known = found.limits(before);
        // Later calls ask for the same window, because another value would make Ollama load the model again.
        if let Some(window) = known.window {
            self.found.store(window, Ordering::Relaxed);
        }
        if known.window != before {
            tracing::info!(model = %self.endpoint.model, window = known.window, window_before = before, "Ollama's window of the model has changed");
        }
        declared.over(known)
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.endpoint, self.window())
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        // The body has the pictures now: the request's copies would only fill memory while the model thinks.
        drop(request);
        answer::call::<OllamaStreamDecoder>(&self.http, self.chat.clone(), body).await
    }
}
