//! The file's JSON Schema, made from the list of keys.

use serde_json::{Map, Value, json};

use super::gateway::GatewayDialect;
use super::keys::{self, ConfigKey, ConfigKeyKind};
use super::model::{
    Decision, PromptCacheLife, ProviderKind, ReasoningRetention, TokenCounter, TriggerConfig,
};
use super::node;
use crate::sandbox::NetworkAccess;

pub(super) fn render() -> Value {
    let mut schema = object("");
    let head = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("title", "longhaul.yml"),
        ("description", "One agent of Longhaul and everything about how it runs."),
    ];
    let mut all: Map<String, Value> =
        head.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect();
    if let Value::Object(inner) = &mut schema {
        all.append(inner);
    }
    Value::Object(all)
}

fn object(path: &str) -> Value {
    let mut properties = Map::new();
    for name in keys::children(path) {
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        properties.insert(name.to_owned(), keys::at(&inner).map_or_else(|| object(&inner), property));
    }
    let mut group = closed(Value::Object(properties));
    // The names of MCP tools are known only once their servers run: a pattern must stand for them.
    if path == "tools" {
        group["patternProperties"] = json!({ "^[A-Za-z].*__.": mcp_tool() });
    }
    group
}

/// Returns the limits of a tool that an MCP server has.
fn mcp_tool() -> Value {
    let limit = keys::at("tools.maxOutputChars").map(shape);
    closed(json!({ "maxOutputChars": limit }))
}

fn property(key: &ConfigKey) -> Value {
    let mut schema = shape(key);
    if let Value::Object(fields) = &mut schema {
        let later = if matches!(key.kind, ConfigKeyKind::Later) {
            " Not available yet: only the default is accepted."
        } else {
            ""
        };
        fields.insert("description".to_owned(), format!("{}{later}", key.doc).into());
        if let Some(default) = key.default {
            fields.insert("default".to_owned(), value_of(default));
        }
    }
    schema
}

fn shape(key: &ConfigKey) -> Value {
    match &key.kind {
        ConfigKeyKind::Flag => json!({ "type": "boolean" }),
        ConfigKeyKind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ConfigKeyKind::CountOrNone { min, max } => {
            json!({ "oneOf": [{ "const": "none" }, { "type": "integer", "minimum": min, "maximum": max }] })
        }
        ConfigKeyKind::Share => share(),
        ConfigKeyKind::Score => json!({ "type": "number", "minimum": 0 }),
        ConfigKeyKind::CountOrAuto => json!({ "oneOf": [{ "const": "auto" }, tokens()] }),
        ConfigKeyKind::Name => json!({ "type": "string", "minLength": 1 }),
        ConfigKeyKind::Url => json!({ "type": "string", "pattern": "^https?://." }),
        ConfigKeyKind::UrlOrNone => json!({ "type": ["string", "null"], "pattern": "^(https?://.|none$)" }),
        ConfigKeyKind::EnvName => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        ConfigKeyKind::Prompt => {
            let file = required(json!({ "file": { "type": "string" } }), &["file"]);
            json!({ "oneOf": [{ "type": "string" }, file] })
        }
        ConfigKeyKind::Choice { now, .. } => {
            json!({ "enum": now.iter().map(|name| value_of(name)).collect::<Vec<_>>() })
        }
        ConfigKeyKind::Counter => {
            let file = json!({ "type": "string", "pattern": "\\.json$" });
            json!({ "anyOf": [{ "enum": TokenCounter::NAMES }, file] })
        }
        ConfigKeyKind::Time { optional: true } => {
            json!({ "type": "string", "pattern": "^([0-9]+ *(ms|s|m|h|d)|none)$" })
        }
        ConfigKeyKind::Time { optional: false } => duration(),
        ConfigKeyKind::TimeOrAuto => {
            json!({ "type": "string", "pattern": "^([0-9]+ *(ms|s|m|h|d)|none|auto)$" })
        }
        ConfigKeyKind::Patience => json!({ "type": "string", "pattern": "^([0-9]+ *(ms|s|m|h|d)|none)$" }),
        ConfigKeyKind::Names => json!({ "type": "array", "items": { "type": "string" } }),
        ConfigKeyKind::BuiltinTools => json!({ "type": "array", "items": { "enum": crate::tools::BUILTIN } }),
        ConfigKeyKind::Texts => by_name(),
        ConfigKeyKind::Json => json!({ "type": "object" }),
        ConfigKeyKind::Trigger => trigger(),
        ConfigKeyKind::Rules => json!({ "type": "array", "items": rule() }),
        ConfigKeyKind::McpServers => {
            let server = json!({ "oneOf": [mcp_command(), mcp_remote()] });
            json!({ "type": "object", "additionalProperties": server })
        }
        ConfigKeyKind::Hook => hook(),
        ConfigKeyKind::SummaryWriter => {
            json!({ "oneOf": [{ "type": "string", "minLength": 1 }, summary_writer()] })
        }
        ConfigKeyKind::Upstreams => json!({ "type": "array", "items": upstream() }),
        ConfigKeyKind::Models => {
            json!({ "type": "object", "additionalProperties": declared_of_a_model() })
        }
        ConfigKeyKind::Address => json!({ "type": "string", "pattern": "^[^ ]+:[0-9]+$" }),
        ConfigKeyKind::PathOrNone => json!({ "type": ["string", "null"], "minLength": 1 }),
        ConfigKeyKind::RateOrNone => {
            json!({ "type": ["string", "null"], "pattern": "^([0-9]*[1-9][0-9]* */ *(s|min|h)|none)$" })
        }
        ConfigKeyKind::Hosts => {
            json!({ "type": "array", "items": { "type": "string", "pattern": "^[A-Za-z0-9._:\\[\\]-]+$" } })
        }
        ConfigKeyKind::Origins => {
            json!({ "type": "array", "items": { "type": "string", "pattern": "^https?://[^/]+$" } })
        }
        ConfigKeyKind::Agents => {
            // An inner agent has the keys of the whole file, hence the reference to the root.
            let agent = json!({ "oneOf": [{ "type": "string", "minLength": 1 }, { "$ref": "#" }] });
            json!({ "type": "object", "additionalProperties": agent })
        }
        ConfigKeyKind::Database => json!({ "const": "sqlite" }),
        ConfigKeyKind::Later => json!({ "const": value_of(key.default.unwrap_or_default()) }),
    }
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h|d)$" })
}

