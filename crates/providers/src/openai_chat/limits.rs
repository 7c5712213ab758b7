//! What the running server says of its model: windows as loaded, not as trained.

use std::time::Duration;

use serde_json::Value;

use super::{Config, Declared};
use crate::Limits;
use crate::http::{self, Http};

/// How long a server may take to describe itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the server, unless everything is declared.
pub(super) async fn ask(http: &Http, config: &Config) -> Limits {
    let declared = config.declared;
    let complete = declared.window.is_some() && declared.tools.is_some() && declared.images.is_some();
    let known = if complete { Known::default() } else { from_server(http, config).await };
    known.under(declared)
}

async fn from_server(http: &Http, config: &Config) -> Known {
    let get = |base: String, path: &'static [&'static str]| async move {
        let url = http::endpoint(&base, path).ok()?;
        http.get_json(url, PATIENCE).await
    };
    let root = root(&config.base_url);
    let (props, studio, ollama, models) = tokio::join!(
        get(root.clone(), &["props"]),
        get(root.clone(), &["api", "v0", "models"]),
        get(root, &["api", "ps"]),
        get(config.base_url.clone(), &["models"]),
    );
    let of = |answer: &Option<Value>, read: fn(&Value, &str) -> Known| {
        answer.as_ref().map(|answer| read(answer, &config.model)).unwrap_or_default()
    };
    of(&props, llama_cpp)
        .or(of(&studio, lm_studio))
        .or(of(&ollama, ollama_loaded))
        .or(of(&models, model_list))
}

/// The server itself, for what lies beside `/v1`.
fn root(base: &str) -> String {
    let base = base.trim_end_matches('/');
    base.strip_suffix("/v1").unwrap_or(base).to_owned()
}

/// What one answer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    window: Option<u64>,
    max_output: Option<u64>,
    tools: Option<bool>,
    images: Option<bool>,
}

impl Known {
    fn or(self, other: Self) -> Self {
        Self {
            window: self.window.or(other.window),
            max_output: self.max_output.or(other.max_output),
            tools: self.tools.or(other.tools),
            images: self.images.or(other.images),
        }
    }

    /// A model of which nothing is known is offered tools and images: its refusal teaches more than ours.
    fn under(self, declared: Declared) -> Limits {
        let source = match (declared.window, self.window) {
            (Some(_), _) => "declared",
            (None, Some(_)) => "server",
            (None, None) => "",
        };
        Limits {
            window: declared.window.or(self.window),
            max_output: declared.max_output.or(self.max_output),
            source,
            tools: declared.tools.or(self.tools).unwrap_or(true),
            images: declared.images.or(self.images).unwrap_or(true),
        }
    }
}

/// `GET /props`: the window of one slot.
fn llama_cpp(props: &Value, _model: &str) -> Known {
    Known {
        window: number(props.pointer("/default_generation_settings/n_ctx")),
        max_output: None,
        tools: props.pointer("/chat_template_caps/supports_tools").and_then(Value::as_bool),
        images: props.pointer("/modalities/vision").and_then(Value::as_bool),
    }
}

/// `GET /api/v0/models`: only a loaded model has its real window.
fn lm_studio(list: &Value, model: &str) -> Known {
    let Some(entry) = entry(list.get("data"), "id", model) else {
        return Known::default();
    };
    let can = |what: &str| {
        entry.get("capabilities").and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
    };
    Known {
        window: number(entry.get("loaded_context_length")),
        max_output: None,
        tools: can("tool_use"),
        images: entry.get("type").and_then(Value::as_str).map(|kind| kind == "vlm"),
    }
}

/// `GET /api/ps`: what is loaded now.
fn ollama_loaded(list: &Value, model: &str) -> Known {
    let loaded =
        entry(list.get("models"), "name", model).or_else(|| entry(list.get("models"), "model", model));
    Known { window: number(loaded.and_then(|entry| entry.get("context_length"))), ..Known::default() }
}

/// `GET /v1/models`: every server puts the window under another name (llama.cpp, vLLM, OpenRouter, Groq,
/// Mistral).
fn model_list(list: &Value, model: &str) -> Known {
    const WINDOWS: &[&str] =
        &["/meta/n_ctx", "/max_model_len", "/context_length", "/context_window", "/max_context_length"];
    const OUTPUTS: &[&str] = &["/top_provider/max_completion_tokens", "/max_completion_tokens"];
    let Some(entry) = entry(list.get("data"), "id", model) else {
        return Known::default();
    };
    let first = |names: &[&str]| names.iter().find_map(|name| number(entry.pointer(name)));
    let named = |path: &str, what: &str| {
        entry.pointer(path).and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
    };
    let flag = |path: &str| entry.pointer(path).and_then(Value::as_bool);
    Known {
        window: first(WINDOWS),
        max_output: first(OUTPUTS),
        tools: named("/supported_parameters", "tools").or(flag("/capabilities/function_calling")),
        images: named("/architecture/input_modalities", "image").or(flag("/capabilities/vision")),
    }
}

/// The model's entry; a server with a single model answers to any name.
fn entry<'a>(list: Option<&'a Value>, key: &str, model: &str) -> Option<&'a Value> {
    let entries = list?.as_array()?;
    let named = entries.iter().find(|entry| entry.get(key).and_then(Value::as_str) == Some(model));
    let alone = || entries.first().filter(|_| entries.len() == 1);
    named.or_else(alone)
}

fn number(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64).filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests;
