//! Discovery of model servers on this machine, and the choice of a model if none is named.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul::config::{ModelConfig, ProviderKind};
use longhaul_providers::connect::Kind;
use longhaul_providers::http::{
    BaseUrl, NetworkVariables, connection_fault_text, operation_hint, warn_of_base_url,
};
use longhaul_wire::base_url::without_operation;
use reqwest::{Client, Url};
use serde_json::Value;

use crate::agent_file::ResolvedConfig;
use crate::environment::{AGENT_FILE, CliEnvironment};
use crate::failure::{CommandError, Outcome};
use crate::term::out;
use crate::term::text::visible;
use crate::term::wrap::wrapped;
use crate::{assemble, hosted_providers, trust};

/// The first line of the error where no model is named or found.
pub(crate) const NO_MODEL: &str = "there is no model to talk to yet";

/// The maximum time a server of this machine may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// The maximum time a named server may take to list its models.
const NAMED_PATIENCE: Duration = Duration::from_secs(5);

/// The usual ports, with their usual owners.
pub(crate) const USUAL: [(u16, &str); 4] =
    [(1234, "LM Studio"), (8080, "llama.cpp"), (11434, "Ollama"), (8000, "vLLM")];

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalModelServer {
    /// The usual owner of the port.
    pub(crate) usual_owner: &'static str,
    /// The base URL of the API.
    pub(crate) base_url: String,
    /// The models in the server's list.
    pub(crate) models: Vec<String>,
}

