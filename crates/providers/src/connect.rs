//! Creation of a client from the kind of provider.

use std::sync::Arc;

use crate::anthropic::{self, AnthropicProvider, PromptCacheTtl};
use crate::gemini::GeminiProvider;
use crate::ollama::OllamaProvider;
use crate::openai_chat::OpenAiChatProvider;
use crate::openai_responses::OpenAiResponsesProvider;
use crate::{ModelEndpoint, ProviderError, SharedProvider};

pub use longhaul_wire::ProviderKind as Kind;

/// Creates a client for a model, without connecting.
///
/// # Errors
/// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
pub fn connect(kind: Kind, mut endpoint: ModelEndpoint) -> Result<SharedProvider, ProviderError> {
    endpoint.settings.takes_cache_key = kind.takes_cache_key(&endpoint.base_url);
    Ok(match kind {
        Kind::OpenAi => Arc::new(OpenAiResponsesProvider::new(endpoint)?),
        Kind::OpenAiCompatible => Arc::new(OpenAiChatProvider::new(endpoint)?),
        Kind::Anthropic => {
            let config =
                anthropic::AnthropicConfig { endpoint, betas: Vec::new(), cache: PromptCacheTtl::default() };
            Arc::new(AnthropicProvider::new(config)?)
        }
        Kind::Gemini => Arc::new(GeminiProvider::new(endpoint)?),
        Kind::Ollama => Arc::new(OllamaProvider::new(endpoint)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_speaks_its_wire() {
        let wires = Kind::ALL.map(|kind| {
            let endpoint = ModelEndpoint::new(kind.as_str(), kind.base_url(), "m");
            let origin = connect(kind, endpoint).unwrap().origin();
            assert_eq!((origin.provider.as_str(), origin.model.as_str()), (kind.as_str(), "m"));
            origin.api
        });
        assert_eq!(wires, ["openai-responses", "openai-chat", "anthropic-messages", "gemini", "ollama"]);
    }
}
