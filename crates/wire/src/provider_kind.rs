//! The kinds of providers that a configuration can name.

use url::Url;

use crate::{gemini, messages, ollama, responses};

/// The kind of a provider, as a configuration names it: its wire, its address and the usual name of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderKind {
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

impl ProviderKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiCompatible, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Returns the provider's name in a configuration and in
    /// [`ModelOrigin::provider`](longhaul_core::message::ModelOrigin::provider).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiCompatible => "openai-compatible",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the provider's base URL, unless a configuration names another.
    pub fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => responses::BASE_URL,
            // The default address of LM Studio.
            Self::OpenAiCompatible => "http://localhost:1234/v1",
            Self::Anthropic => messages::BASE_URL,
            Self::Gemini => gemini::BASE_URL,
            Self::Ollama => ollama::BASE_URL,
        }
    }

    /// Returns the environment variables that usually hold the key of the server at `base_url`, the usual one
    /// first. The list is empty for a server that is not the provider's own: a stranger never gets a key.
    pub fn key_variables(self, base_url: &str) -> &'static [&'static str] {
        let (own, variables): (_, &[&str]) = match self {
            Self::OpenAi | Self::OpenAiCompatible => (responses::BASE_URL, &["OPENAI_API_KEY"]),
            Self::Anthropic => (messages::BASE_URL, &["ANTHROPIC_API_KEY"]),
            Self::Gemini => (gemini::BASE_URL, &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
            // A local Ollama takes no key.
            Self::Ollama => return &[],
        };
        if origin(base_url).is_some_and(|origin| Some(origin) == self::origin(own)) { variables } else { &[] }
    }

    /// Reports whether the server has OpenAI's own API: it is said to have it, or the address is OpenAI's or that of
    /// Microsoft's servers of OpenAI's models. That API knows tools that other servers of the same wire do not know.
    pub fn is_openai(self, base_url: &str) -> bool {
        if self != Self::OpenAiCompatible {
            return self == Self::OpenAi;
        }
        let host = origin(base_url).map(|(_, host, _)| host).unwrap_or_default();
        ["openai.com", "openai.azure.com", "chatgpt.com"]
            .iter()
            .any(|own| host == *own || host.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
    }

    /// Returns the headers that authenticate the caller: the key's header, and the others that the provider
    /// requires with it.
    pub fn key_headers(self, key: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::OpenAi | Self::OpenAiCompatible | Self::Ollama => {
                vec![("authorization", format!("Bearer {key}"))]
            }
            Self::Anthropic => {
                vec![("x-api-key", key.to_owned()), ("anthropic-version", messages::VERSION.to_owned())]
            }
            Self::Gemini => vec![("x-goog-api-key", key.to_owned())],
        }
    }

    /// Returns the version in the path of the API, for a base URL without one. Ollama's API has none.
    pub fn path_version(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiCompatible | Self::Anthropic => Some("v1"),
            Self::Gemini => Some("v1beta"),
            Self::Ollama => None,
        }
    }

    /// Returns the URL at which the server at `base_url` lists its models.
    pub fn list_of_models(self, base_url: &str) -> String {
        let base = base_url.trim_end_matches('/');
        let base = if self == Self::Ollama { base.strip_suffix("/api").unwrap_or(base) } else { base };
        // Ollama's own list has a form of its own. Its compatible route lists like all others.
        let below = if self == Self::Ollama && !base.ends_with("/v1") { "/v1/models" } else { "/models" };
        format!("{base}{below}")
    }

    /// Reports whether the provider is a hosted service. Such a service needs a key and lists too many models to
    /// choose one automatically.
    pub fn is_hosted(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic | Self::Gemini)
    }

    /// Reports whether the server at `base_url` takes a `prompt_cache_key`. OpenAI's API at its own address does;
    /// other servers may refuse an unknown field.
    pub fn takes_cache_key(self, base_url: &str) -> bool {
        self == Self::OpenAi
            || self == Self::OpenAiCompatible && !Self::OpenAi.key_variables(base_url).is_empty()
    }

    /// Reports whether the API marks the result of a failed call. Elsewhere only the text of the result says so.
    pub fn marks_failed_results(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// Returns every environment variable that may hold a key.
    pub fn all_key_variables() -> impl Iterator<Item = &'static str> {
        let own = [Self::OpenAi, Self::Anthropic, Self::Gemini];
        own.into_iter().flat_map(|kind| kind.key_variables(kind.base_url())).copied()
    }
}

/// Returns scheme, host and port of a URL.
fn origin(url: &str) -> Option<(String, String, Option<u16>)> {
    let url = Url::parse(url).ok()?;
    // The known port, so that `https://host` and `https://host:443` are equal.
    Some((url.scheme().to_owned(), url.host_str()?.to_owned(), url.port_or_known_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openai_is_sent_a_cache_key() {
        assert!(
            ProviderKind::OpenAi.takes_cache_key("http://localhost:1234/v1"),
            "it is said to be OpenAI's API"
        );
        assert!(ProviderKind::OpenAiCompatible.takes_cache_key("https://api.openai.com/v1"));
        assert!(!ProviderKind::OpenAiCompatible.takes_cache_key("http://localhost:1234/v1"));
        assert!(!ProviderKind::Anthropic.takes_cache_key(ProviderKind::Anthropic.base_url()));
    }

    #[test]
    fn openais_api_is_known_by_its_kind_or_its_address() {
        let is = |url: &str| ProviderKind::OpenAiCompatible.is_openai(url);
        assert!(is("https://api.openai.com/v1") && is("https://me.openai.azure.com/openai/v1"));
        assert!(!is("https://notopenai.com/v1") && !is("http://localhost:1234/v1") && !is("no address"));
        assert!(ProviderKind::OpenAi.is_openai("http://localhost:1234/v1"));
        assert!(!ProviderKind::Anthropic.is_openai("https://api.openai.com/v1"));
    }

    #[test]
    fn a_key_is_offered_to_its_own_server_only() {
        let usual = |kind: ProviderKind, url: &str| kind.key_variables(url).first().copied();
        assert_eq!(usual(ProviderKind::OpenAi, "https://api.openai.com/v1"), Some("OPENAI_API_KEY"));
        assert_eq!(
            usual(ProviderKind::OpenAiCompatible, "https://api.openai.com/v1/"),
            Some("OPENAI_API_KEY")
        );
        assert_eq!(
            usual(ProviderKind::Anthropic, ProviderKind::Anthropic.base_url()),
            Some("ANTHROPIC_API_KEY")
        );
        assert_eq!(usual(ProviderKind::Gemini, ProviderKind::Gemini.base_url()), Some("GEMINI_API_KEY"));
        for url in [
            "http://api.openai.com/v1",
            "https://api.openai.com.example.com/v1",
            "https://api.openai.com@example.com/v1",
            "https://api.openai.com:8443/v1",
            "http://localhost:1234/v1",
            "no url",
        ] {
            assert_eq!(usual(ProviderKind::OpenAi, url), None, "{url}");
        }
        assert_eq!(usual(ProviderKind::Ollama, ProviderKind::Ollama.base_url()), None);
        let all: Vec<_> = ProviderKind::all_key_variables().collect();
        assert_eq!(all, ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"]);
    }
}