/// Asks the usual ports, all at once.
pub(crate) async fn probe() -> Vec<LocalModelServer> {
    let asked = USUAL.map(|(port, usual_owner)| async move {
        let base_url = format!("http://localhost:{port}/v1");
        // A server that answers without a list of models is none that could be used.
        let models = models(&base_url).await?;
        Some(LocalModelServer { usual_owner, base_url, models })
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

/// Reports whether a Longhaul server answers at an address of this machine. Its page needs no token.
pub(crate) async fn is_longhaul(address: SocketAddr) -> bool {
    let shown = async {
        let client = Client::builder().timeout(PATIENCE).no_proxy().build()?;
        client.get(format!("http://{address}/")).send().await?.text().await
    };
    // The title is checked, because any program may listen at the port.
    shown.await.is_ok_and(|page| page.contains("<title>Longhaul</title>"))
}

/// Returns the models of a server of this machine, or `None` without a valid answer.
async fn models(base_url: &str) -> Option<Vec<String>> {
    // A proxy of the environment must not be asked for addresses of this machine.
    let client = Client::builder().timeout(PATIENCE).no_proxy().build().ok()?;
    let response = client.get(Kind::OpenAiCompatible.list_of_models(base_url)).send().await.ok()?;
    listed(&response.error_for_status().ok()?.json().await.ok()?)
}

/// Returns the names in a list of models; Gemini's has its own shape.
fn listed(answer: &Value) -> Option<Vec<String>> {
    let (models, name) = match answer.get("data") {
        Some(models) => (models, "id"),
        None => (answer.get("models")?, "name"),
    };
    let names = models.as_array()?.iter().filter_map(|model| model[name].as_str());
    // Gemini's names have `models/` in front, and its calls take the name without.
    Some(names.map(|name| name.strip_prefix("models/").unwrap_or(name).to_owned()).collect())
}

/// The answer of a named server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerProbeResult {
    /// The models of the server.
    Models(Vec<String>),
    /// Another answer than a list of models: the HTTP status.
    Other(u16),
    /// No answer.
    Silent,
    /// The server is its provider's own and was not asked, for lack of a key.
    Unasked,
}

/// Describes an answer other than a list of models, with the remedy if the server wants another key.
pub(crate) fn describe_status(status: u16, model: &ModelConfig) -> String {
    if status == 407 {
        return "is behind a proxy that wants a user and a password (HTTP 407): see HTTP_PROXY and HTTPS_PROXY"
            .to_owned();
    }
    if !matches!(status, 401 | 403) {
        return format!("lists no models (HTTP {status})");
    }
    match &model.api_key_env {
        Some(variable) => format!(
            "refuses the request (HTTP {status}): check the key in {}, which model.api_key_env names",
            visible(variable)
        ),
        None => format!(
            "refuses the request (HTTP {status}): name the variable with its key as model.api_key_env in {AGENT_FILE}"
        ),
    }
}

/// Asks the server of a configuration for its models, with the configured key. A hint about the base URL is logged.
pub(crate) async fn ask(place: &CliEnvironment, model: &ModelConfig) -> ServerProbeResult {
    let ServerProbe { result, hint } = probe_named(place, model).await;
    if let Some(hint) = hint {
        warn_of_base_url(&hint);
    }
    result
}

/// The answer of a named server, with a hint about its base URL.
#[derive(Debug)]
pub(crate) struct ServerProbe {
    pub(crate) result: ServerProbeResult,
    /// The base URL to set, if the API is elsewhere.
    pub(crate) hint: Option<String>,
}

impl From<ServerProbeResult> for ServerProbe {
    fn from(result: ServerProbeResult) -> Self {
        Self { result, hint: None }
    }
}

/// Asks the server of a configuration for its models. If the base URL lacks the version of the API, the list below
/// the version counts.
pub(crate) async fn probe_named(place: &CliEnvironment, model: &ModelConfig) -> ServerProbe {
    if assemble::check_key(place, model).is_err() {
        return ServerProbeResult::Unasked.into();
    }
    let Some(kind) = model.provider.kind() else { return ServerProbeResult::Silent.into() };
    let pasted = without_operation(&model.base_url);
    let hint = pasted.as_ref().map(|base| operation_hint(&model.base_url, base));
    // People paste the address of an operation, such as `/v1/chat/completions`. The list is asked for beside it.
    let given = pasted.as_deref().unwrap_or(&model.base_url);
    let ServerProbe { result, hint: network } = list_models(place, model, kind, given).await;
    let hint = hint.or(network);
    let base = kind.path_version().map(|version| BaseUrl::new(given, version));
    let other = base.as_ref().and_then(BaseUrl::alternative);
    // Only an answer without a list shows that the API may be elsewhere. A refusal comes from an API.
    let (Some(base), Some(other), ServerProbeResult::Other(200..=299 | 404 | 405)) = (&base, other, &result)
    else {
        return ServerProbe { result, hint };
    };
    match list_models(place, model, kind, &other).await.result {
        found @ (ServerProbeResult::Models(_) | ServerProbeResult::Other(401 | 403)) => {
            ServerProbe { result: found, hint: base.alternative_hint() }
        }
        _ => ServerProbe { result, hint },
    }
}

/// Asks for the list of models below a base URL. The hint names the setting behind a failed connection.
async fn list_models(place: &CliEnvironment, model: &ModelConfig, kind: Kind, base_url: &str) -> ServerProbe {
    let client = Client::builder().timeout(NAMED_PATIENCE);
    let client = if trust::is_local(&model.base_url) { client.no_proxy() } else { client };
    let Ok(client) = client.build() else { return ServerProbeResult::Silent.into() };
    let mut request = client.get(kind.list_of_models(base_url));
    for (name, value) in &model.headers {
        request = request.header(name, value);
    }
    if let Some(key) = assemble::key_variable(place, model).and_then(|name| place.variable(name)) {
        for (name, value) in kind.key_headers(key) {
            request = request.header(name, value);
        }
    }
    let server = trust::server_of(&model.base_url);
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(%server, "the model's server does not answer");
            let variables = NetworkVariables::from_environment(&place.environment);
            let hint = Url::parse(base_url).ok().and_then(|url| variables.hint(&url, &error));
            // The hint alone does not say what it is for.
            let hint = hint.map(|hint| match connection_fault_text(&error) {
                Some(fault) => format!("{fault}; {hint}"),
                None => hint,
            });
            return ServerProbe { result: ServerProbeResult::Silent, hint };
        }
    };
    let status = response.status();
    tracing::debug!(%server, status = status.as_u16(), "the model's server was asked for its models");
    let models = response.json().await.ok().as_ref().and_then(listed).filter(|_| status.is_success());
    models.map_or(ServerProbeResult::Other(status.as_u16()), ServerProbeResult::Models).into()
}

