//! `longhaul doctor`: the installation, the servers, and the model for a run.

mod hook;
mod mcp;
mod model;
mod policy;

use std::sync::Arc;

use longhaul::config::{ModelConfig, ProviderKind, UpstreamConfig};
use longhaul::sandbox::Sandbox;

use crate::agent_file::{self, ResolvedConfig};
use crate::assemble;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::model_discovery::{self, LocalModelServer, ServerProbe, ServerProbeResult};
use crate::model_facts::ModelFacts;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::text::visible;

/// Columns of a row's label.
const LABEL: usize = 13;

/// The maximum number of a server's models to name. The others are counted.
const NAMED: usize = 4;

pub(crate) async fn run(place: &CliEnvironment) -> Outcome {
    let style = super::style(place);
    // The file's error is kept: a broken file is one of the things to diagnose.
    let (loaded, found) = (agent_file::load(place), model_discovery::probe().await);
    // Without a readable agent file the other checks run with the defaults.
    let config = loaded.as_ref().map(|loaded| loaded.config.clone()).unwrap_or_default();
    let mut facts = vec![
        ("longhaul", env!("CARGO_PKG_VERSION").to_owned()),
        ("data folder", place.shown(&place.data_dir)),
        ("workspace", place.shown(&place.workspace)),
        ("agent file", agent_file(place, &loaded, style)),
    ];
    let server = ServerDiagnosis::of(place, &loaded).await;
    facts.extend(server.named(&config.model, style).map(|server| ("server", server)));
    // A person who named a server need not hear that no local one answers.
    if !matches!(server, ServerDiagnosis::Named(..)) || !found.is_empty() {
        facts.extend(servers(&found, style).into_iter().map(|server| ("server", server)));
    }
    let used = used(place, loaded.as_ref(), &server).await;
    facts.extend(would_use(place, &used, &server).await);
    facts.push(("key", key(place, used.as_ref().map_or(&config.model, |used| &used.config.model))));
    let sandbox = assemble::sandbox(place, &config).map(Arc::new);
    facts.extend(
        config.gateway.upstreams.iter().map(|upstream| ("upstream", self::upstream(place, upstream))),
    );
    facts.push(("sandbox", confined(&sandbox)));
    if let Ok(sandbox) = &sandbox {
        facts.extend(policy::facts(place, &config, sandbox.report(), style));
        facts.extend(hook::facts(place, &config, sandbox, style).await);
        facts.extend(mcp::facts(place, &config, sandbox, style).await);
    }
    for (label, fact) in facts {
        out::rows(&format!("{} {fact}\n", style.dim(&format!("{label:<LABEL$}"))))?;
    }
    // The file's error is printed last: the row of the agent file refers to it.
    loaded.map(|_| DONE)
}

fn agent_file(place: &CliEnvironment, loaded: &Outcome<ResolvedConfig>, style: TextPainter) -> String {
    match loaded {
        Ok(ResolvedConfig { file: Some(file), held, .. }) if !held.is_empty() => {
            let own = place.own_config().map(|own| place.shown(&own)).unwrap_or_default();
            format!("{}, under the closures of {own}: {}", place.shown(file), held.join(", "))
        }
        Ok(ResolvedConfig { file: Some(file), .. }) => place.shown(file),
        Ok(_) => {
            let usual: Vec<String> = place.usual_configs.iter().map(|path| place.shown(path)).collect();
            format!("none (looked for {})", usual.join(", then "))
        }
        Err(failure) if failure.is_untrusted() => style.red("is not trusted, see below"),
        Err(_) => style.red("has mistakes, see below"),
    }
}

fn servers(found: &[LocalModelServer], style: TextPainter) -> Vec<String> {
    if found.is_empty() {
        let ports: Vec<String> = model_discovery::USUAL.iter().map(|(port, _)| port.to_string()).collect();
        return vec![style.dim(&format!("none answers on localhost ({})", ports.join(", ")))];
    }
    let described = found.iter().map(|backend| {
        format!("{} (usually {}) · {}", backend.base_url, backend.usual_owner, some_of(&backend.models))
    });
    described.collect()
}

/// Lists the first models by name, with their number if they are many.
fn some_of(models: &[String]) -> String {
    let mut named: Vec<String> = models.iter().take(NAMED).map(|name| visible(name)).collect();
    match models.len() {
        0 => named.push("no model".to_owned()),
        many if many > NAMED => named.push(format!("… {many} in all")),
        _ => {}
    }
    named.join(", ")
}

/// The result of asking the configured model server.
enum ServerDiagnosis {
    /// No server was named, or none is needed.
    Unnamed,
    /// A server was named and asked: its answer, and a hint about its base URL.
    Named(ServerProbeResult, Option<String>),
}

impl ServerDiagnosis {
    async fn of(place: &CliEnvironment, loaded: &Outcome<ResolvedConfig>) -> Self {
        match loaded {
            Ok(loaded) if loaded.names_a_server && !is_scripted(&loaded.config.model) => {
                let ServerProbe { result, hint } =
                    model_discovery::probe_named(place, &loaded.config.model).await;
                Self::Named(result, hint)
            }
            _ => Self::Unnamed,
        }
    }

