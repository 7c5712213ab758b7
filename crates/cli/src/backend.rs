//! Model servers on this machine: which answer, and which one is used when nobody named one.

use std::time::Duration;

use longhaul::config::ProviderKind;
use reqwest::Client;
use serde_json::Value;

use crate::agent_file::Loaded;
use crate::failure::{Failure, Outcome};
use crate::place::{AGENT_FILE, Place};

/// How long a server of this machine may take to say that it is there.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long a server that was named may take to list its models.
const NAMED_PATIENCE: Duration = Duration::from_secs(5);

/// The usual ports, and whose they are.
pub(crate) const USUAL: [(u16, &str); 4] =
    [(1234, "LM Studio"), (8080, "llama.cpp"), (11434, "Ollama"), (8000, "vLLM")];

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    /// Whose port it is.
    pub(crate) usual_owner: &'static str,
    /// Where its API begins.
    pub(crate) base_url: String,
    /// Its models, as it lists them.
    pub(crate) models: Vec<String>,
}

/// Asks the usual ports, all at once.
pub(crate) async fn probe() -> Vec<Backend> {
    let asked = USUAL.map(|(port, usual_owner)| async move {
        let base_url = format!("http://localhost:{port}/v1");
        let models = models(&base_url, PATIENCE).await?;
        Some(Backend { usual_owner, base_url, models })
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

/// The models of a server; `None` if it does not answer as one.
async fn models(base_url: &str, patience: Duration) -> Option<Vec<String>> {
    let client = Client::builder().timeout(patience).no_proxy().build().ok()?;
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let listed: Value = client.get(url).send().await.ok()?.error_for_status().ok()?.json().await.ok()?;
    let models = listed.get("data")?.as_array()?;
    Some(models.iter().filter_map(|model| model["id"].as_str()).map(str::to_owned).collect())
}

/// Completes a configuration that names no server or no model by what is there.
///
/// # Errors
/// Usage, if nothing is named and nothing answers.
pub(crate) async fn complete(place: &Place, mut loaded: Loaded) -> Outcome<Loaded> {
    if loaded.config.model.provider == ProviderKind::Scripted {
        return Ok(loaded);
    }
    if !loaded.names_a_server {
        let backend = probe().await.into_iter().find(|backend| !backend.models.is_empty());
        let backend = backend.ok_or_else(|| nothing_found(place))?;
        loaded.config.model.base_url = backend.base_url;
        if !loaded.names_a_model {
            loaded.config.model.name = backend.models.into_iter().next().unwrap_or_default();
        }
    } else if !loaded.names_a_model {
        let listed = models(&loaded.config.model.base_url, NAMED_PATIENCE).await.unwrap_or_default();
        if let Some(first) = listed.into_iter().next() {
            loaded.config.model.name = first;
        }
    }
    Ok(loaded)
}

fn nothing_found(place: &Place) -> Failure {
    let files: Vec<String> = place.usual_configs.iter().map(|path| place.shown(path)).collect();
    let ports: Vec<String> = USUAL.iter().map(|(port, owner)| format!("{port} ({owner})")).collect();
    Failure::usage(format!(
        "there is no model to talk to yet\n\
         \n  looked for   {}\n  asked        localhost on ports {}\n\
         \n  a local server      start it, then run this again\
         \n  any other server    longhaul --base-url URL --model NAME …, or a {AGENT_FILE}:\
         \n                        model: {{ base_url: \"https://api.openai.com/v1\", name: NAME, api_key_env: OPENAI_API_KEY }}\
         \n  no model at all     longhaul demo",
        files.join(", "),
        ports.join(", "),
    ))
}
