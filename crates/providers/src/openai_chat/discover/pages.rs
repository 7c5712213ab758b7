//! The pages on which servers describe themselves. A page is known by its shape: LM Studio, for one, answers
//! every address with status 200.

use serde_json::Value;

use super::ServerFacts;
use crate::openai_chat::family::ServerFamily;
use crate::{LimitSource, Limits};
use longhaul_wire::token_count;

/// Reads llama.cpp's `GET /props`: the window of one slot.
pub(super) fn props(page: &Value) -> Option<ServerFacts> {
    let slot = page.pointer("/default_generation_settings")?;
    let flag = |path: &str| page.pointer(path).and_then(Value::as_bool);
    let limits = Limits {
        tools: flag("/chat_template_caps/supports_tools").into(),
        images: flag("/modalities/vision").into(),
        ..window(slot.get("n_ctx"))
    };
    Some(ServerFacts { family: Some(&ServerFamily::LLAMA_CPP), limits })
}

/// Reads LM Studio 0.4's `GET /api/v1/models`: each loaded instance has its own window.
pub(super) fn lm_studio_v1(page: &Value, model: &str) -> Option<ServerFacts> {
    let models = page.get("models")?.as_array()?;
    let instances = |entry: &Value| entry.get("loaded_instances").and_then(Value::as_array).cloned();
    // Other pages may have a list `models` too. Only LM Studio's entries have instances.
    if models.iter().any(|entry| instances(entry).is_none()) {
        return None;
    }
    let of_instance = |entry: &Value| {
        let all = instances(entry).unwrap_or_default();
        let named = all.iter().position(|instance| instance.get("id").and_then(Value::as_str) == Some(model));
        all.get(named.unwrap_or_default())
            .and_then(|instance| instance.pointer("/config/context_length").cloned())
    };
    let holds = |entry: &&Value| {
        entry.get("key").and_then(Value::as_str) == Some(model)
            || instances(entry).is_some_and(|all| all.iter().any(|one| one["id"] == model))
    };
    let entry = models.iter().find(holds).or_else(|| alone(models));
    let limits = entry.map(|entry| Limits {
        tools: entry.pointer("/capabilities/trained_for_tool_use").and_then(Value::as_bool).into(),
        images: entry.pointer("/capabilities/vision").and_then(Value::as_bool).into(),
        ..window(of_instance(entry).as_ref())
    });
    Some(ServerFacts { family: Some(&ServerFamily::LM_STUDIO), limits: limits.unwrap_or_default() })
}

/// Reads LM Studio 0.3's `GET /api/v0/models`: only a loaded model has its real window.
pub(super) fn lm_studio_v0(page: &Value, model: &str) -> Option<ServerFacts> {
    let models = page.get("data")?.as_array()?;
    // Every list of models has `data`. Only LM Studio's entries have a state.
    if models.iter().any(|entry| entry.get("state").is_none()) {
        return None;
    }
    let limits = entry(models, &["id"], model).map(|entry| {
        let can = |what: &str| {
            entry.get("capabilities").and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
        };
        Limits {
            tools: can("tool_use").into(),
            images: entry.get("type").and_then(Value::as_str).map(|kind| kind == "vlm").into(),
            ..window(entry.get("loaded_context_length"))
        }
    });
    Some(ServerFacts { family: Some(&ServerFamily::LM_STUDIO), limits: limits.unwrap_or_default() })
}

/// Reads Ollama's `GET /api/ps`: the models that are loaded now.
pub(super) fn ollama_loaded(page: &Value, model: &str) -> Option<ServerFacts> {
    let models = page.get("models")?.as_array()?;
    let loaded = entry(models, &["name", "model"], model);
    Some(ServerFacts {
        family: Some(&ServerFamily::OLLAMA),
        limits: window(loaded.and_then(|entry| entry.get("context_length"))),
    })
}

/// Reads `GET /v1/models`. Every server has another name for the window (llama.cpp, vLLM, OpenRouter, Groq,
/// Mistral).
pub(super) fn models(page: &Value, model: &str) -> Option<ServerFacts> {
    const WINDOWS: &[&str] =
        &["/meta/n_ctx", "/max_model_len", "/context_length", "/context_window", "/max_context_length"];
    const OUTPUTS: &[&str] = &["/top_provider/max_completion_tokens", "/max_completion_tokens"];
    let models = page.get("data")?.as_array()?;
    // The server exists, although it does not list the model.
    let Some(entry) = entry(models, &["id"], model) else { return Some(ServerFacts::default()) };
    let first = |names: &[&str]| names.iter().find_map(|name| token_count::limit(entry.pointer(name)));
    let named = |path: &str, what: &str| {
        entry.pointer(path).and_then(Value::as_array).map(|all| all.iter().any(|one| one == what))
    };
    let flag = |path: &str| entry.pointer(path).and_then(Value::as_bool);
    let limits = Limits {
        max_output: first(OUTPUTS),
        tools: named("/supported_parameters", "tools").or(flag("/capabilities/function_calling")).into(),
        images: named("/architecture/input_modalities", "image").or(flag("/capabilities/vision")).into(),
        ..Limits::from_window(first(WINDOWS), LimitSource::Server)
    };
    Some(ServerFacts { family: owner(entry), limits })
}

fn owner(entry: &Value) -> Option<&'static ServerFamily> {
    match entry.get("owned_by")?.as_str()? {
        "vllm" => Some(&ServerFamily::VLLM),
        "llamacpp" => Some(&ServerFamily::LLAMA_CPP),
        _ => None,
    }
}

/// Returns the model's entry. A server with a single model takes any name, so its only entry is the model's.
fn entry<'a>(entries: &'a [Value], keys: &[&str], model: &str) -> Option<&'a Value> {
    let is_named =
        |entry: &&Value| keys.iter().any(|key| entry.get(key).and_then(Value::as_str) == Some(model));
    entries.iter().find(is_named).or_else(|| alone(entries))
}

fn alone(entries: &[Value]) -> Option<&Value> {
    entries.first().filter(|_| entries.len() == 1)
}

fn window(said: Option<&Value>) -> Limits {
    Limits::from_window(token_count::limit(said), LimitSource::Server)
}

#[cfg(test)]
mod tests;
