//! What the running server says of its model: windows as loaded, not as trained.

use std::time::Duration;

use serde_json::Value;

use super::Config;
use crate::http::{self, Http};
use crate::{Ability, LimitSource, Limits};

/// How long a server may take to describe itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the server, unless everything is declared.
pub(super) async fn ask(http: &Http, config: &Config) -> Limits {
    let declared = config.declared;
    let known = if declared.is_complete() { Limits::default() } else { from_server(http, config).await };
    declared.over(known)
}

async fn from_server(http: &Http, config: &Config) -> Limits {
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
    let of = |answer: &Option<Value>, read: fn(&Value, &str) -> Limits| {
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

/// `GET /props`: the window of one slot.
fn llama_cpp(props: &Value, _model: &str) -> Limits {
    let slot = window(props.pointer("/default_generation_settings/n_ctx"));
    Limits {
        tools: props.pointer("/chat_template_caps/supports_tools").and_then(Value::as_bool).into(),
        images: props.pointer("/modalities/vision").and_then(Value::as_bool).into(),
        prefill: if slot.window.is_some() { Ability::Yes } else { Ability::Unknown },
        ..slot
    }
}

/// `GET /api/v0/models`: only a loaded model has its real window.
fn lm_studio(list: &Value, model: &str) -> Limits {
    let Some(entry) = entry(list.get("data"), "id", model) else {
        return Limits::default();
    };
    let can = |what: &str| {
        entry.get("capabilities").and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
    };
    Limits {
        tools: can("tool_use").into(),
        images: entry.get("type").and_then(Value::as_str).map(|kind| kind == "vlm").into(),
        ..window(entry.get("loaded_context_length"))
    }
}

/// `GET /api/ps`: what is loaded now.
fn ollama_loaded(list: &Value, model: &str) -> Limits {
    let loaded =
        entry(list.get("models"), "name", model).or_else(|| entry(list.get("models"), "model", model));
    window(loaded.and_then(|entry| entry.get("context_length")))
}

/// `GET /v1/models`: every server puts the window under another name (llama.cpp, vLLM, OpenRouter, Groq,
/// Mistral).
fn model_list(list: &Value, model: &str) -> Limits {
    const WINDOWS: &[&str] =
        &["/meta/n_ctx", "/max_model_len", "/context_length", "/context_window", "/max_context_length"];
    const OUTPUTS: &[&str] = &["/top_provider/max_completion_tokens", "/max_completion_tokens"];
    let Some(entry) = entry(list.get("data"), "id", model) else {
        return Limits::default();
    };
    let first = |names: &[&str]| names.iter().find_map(|name| number(entry.pointer(name)));
    let said = Limits::of_window(first(WINDOWS), LimitSource::Server);
    let named = |path: &str, what: &str| {
        entry.pointer(path).and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
    };
    let flag = |path: &str| entry.pointer(path).and_then(Value::as_bool);
    Limits {
        max_output: first(OUTPUTS),
        tools: named("/supported_parameters", "tools").or(flag("/capabilities/function_calling")).into(),
        images: named("/architecture/input_modalities", "image").or(flag("/capabilities/vision")).into(),
        ..said
    }
}

/// The model's entry; a server with a single model answers to any name.
fn entry<'a>(list: Option<&'a Value>, key: &str, model: &str) -> Option<&'a Value> {
    let entries = list?.as_array()?;
    let named = entries.iter().find(|entry| entry.get(key).and_then(Value::as_str) == Some(model));
    let alone = || entries.first().filter(|_| entries.len() == 1);
    named.or_else(alone)
}

fn window(said: Option<&Value>) -> Limits {
    Limits::of_window(number(said), LimitSource::Server)
}

fn number(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64).filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests;
