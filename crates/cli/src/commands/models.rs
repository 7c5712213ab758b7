//! `longhaul models`: the usable models and the known facts about each.

use longhaul::config::ProviderKind;
use longhaul_core::message::ModelOrigin;
use longhaul_core::refusal::PictureSizeLimits;
use longhaul_providers::LimitSource;
use serde_json::{Value, json};

use crate::agent_file::{self, ResolvedConfig};
use crate::args::ModelsArgs;
use crate::assemble::counting;
use crate::environment::CliEnvironment;
use crate::failure::{DONE, Outcome};
use crate::model_discovery::{self, ServerProbeResult};
use crate::model_facts::{ModelFacts, SourcedValue, dollars, retention};
use crate::term::human::grouped;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::text::visible;
use crate::trust;

/// The maximum number of a local server's models whose facts are requested one by one.
const MOST_ASKED: usize = 32;

/// The widest name with all columns in line.
const WIDEST_NAME: usize = 36;

/// A model of the list.
struct ModelListEntry {
    facts: ModelFacts,
    /// `true` for the model of a run.
    chosen: bool,
    /// `true` if the server lists the model.
    served: bool,
}

pub(crate) async fn run(args: &ModelsArgs, place: &CliEnvironment) -> Outcome {
    let loaded = model_discovery::complete(place, agent_file::load(place)?).await?;
    let served = served(place, &loaded).await;
    let models = list(place, &loaded, &served).await?;
    let text = if args.json { as_json(&models)? } else { table(&models, super::style(place)) };
    out::data(&text)?;
    Ok(DONE)
}

/// Returns the models in the server's list. Empty without a server or a list.
async fn served(place: &CliEnvironment, loaded: &ResolvedConfig) -> Vec<String> {
    let model = &loaded.config.model;
    if model.provider == ProviderKind::Scripted {
        return Vec::new();
    }
    match model_discovery::ask(place, model).await {
        ServerProbeResult::Models(models) => models,
        ServerProbeResult::Other(status @ (401 | 403)) => {
            let why = model_discovery::describe_status(status, model);
            out::complaint(&format!("{} {why}\n", visible(&model.base_url)));
            Vec::new()
        }
        ServerProbeResult::Other(_) | ServerProbeResult::Unasked => Vec::new(),
        ServerProbeResult::Silent => {
            out::complaint(&format!("{} does not answer\n", visible(&model.base_url)));
            Vec::new()
        }
    }
}

/// Lists the chosen model, then the declared ones, then all others of the server.
async fn list(
    place: &CliEnvironment,
    loaded: &ResolvedConfig,
    served: &[String],
) -> Outcome<Vec<ModelListEntry>> {
    let config = &loaded.config;
    let (origin, chosen) = ModelFacts::ask(place, config).await?;
    let mut names: Vec<&String> = config.models.keys().chain(served).collect();
    // The chosen model has a row of its own, the first.
    names.retain(|name| **name != config.model.name);
    let mut seen = std::collections::BTreeSet::new();
    // A declared model may be in the server's list too. The first occurrence keeps its place.
    names.retain(|name| seen.insert(name.as_str()));
    let learned = counting::calibrations(place, &config.model.base_url);
    // The facts of a model cost requests of their own, too many for a distant server with a long list.
    let near = trust::is_local(&config.model.base_url) && names.len() <= MOST_ASKED;
    let others = names.iter().map(|name| async {
        if near && served.contains(name) {
            let mut other = config.clone();
            other.model.name.clone_from(name);
            // Limits beside `model.name` hold for that model only.
            (other.model.context_window, other.model.max_output_tokens) = (None, None);
            ModelFacts::ask(place, &other).await.map(|(_, facts)| facts)
        } else {
            Ok(ModelFacts::unasked(
                config,
                &learned,
                &ModelOrigin { model: (*name).clone(), ..origin.clone() },
            ))
        }
    });
    // At once, because each model is a request to the server.
    let others = futures_util::future::try_join_all(others).await?;
    let chosen = ModelListEntry { served: served.contains(&chosen.name), facts: chosen, chosen: true };
    let others = others.into_iter().map(|facts| ModelListEntry {
        served: served.contains(&facts.name),
        facts,
        chosen: false,
    });
    Ok(std::iter::once(chosen).chain(others).collect())
}

fn table(models: &[ModelListEntry], style: TextPainter) -> String {
    let widest = models.iter().map(|model| visible(&model.facts.name).chars().count()).max().unwrap_or(0);
    let width = widest.clamp("model".len(), WIDEST_NAME);
    let head = format!(
        "  {:<width$}  {:>11} {:<9}  {:>9}  {:<22}  {}",
        "model", "window", "says", "output", "can", "$ per million in · cached · out"
    );
    let mut text = format!("{}\n", style.dim(&head));
    for model in models {
        let row = row(model, width);
        text.push_str(&if model.chosen { style.bold(&row) } else { row });
        text.push('\n');
    }
    text.push_str(&style.dim(&note(models)));
    text
}

