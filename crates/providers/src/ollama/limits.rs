//! The running server's reported limits of the model: the window as loaded, not as trained.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{self, ProviderHttpClient};
use crate::{DeclaredLimits, FeatureSupport, LimitSource, Limits, ModelEndpoint, ReasoningScope};
use longhaul_wire::token_count;

/// The wait for a server's own description.
const PATIENCE: Duration = Duration::from_secs(3);

/// The largest size of a description, in bytes. Descriptions contain licences and templates.
pub(super) const MAX_INFO_BYTES: usize = 8 << 20;

/// The addresses of the server's descriptions.
#[derive(Clone)]
pub(super) struct OllamaInfoUrls {
    /// `GET /api/ps`: the loaded models.
    pub(super) loaded: Url,
    /// `POST /api/show`: a single model.
    pub(super) about: Url,
}

/// Returns the declared limits. A declared `num_ctx` option also counts as a window.
pub(super) fn declared(endpoint: &ModelEndpoint) -> DeclaredLimits {
    let option =
        endpoint.body.get("options").and_then(|options| options.get("num_ctx")).and_then(Value::as_u64);
    DeclaredLimits { window: endpoint.declared.window.or(option), ..endpoint.declared }
}

/// Asks the server, best effort: a limit without an answer stays unknown.
pub(super) async fn fetch_info(
    http: &ProviderHttpClient,
    addresses: &OllamaInfoUrls,
    model: &str,
) -> OllamaModelInfo {
    // Both pages are read at once, so a slow server costs one wait and not two.
    let (loaded, about) =
        tokio::join!(http.get_json(addresses.loaded.clone(), PATIENCE), show(http, addresses, model));
    OllamaModelInfo::read(loaded.as_ref(), about.as_ref(), model)
}

async fn show(http: &ProviderHttpClient, addresses: &OllamaInfoUrls, model: &str) -> Option<Value> {
    let body = Bytes::from(json!({"model": model}).to_string());
    let read = async {
        let response = http.post(addresses.about.clone(), body).await.ok()?;
        let body = http::collect(http.bytes(response), MAX_INFO_BYTES).await.ok()?;
        serde_json::from_slice(&body).ok()
    };
    timeout(PATIENCE, read).await.ok().flatten()
}

/// The server's facts about the model. Windows are in tokens.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OllamaModelInfo {
    /// The loaded window.
    loaded: Option<u64>,
    /// The window of a remote model: the model's largest.
    remote: Option<u64>,
    /// The window in the model's own file, at most the largest.
    written: Option<u64>,
    /// The model's capabilities.
    capabilities: Option<Vec<String>>,
}

impl OllamaModelInfo {
    /// Reports whether the model has a capability; `None` if the server lists none.
    fn can(&self, capability: &str) -> Option<bool> {
        Some(self.capabilities.as_ref()?.iter().any(|one| one == capability))
    }

    fn read(loaded: Option<&Value>, about: Option<&Value>, model: &str) -> Self {
        let trained = about.and_then(trained);
        // Ollama forwards calls of such a model to another host and never loads it, so its trained window is in
        // force.
        let is_remote =
            about.and_then(|about| about.get("remote_host")?.as_str()).is_some_and(|at| !at.is_empty());
        let written = about.and_then(written);
        Self {
            loaded: loaded.and_then(|list| window_loaded(list, model)),
            remote: trained.filter(|_| is_remote),
            written: written.map(|written| trained.map_or(written, |trained| trained.min(written))),
            capabilities: about.and_then(capabilities),
        }
    }

    /// Reports whether the window is known without loading the model.
    pub(super) fn has_window(&self) -> bool {
        self.loaded.or(self.remote).or(self.written).is_some()
    }

    /// Returns all facts as limits. An unloaded model gets the window `before`, requested again by the next call.
    pub(super) fn limits(&self, before: Option<u64>) -> Limits {
        // A loaded window is a fact, and `before` is asked for with every call. The model file only states a
        // wish.
        let window = self.loaded.or(self.remote).or(before).or(self.written);
        let reasoning =
            // An old server does not list capabilities, and then the model may think.
            if self.can("thinking") == Some(false) { ReasoningScope::Never } else { ReasoningScope::Turn };
        Limits {
            tools: self.can("tools").into(),
            images: self.can("vision").into(),
            files: FeatureSupport::No,
            prefill: FeatureSupport::Yes,
            reasoning: Some(reasoning),
            ..Limits::from_window(window, LimitSource::Server)
        }
    }
}

