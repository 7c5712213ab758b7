//! A model behind a server: the settings, and the way to the server.

use std::fmt;
use std::ops::{Deref, DerefMut};

use longhaul_wire::ModelSettings;
use longhaul_wire::messages::PromptCacheTtl;

use crate::http::{self, HttpTimeouts, NetworkVariables, Secret};

/// A model behind a server: the [settings](ModelSettings) and the way to the server. The endpoint dereferences to the
/// settings.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelEndpoint {
    /// The names, extra fields and declared limits, as input of requests.
    pub settings: ModelSettings,
    /// The base URL of the API, for example `https://api.anthropic.com/v1`.
    pub base_url: String,
    /// The key; each wire has another header for the key.
    pub api_key: Option<Secret>,
    /// The environment variable that held the key, to be named in errors.
    pub key_variable: Option<String>,
    /// Headers of every request. A header with the name of the key's header replaces the key.
    pub headers: Vec<(String, Secret)>,
    /// The life of the prompt cache. Only Anthropic's API offers a choice; other wires ignore the field.
    pub cache: PromptCacheTtl,
    /// The waits of a call.
    pub timeouts: HttpTimeouts,
    /// The environment variables for the way to the server, to be named in errors.
    pub variables: NetworkVariables,
}

impl ModelEndpoint {
    /// Creates the endpoint of a model without key, with defaults for the rest.
    pub fn new(provider: &str, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            settings: ModelSettings::new(provider, model),
            base_url: base_url.into(),
            api_key: None,
            key_variable: None,
            headers: Vec::new(),
            cache: PromptCacheTtl::default(),
            timeouts: HttpTimeouts::default(),
            variables: NetworkVariables::default(),
        }
    }

    /// Returns all headers; the key, if any, as `name: prefix + key`.
    pub(crate) fn all_headers(&self, name: &str, prefix: &str) -> Vec<(String, Secret)> {
        let key = self.api_key.iter();
        let key = key.map(|key| (name.to_owned(), Secret::new(format!("{prefix}{}", key.expose()))));
        // The key comes first, because a later header of the same name replaces an earlier one.
        key.chain(self.headers.iter().cloned()).collect()
    }
}

/// Prints the endpoint without headers, and without secrets of a URL: a password, or a key in the query.
impl fmt::Debug for ModelEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelEndpoint")
            .field("provider", &self.provider)
            .field("server", &http::server(&self.base_url))
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Deref for ModelEndpoint {
    type Target = ModelSettings;

    fn deref(&self) -> &ModelSettings {
        &self.settings
    }
}

impl DerefMut for ModelEndpoint {
    fn deref_mut(&mut self) -> &mut ModelSettings {
        &mut self.settings
    }
}
