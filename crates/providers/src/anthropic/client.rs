//! The client of Anthropic's Messages API.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelOrigin;
use serde::Deserialize;

use super::{AnthropicConfig, BETA_HEADER, MessagesStreamDecoder, VERSION_HEADER, limits};
use crate::adaptations::LearnedAdaptations;
use crate::http::{self, BaseUrl, ProviderHttpClient, answer};
use crate::{Limits, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_wire::messages::request::{self, StaleReasoningPolicy};
use longhaul_wire::messages::{MessagesAdaptations, MessagesConfig};
use longhaul_wire::token_count::ReportedTokenCount;

/// The beta feature of the field for dropping stale reasoning.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// The server's words for signed reasoning behind a changed prefix.
const BOUND: &str = "bound to a different conversation";

/// The largest size of a count's answer, in bytes.
const MAX_COUNT_BYTES: usize = 64 << 10;

/// The first segment of the API's paths.
const PATH_VERSION: &str = "v1";

/// The path of a call, below the base URL.
const MESSAGES: [&str; 1] = ["messages"];

/// A model behind Anthropic's Messages API.
///
/// On some accounts, newer models refuse their own reasoning after earlier content was pruned or compacted. The first
/// such refusal is returned as a retryable error. From then on the server is asked to leave stale reasoning out.
#[derive(Clone)]
pub struct AnthropicProvider {
    config: AnthropicConfig,
    base: BaseUrl,
    http: ProviderHttpClient,
    /// The client with [`BINDING_BETA`] enabled.
    dropping: ProviderHttpClient,
    /// `true` once stale reasoning was refused.
    refused: Arc<AtomicBool>,
    adaptations: LearnedAdaptations<MessagesAdaptations>,
}

fn with_betas(http: &ProviderHttpClient, betas: Option<String>) -> Result<ProviderHttpClient, ProviderError> {
    match betas {
        Some(betas) => http.clone().with_header(BETA_HEADER, &betas),
        None => Ok(http.clone()),
    }
}

impl AnthropicProvider {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(config: AnthropicConfig) -> Result<Self, ProviderError> {
        let base = BaseUrl::new(&config.endpoint.base_url, PATH_VERSION);
        let url = base.endpoint(&MESSAGES)?;
        let http = ProviderHttpClient::new(&url, &config.secret_headers(), config.endpoint.timeouts)?;
        let mut http = http.with_variables(&config.endpoint);
        if let Some(version) = config.version() {
            http = http.with_header(VERSION_HEADER, version)?;
        }
        // Both clients are built now, so a header that cannot be sent fails here and not in a later call.
        let plain = with_betas(&http, config.betas(None))?;
        let dropping = with_betas(&http, config.betas(Some(BINDING_BETA)))?;
        let (refused, adaptations) = (Arc::default(), LearnedAdaptations::default());
        Ok(Self { config, base, http: plain, dropping, refused, adaptations })
    }

    /// Returns the configuration of requests, with what the server's refusals have demanded.
    fn request_config(&self) -> MessagesConfig {
        MessagesConfig { adaptations: self.adaptations.current(), ..self.config.request_config() }
    }

    fn stale_policy(&self) -> StaleReasoningPolicy {
        if self.refused.load(Ordering::Relaxed) {
            StaleReasoningPolicy::Drop
        } else {
            StaleReasoningPolicy::Unsaid
        }
    }

    fn http(&self, stale: StaleReasoningPolicy) -> &ProviderHttpClient {
        // The server knows the field for dropping reasoning only with its beta header: policy and client go together.
        match stale {
            StaleReasoningPolicy::Unsaid => &self.http,
            StaleReasoningPolicy::Drop => &self.dropping,
        }
    }

    /// Makes the first refusal of stale reasoning retryable: the next attempt asks the server to drop stale
    /// reasoning.
    fn note_refusal(&self, mut error: ProviderError, stale: StaleReasoningPolicy) -> ProviderError {
        // The API has no code for this refusal, so only its words tell it from other invalid requests.
        let bound = error.status == Some(400) && error.body.as_ref().is_some_and(|body| body.contains(BOUND));
        // A server that was asked to drop stale reasoning and still refuses would refuse once more.
        if bound && stale == StaleReasoningPolicy::Unsaid {
            tracing::info!("stale reasoning was refused: from now on the server is asked to leave it out");
            self.refused.store(true, Ordering::Relaxed);
            // Status 400 is final as a rule. Here the next attempt has another body.
            error.retryable = true;
        }
        error
    }

    async fn ask_count(
        &self,
        request: &ModelRequest,
        stale: StaleReasoningPolicy,
    ) -> Result<u64, ProviderError> {
        #[derive(Deserialize)]
        struct Counted {
            input_tokens: ReportedTokenCount,
        }
        let http = self.http(stale);
        let body = request::count(request, &self.request_config(), stale)?;
        let response = http.post(self.base.endpoint(&["messages", "count_tokens"])?, body).await?;
        // Only `post` hides secrets by itself. The errors of `bytes` are raw.
        let said = http::collect(http.bytes(response), MAX_COUNT_BYTES)
            .await
            .map_err(|error| http.hide_secrets(error))?;
        let counted = serde_json::from_slice::<Counted>(&said).map_err(|error| {
            let message = format!("the answer to a count is none: {error}");
            let mut error = ProviderError::new(ErrorCode::ThirdParty, message);
            error.body = Some(String::from_utf8_lossy(&said).into_owned());
            http.hide_secrets(error)
        })?;
        Ok(counted.input_tokens.0)
    }
}

impl fmt::Debug for AnthropicProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The HTTP clients are left out: they hold the headers with the key.
        f.debug_tuple("AnthropicProvider").field(&self.config).finish()
    }
}

#[async_trait]
impl Provider for AnthropicProvider {
    fn origin(&self) -> ModelOrigin {
        self.config.origin()
    }

    async fn limits(&self) -> Limits {
        limits::fetch_limits(&self.http, &self.base, &self.config).await
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        request::call(request, &self.request_config(), self.stale_policy())
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        // The policy is read once. Body and headers must agree even if another call learns of a refusal meanwhile.
        let stale = self.stale_policy();
        match self.ask_count(request, stale).await {
            Ok(tokens) => {
                tracing::debug!(tokens, model = %self.config.origin().model, "the server counted the request");
                Ok(Some(tokens))
            }
            // Compatible servers often have no page for counts.
            Err(error) if matches!(error.status, Some(404 | 405 | 501)) => {
                tracing::debug!(
                    status = error.status,
                    "the server does not count requests: they are estimated"
                );
                Ok(None)
            }
            Err(error) => Err(self.note_refusal(error, stale)),
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let stale = self.stale_policy();
        let body = request::call(&request, &self.request_config(), stale)?;
        // The body has the pictures now: the request's copies would only fill memory while the model thinks.
        drop(request);
        let answer =
            answer::call_below::<MessagesStreamDecoder>(self.http(stale), &self.base, &MESSAGES, body).await;
        answer.map_err(|error| {
            self.adaptations.learn_from(self.note_refusal(error, stale), MessagesAdaptations::learn)
        })
    }
}
