//! Hosted providers whose key is in the environment. They are used if no server was named and no server of
//! this machine answers.
//!
//! A person may have set the key for something else and pays for this choice. So the choice is neither the
//! largest model nor the smallest.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use longhaul::config::{AgentConfig, ModelConfig, ProviderKind};
use longhaul_providers::connect::Kind;
use longhaul_wire::catalog;

use crate::agent_file::ResolvedConfig;
use crate::environment::CliEnvironment;
use crate::model_discovery::{self, ServerProbeResult};
use crate::model_facts::dollars;
use crate::term::text::visible;

/// The output price of a model in the middle of its maker's list, in US dollars a million tokens. In the
/// catalogue of November 2026 the large models of Anthropic, OpenAI and Google cost more, the small ones
/// less.
const MIDDLE: RangeInclusive<f64> = 3.0..=15.0;

/// Returns the model for a key of the environment: the named one, else the first of [`known`]
/// in the provider's list. Returns `None` without such a key.
pub(crate) async fn model(place: &CliEnvironment, named: Option<&str>) -> Option<ModelConfig> {
    let (kind, variable) = find(place, named)?;
    let mut model = ModelConfig {
        provider: ProviderKind::from_name(kind.as_str())?,
        base_url: kind.base_url().to_owned(),
        api_key_env: Some(variable.to_owned()),
        ..AgentConfig::default().model
    };
    model.name = match named {
        Some(name) => name.to_owned(),
        None => {
            let listed = match model_discovery::ask(place, &model).await {
                ServerProbeResult::Models(listed) => choose_listed_model(kind, &listed),
                // The later call of the model reports the reason.
                ServerProbeResult::Other(_) | ServerProbeResult::Silent | ServerProbeResult::Unasked => None,
            };
            // A provider that does not answer its list may still answer calls, so the catalogue names a model.
            listed.or_else(|| known(kind).first().map(|name| (*name).to_owned()))?
        }
    };
    Some(model)
}

/// Describes a model chosen because of a key in the environment. Returns `None` if the server was named, or if a server
/// of this machine answers.
pub(crate) fn describe_choice(completed: &ResolvedConfig) -> Option<String> {
    let model = &completed.config.model;
    let is_found = !completed.names_a_server && model.provider.kind().is_some_and(Kind::is_hosted);
    let variable = model.api_key_env.as_deref().filter(|_| is_found)?;
    Some(format!("{} at {} ({variable} is set)", visible(&model.name), visible(&model.base_url)))
}

/// Describes the list price of the chosen model, and the way to name another.
pub(crate) fn terms(completed: &ResolvedConfig) -> String {
    let model = &completed.config.model;
    let rates = catalog::prices(&model.name, &model.base_url).map(|prices| prices.at(0));
    let price = rates.map_or("its price is not known".to_owned(), |rates| {
        let (input, output) = (dollars(rates.input), dollars(rates.output));
        format!("${input} in, ${output} out per million tokens by list")
    });
    format!("{price}; --model NAME names another")
}

/// Warns in the log about the model that was chosen by default, because each call costs money.
pub(crate) fn log_choice(completed: &ResolvedConfig) {
    if let Some(said) = describe_choice(completed) {
        tracing::warn!("no model was chosen; {said} is used, {}", terms(completed));
    }
}

/// Returns a provider whose key is set, and the variable that holds the key. If the model's maker is known,
/// the provider is the maker.
fn find(place: &CliEnvironment, model: Option<&str>) -> Option<(Kind, &'static str)> {
    // A model's name tells which provider has it, so the key of another one is not used for it.
    let maker = model.and_then(catalog::find).map(catalog::CatalogModel::maker);
    let hosted = Kind::ALL.into_iter().filter(|kind| kind.is_hosted());
    let mut able = hosted.filter(|kind| maker.is_none_or(|its| its == self::maker(*kind)));
    able.find_map(|kind| {
        let mut variables = kind.key_variables(kind.base_url()).iter();
        variables.find(|name| place.variable(name).is_some()).map(|name| (kind, *name))
    })
}

/// Returns the maker of a provider's models, by the catalogue's name.
fn maker(kind: Kind) -> &'static str {
    match kind {
        Kind::Gemini => "google",
        kind => kind.as_str(),
    }
}

/// Returns the models of a provider in the catalogue with tools: the middle of the provider's prices
/// first, then the cheaper ones, then the others; of each the newest first.
fn known(kind: Kind) -> Vec<&'static str> {
    let mut known: Vec<&catalog::CatalogModel> = catalog::models()
        .iter()
        .filter(|model| {
            let takes_tools = model.limits(kind.base_url()).tools.may();
            model.maker() == maker(kind) && !model.is_open() && takes_tools
        })
        .collect();
    // Numbers are compared and not letters, so that version 10 is newer than 9.
    known.sort_by_key(|model| (tier(model, kind.base_url()), Reverse(version(model.name()))));
    known.into_iter().map(catalog::CatalogModel::name).collect()
}