fn row(model: &ModelListEntry, width: usize) -> String {
    let facts = &model.facts;
    let tokens =
        |fact: Option<SourcedValue<u64>>| fact.map_or_else(|| "–".to_owned(), |fact| grouped(fact.value));
    let says = facts.window().map_or("unknown", |fact| fact.source.as_str());
    let mark = if model.chosen { '*' } else { ' ' };
    let row = format!(
        "{mark} {:<width$}  {:>11} {says:<9}  {:>9}  {:<22}  {}",
        visible(&facts.name),
        tokens(facts.window()),
        tokens(facts.max_output()),
        abilities(facts),
        prices(facts),
    );
    row.trim_end().to_owned()
}

/// Describes the model's inputs. Missing tools come first.
fn abilities(facts: &ModelFacts) -> String {
    let abilities = facts.abilities();
    let words = abilities.iter().filter_map(|(name, fact)| match (*name, fact.value) {
        ("tools", false) => Some("no tools"),
        (name @ ("tools" | "images" | "files"), true) => Some(name),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn prices(facts: &ModelFacts) -> String {
    let Some(prices) = facts.prices() else { return String::new() };
    let rates = prices.value.at(0);
    let cached = rates.cached.map_or_else(|| "–".to_owned(), dollars);
    let more = if prices.value.above().is_some() { " +" } else { "" };
    format!("{} · {cached} · {}{more}", dollars(rates.input), dollars(rates.output))
}

/// Explains the signs in the list.
fn note(models: &[ModelListEntry]) -> String {
    let mut notes = vec!["* is the one that is used".to_owned()];
    if models.iter().any(|model| model.facts.prices().is_some_and(|prices| prices.value.above().is_some())) {
        notes.push("+ long requests cost more".to_owned());
    }
    let priced_by_catalogue = models
        .iter()
        .filter(|model| model.facts.prices().is_some_and(|prices| prices.source == LimitSource::Catalogue));
    let source = priced_by_catalogue.filter_map(|model| model.facts.entry?.source());
    if let Some(date) = source.map(|source| source.date.as_str()).max() {
        notes.push(format!("list prices as of {date}"));
    }
    format!("\n  {}\n", notes.join(" · "))
}

fn as_json(models: &[ModelListEntry]) -> Outcome<String> {
    let models: Vec<Value> = models.iter().map(model_json).collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&models)?))
}

fn model_json(model: &ModelListEntry) -> Value {
    let facts = &model.facts;
    let abilities =
        facts.abilities().into_iter().map(|(name, fact)| (name.to_owned(), sourced(fact.value, fact.source)));
    json!({
        "name": facts.name,
        "chosen": model.chosen,
        "served": model.served,
        "window": facts.window().map(|fact| sourced(fact.value, fact.source)),
        "maxOutput": facts.max_output().map(|fact| sourced(fact.value, fact.source)),
        "maxImages": facts.max_images().map(|fact| sourced(fact.value, fact.source)),
        "pictureSize": facts.picture_size().map(picture_size_json),
        "refusedParameters": facts.refused_parameters(),
        "abilities": abilities.collect::<serde_json::Map<_, _>>(),
        "reasoningRetention": facts.reasoning().map(|fact| sourced(retention(fact.value), fact.source)),
        "prices": prices_json(facts),
        "catalogue": facts.entry.map(|entry| {
            let source = entry.source();
            json!({
                "name": entry.name(),
                "maker": entry.maker(),
                "openWeights": entry.is_open(),
                "upperBoundTokens": entry.upper_bound(),
                "source": source.map(|source| source.title.as_str()),
                "date": source.map(|source| source.date.as_str()),
            })
        }),
    })
}

/// Returns the limits on one picture: the side and the whole picture in pixels, and its bytes. `null` is no limit.
fn picture_size_json(fact: SourcedValue<PictureSizeLimits>) -> Value {
    let PictureSizeLimits { max_side, max_pixels, max_bytes } = fact.value;
    json!({ "maxSide": max_side, "maxPixels": max_pixels, "maxBytes": max_bytes, "source": fact.source.as_str() })
}

fn sourced(value: impl Into<Value>, source: LimitSource) -> Value {
    json!({ "value": value.into(), "source": source.as_str() })
}

/// Returns prices in US dollars per million tokens.
fn prices_json(facts: &ModelFacts) -> Option<Value> {
    let prices = facts.prices()?;
    let mut value = rates_json(prices.value.at(0));
    value["source"] = prices.source.as_str().into();
    if let Some((tokens, above)) = prices.value.above() {
        value["above"] = rates_json(above);
        value["above"]["inputTokens"] = tokens.into();
    }
    Some(value)
}

fn rates_json(rates: longhaul_wire::catalog::TokenRates) -> Value {
    json!({ "input": rates.input, "cachedInput": rates.cached, "cacheWrite": rates.write, "output": rates.output })
}
