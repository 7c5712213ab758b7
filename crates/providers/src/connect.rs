//! Creation of a client from the kind of provider.

use std::sync::Arc;

use crate::anthropic::{self, AnthropicProvider};
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
            let cache = endpoint.cache;
            let config = anthropic::AnthropicConfig { endpoint, betas: Vec::new(), cache };
            Arc::new(AnthropicProvider::new(config)?)
        }
        Kind::Gemini => Arc::new(GeminiProvider::new(endpoint)?),
        Kind::Ollama => Arc::new(OllamaProvider::new(endpoint)?),
    })
}

#[cfg(test)]
mod tests {
    use longhaul_core::message::{Message, Part};

    use super::*;
    use crate::ModelRequest;
    use crate::anthropic::PromptCacheTtl;

    #[test]
    fn the_life_of_the_cache_reaches_anthropic() {
        let sent = |cache| {
            let mut endpoint = ModelEndpoint::new("anthropic", Kind::Anthropic.base_url(), "m");
            endpoint.cache = cache;
            let messages = vec![Message::user("u", vec![Part::text("hi")])];
            let request = ModelRequest { messages, ..ModelRequest::default() };
            let body = connect(Kind::Anthropic, endpoint).unwrap().render(&request).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        let hour = r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#;
        assert!(sent(PromptCacheTtl::OneHour).contains(hour));
        assert!(!sent(PromptCacheTtl::Auto).contains("ttl"));
    }

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
