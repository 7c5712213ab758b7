//! `gateway.upstreams`: servers behind the gateway.

use super::super::gateway::{GatewayDialect, UpstreamConfig, UpstreamHeaders, UpstreamModel};
use super::super::model::{ModelLimits, PromptCacheLife, ProviderKind};
use super::mcp::pairs;
use super::models::{flag, media, retention};
use super::{
    ConfigEntry, ConfigNode, ConfigProblemKind, ConfigReader, ConfigValue, FIRST_BYTE, choose, first_byte,
    is_env_name, is_map, is_url, positive, text,
};

const KEYS: &[&str] = &[
    "name",
    "provider",
    "base_url",
    "api_key_env",
    "headers",
    "cache",
    "timeout",
    "dialects",
    "window",
    "models",
];
const MODEL: &[&str] = &["model", "window", "maxOutput", "tools", "media", "prefill", "reasoning_retention"];
const SHAPE: &str = "{ name: NAME, base_url: URL, models … }";

pub(in crate::config) fn upstreams(reader: &mut ConfigReader<'_>, path: &str) -> Vec<UpstreamConfig> {
    let Some(node) = reader.find(path) else { return Vec::new() };
    let items = match &node.value {
        ConfigValue::Null => return Vec::new(),
        ConfigValue::List(items) => items,
        _ => {
            reader.bad(node, path, &format!("a list of {SHAPE}"));
            return Vec::new();
        }
    };
    let mut upstreams: Vec<UpstreamConfig> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let inner = format!("{path}[{at}]");
        let Some(upstream) = upstream(reader, item, &inner) else { continue };
        if upstreams.iter().any(|known| known.name == upstream.name) {
            let message = format!("has the name of another one, `{}`", upstream.name);
            reader.problem(item.at, &inner, ConfigProblemKind::Conflict(message));
        }
        upstreams.push(upstream);
    }
    upstreams
}

