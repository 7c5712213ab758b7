//! From a provider's name to a client: which wire it speaks, where it is, where its key usually is.

use std::sync::Arc;

use reqwest::Url;

use crate::anthropic::{self, Anthropic, Cache};
use crate::gemini::{self, Gemini};
use crate::ollama::{self, Ollama};
use crate::openai_chat::OpenAiChat;
use crate::openai_responses::{self, OpenAiResponses};
use crate::{Endpoint, ProviderError, SharedProvider};

/// A provider, as a configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// OpenAI, over its Responses API.
    OpenAi,
    /// Any server that speaks Chat Completions.
    OpenAiCompatible,
    /// Anthropic, over its Messages API.
    Anthropic,
    /// Google, over its Gemini API.
    Gemini,
    /// Ollama, over its own API.
    Ollama,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiCompatible, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Its name in a configuration and in [`Origin::provider`](longhaul_core::message::Origin::provider).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiCompatible => "openai-compatible",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Where its API begins unless somebody says otherwise.
    pub fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => openai_responses::BASE_URL,
            Self::OpenAiCompatible => "http://localhost:1234/v1",
            Self::Anthropic => anthropic::BASE_URL,
            Self::Gemini => gemini::BASE_URL,
            Self::Ollama => ollama::BASE_URL,
        }
    }

    /// The environment variables that usually hold the key of the server at `base_url`, the usual one first. None
    /// for a server that is not the provider's own: a key is never offered to a stranger.
    pub fn key_variables(self, base_url: &str) -> &'static [&'static str] {
        let (own, variables): (_, &[&str]) = match self {
            Self::OpenAi | Self::OpenAiCompatible => (openai_responses::BASE_URL, &["OPENAI_API_KEY"]),
            Self::Anthropic => (anthropic::BASE_URL, &["ANTHROPIC_API_KEY"]),
            Self::Gemini => (gemini::BASE_URL, &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
            Self::Ollama => return &[],
        };
        if origin(base_url).is_some_and(|origin| Some(origin) == self::origin(own)) { variables } else { &[] }
    }

    /// The headers that say to its server who asks: the key's, and whatever belongs to it.
    pub fn key_headers(self, key: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::OpenAi | Self::OpenAiCompatible | Self::Ollama => {
                vec![("authorization", format!("Bearer {key}"))]
            }
            Self::Anthropic => {
                vec![("x-api-key", key.to_owned()), ("anthropic-version", anthropic::VERSION.to_owned())]
            }
            Self::Gemini => vec![("x-goog-api-key", key.to_owned())],
        }
    }

    /// Where the server at `base_url` lists its models.
    pub fn list_of_models(self, base_url: &str) -> String {
        let base = base_url.trim_end_matches('/');
        let below = if self == Self::Ollama && !base.ends_with("/v1") { "/v1/models" } else { "/models" };
        format!("{base}{below}")
    }

    /// Returns whether it is somebody's service, which needs a key and has more models than anybody would choose
    /// from.
    pub fn is_hosted(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic | Self::Gemini)
    }

    /// Returns whether its API marks a tool's result as that of a call that failed; elsewhere only its words say so.
    pub fn marks_failed_results(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// Every variable that may hold a key by its name.
    pub fn all_key_variables() -> impl Iterator<Item = &'static str> {
        let own = [Self::OpenAi, Self::Anthropic, Self::Gemini];
        own.into_iter().flat_map(|kind| kind.key_variables(kind.base_url())).copied()
    }
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<(String, String, Option<u16>)> {
    let url = Url::parse(url).ok()?;
    Some((url.scheme().to_owned(), url.host_str()?.to_owned(), url.port_or_known_default()))
}

/// A client for one model. Connects nothing yet.
///
/// # Errors
/// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
pub fn connect(kind: Kind, endpoint: Endpoint) -> Result<SharedProvider, ProviderError> {
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

    #[test]
    fn a_key_is_offered_to_its_own_server_only() {
        let usual = |kind: Kind, url: &str| kind.key_variables(url).first().copied();
        assert_eq!(usual(Kind::OpenAi, "https://api.openai.com/v1"), Some("OPENAI_API_KEY"));
        assert_eq!(usual(Kind::OpenAiCompatible, "https://api.openai.com/v1/"), Some("OPENAI_API_KEY"));
        assert_eq!(usual(Kind::Anthropic, Kind::Anthropic.base_url()), Some("ANTHROPIC_API_KEY"));
        assert_eq!(usual(Kind::Gemini, Kind::Gemini.base_url()), Some("GEMINI_API_KEY"));
        for url in [
            "http://api.openai.com/v1",
            "https://api.openai.com.example.com/v1",
            "https://api.openai.com@example.com/v1",
            "https://api.openai.com:8443/v1",
            "http://localhost:1234/v1",
            "no url",
        ] {
            assert_eq!(usual(Kind::OpenAi, url), None, "{url}");
        }
        assert_eq!(usual(Kind::Ollama, Kind::Ollama.base_url()), None);
        let all: Vec<_> = Kind::all_key_variables().collect();
        assert_eq!(all, ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"]);
    }
}
