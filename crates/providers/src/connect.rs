//! From the kind of a provider to a client for it.

use std::sync::Arc;

use crate::anthropic::{self, Anthropic, Cache};
use crate::gemini::Gemini;
use crate::ollama::Ollama;
use crate::openai_chat::OpenAiChat;
use crate::openai_responses::OpenAiResponses;
use crate::{Endpoint, ProviderError, SharedProvider};

pub use longhaul_wire::ProviderKind as Kind;

/// A client for one model. Connects nothing yet.
///
/// # Errors
/// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
pub fn connect(kind: Kind, mut endpoint: Endpoint) -> Result<SharedProvider, ProviderError> {
    endpoint.settings.takes_cache_key = kind.takes_cache_key(&endpoint.base_url);
    Ok(match kind {
        Kind::OpenAi => Arc::new(OpenAiResponses::new(endpoint)?),
        Kind::OpenAiCompatible => Arc::new(OpenAiChat::new(endpoint)?),
        Kind::Anthropic => {
            let config = anthropic::Config { endpoint, betas: Vec::new(), cache: Cache::default() };
            Arc::new(Anthropic::new(config)?)
        }
        Kind::Gemini => Arc::new(Gemini::new(endpoint)?),
        Kind::Ollama => Arc::new(Ollama::new(endpoint)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_speaks_its_wire() {
        let wires = Kind::ALL.map(|kind| {
            let endpoint = Endpoint::new(kind.as_str(), kind.base_url(), "m");
            let origin = connect(kind, endpoint).unwrap().origin();
            assert_eq!((origin.provider.as_str(), origin.model.as_str()), (kind.as_str(), "m"));
            origin.api
        });
        assert_eq!(wires, ["openai-responses", "openai-chat", "anthropic-messages", "gemini", "ollama"]);
    }
}
