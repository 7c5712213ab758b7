//! The section `models`: the declared limits of models, by name.

use std::collections::BTreeMap;

use super::super::model::{ModelLimits, ModelPrices, ReasoningRetention};
use super::{
    ConfigEntry, ConfigNode, ConfigProblemKind, ConfigReader, ConfigValue, amount, choose, is_map, whole,
};

const KEYS: &[&str] = &["window", "maxOutput", "prices", "tools", "media", "prefill", "reasoning_retention"];
const PRICES: &[&str] = &["input", "cachedInput", "cacheWrite", "output"];
const MEDIA: &[&str] = &["images", "files"];

impl ConfigReader<'_> {
    pub(in super::super) fn models(&mut self, path: &str) -> BTreeMap<String, ModelLimits> {
        let Some(node) = self.group(path) else { return BTreeMap::new() };
        node.entries().iter().map(|entry| (entry.key.clone(), self.declared(entry, path))).collect()
    }

    fn declared(&mut self, entry: &ConfigEntry, path: &str) -> ModelLimits {
        let (node, path) = (&entry.node, format!("{path}.{}", entry.key));
        if !is_map(node) {
            self.bad(node, &path, "{ window: TOKENS, maxOutput: TOKENS, prices, tools, media … }");
        }
        self.only(node, &path, KEYS, &[]);
        let tokens = "a whole number of tokens above 0";
        let positive = |node: &ConfigNode| whole(node, 1, u64::MAX);
        // Without a list the server and the catalogue decide; an empty list declares that the model takes neither.
        let media = self.media(node, &path);
        ModelLimits {
            window: self.inner(node, &path, "window", tokens, positive),
            max_output: self.inner(node, &path, "maxOutput", tokens, positive),
            prices: self.prices(node, &path),
            tools: self.inner(node, &path, "tools", "true or false", flag),
            images: media.map(|media| media.contains(&"images")),
            files: media.map(|media| media.contains(&"files")),
            prefill: self.inner(node, &path, "prefill", "true or false", flag),
            reasoning_retention: self.retention(node, &path),
        }
    }

    fn prices(&mut self, node: &ConfigNode, path: &str) -> Option<ModelPrices> {
        let (node, path) = (node.get("prices")?, format!("{path}.prices"));
        if !matches!(node.value, ConfigValue::Map(_)) {
            self.bad(
                node,
                &path,
                "{ input: USD, cachedInput: USD, cacheWrite: USD, output: USD }, per million tokens",
            );
            return None;
        }
        self.only(node, &path, PRICES, &[]);
        for key in ["input", "output"].iter().filter(|key| node.get(key).is_none()) {
            self.problem(node.at, &path, ConfigProblemKind::Conflict(format!("needs `{key}`")));
        }
        let mut price =
            |key: &str| self.inner(node, &path, key, "US dollars per million tokens, 0 or more", amount);
        let (input, output) = (price("input"), price("output"));
        let (cached_input, cache_write) = (price("cachedInput"), price("cacheWrite"));
        Some(ModelPrices { input: input?, cached_input, cache_write, output: output? })
    }

    /// Returns the listed members of [`MEDIA`]: nothing else is taken.
    pub(super) fn media(&mut self, node: &ConfigNode, path: &str) -> Option<[&'static str; 2]> {
        let (node, path) = (node.get("media")?, format!("{path}.media"));
        let ConfigValue::List(items) = &node.value else {
            self.bad(node, &path, "a list of images and files; [] for neither");
            return None;
        };
        let mut listed = ["", ""];
        for item in items {
            let word = item.word().unwrap_or_else(|| item.describe());
            match MEDIA.iter().position(|known| *known == word) {
                Some(at) => listed[at] = MEDIA[at],
                None => self.problem(item.at, &path, choose(&path, &word, MEDIA, &[])),
            }
        }
        Some(listed)
    }

    pub(super) fn retention(&mut self, node: &ConfigNode, path: &str) -> Option<ReasoningRetention> {
        let (node, path) = (node.get("reasoning_retention")?, format!("{path}.reasoning_retention"));
        let word = node.word().unwrap_or_else(|| node.describe());
        let known = ReasoningRetention::from_name(&word);
        if known.is_none() {
            self.problem(node.at, &path, choose(&path, &word, ReasoningRetention::NAMES, &[]));
        }
        known
    }
}

pub(super) fn flag(node: &ConfigNode) -> Option<bool> {
    match node.value {
        ConfigValue::Flag(flag) => Some(flag),
        _ => None,
    }
}
