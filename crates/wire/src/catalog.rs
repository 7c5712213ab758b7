//! What is known of models without asking anybody: windows, list prices, abilities.
//!
//! The facts are data (`catalog/models.json`), each row with its source and date. A name that is not in them is
//! unknown: what follows a known name may only be a date, a version, or how the weights are packed.
//!
//! A model with closed weights has one window, wherever it is reached. One with open weights has the window of
//! whoever runs it: its maker's is believed at the maker's own address, and nowhere is the trained one taken for the
//! window of a server; it is an upper bound ([`CatalogModel::upper_bound`]).

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

/// Where facts were read, and when.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogSource {
    /// What it is.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// The day, as `2026-11-12`.
    pub date: String,
}

/// One model by one of its names.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogModel {
    name: String,
    facts: Arc<CatalogEntry>,
}

/// All models, each under each of its names.
pub fn models() -> &'static [CatalogModel] {
    &CATALOG.models
}

/// The model of a name in any of its usual forms; the longest match wins. `None`: unknown.
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

/// What is known of a model that is reached at `base_url`; nothing of an unknown one.
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

/// What a model that is reached at `base_url` costs by its maker's list. A fine-tuned one has prices of its own.
pub fn prices(model: &str, base_url: &str) -> Option<ListPrices> {
    if name::is_tuned(model) {
        return None;
    }
    find(model).and_then(|model| model.prices(base_url))
}

impl CatalogModel {
    /// Its name in the catalogue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who made it, for example `anthropic`.
    pub fn maker(&self) -> &str {
        &self.facts.maker
    }

    /// Returns whether anybody may run it.
    pub fn is_open(&self) -> bool {
        self.facts.open
    }

    /// The most tokens that any server can give it: never the window of one in particular. Methods that stretch
    /// what was trained (YaRN) can go beyond.
    pub fn upper_bound(&self) -> Option<u64> {
        self.facts.trained.max(self.facts.window)
    }

    /// The window and the abilities, as far as they hold at `base_url`.
    pub fn limits(&self, base_url: &str) -> Limits {
        let facts = &*self.facts;
        let reasoning = facts.reasoning;
        if !self.holds_at(base_url) {
            // Weights cannot be given an eye by who runs them, but run without it they can be.
            let without = |ability: Option<bool>| ability.filter(|can| !can).into();
            let (images, files) = (without(facts.images), without(facts.files));
            return Limits { images, files, reasoning, ..Limits::default() };
        }
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

    /// Its maker's list prices, as far as they hold at `base_url`.
    pub fn prices(&self, base_url: &str) -> Option<ListPrices> {
        self.facts.usd.filter(|_| self.holds_at(base_url))
    }

    /// The whole window by its maker, input and output together. Of some only a part may be input: that part is the
    /// window in [`CatalogModel::limits`].
    pub fn window(&self) -> Option<u64> {
        self.facts.window
    }

    /// Its vocabulary, for example `o200k_base`.
    pub fn tokenizer(&self) -> Option<&str> {
        self.facts.tokenizer.as_deref()
    }

    /// What stands around its messages, for example `chatml`.
    pub fn framing(&self) -> Option<&str> {
        self.facts.framing.as_deref()
    }

    /// What a picture costs it: the rule's name, for example `openai-tiles-85-170`.
    pub fn image_rule(&self) -> Option<&str> {
        self.facts.image_rule.as_deref()
    }

    /// Where this was read.
    pub fn source(&self) -> Option<&'static CatalogSource> {
        CATALOG.sources.get(&self.facts.source)
    }

    fn holds_at(&self, base_url: &str) -> bool {
        !self.facts.open || self.is_maker(base_url)
    }

    fn is_maker(&self, base_url: &str) -> bool {
        let Ok(url) = Url::parse(base_url) else { return false };
        let hosts = CATALOG.makers.get(&self.facts.maker);
        let is = |own: &String| {
            let host = url.host_str().unwrap_or_default();
            host == own || host.strip_suffix(own.as_str()).is_some_and(|rest| rest.ends_with(['.', '-']))
        };
        hosts.is_some_and(|hosts| hosts.iter().any(is))
    }
}

#[cfg(test)]
mod tests;
