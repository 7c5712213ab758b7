//! `longhaul doctor`: what is here, and what would be used.

use longhaul::config::{Config, ModelConfig, ProviderKind};

use crate::agent_file::{self, Loaded};
use crate::assemble;
use crate::backend::{self, Backend};
use crate::failure::{DONE, Outcome};
use crate::place::Place;
use crate::term::out;
use crate::term::style::Style;
use crate::term::text::visible;

/// Columns of a label.
const LABEL: usize = 13;

/// Models of a server that are named; others are counted.
const NAMED: usize = 4;

pub(crate) async fn run(place: &Place) -> Outcome {
    let style = super::style(place);
    let (loaded, found) = (agent_file::load(place), backend::probe().await);
    let config = loaded.as_ref().map(|loaded| loaded.config.clone()).unwrap_or_default();
    let mut facts = vec![
        ("longhaul", env!("CARGO_PKG_VERSION").to_owned()),
        ("data folder", place.shown(&place.data_dir)),
        ("workspace", place.shown(&place.workspace)),
        ("agent file", agent_file(place, &loaded, style)),
    ];
    facts.extend(servers(&found, style).into_iter().map(|server| ("server", server)));
    facts.push(("would use", choice(&loaded, &config.model, &found)));
    facts.push(("key", key(place, &config.model)));
    facts.push(("sandbox", sandbox(place, &config)));
    for (label, fact) in facts {
        out::line(&format!("{} {fact}", style.dim(&format!("{label:<LABEL$}"))))?;
    }
    loaded.map(|_| DONE)
}

fn agent_file(place: &Place, loaded: &Outcome<Loaded>, style: Style) -> String {
    match loaded {
        Ok(Loaded { file: Some(file), .. }) => place.shown(file),
        Ok(_) => {
            let usual: Vec<String> = place.usual_configs.iter().map(|path| place.shown(path)).collect();
            format!("none (looked for {})", usual.join(", then "))
        }
        Err(_) => style.red("has mistakes, see below"),
    }
}

fn servers(found: &[Backend], style: Style) -> Vec<String> {
    if found.is_empty() {
        let ports: Vec<String> = backend::USUAL.iter().map(|(port, _)| port.to_string()).collect();
        return vec![style.dim(&format!("none answers on localhost ({})", ports.join(", ")))];
    }
    let described = found.iter().map(|backend| {
        let mut models: Vec<String> = backend.models.iter().take(NAMED).map(|name| visible(name)).collect();
        match backend.models.len() {
            0 => models.push("no model".to_owned()),
            many if many > NAMED => models.push(format!("… {many} in all")),
            _ => {}
        }
        format!("{} ({}) · {}", backend.base_url, backend.usual_owner, models.join(", "))
    });
    described.collect()
}

/// What `run` and `chat` would talk to.
fn choice(loaded: &Outcome<Loaded>, model: &ModelConfig, found: &[Backend]) -> String {
    let found = found.iter().find(|backend| !backend.models.is_empty());
    match (loaded, found) {
        (Err(_), _) => "nothing until that is mended".to_owned(),
        (Ok(_), _) if model.provider == ProviderKind::Scripted => "the scripted echo, no model".to_owned(),
        (Ok(loaded), Some(backend)) if !loaded.names_a_server => {
            let name = if loaded.names_a_model { &model.name } else { &backend.models[0] };
            format!("{} at {}", visible(name), backend.base_url)
        }
        (Ok(loaded), None) if !loaded.names_a_server => {
            "nothing: there is no model; try longhaul demo".to_owned()
        }
        (Ok(_), _) => format!("{} · {} at {}", model.name, model.provider.as_str(), model.base_url),
    }
}

fn key(place: &Place, model: &ModelConfig) -> String {
    match (assemble::key_variable(place, model), &model.api_key_env) {
        (Some(name), _) => format!("{name} is set"),
        (None, Some(name)) => format!("none ({name} is not set)"),
        (None, None) => "none".to_owned(),
    }
}

fn sandbox(place: &Place, config: &Config) -> String {
    match assemble::sandbox(place, config) {
        Ok(sandbox) => format!("commands are {}", sandbox.status()),
        Err(failure) => format!("cannot be made: {}", failure.message()),
    }
}