fn trigger() -> Value {
    let tokens = json!({ "type": "integer", "minimum": TriggerConfig::LEAST_TOKENS });
    closed(
        json!({ "type": { "enum": TriggerConfig::NAMES }, "percentage": share(), "triggerTokens": tokens }),
    )
}

fn rule() -> Value {
    let patterns =
        json!({ "type": "object", "minProperties": 1, "additionalProperties": { "type": "string" } });
    let fields =
        json!({ "tool": { "type": "string" }, "match": patterns, "decision": { "enum": Decision::NAMES } });
    required(fields, &["tool", "decision"])
}

fn declared_of_a_model() -> Value {
    let dollars = json!({ "type": "number", "minimum": 0 });
    let prices =
        json!({ "input": dollars, "cachedInput": dollars, "cacheWrite": dollars, "output": dollars });
    closed(json!({
        "window": tokens(),
        "maxOutput": tokens(),
        "prices": required(prices, &["input", "output"]),
        "tools": { "type": "boolean" },
        "media": { "type": "array", "items": { "enum": ["images", "files"] } },
        "prefill": { "type": "boolean" },
        "reasoning_retention": { "enum": ReasoningRetention::NAMES },
    }))
}

/// Returns the model for summaries with a provider of its own: the keys of `model`.
fn summary_writer() -> Value {
    let tokens = json!({ "oneOf": [{ "const": "auto" }, tokens()] });
    let providers: Vec<&str> =
        ProviderKind::NAMES.iter().copied().filter(|name| *name != ProviderKind::Scripted.as_str()).collect();
    let fields = json!({
        "provider": { "enum": providers },
        "name": { "type": "string", "minLength": 1 },
        "base_url": { "type": "string", "pattern": "^https?://." },
        "api_key_env": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
        "context_window": tokens,
        "max_output_tokens": tokens,
        "headers": by_name(),
        "body": { "type": "object" },
        "cache": { "enum": PromptCacheLife::NAMES },
        "timeout": { "type": "string", "pattern": "^([0-9]+ *(ms|s|m|h|d)|none|auto)$" },
    });
    required(fields, &["name"])
}

fn upstream() -> Value {
    let mut model = declared_of_a_model();
    if let Some(fields) = model["properties"].as_object_mut() {
        // The gateway looks at no prices of an upstream's models.
        fields.remove("prices");
        fields.insert("model".to_owned(), json!({ "type": "string", "minLength": 1 }));
    }
    let providers: Vec<&str> =
        ProviderKind::NAMES.iter().copied().filter(|name| *name != ProviderKind::Scripted.as_str()).collect();
    let fields = json!({
        "name": { "type": "string", "minLength": 1 },
        "provider": { "enum": providers },
        "base_url": { "type": "string", "pattern": "^https?://." },
        "api_key_env": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
        "headers": by_name(),
        "cache": { "enum": PromptCacheLife::NAMES },
        "timeout": json!({ "type": "string", "pattern": "^([0-9]+ *(ms|s|m|h|d)|none|auto)$" }),
        "dialects": { "type": "array", "items": { "enum": GatewayDialect::NAMES } },
        "window": tokens(),
        "models": { "type": "object", "additionalProperties": model },
    });
    required(fields, &["name"])
}

fn mcp_command() -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let network = json!({ "enum": NetworkAccess::NAMES });
    mcp_server(
        json!({ "command": { "type": "string", "minLength": 1 }, "args": texts, "env": by_name(), "network": network }),
        "command",
    )
}

fn mcp_remote() -> Value {
    let url = json!({ "type": "string", "pattern": "^https?://." });
    mcp_server(json!({ "url": url, "headers": by_name() }), "url")
}

fn mcp_server(mut properties: Value, needed: &str) -> Value {
    properties["timeoutMs"] =
        json!({ "type": "integer", "minimum": 1, "maximum": 86_400_000, "default": 120_000 });
    properties["optional"] = json!({ "type": "boolean", "default": false });
    let names = json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "default": [] });
    properties["tools"] = closed(json!({ "allow": names, "deny": names }));
    required(properties, &[needed])
}

fn hook() -> Value {
    let deadline = json!({ "type": "integer", "minimum": 1, "maximum": 3_600_000, "default": 10_000 });
    let command = json!({ "command": { "type": "string", "minLength": 1 }, "timeoutMs": deadline });
    let url = json!({ "url": { "type": "string", "pattern": "^https?://." }, "timeoutMs": deadline });
    json!({ "oneOf": [{ "enum": ["none", null] }, required(command, &["command"]), required(url, &["url"])] })
}

fn by_name() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn share() -> Value {
    json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 })
}

fn tokens() -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

fn closed(properties: Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn required(properties: Value, names: &[&str]) -> Value {
    let mut schema = closed(properties);
    schema["required"] = json!(names);
    schema
}

/// Returns a default as the file has it, in JSON.
fn value_of(default: &str) -> Value {
    node::parse(default).map_or(Value::Null, |node| node.to_json())
}
