//! The settings of a model for requests.

use std::borrow::Cow;

use longhaul_core::message::ModelOrigin;
use serde_json::{Map, Value};

use crate::DeclaredLimits;

/// The settings of a model for requests: names, extra fields and declared limits. Addresses, keys and timeouts belong
/// to the sending client.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// The provider's name as configured, for example `anthropic`.
    pub provider: String,
    /// The model's name on its server.
    pub model: String,
    /// Fields added to every request (temperature, reasoning effort …). Such fields replace fields of the same name,
    /// except the fields of the conversation; `null` removes a field.
    pub body: Map<String, Value>,
    /// The limits and abilities that the user declared.
    pub declared: DeclaredLimits,
    /// `true` if the server takes a `prompt_cache_key`. Other servers may refuse the field.
    pub takes_cache_key: bool,
}

impl ModelSettings {
    /// Creates settings without extra fields and declared limits.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into(), ..Self::default() }
    }

    /// Returns the origin of messages that this model writes over the wire named `api`.
    pub fn origin(&self, api: &str) -> ModelOrigin {
        ModelOrigin { provider: self.provider.clone(), api: api.to_owned(), model: self.model.clone() }
    }

    /// Returns the settings with the fields of a request. The request's fields win over configured fields; objects
    /// are merged.
    pub fn with_fields(&self, fields: &Map<String, Value>) -> Cow<'_, Self> {
        if fields.is_empty() {
            // Most requests have no fields of their own, so the settings need no copy.
            return Cow::Borrowed(self);
        }
        let mut settings = self.clone();
        for (name, value) in fields {
            match (settings.body.get_mut(name), value) {
                (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
                _ => {
                    settings.body.insert(name.clone(), value.clone());
                }
            }
        }
        Cow::Owned(settings)
    }
}