/// Completes a configuration without a server or a model by a discovered one.
///
/// # Errors
/// Usage, if nothing is named and nothing answers.
pub(crate) async fn complete(place: &CliEnvironment, mut loaded: ResolvedConfig) -> Outcome<ResolvedConfig> {
    if loaded.config.model.provider == ProviderKind::Scripted {
        return Ok(loaded);
    }
    if !loaded.names_a_server {
        find(place, &mut loaded).await?;
    } else if !loaded.names_a_model {
        let model = &loaded.config.model;
        // A hosted provider lists models of very different prices, so none of them is chosen unasked.
        if model.provider.kind().is_some_and(Kind::is_hosted) {
            let provider = model.provider.as_str();
            return Err(CommandError::usage(format!("--provider {provider} needs a model: --model NAME")));
        }
        // Not every server lists models. The call itself then shows whether the default name is right.
        let ServerProbeResult::Models(listed) = ask(place, model).await else { return Ok(loaded) };
        if let Some(first) = listed.into_iter().next() {
            tracing::debug!(model = %first, "no model is named: the first of the server's list is used");
            loaded.config.model.name = first;
        }
    }
    Ok(loaded)
}

/// Chooses a model if no server was named: of a server of this machine, else of a provider whose key is
/// set.
async fn find(place: &CliEnvironment, loaded: &mut ResolvedConfig) -> Outcome<()> {
    let model = &mut loaded.config.model;
    // A local server comes first: it costs nothing, and nothing leaves the machine.
    let Some(backend) = probe().await.into_iter().find(|backend| !backend.models.is_empty()) else {
        let named = loaded.names_a_model.then(|| model.name.clone());
        *model = hosted_providers::model(place, named.as_deref())
            .await
            .ok_or_else(|| nothing_found(place, named.as_deref()))?;
        return Ok(());
    };
    tracing::debug!(server = %backend.base_url, owner = backend.usual_owner, "a server of this machine is used");
    model.base_url = backend.base_url;
    if !loaded.names_a_model {
        model.name = backend.models.into_iter().next().unwrap_or_default();
    }
    Ok(())
}

fn nothing_found(place: &CliEnvironment, model: Option<&str>) -> CommandError {
    let files: Vec<String> = place.usual_configs.iter().map(|path| place.shown(path)).collect();
    let ports: Vec<String> = USUAL.iter().map(|(port, owner)| format!("{port} ({owner})")).collect();
    let asked = format!("localhost on ports {}", ports.join(", "));
    let keys: Vec<&str> = Kind::all_key_variables().collect();
    let of = model.map(|name| format!(" for {}", visible(name))).unwrap_or_default();
    let keys = format!("none{of} in {}", keys.join(", "));
    CommandError::usage(format!(
        "{NO_MODEL}\n\
         \n  looked for   {}\n  asked        {}\n  keys         {}\n\
         \n  a local server      start it, then run this again\
         \n  any other server    longhaul --base-url URL --model NAME …, or a {AGENT_FILE}:\
         \n                        model:\
         \n                          base_url: https://api.openai.com/v1\
         \n                          name: NAME\
         \n                          api_key_env: OPENAI_API_KEY\
         \n  no model at all     longhaul demo",
        hanging(&files.join(", ")),
        hanging(&asked),
        hanging(&keys),
    ))
}

fn hanging(text: &str) -> String {
    wrapped(text, 15, 15, out::width())
}

#[cfg(test)]
mod tests {
    use longhaul::config::AgentConfig;

    use super::*;

    #[test]
    fn a_refused_key_is_told_where_it_is_set() {
        let model = AgentConfig::default().model;
        assert_eq!(describe_status(404, &model), "lists no models (HTTP 404)");
        assert!(describe_status(401, &model).ends_with("as model.api_key_env in longhaul.yml"));
        let named = ModelConfig { api_key_env: Some("BOX_KEY".to_owned()), ..model };
        assert!(describe_status(401, &named).contains("check the key in BOX_KEY"));
    }
}
