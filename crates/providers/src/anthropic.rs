//! A client for Anthropic's Messages API, for Anthropic and compatible servers. The wire is
//! [`longhaul_wire::messages`].

mod client;
mod limits;

use longhaul_core::message::ModelOrigin;
use longhaul_wire::messages::MessagesConfig;

use crate::ModelEndpoint;
use crate::http::Secret;

pub use client::AnthropicProvider;
pub use longhaul_wire::messages::{
    API, BASE_URL, MAX_TOKENS, MessagesStreamDecoder, PromptCacheTtl, VERSION, encode_parts,
};

/// The header of the key.
const KEY_HEADER: &str = "x-api-key";

/// The header for enabling beta features.
const BETA_HEADER: &str = "anthropic-beta";

/// The header of the API's version.
const VERSION_HEADER: &str = "anthropic-version";

/// The configuration of a client for a model behind a Messages server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnthropicConfig {
    /// The server and the model. The key is sent as `x-api-key`. For a server with bearer tokens, set a header
    /// `authorization` and no key.
    pub endpoint: ModelEndpoint,
    /// The enabled beta features, for the header `anthropic-beta`.
    pub betas: Vec<String>,
    /// The time for which the server is asked to keep the prefix cached.
    pub cache: PromptCacheTtl,
}

impl AnthropicConfig {
    /// Creates the configuration of a model without key, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            endpoint: ModelEndpoint::new("anthropic", base_url, model),
            betas: Vec::new(),
            cache: PromptCacheTtl::default(),
        }
    }

    /// Returns the configuration of requests.
    pub fn request_config(&self) -> MessagesConfig {
        MessagesConfig {
            settings: self.endpoint.settings.clone(),
            cache: self.cache,
            ..MessagesConfig::default()
        }
    }

    fn origin(&self) -> ModelOrigin {
        self.endpoint.origin(API)
    }

    /// Returns the headers, secrets included.
    fn secret_headers(&self) -> Vec<(String, Secret)> {
        let mut headers = self.endpoint.all_headers(KEY_HEADER, "");
        // `betas` merges the features of this header with the others. Two headers of one name would replace each other.
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case(BETA_HEADER));
        headers
    }

    /// Returns the version, unless a header sets another version.
    fn version(&self) -> Option<&'static str> {
        // A version among the configured headers replaces ours: a proxy may require an older one.
        let mut names = self.endpoint.headers.iter().map(|(name, _)| name);
        (!names.any(|name| name.eq_ignore_ascii_case(VERSION_HEADER))).then_some(VERSION)
    }

    /// Returns every enabled feature, from the list or from a header, and `more`.
    fn betas(&self, more: Option<&str>) -> Option<String> {
        let headers = self.endpoint.headers.iter();
        let given = headers.filter(|(name, _)| name.eq_ignore_ascii_case(BETA_HEADER));
        let given = given.flat_map(|(_, value)| value.expose().split(',').map(str::trim));
        let mut betas: Vec<&str> = Vec::new();
        for beta in given.chain(self.betas.iter().map(String::as_str)).chain(more) {
            if !beta.is_empty() && !betas.contains(&beta) {
                betas.push(beta);
            }
        }
        (!betas.is_empty()).then(|| betas.join(","))
    }
}

#[cfg(test)]
mod tests;