/// Returns 0 for a model in the middle of the prices, 1 for a cheaper one, 2 for a dearer one or one without
/// a price.
fn tier(model: &catalog::CatalogModel, base_url: &str) -> u8 {
    match model.prices(base_url).map(|prices| prices.at(0).output) {
        Some(output) if MIDDLE.contains(&output) => 0,
        Some(output) if output < *MIDDLE.start() => 1,
        _ => 2,
    }
}

/// Returns the numbers in a model's name up to its date: `[5, 5]` of `claude-sonnet-5-5`. A later generation
/// has larger ones.
fn version(name: &str) -> Vec<u32> {
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // Dates have more digits: 2024, 0613, 20250929.
    numbers.take_while(|digits| digits.len() < 3).filter_map(|digits| digits.parse().ok()).collect()
}

/// Returns the first listed one of [`known`], as listed there.
fn choose_listed_model(kind: Kind, listed: &[String]) -> Option<String> {
    known(kind).into_iter().find_map(|known| {
        let exact = listed.iter().find(|name| *name == known);
        exact
            // Providers list models with a date, which the catalogue's name does not have.
            .or_else(|| {
                listed.iter().find(|name| catalog::find(name).is_some_and(|model| model.name() == known))
            })
            .cloned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(keys: &[&str]) -> CliEnvironment {
        let environment = keys.iter().map(|name| ((*name).into(), "secret".into())).collect();
        CliEnvironment { environment, ..CliEnvironment::default() }
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
    fn neither_the_dearest_nor_the_smallest_is_chosen_but_the_newest_between() {
        let all: Vec<String> = catalog::models().iter().map(|model| model.name().to_owned()).collect();
        for kind in [Kind::Anthropic, Kind::OpenAi, Kind::Gemini] {
            let name = choose_listed_model(kind, &all).unwrap();
            assert_eq!(known(kind).first(), Some(&name.as_str()), "with the list and without");
            let prices =
                |name: &str| catalog::prices(name, kind.base_url()).map(|prices| prices.at(0).output);
            let own = prices(&name).unwrap();
            let its = || known(kind).into_iter().filter_map(|other| Some((other, prices(other)?)));
            assert!(MIDDLE.contains(&own), "{name}: {own}");
            assert!(
                its().any(|(_, other)| other > own) && its().any(|(_, other)| other < own),
                "{name}: {own}"
            );
            let newer =
                its().find(|(other, price)| MIDDLE.contains(price) && version(other) > version(&name));
            assert_eq!(newer, None, "{name}");
        }
        let anthropic = choose_listed_model(Kind::Anthropic, &all).unwrap();
        assert!(anthropic.contains("sonnet"), "{anthropic}");
    }

    #[test]
    fn only_what_is_listed_is_chosen_and_as_it_is_listed() {
        let listed = ["whisper-1", "gpt-4o-mini", "gpt-4o-2024-08-06", "text-embedding-3"].map(str::to_owned);
        assert_eq!(choose_listed_model(Kind::OpenAi, &listed).as_deref(), Some("gpt-4o-2024-08-06"));
        assert_eq!(choose_listed_model(Kind::Anthropic, &listed), None);
        // Where there is nothing in the middle, a cheaper one comes before a dearer one.
        let listed = ["gpt-4", "gpt-5.5-pro", "gpt-5-nano", "gpt-4o-mini"].map(str::to_owned);
        assert_eq!(choose_listed_model(Kind::OpenAi, &listed).as_deref(), Some("gpt-5-nano"));
        assert_eq!(version("claude-sonnet-4-5-20250929"), [4, 5]);
        assert_eq!(version("gpt-4-0613"), [4]);
        assert!(version("gpt-6.1-sol") > version("gpt-6-sol"));
    }

    fn anthropic_model(name: &str) -> ModelConfig {
        ModelConfig {
            provider: ProviderKind::Anthropic,
            name: name.to_owned(),
            base_url: Kind::Anthropic.base_url().to_owned(),
            ..AgentConfig::default().model
        }
    }

    #[test]
    fn what_it_costs_is_said() {
        let told = terms(&loaded("claude-sonnet-4-5"));
        assert_eq!(told, "$3 in, $15 out per million tokens by list; --model NAME names another");
        assert!(terms(&loaded("not-yet-known")).starts_with("its price is not known; "));
    }

    fn loaded(name: &str) -> ResolvedConfig {
        ResolvedConfig {
            config: AgentConfig { model: anthropic_model(name), ..AgentConfig::default() },
            file: None,
            names_a_server: false,
            names_a_model: false,
            held: Vec::new(),
        }
    }
}
