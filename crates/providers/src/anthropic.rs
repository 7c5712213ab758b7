//! Anthropic's Messages API, as Anthropic and compatible servers speak it.
//!
//! [`encode`] and [`Decoder`] are pure translation, `client` is the only part that touches the network. What a
//! model wrote goes back to it as it came: signatures, redacted reasoning, citations and the argument bytes of
//! tool calls are not touched. What another model wrote goes as text and tool calls.

mod block;
mod client;
mod limits;
mod request;
mod stream;
mod unfinished;

use longhaul_core::message::Origin;

use crate::Endpoint;
use crate::http::Secret;

pub use client::Anthropic;
pub use request::{MAX_TOKENS, encode, encode_parts};
pub use stream::Decoder;

/// The name of this wire in [`Origin::api`].
pub const API: &str = "anthropic-messages";

/// Where Anthropic's own API begins.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";

/// The version of the API that is spoken, and the only one that every compatible server knows. A header
/// `anthropic-version` replaces it.
pub const VERSION: &str = "2023-06-01";

/// The header that carries the key.
const KEY_HEADER: &str = "x-api-key";

/// The header that switches features on which are in test.
const BETA_HEADER: &str = "anthropic-beta";

/// The header that names the version.
const VERSION_HEADER: &str = "anthropic-version";

/// One model behind one server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server and the model. The key goes as `x-api-key`; a server that wants a bearer token is given a
    /// header `authorization` and no key.
    pub endpoint: Endpoint,
    /// Features in test that are switched on, in the header `anthropic-beta`.
    pub betas: Vec<String>,
    /// How long the server is asked to keep what it has read.
    pub cache: Cache,
}

/// How long the server is asked to keep what it has read, by marks in the request.
///
/// Marks stand at the end of the tools, of the system prompt and of the last two user turns, the most the API
/// takes. They move on with the conversation; what they enclose is matched by its content, not by its marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// There are no marks: the server does as it likes.
    Off,
    /// Five minutes since the last use, the shortest there is.
    #[default]
    FiveMinutes,
    /// One hour since the last use; writing costs more.
    OneHour,
}

impl Config {
    /// A model without key, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint::new("anthropic", base_url, model),
            betas: Vec::new(),
            cache: Cache::default(),
        }
    }

    fn origin(&self) -> Origin {
        let Endpoint { provider, model, .. } = &self.endpoint;
        Origin { provider: provider.clone(), api: API.to_owned(), model: model.clone() }
    }

    /// The headers that may hold a secret.
    fn secret_headers(&self) -> Vec<(String, Secret)> {
        let mut headers = self.endpoint.all_headers(KEY_HEADER, "");
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case(BETA_HEADER));
        headers
    }

    /// The version, unless a header gives another.
    fn version(&self) -> Option<&'static str> {
        let given = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case(VERSION_HEADER);
        (!self.endpoint.headers.iter().any(given)).then_some(VERSION)
    }

    /// Every feature that is switched on, by name or by a header, and `more`.
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
