//! `longhaul doctor`: what is here, and what would be used.

use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::out;
use crate::term::style::Style;
use crate::{agent_file, assemble, backend};

/// Columns of a label.
const LABEL: usize = 14;

pub(crate) async fn run(place: &Place) -> Outcome {
    let style = super::style(place);
    let fact = |label: &str, text: &str| out::line(&format!("{} {text}", style.dim(&format!("{label:<LABEL$}"))));
    fact("longhaul", env!("CARGO_PKG_VERSION"))?;
    fact("data folder", &place.shown(&place.data_dir))?;
    fact("workspace", &place.shown(&place.workspace))?;
    let loaded = agent_file::load(place);
    let config = match &loaded {
        Ok(loaded) => {
            let none = || format!("none ({} would be)", place.usual_configs.iter().map(|path| place.shown(path)).collect::<Vec<_>>().join(", then "));
            fact("agent file", &loaded.file.as_ref().map_or_else(none, |file| place.shown(file)))?;
            loaded.config.clone()
        }
        Err(failure) => {
            fact("agent file", &style.red(failure.message()))?;
            longhaul::config::Config::default()
        }
    };
    for line in servers(style).await {
        fact("server", &line)?;
    }
    let model = &config.model;
    fact("would use", &format!("{} · {} at {}", model.name, model.provider.as_str(), model.base_url))?;
    if let Some(name) = &model.api_key_env {
        let state = if place.variable(name).is_some() { "set" } else { "not set" };
        fact("key", &format!("{name} is {state}"))?;
    }
    fact("sandbox", &sandbox(place, &config))?;
    loaded.map(|_| DONE).map_err(|_| Failure::usage(String::new()))
}

async fn servers(style: Style) -> Vec<String> {
    let found = backend::probe().await;
    if found.is_empty() {
        let ports: Vec<String> = backend::USUAL.iter().map(|(port, _)| port.to_string()).collect();
        return vec![style.dim(&format!("none answers on localhost ({})", ports.join(", ")))];
    }
    let described = found.iter().map(|backend| {
        let models = match backend.models.len() {
            0 => "no model loaded".to_owned(),
            1..=4 => backend.models.join(", "),
            many => format!("{}, … {} in all", backend.models[..3].join(", "), many),
        };
        format!("{} ({}) · {models}", backend.base_url, backend.usual_owner)
    });
    described.collect()
}

fn sandbox(place: &Place, config: &longhaul::config::Config) -> String {
    match assemble::sandbox(place, config) {
        Ok(sandbox) => format!("commands are {}", sandbox.status()),
        Err(failure) => format!("cannot be made: {}", failure.message()),
    }
}
