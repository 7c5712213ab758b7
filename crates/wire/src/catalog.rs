//! Facts about models, known without a request: windows, list prices and abilities.
//!
//! The facts are data (`catalog/models.json`), each row with a source and a date. A name outside the data is unknown.
//! Only a date, a version or the format of packed weights may follow a known name.
//!
//! A model with closed weights has the same window at every address. A model with open weights has the window of the
//! running server. The catalogue believes the maker's window at the maker's own address only. The trained window is
//! never taken for a server's window; the trained window is an upper bound ([`CatalogModel::upper_bound`]).

mod file;
mod name;
mod prices;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use url::Url;

use crate::{LimitSource, Limits, ReasoningScope};
use file::{CatalogEntry, ModelCatalog};

pub use prices::{ListPrices, TokenRates};

static CATALOG: LazyLock<ModelCatalog> = LazyLock::new(|| file::read(include_str!("catalog/models.json")));

/// The source of a fact: title, address and date of reading.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CatalogSource {
    /// The title of the page.
    pub title: String,
    /// The address of the page.
    pub url: String,
    /// The day on which the page was read, as `2026-11-12`.
    pub date: String,
}

/// A model under a single name.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogModel {
    name: String,
    facts: Arc<CatalogEntry>,
}

/// Returns all models: an entry for each name.
pub fn models() -> &'static [CatalogModel] {
    &CATALOG.models
}

/// Returns the model of a name in any usual form; the longest match wins. `None`: unknown.
///
/// ```
/// use longhaul_wire::catalog::find;
/// let name = |asked| find(asked).map(|model| model.name());
/// assert_eq!(name("openai/gpt-4o-2024-08-06"), Some("gpt-4o"));
/// assert_eq!(name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), Some("claude-sonnet-4-5"));
/// assert_eq!(name("Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf"), Some("qwen3-30b-a3b-instruct-2507"));
/// assert_eq!(name("gpt-4o-somebody-elses"), None);
/// ```
pub fn find(name: &str) -> Option<&'static CatalogModel> {
    name::find(&CATALOG, name)
}

/// Returns the known limits of a model at `base_url`; empty limits for an unknown model.
///
/// ```
/// use longhaul_wire::catalog;
/// assert_eq!(catalog::limits("claude-sonnet-4-5", "https://api.anthropic.com").window, Some(200_000));
/// assert_eq!(catalog::limits("glm-4.6", "https://api.z.ai/api/paas/v4").window, Some(200_000));
/// assert_eq!(catalog::limits("glm-4.6", "http://localhost:8080/v1").window, None);
/// ```
pub fn limits(model: &str, base_url: &str) -> Limits {
    find(model).map(|model| model.limits(base_url)).unwrap_or_default()
}

/// Returns the maker's list prices of a model at `base_url`. A fine-tuned model has prices of its own, so the result
/// is `None`.
pub fn prices(model: &str, base_url: &str) -> Option<ListPrices> {
    if name::is_tuned(model) {
        return None;
    }
    find(model).and_then(|model| model.prices(base_url))
}

impl CatalogModel {
    /// Returns the model's name in the catalogue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the model's maker, for example `anthropic`.
    pub fn maker(&self) -> &str {
        &self.facts.maker
    }

    /// Reports whether the model's weights are public: anybody may run the model.
    pub fn is_open(&self) -> bool {
        self.facts.open
    }

    /// Returns the largest number of tokens at any server; never the window of a single server. Methods for
    /// stretching the trained window (YaRN) can exceed the bound.
    pub fn upper_bound(&self) -> Option<u64> {
        // `None` is less than any number, so one known value is enough.
        self.facts.trained.max(self.facts.window)
    }

    /// Returns the window and the abilities, as far as they hold at `base_url`.
    pub fn limits(&self, base_url: &str) -> Limits {
        let facts = &*self.facts;
        let reasoning = facts.reasoning;
        if !self.holds_at(base_url) {
            // An operator cannot add vision to weights, but can run them without the vision part. So only "no"
            // holds at every server.
            let [images, files] =
                [facts.images, facts.files].map(|ability| ability.filter(|can| !can).into());
            return Limits { images, files, reasoning, ..Limits::default() };
        }
        // A server refuses input above its input limit, however much of the window is left for the output.
        let input = facts.max_input.or(facts.window);
        Limits {
            max_output: facts.max_output,
            tools: facts.tools.into(),
            images: facts.images.into(),
            files: facts.files.into(),
            prefill: facts.prefill.into(),
            reasoning,
            ..Limits::from_window(input, LimitSource::Catalogue)
        }
    }

    /// Returns the maker's list prices, as far as they hold at `base_url`.
    pub fn prices(&self, base_url: &str) -> Option<ListPrices> {
        self.facts.usd.filter(|_| self.holds_at(base_url))
    }

    /// Returns the maker's whole window, input and output together. Some models accept only a part of the window as
    /// input: the part is the window in [`CatalogModel::limits`].
    pub fn window(&self) -> Option<u64> {
        self.facts.window
    }

    /// Returns the model's vocabulary, for example `o200k_base`.
    pub fn tokenizer(&self) -> Option<&str> {
        self.facts.tokenizer.as_deref()
    }

    /// Returns the framing of the model's messages, for example `chatml`.
    pub fn framing(&self) -> Option<&str> {
        self.facts.framing.as_deref()
    }

    /// Returns the name of the rule for the tokens of a picture, for example `openai-tiles-85-170`.
    pub fn image_rule(&self) -> Option<&str> {
        self.facts.image_rule.as_deref()
    }

    /// Returns the source of the model's facts.
    pub fn source(&self) -> Option<&'static CatalogSource> {
        CATALOG.sources.get(&self.facts.source)
    }

    fn holds_at(&self, base_url: &str) -> bool {
        !self.facts.open || self.is_maker(base_url)
    }

    fn is_maker(&self, base_url: &str) -> bool {
        // An address that cannot be read does not prove that the maker serves the model.
        let Ok(url) = Url::parse(base_url) else { return false };
        let host = url.host_str().unwrap_or_default();
        let hosts = CATALOG.makers.get(&self.facts.maker);
        hosts.is_some_and(|hosts| hosts.iter().any(|own| is_host_of(host, own)))
    }
}

/// Reports whether `host` is the maker's host `own`, or a regional host (`us-central1-aiplatform.googleapis.com`) or
/// a subdomain. A host with merely the same last letters is another host.
fn is_host_of(host: &str, own: &str) -> bool {
    host == own || host.strip_suffix(own).is_some_and(|rest| rest.ends_with(['.', '-']))
}

#[cfg(test)]
mod tests;