fn upstream(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<UpstreamConfig> {
    if !matches!(node.value, ConfigValue::Map(_)) {
        reader.bad(node, path, SHAPE);
        return None;
    }
    reader.only(node, path, KEYS, &[]);
    if node.get("name").is_none() {
        reader.problem(node.at, path, ConfigProblemKind::Conflict("needs `name`".to_owned()));
    }
    let name = reader.inner(node, path, "name", "a text that is not empty", not_blank);
    let provider = provider(reader, node, path);
    let url = reader.inner(node, path, "base_url", "an address, http://… or https://…", |node| {
        text(node).filter(|text| is_url(text))
    });
    let tokens = "a whole number of tokens above 0";
    let timeout = reader.inner(node, path, "timeout", FIRST_BYTE, first_byte);
    let upstream = UpstreamConfig {
        name: name?,
        base_url: url.unwrap_or_else(|| provider.base_url().to_owned()),
        provider,
        api_key_env: key_of(reader, node, path),
        headers: UpstreamHeaders(
            reader.mcp_key(node, path, "headers", "texts by name, NAME: TEXT", pairs).unwrap_or_default(),
        ),
        cache: cache(reader, node, path),
        timeout: timeout.unwrap_or_default(),
        dialects: dialects(reader, node, path, provider),
        window: reader.inner(node, path, "window", tokens, positive),
        models: models_of(reader, node, path),
    };
    Some(upstream)
}

pub(super) fn provider(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> ProviderKind {
    let usual = ProviderKind::OpenaiCompatible;
    let Some(said) = node.get("provider") else { return usual };
    // The scripted model runs in this process and has no server to be asked at.
    let names: Vec<&str> =
        ProviderKind::NAMES.iter().copied().filter(|name| *name != ProviderKind::Scripted.as_str()).collect();
    let word = said.word().unwrap_or_else(|| said.describe());
    let known = ProviderKind::from_name(&word).filter(|kind| kind.kind().is_some());
    known.unwrap_or_else(|| {
        reader.problem(said.at, &format!("{path}.provider"), choose(path, &word, &names, &[]));
        usual
    })
}

pub(super) fn cache(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> PromptCacheLife {
    let Some(said) = node.get("cache") else { return PromptCacheLife::Auto };
    let word = said.word().unwrap_or_else(|| said.describe());
    PromptCacheLife::from_name(&word).unwrap_or_else(|| {
        let path = format!("{path}.cache");
        reader.problem(said.at, &path, choose(&path, &word, PromptCacheLife::NAMES, &[]));
        PromptCacheLife::Auto
    })
}

/// Returns the variable's name. An invalid name is not quoted: the value may be the key itself.
pub(super) fn key_of(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<String> {
    let said = node.get("api_key_env")?;
    if matches!(said.value, ConfigValue::Null) {
        return None;
    }
    let name = text(said).filter(|name| is_env_name(name));
    if name.is_none() {
        let expected = "the name of an environment variable (letters, digits and _)".to_owned();
        let found = "this value (a key itself never stands in the file)".to_owned();
        let kind = ConfigProblemKind::BadValue { expected, found };
        reader.problem(said.at, &format!("{path}.api_key_env"), kind);
    }
    name.filter(|name| name != "none")
}

fn dialects(
    reader: &mut ConfigReader<'_>,
    node: &ConfigNode,
    path: &str,
    provider: ProviderKind,
) -> Option<Vec<GatewayDialect>> {
    let (said, path) = (node.get("dialects")?, format!("{path}.dialects"));
    let ConfigValue::List(items) = &said.value else {
        reader.bad(said, &path, "a list of chat, responses and messages");
        return None;
    };
    let mut dialects = Vec::new();
    for item in items {
        let word = item.word().unwrap_or_else(|| item.describe());
        match GatewayDialect::from_name(&word) {
            Some(dialect) => dialects.push(dialect),
            None => reader.problem(item.at, &path, choose(&path, &word, GatewayDialect::NAMES, &[])),
        }
    }
    // Requests of other clients, and summaries, are translated to the provider's wire.
    let has_own = dialects.is_empty() || dialects.contains(&GatewayDialect::Chat);
    if provider == ProviderKind::OpenaiCompatible && !has_own {
        let expected = "a list with chat, which `provider: openai-compatible` speaks (for a server that speaks \
                        messages only: `provider: anthropic`; responses only: `provider: openai`)";
        reader.bad(said, &path, expected);
    }
    Some(dialects)
}

fn models_of(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Vec<UpstreamModel> {
    let (Some(said), path) = (node.get("models"), format!("{path}.models")) else { return Vec::new() };
    if !is_map(said) {
        reader.bad(
            said,
            &path,
            "models by the names that clients know, NAME: { model: NAME, window: TOKENS … }",
        );
    }
    said.entries().iter().map(|entry| model_of(reader, entry, &path)).collect()
}

fn model_of(reader: &mut ConfigReader<'_>, entry: &ConfigEntry, path: &str) -> UpstreamModel {
    let (node, path) = (&entry.node, format!("{path}.{}", entry.key));
    if !is_map(node) {
        reader.bad(node, &path, "{ model: NAME, window: TOKENS … }");
    }
    reader.only(node, &path, MODEL, &[]);
    let tokens = "a whole number of tokens above 0";
    let media = media(reader, node, &path);
    let model = reader.inner(node, &path, "model", "a text that is not empty", not_blank);
    UpstreamModel {
        name: entry.key.clone(),
        model: model.unwrap_or_else(|| entry.key.clone()),
        limits: ModelLimits {
            window: reader.inner(node, &path, "window", tokens, positive),
            max_output: reader.inner(node, &path, "maxOutput", tokens, positive),
            prices: None,
            tools: reader.inner(node, &path, "tools", "true or false", flag),
            images: media.map(|media| media.contains(&"images")),
            files: media.map(|media| media.contains(&"files")),
            prefill: reader.inner(node, &path, "prefill", "true or false", flag),
            reasoning_retention: retention(reader, node, &path),
        },
    }
}

pub(super) fn not_blank(node: &ConfigNode) -> Option<String> {
    text(node).filter(|text| !text.trim().is_empty())
}
