//! One model behind one server: what every wire needs to know of it.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::Declared;
use crate::http::{self, NetworkVariables, Secret, Timeouts};

/// One model behind one server.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name as configured, for example `anthropic`.
    pub provider: String,
    /// Where the API begins, for example `https://api.anthropic.com/v1`.
    pub base_url: String,
    /// The model's name on that server.
    pub model: String,
    /// The key; each wire has its own header for it.
    pub api_key: Option<Secret>,
    /// Sent with every request; one with the name of the key's header replaces the key.
    pub headers: Vec<(String, Secret)>,
    /// Fields added to every request (temperature, reasoning effort …), over ours where both exist. `null`
    /// removes one of ours. What carries the conversation stays.
    pub body: Map<String, Value>,
    /// What the user knows better than the server.
    pub declared: Declared,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// The variables of the environment that decide how the server is reached, for errors to name.
    pub variables: NetworkVariables,
}

impl Endpoint {
    /// A model without key, with defaults for the rest.
    pub fn new(provider: &str, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: provider.to_owned(),
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            headers: Vec::new(),
            body: Map::new(),
            declared: Declared::default(),
            timeouts: Timeouts::default(),
            variables: NetworkVariables::default(),
        }
    }

    /// The same with the fields of one request: they win, and groups of fields are merged.
    pub(crate) fn with(&self, fields: &Map<String, Value>) -> Cow<'_, Self> {
        if fields.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut endpoint = self.clone();
        for (name, value) in fields {
            match (endpoint.body.get_mut(name), value) {
                (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
                _ => {
                    endpoint.body.insert(name.clone(), value.clone());
                }
            }
        }
        Cow::Owned(endpoint)
    }

    /// All headers; the key, if there is one, as `name: prefix + key`.
    pub(crate) fn all_headers(&self, name: &str, prefix: &str) -> Vec<(String, Secret)> {
        let key = self.api_key.iter();
        let key = key.map(|key| (name.to_owned(), Secret::new(format!("{prefix}{}", key.expose()))));
        key.chain(self.headers.iter().cloned()).collect()
    }
}

/// Without headers, and without what a URL may hide: a password, a key in its query.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("server", &http::server(&self.base_url))
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