    /// Describes the named server in a line.
    fn named(&self, model: &ModelConfig, style: TextPainter) -> Option<String> {
        let Self::Named(answer, hint) = self else { return None };
        let says = match answer {
            ServerProbeResult::Models(models) => some_of(models),
            ServerProbeResult::Other(status) => {
                format!("answers, but {}", model_discovery::describe_status(*status, model))
            }
            ServerProbeResult::Silent => style.red("does not answer"),
            ServerProbeResult::Unasked => "not asked: the key is missing".to_owned(),
        };
        let hint = hint.as_ref().map(|hint| format!(" · {}", style.amber(hint))).unwrap_or_default();
        Some(format!("{} (named) · {says}{hint}", visible(&model.base_url)))
    }
}

fn is_scripted(model: &ModelConfig) -> bool {
    model.provider == ProviderKind::Scripted
}

/// The note on the model if none is found: the server then uses the demo's scripted model.
const NO_MODEL: &str =
    "the demo's scripted model, on the page (longhaul, longhaul serve); there is none for run and chat";

/// The note on the model if a server was named, but none of its models.
const NO_NAME: &str = "nothing: no model is named (--model NAME)";

/// Finds the model for `run`, `chat` and `serve` as those commands do, else the reason that there is none.
async fn used(
    place: &CliEnvironment,
    loaded: Result<&ResolvedConfig, &CommandError>,
    server: &ServerDiagnosis,
) -> Result<ResolvedConfig, &'static str> {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) if failure.is_untrusted() => return Err("nothing until you trust the file"),
        Err(_) => return Err("nothing until that is mended"),
    };
    // Not asked again: the server has just been silent, and another wait tells nothing new.
    if matches!(server, ServerDiagnosis::Named(ServerProbeResult::Silent, _)) {
        return Err("nothing: the server that is named does not answer");
    }
    let completed = model_discovery::complete(place, loaded.clone()).await;
    completed.map_err(|_| if loaded.names_a_server { NO_NAME } else { NO_MODEL })
}

/// Describes the model found by [`used`], in lines.
async fn would_use(
    place: &CliEnvironment,
    used: &Result<ResolvedConfig, &'static str>,
    server: &ServerDiagnosis,
) -> Vec<(&'static str, String)> {
    let loaded = match used {
        Ok(loaded) if is_scripted(&loaded.config.model) => return model_row("the scripted echo, no model"),
        Ok(loaded) => loaded,
        Err(why) => return model_row(why),
    };
    let model = &loaded.config.model;
    let unlisted = match server {
        ServerDiagnosis::Named(ServerProbeResult::Models(models), _) if !models.contains(&model.name) => {
            ", which the server does not list"
        }
        _ => "",
    };
    let mut facts = model_row(&format!("{} at {}{unlisted}", visible(&model.name), visible(&model.base_url)));
    if let Ok((_, known)) = ModelFacts::ask(place, &loaded.config).await {
        facts.extend(model::facts(&known));
    }
    facts
}

fn model_row(text: &str) -> Vec<(&'static str, String)> {
    vec![("would use", text.to_owned())]
}

/// Describes a server behind the gateway in a line. The server is not asked.
fn upstream(place: &CliEnvironment, listed: &UpstreamConfig) -> String {
    let names: Vec<String> = listed.models.iter().map(|model| model.name.clone()).collect();
    let models = if names.is_empty() { "any model".to_owned() } else { some_of(&names) };
    let key = match (assemble::upstream_key(place, listed), &listed.api_key_env) {
        (Some(name), _) => format!(" · {name} is set"),
        (None, Some(name)) => format!(" · {name} is not set"),
        (None, None) => String::new(),
    };
    let (name, url) = (visible(&listed.name), visible(&listed.base_url));
    format!("{name}: {} at {url} · {models}{key}", listed.provider.as_str())
}

fn key(place: &CliEnvironment, model: &ModelConfig) -> String {
    match (assemble::key_variable(place, model), &model.api_key_env) {
        (Some(name), _) => format!("{name} is set"),
        (None, named) => match (usual_key(model), named.as_deref()) {
            (Some(name), _) => format!("missing: this provider wants one; put it into {name}"),
            (None, Some(name)) => {
                format!("none is sent; if the server wants one, put it into {name} and start again")
            }
            (None, None) => {
                "none is sent; if the server wants one, name its variable with model.api_key_env".to_owned()
            }
        },
    }
}

/// Returns the variable that usually holds the key of the provider's own server.
fn usual_key(model: &ModelConfig) -> Option<&'static str> {
    model.provider.kind()?.key_variables(&model.base_url).first().copied()
}

fn confined(sandbox: &Outcome<Arc<Sandbox>>) -> String {
    match sandbox {
        Ok(sandbox) => format!("commands are {}", sandbox.status()),
        Err(failure) => format!("cannot be made: {}", failure.message()),
    }
}
