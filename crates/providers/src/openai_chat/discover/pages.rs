//! The pages with servers' own descriptions. A page is known by the shape: LM Studio, for example, answers every
//! address with status 200.

use serde_json::Value;

use super::ServerFacts;
use crate::openai_chat::family::ServerFamily;
use crate::{LimitSource, Limits};
use longhaul_wire::token_count;

/// Reads llama.cpp's `GET /props`: the window of a slot.
pub(super) fn props(page: &Value) -> Option<ServerFacts> {
    // llama.cpp divides its context among slots. The window of a request is that of one slot.
    let slot = page.pointer("/default_generation_settings")?;
    let limits = Limits {
        tools: flag(page, "/chat_template_caps/supports_tools").into(),
        images: flag(page, "/modalities/vision").into(),
        ..window(slot.get("n_ctx"))
    };
    Some(ServerFacts { family: Some(&ServerFamily::LLAMA_CPP), limits })
}

/// Reads LM Studio 0.4's `GET /api/v1/models`: each loaded instance has a window.
pub(super) fn lm_studio_v1(page: &Value, model: &str) -> Option<ServerFacts> {
    let models = page.get("models")?.as_array()?;
    // Other pages may have a list `models` too. Only LM Studio's entries have instances.
    if models.iter().any(|entry| loaded_instances(entry).is_none()) {
        return None;
    }
    let named = models.iter().find(|entry| {
        entry.get("key").and_then(Value::as_str) == Some(model)
            || loaded_instances(entry).is_some_and(|all| all.iter().any(|one| one["id"] == model))
    });
    let limits = named.or_else(|| alone(models)).map(|entry| Limits {
        tools: flag(entry, "/capabilities/trained_for_tool_use").into(),
        images: flag(entry, "/capabilities/vision").into(),
        ..window(instance_window(entry, model))
    });
    Some(ServerFacts { family: Some(&ServerFamily::LM_STUDIO), limits: limits.unwrap_or_default() })
}

fn loaded_instances(entry: &Value) -> Option<&Vec<Value>> {
    entry.get("loaded_instances")?.as_array()
}

/// Returns the window of the instance named `model`, or of the first instance. LM Studio can load a model several
/// times, with a window each.
fn instance_window<'e>(entry: &'e Value, model: &str) -> Option<&'e Value> {
    let all = loaded_instances(entry)?;
    let named = all.iter().find(|instance| instance.get("id").and_then(Value::as_str) == Some(model));
    named.or(all.first())?.pointer("/config/context_length")
}

fn flag(value: &Value, path: &str) -> Option<bool> {
    value.pointer(path)?.as_bool()
}

/// Reports whether the list at `path` has `name`; `None` without a list.
fn is_listed(value: &Value, path: &str, name: &str) -> Option<bool> {
    Some(value.pointer(path)?.as_array()?.iter().any(|one| one == name))
}

/// Reads LM Studio 0.3's `GET /api/v0/models`: only a loaded model has a real window.
pub(super) fn lm_studio_v0(page: &Value, model: &str) -> Option<ServerFacts> {
    let models = page.get("data")?.as_array()?;
    // Every list of models has `data`. Only LM Studio's entries have a state.
    if models.iter().any(|entry| entry.get("state").is_none()) {
        return None;
    }
    let limits = entry(models, &["id"], model).map(|entry| Limits {
        tools: is_listed(entry, "/capabilities", "tool_use").into(),
        // LM Studio 0.3 names the kind of a model: `llm`, `vlm` or `embeddings`.
        images: entry.get("type").and_then(Value::as_str).map(|kind| kind == "vlm").into(),
        ..window(entry.get("loaded_context_length"))
    });
    Some(ServerFacts { family: Some(&ServerFamily::LM_STUDIO), limits: limits.unwrap_or_default() })
}

/// Reads Ollama's `GET /api/ps`: the loaded models.
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
    // OpenRouter lists what a model takes. Mistral has flags.
    let tools = is_listed(entry, "/supported_parameters", "tools");
    let images = is_listed(entry, "/architecture/input_modalities", "image");
    let limits = Limits {
        max_output: first_count(entry, OUTPUTS),
        tools: tools.or(flag(entry, "/capabilities/function_calling")).into(),
        images: images.or(flag(entry, "/capabilities/vision")).into(),
        ..Limits::from_window(first_count(entry, WINDOWS), LimitSource::Server)
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

/// Returns the model's entry. A server with a single model takes any name, so the only entry is the model's.
fn entry<'a>(entries: &'a [Value], keys: &[&str], model: &str) -> Option<&'a Value> {
    let named = entries
        .iter()
        .find(|entry| keys.iter().any(|key| entry.get(key).and_then(Value::as_str) == Some(model)));
    named.or_else(|| alone(entries))
}

/// Returns the first token count at `paths`.
fn first_count(entry: &Value, paths: &[&str]) -> Option<u64> {
    paths.iter().find_map(|path| token_count::limit(entry.pointer(path)))
}

fn alone(entries: &[Value]) -> Option<&Value> {
    entries.first().filter(|_| entries.len() == 1)
}

fn window(said: Option<&Value>) -> Limits {
    Limits::from_window(token_count::limit(said), LimitSource::Server)
}

#[cfg(test)]
mod tests;
