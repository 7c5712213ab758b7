//! The section `models`: the declared limits of models, by name.

use std::collections::BTreeMap;

use super::super::model::{ModelLimits, ModelPrices, ReasoningRetention};
use super::{
    ConfigEntry, ConfigNode, ConfigProblemKind, ConfigReader, ConfigValue, amount, choose, is_map, positive,
};

const KEYS: &[&str] = &["window", "maxOutput", "prices", "tools", "media", "prefill", "reasoning_retention"];
const PRICES: &[&str] = &["input", "cachedInput", "cacheWrite", "output"];
const MEDIA: &[&str] = &["images", "files"];

pub(in crate::config) fn models(reader: &mut ConfigReader<'_>, path: &str) -> BTreeMap<String, ModelLimits> {
    let Some(node) = reader.group(path) else { return BTreeMap::new() };
    node.entries().iter().map(|entry| (entry.key.clone(), declared(reader, entry, path))).collect()
}

fn declared(reader: &mut ConfigReader<'_>, entry: &ConfigEntry, path: &str) -> ModelLimits {
    let (node, path) = (&entry.node, format!("{path}.{}", entry.key));
    if !is_map(node) {
        reader.bad(node, &path, "{ window: TOKENS, maxOutput: TOKENS, prices, tools, media … }");
    }
    reader.only(node, &path, KEYS, &[]);
    let tokens = "a whole number of tokens above 0";
    // Without a list the server and the catalogue decide; an empty list declares that the model takes neither.
    let media = media(reader, node, &path);
    ModelLimits {
        window: reader.inner(node, &path, "window", tokens, positive),
        max_output: reader.inner(node, &path, "maxOutput", tokens, positive),
        prices: prices(reader, node, &path),
        tools: reader.inner(node, &path, "tools", "true or false", flag),
        images: media.map(|media| media.contains(&"images")),
        files: media.map(|media| media.contains(&"files")),
        prefill: reader.inner(node, &path, "prefill", "true or false", flag),
        reasoning_retention: retention(reader, node, &path),
    }
}

fn prices(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<ModelPrices> {
    let (node, path) = (node.get("prices")?, format!("{path}.prices"));
    if !matches!(node.value, ConfigValue::Map(_)) {
        reader.bad(
            node,
            &path,
            "{ input: USD, cachedInput: USD, cacheWrite: USD, output: USD }, per million tokens",
        );
        return None;
    }
    reader.only(node, &path, PRICES, &[]);
    for key in ["input", "output"].iter().filter(|key| node.get(key).is_none()) {
        reader.problem(node.at, &path, ConfigProblemKind::Conflict(format!("needs `{key}`")));
    }
    let mut price =
        |key: &str| reader.inner(node, &path, key, "US dollars per million tokens, 0 or more", amount);
    let (input, output) = (price("input"), price("output"));
    let (cached_input, cache_write) = (price("cachedInput"), price("cacheWrite"));
    Some(ModelPrices { input: input?, cached_input, cache_write, output: output? })
}

/// Returns the listed members of [`MEDIA`]: nothing else is taken.
pub(super) fn media(
    reader: &mut ConfigReader<'_>,
    node: &ConfigNode,
    path: &str,
) -> Option<[&'static str; 2]> {
    let (node, path) = (node.get("media")?, format!("{path}.media"));
    let ConfigValue::List(items) = &node.value else {
        reader.bad(node, &path, "a list of images and files; [] for neither");
        return None;
    };
    let mut listed = ["", ""];
    for item in items {
        let word = item.word().unwrap_or_else(|| item.describe());
        match MEDIA.iter().position(|known| *known == word) {
            Some(at) => listed[at] = MEDIA[at],
            None => reader.problem(item.at, &path, choose(&path, &word, MEDIA, &[])),
        }
    }
    Some(listed)
}

pub(super) fn retention(
    reader: &mut ConfigReader<'_>,
    node: &ConfigNode,
    path: &str,
) -> Option<ReasoningRetention> {
    let (node, path) = (node.get("reasoning_retention")?, format!("{path}.reasoning_retention"));
    let word = node.word().unwrap_or_else(|| node.describe());
    let known = ReasoningRetention::from_name(&word);
    if known.is_none() {
        reader.problem(node.at, &path, choose(&path, &word, ReasoningRetention::NAMES, &[]));
    }
    known
}

pub(super) fn flag(node: &ConfigNode) -> Option<bool> {
    match node.value {
        ConfigValue::Flag(flag) => Some(flag),
        _ => None,
    }
}
