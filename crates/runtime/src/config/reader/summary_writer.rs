//! `context.compression.options.summarizeWith`: a word, a model's name, or a model with a provider of its own.

use super::super::model::{ModelConfig, SummaryWriter};
use super::mcp::pairs;
use super::upstreams::{cache, key_of, not_blank, provider};
use super::{
    ConfigNode, ConfigProblemKind, ConfigReader, ConfigValue, FIRST_BYTE, default, first_byte, is_url,
    positive, text,
};

/// The keys of a model with a provider of its own: those of the section `model`.
const KEYS: &[&str] = &[
    "provider",
    "name",
    "base_url",
    "api_key_env",
    "context_window",
    "max_output_tokens",
    "headers",
    "body",
    "cache",
    "timeout",
];

const SHAPE: &str =
    "same, extract, the name of an agent or model, or { provider: KIND, name: MODEL, base_url: URL … }";

pub(in crate::config) fn summary_writer(reader: &mut ConfigReader<'_>, path: &str) -> SummaryWriter {
    let usual = SummaryWriter::from_word(default(path).to_owned());
    let Some(node) = reader.find(path) else { return usual };
    if let ConfigValue::Map(_) = node.value {
        return own_model(reader, node, path).map_or(usual, |model| SummaryWriter::Own(Box::new(model)));
    }
    match text(node).filter(|word| !word.trim().is_empty()) {
        Some(word) => SummaryWriter::from_word(word),
        None => {
            reader.bad(node, path, SHAPE);
            usual
        }
    }
}

/// Returns the model of a map; `None` if the map does not name one. Problems name the key with its whole path.
fn own_model(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<ModelConfig> {
    reader.only(node, path, KEYS, &[]);
    if node.get("name").is_none() {
        reader.problem(
            node.at,
            path,
            ConfigProblemKind::Conflict("needs `name`, the model's name".to_owned()),
        );
    }
    // With neither, the default address would be asked for a model that is most likely elsewhere.
    if node.get("provider").is_none() && node.get("base_url").is_none() {
        let needs =
            "needs `provider` or `base_url`; for another model of the same server, give its name alone";
        reader.problem(node.at, path, ConfigProblemKind::Conflict(needs.to_owned()));
    }
    let provider = provider(reader, node, path);
    let name = reader.inner(node, path, "name", "a text that is not empty", not_blank);
    let url =
        reader.inner(node, path, "base_url", "an address that begins with http:// or https://", |node| {
            text(node).filter(|text| is_url(text))
        });
    let tokens = "auto or a whole number of tokens above 0";
    let timeout = reader.inner(node, path, "timeout", FIRST_BYTE, first_byte);
    let model = ModelConfig {
        provider,
        base_url: url.unwrap_or_else(|| provider.base_url().to_owned()),
        api_key_env: key_of(reader, node, path),
        context_window: reader.inner(node, path, "context_window", tokens, count_or_auto).flatten(),
        max_output_tokens: reader.inner(node, path, "max_output_tokens", tokens, count_or_auto).flatten(),
        headers: reader
            .mcp_key(node, path, "headers", "texts by name, NAME: TEXT", pairs)
            .unwrap_or_default(),
        body: reader
            .mcp_key(node, path, "body", "values by name, NAME: VALUE", |node| match node.to_json() {
                serde_json::Value::Object(map) => Some(map),
                serde_json::Value::Null => Some(serde_json::Map::new()),
                _ => None,
            })
            .unwrap_or_default(),
        cache: cache(reader, node, path),
        timeout: timeout.unwrap_or_default(),
        name: name?,
    };
    Some(model)
}

/// Returns a number of tokens; the inner `None` is `auto`.
fn count_or_auto(node: &ConfigNode) -> Option<Option<u64>> {
    match node.word().as_deref() {
        Some("auto") => Some(None),
        _ => positive(node).map(Some),
    }
}