/// Returns the window of the model if loaded; other loaded models do not matter.
fn window_loaded(list: &Value, model: &str) -> Option<u64> {
    let entries = list.get("models")?.as_array()?;
    let loaded = entries.iter().find(|entry| {
        let names = [entry.get("name"), entry.get("model")];
        names.into_iter().flatten().filter_map(Value::as_str).any(|name| same(name, model))
    });
    token_count::limit(loaded?.get("context_length"))
}

/// Compares two names; a name without a tag means the tag `latest`.
fn same(name: &str, model: &str) -> bool {
    // Ollama completes a name without a tag by `:latest`.
    let [name, model] = [name, model].map(|name| name.strip_suffix(":latest").unwrap_or(name));
    name.eq_ignore_ascii_case(model)
}

/// Returns the model's trained window.
fn trained(about: &Value) -> Option<u64> {
    let info = about.get("model_info")?.as_object()?;
    let architecture = info.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    // A model that reads pictures may have a second key of this ending, such as `clip.context_length`.
    let named = info.get(&format!("{architecture}.context_length"));
    token_count::limit(
        named.or_else(|| {
            info.iter().find(|(key, _)| key.ends_with(".context_length")).map(|(_, value)| value)
        }),
    )
}

/// Returns `num_ctx` of the parameters: lines of a name and a value.
fn written(about: &Value) -> Option<u64> {
    let lines = about.get("parameters")?.as_str()?.lines();
    let mut values = lines.filter_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    values.find(|window| *window > 0)
}

fn capabilities(about: &Value) -> Option<Vec<String>> {
    let all = about.get("capabilities")?.as_array()?;
    Some(all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Value {
        json!({
            "parameters": "stop                           \"<|im_end|>\"\nnum_ctx                        65536",
            "model_info": {
                "general.architecture": "qwen3", "clip.context_length": 7, "qwen3.context_length": 40_960
            },
            "capabilities": ["completion", "tools", "thinking"]
        })
    }

    fn loaded(name: &str, window: u64) -> Value {
        json!({"models": [
            {"name": "other:1b", "model": "other:1b", "context_length": 9},
            {"name": name, "model": name, "context_length": window}
        ]})
    }

    fn limits(loaded: Option<&Value>, about: Option<&Value>, before: Option<u64>) -> Limits {
        OllamaModelInfo::read(loaded, about, "qwen3").limits(before)
    }

    #[test]
    fn the_loaded_window_wins() {
        let found = limits(Some(&loaded("Qwen3:latest", 8192)), Some(&about()), Some(1));
        assert_eq!((found.window, found.source), (Some(8192), LimitSource::Server));
        assert_eq!(
            (found.tools, found.images, found.prefill),
            (FeatureSupport::Yes, FeatureSupport::No, FeatureSupport::Yes)
        );
        assert_eq!(found.reasoning, Some(ReasoningScope::Turn));
    }

    #[test]
    fn another_model_that_is_loaded_says_nothing() {
        let alone = json!({"models": [{"name": "other:1b", "context_length": 9}]});
        for list in [&alone, &loaded("qwen3:4b", 9), &json!({"models": []}), &json!({})] {
            assert_eq!(limits(Some(list), None, None).window, None, "{list}");
        }
    }

    #[test]
    fn a_model_that_is_not_loaded_has_what_it_had_or_what_its_file_says() {
        assert_eq!(limits(None, Some(&about()), Some(8192)).window, Some(8192));
        assert_eq!(
            limits(None, Some(&about()), None).window,
            Some(40_960),
            "at most what it was trained for"
        );
        let mut silent = about();
        silent["parameters"] = "".into();
        assert_eq!(limits(None, Some(&silent), None).window, None, "the trained window is no window");
        silent["remote_host"] = "https://ollama.com:443".into();
        assert_eq!(limits(None, Some(&silent), None).window, Some(40_960), "elsewhere it is");
    }

    #[test]
    fn a_silent_server_leaves_the_abilities_unknown() {
        let unknown = limits(None, None, None);
        assert_eq!((unknown.tools, unknown.images), (FeatureSupport::Unknown, FeatureSupport::Unknown));
        assert_eq!((unknown.window, unknown.source), (None, LimitSource::Unknown));
        let plain = json!({"capabilities": ["completion"]});
        assert_eq!(limits(None, Some(&plain), None).reasoning, Some(ReasoningScope::Never));
    }

    #[test]
    fn the_window_may_be_declared_as_an_option() {
        let mut endpoint = ModelEndpoint::new("ollama", super::super::BASE_URL, "m");
        endpoint.body.insert("options".into(), json!({"num_ctx": 5000}));
        assert_eq!(declared(&endpoint).window, Some(5000));
        endpoint.declared.window = Some(6000);
        assert_eq!(declared(&endpoint).window, Some(6000));
    }
}
