//! Checks the server's list for the model named by a person.

use longhaul::config::{ProviderKind, nearest};

use crate::agent_file;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::model_discovery::{self, ServerProbeResult};
use crate::term::text::visible;

/// The number of a server's models that the error names if none resembles the typed name.
const NAMED: usize = 4;

/// Checks a model's name against the server's list. Returns a note about an unreadable list.
///
/// # Errors
/// Usage: the server has a list, without the named model.
pub(super) async fn check(place: &CliEnvironment, name: &str) -> Outcome<Option<String>> {
    let config = model_discovery::complete(place, agent_file::load(place)?).await?.config;
    // A declared model may be one that the server accepts but does not list.
    if config.model.provider == ProviderKind::Scripted || config.models.contains_key(name) {
        return Ok(None);
    }
    let server = visible(&config.model.base_url);
    let why = match model_discovery::ask(place, &config.model).await {
        ServerProbeResult::Models(listed) if !listed.is_empty() => {
            return found(name, &listed, &server).map(|()| None).map_err(CommandError::usage);
        }
        ServerProbeResult::Models(_) => "lists no models".to_owned(),
        ServerProbeResult::Other(status) => model_discovery::describe_status(status, &config.model),
        ServerProbeResult::Silent => "does not answer".to_owned(),
        ServerProbeResult::Unasked => "is not asked without its key".to_owned(),
    };
    Ok(Some(format!("whether there is a model {name} could not be checked: {server} {why}")))
}

/// Returns what the server's list says of a configured model that a call did not find. `None` if the list has the
/// model, or there is no list.
pub(crate) async fn missing_model_hint(place: &CliEnvironment) -> Option<String> {
    let loaded = agent_file::load(place).ok()?;
    let model = model_discovery::complete(place, loaded).await.ok()?.config.model;
    if model.provider == ProviderKind::Scripted {
        return None;
    }
    match model_discovery::ask(place, &model).await {
        ServerProbeResult::Models(listed) if !listed.is_empty() => {
            not_listed(&model.name, &listed, &visible(&model.base_url))
        }
        _ => None,
    }
}

/// Finds a model in a list. A name without a tag also matches the tag `latest`.
fn found(name: &str, listed: &[String], server: &str) -> Result<(), String> {
    match not_listed(name, listed, server) {
        None => Ok(()),
        Some(why) => Err(format!("{why} (--model NAME at the start takes any name)")),
    }
}

/// Returns a description of a model that is not in a list, with the nearest names that are; `None` if it is there.
fn not_listed(name: &str, listed: &[String], server: &str) -> Option<String> {
    // Ollama lists tags, and takes a name without one for `latest`.
    let latest = format!("{name}:latest");
    if listed.iter().any(|known| known == name || *known == latest) {
        return None;
    }
    let instead = match nearest(name, listed.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", visible(near)),
        None => {
            let some: Vec<String> = listed.iter().take(NAMED).map(|known| visible(known)).collect();
            let more = if listed.len() > NAMED { " …" } else { "" };
            format!("it has {}{more}", some.join(", "))
        }
    };
    Some(format!("{server} lists no model {}: {instead}", visible(name)))
}

#[cfg(test)]
mod tests {
    use super::found;

    #[test]
    fn a_name_that_is_not_listed_is_refused_with_the_nearest() {
        let listed = ["qwen3:8b", "llama3:latest", "a", "b", "c"].map(str::to_owned);
        assert_eq!(found("qwen3:8b", &listed, "http://s/v1"), Ok(()));
        assert_eq!(found("llama3", &listed, "http://s/v1"), Ok(()), "a tag that is not typed is latest");
        let near = found("qwen3:7b", &listed, "http://s/v1").unwrap_err();
        assert!(near.starts_with("http://s/v1 lists no model qwen3:7b: did you mean qwen3:8b?"), "{near}");
        let far = found("mistral-large", &listed, "http://s/v1").unwrap_err();
        assert!(far.contains(": it has qwen3:8b, llama3:latest, a, b … ("), "{far}");
    }
}
