//! Providers whose key is in the environment: used where nobody said where the model is and no server of this machine
//! answers.

use longhaul::config::{Config, ModelConfig, ProviderKind};
use longhaul_providers::catalog;
use longhaul_providers::connect::Kind;

use crate::agent_file::Loaded;
use crate::backend::{self, Answer};
use crate::place::Place;
use crate::term::text::visible;

/// The model that a key of the environment opens: the one that was named, else the first of the catalogue that its
/// provider lists. `None` if no key is set that would open one.
pub(crate) async fn model(place: &Place, named: Option<&str>) -> Option<ModelConfig> {
    let (kind, variable) = find(place, named)?;
    let mut model = ModelConfig {
        provider: ProviderKind::from_name(kind.as_str())?,
        base_url: kind.base_url().to_owned(),
        api_key_env: Some(variable.to_owned()),
        ..Config::default().model
    };
    model.name = match named {
        Some(name) => name.to_owned(),
        None => {
            let listed = match backend::ask(place, &model).await {
                Answer::Models(listed) => chosen(kind, &listed),
                // Whoever calls it hears why.
                Answer::Other(_) | Answer::Silent => None,
            };
            listed.or_else(|| known(kind).next().map(str::to_owned))?
        }
    };
    Some(model)
}

/// What was chosen because of a key, in words; `None` if somebody said where the model is, or a server of this machine
/// answers.
pub(crate) fn said(completed: &Loaded) -> Option<String> {
    let model = &completed.config.model;
    let is_found = !completed.names_a_server && model.provider.kind().is_some_and(Kind::is_hosted);
    let variable = model.api_key_env.as_deref().filter(|_| is_found)?;
    Some(format!("{} at {} ({variable} is set)", visible(&model.name), visible(&model.base_url)))
}

/// Says so in the log: nobody named it, and it costs money.
pub(crate) fn tell(completed: &Loaded) {
    if let Some(said) = said(completed) {
        tracing::warn!("nobody named a model; used is {said}");
    }
}

/// A provider whose key is set, that of the model's maker if its maker is known; and the variable that holds the key.
fn find(place: &Place, model: Option<&str>) -> Option<(Kind, &'static str)> {
    let maker = model.and_then(catalog::find).map(catalog::Model::maker);
    let hosted = Kind::ALL.into_iter().filter(|kind| kind.is_hosted());
    let mut able = hosted.filter(|kind| maker.is_none_or(|its| its == self::maker(*kind)));
    able.find_map(|kind| {
        let mut variables = kind.key_variables(kind.base_url()).iter();
        variables.find(|name| place.variable(name).is_some()).map(|name| (kind, *name))
    })
}

/// Who makes a provider's models, as the catalogue calls it.
fn maker(kind: Kind) -> &'static str {
    match kind {
        Kind::Gemini => "google",
        kind => kind.as_str(),
    }
}

/// The models of a provider in the catalogue: the newest first.
fn known(kind: Kind) -> impl Iterator<Item = &'static str> {
    let its = move |model: &&catalog::Model| model.maker() == maker(kind) && !model.is_open();
    catalog::models().iter().filter(its).map(catalog::Model::name)
}

/// The first of the catalogue that is listed, as it is listed there.
fn chosen(kind: Kind, listed: &[String]) -> Option<String> {
    let is = |name: &str, known: &str| catalog::find(name).is_some_and(|model| model.name() == known);
    known(kind).find_map(|known| {
        let exact = listed.iter().find(|name| *name == known);
        exact.or_else(|| listed.iter().find(|name| is(name, known))).cloned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(keys: &[&str]) -> Place {
        let environment = keys.iter().map(|name| ((*name).into(), "secret".into())).collect();
        Place { environment, ..Place::default() }
    }

    #[test]
    fn the_first_key_that_is_set_opens_unless_the_model_has_another_maker() {
        let both = with(&["GOOGLE_API_KEY", "ANTHROPIC_API_KEY"]);
        assert_eq!(find(&both, None), Some((Kind::Anthropic, "ANTHROPIC_API_KEY")));
        assert_eq!(find(&both, Some("gemini-2.5-pro")), Some((Kind::Gemini, "GOOGLE_API_KEY")));
        assert_eq!(find(&both, Some("gpt-4o")), None, "that key is missing");
        assert_eq!(find(&both, Some("qwen3-8b")), None, "nobody of these serves it");
        assert_eq!(find(&both, Some("not-yet-known")), Some((Kind::Anthropic, "ANTHROPIC_API_KEY")));
        assert_eq!(find(&with(&["KEY", "AWS_SECRET"]), None), None);
    }

    #[test]
    fn the_first_of_the_catalogue_that_is_listed_is_chosen() {
        let listed = ["whisper-1", "gpt-4o-mini", "gpt-4o-2024-08-06", "text-embedding-3"].map(str::to_owned);
        assert_eq!(chosen(Kind::OpenAi, &listed).as_deref(), Some("gpt-4o-2024-08-06"));
        assert_eq!(chosen(Kind::Anthropic, &listed), None);
        for kind in [Kind::OpenAi, Kind::Anthropic, Kind::Gemini] {
            let first = known(kind).next().unwrap();
            assert_eq!(chosen(kind, &[first.to_owned()]).as_deref(), Some(first));
        }
    }
}
