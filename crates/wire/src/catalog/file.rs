//! The catalogue's file format.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::prices::ListPrices;
use super::{CatalogModel, CatalogSource, ReasoningScope, name};

/// The whole table.
#[derive(Debug, Default)]
pub(super) struct ModelCatalog {
    pub(super) sources: BTreeMap<String, CatalogSource>,
    /// The hosts of each maker's own API.
    pub(super) makers: BTreeMap<String, Vec<String>>,
    pub(super) models: Vec<CatalogModel>,
    /// The names, split into words, in the order of the models.
    pub(super) words: Vec<Vec<String>>,
}

/// The facts of one row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogEntry {
    /// The names, with alternatives in braces.
    names: Vec<String>,
    pub(super) maker: String,
    /// `true` if the weights are public.
    #[serde(default)]
    pub(super) open: bool,
    /// Tokens of input and output together: for closed weights at every address, for open weights at the maker's.
    pub(super) window: Option<u64>,
    /// The trained window of open weights, in tokens.
    pub(super) trained: Option<u64>,
    /// The part of the window for input, if smaller than the window.
    pub(super) max_input: Option<u64>,
    pub(super) max_output: Option<u64>,
    pub(super) usd: Option<ListPrices>,
    pub(super) tools: Option<bool>,
    pub(super) images: Option<bool>,
    pub(super) files: Option<bool>,
    pub(super) prefill: Option<bool>,
    #[serde(default, deserialize_with = "retention")]
    pub(super) reasoning: Option<ReasoningScope>,
    pub(super) tokenizer: Option<String>,
    pub(super) framing: Option<String>,
    pub(super) image_rule: Option<String>,
    pub(super) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogFile {
    // These two fields are notes for people who edit the table. `deny_unknown_fields` requires them here.
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "rules")]
    _rules: BTreeMap<String, String>,
    sources: BTreeMap<String, CatalogSource>,
    makers: BTreeMap<String, Vec<String>>,
    models: Vec<CatalogEntry>,
}

/// Parses the built-in table. A test parses the same table, so an error cannot occur here.
pub(super) fn read(text: &str) -> ModelCatalog {
    parse(text).unwrap_or_default()
}

pub(super) fn parse(text: &str) -> Result<ModelCatalog, serde_json::Error> {
    let CatalogFile { sources, makers, models, .. } = serde_json::from_str(text)?;
    let named = models.into_iter().flat_map(|facts| {
        // All names of a row share one copy of its facts.
        let facts = Arc::new(facts);
        let names: Vec<String> = facts.names.iter().flat_map(|name| expand(name)).collect();
        names.into_iter().map(move |name| CatalogModel { name, facts: Arc::clone(&facts) })
    });
    let models: Vec<CatalogModel> = named.collect();
    // Every lookup compares the words of all names, so each name is split only once.
    let words = models.iter().map(|model| name::words(&model.name)).collect();
    Ok(ModelCatalog { sources, makers, models, words })
}

/// Expands alternatives: `a-{b,c}` is `a-b` and `a-c`.
fn expand(name: &str) -> Vec<String> {
    let Some((head, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let Some((choices, tail)) = rest.split_once('}') else { return vec![name.to_owned()] };
    choices.split(',').flat_map(|choice| expand(&format!("{head}{choice}{tail}"))).collect()
}

fn retention<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<ReasoningScope>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "never" => Ok(Some(ReasoningScope::Never)),
        "turn" => Ok(Some(ReasoningScope::Turn)),
        "always" => Ok(Some(ReasoningScope::Always)),
        other => Err(serde::de::Error::unknown_variant(other, &["never", "turn", "always"])),
    }
}
