//! The known facts about the model for a run, with their sources.

use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_providers::{LimitSource, ReasoningScope};

use crate::commands::NO_TOOLS;
use crate::model_facts::{ModelFacts, dollars};
use crate::term::human::grouped;

/// Returns a line for each fact, label and fact.
pub(super) fn facts(model: &ModelFacts) -> Vec<(&'static str, String)> {
    let mut facts = vec![("window", window(model))];
    if let Some(output) = model.max_output() {
        facts.push(("output", format!("at most {} tokens · {}", grouped(output.value), output.source)));
    }
    let abilities = model.abilities();
    if !abilities.is_empty() {
        facts.push((
            "takes",
            abilities
                .iter()
                .map(|(name, fact)| {
                    let name = if *name == "reliableUsage" { "reliable usage reports" } else { name };
                    format!("{}{name} ({})", if fact.value { "" } else { "no " }, fact.source)
                })
                .collect::<Vec<_>>()
                .join(" · "),
        ));
    }
    if let Some(images) = model.max_images() {
        facts.push(("pictures", format!("at most {} in a request · {}", images.value, images.source)));
    }
    if let Some(size) = model.picture_size() {
        facts.push(("pictures", format!("of at most {} each · {}", size.value, size.source)));
    }
    if let [_, ..] = model.refused_parameters() {
        let names = model.refused_parameters().join(", ");
        facts.push(("refuses", format!("the parameters {names} · {}", LimitSource::Learned)));
    }
    if abilities.iter().any(|(name, fact)| *name == "tools" && !fact.value) {
        facts.push(("tools", NO_TOOLS.to_owned()));
    }
    if let Some(kept) = model.reasoning() {
        facts.push(("reasoning", format!("{} · {}", sent_back(kept.value), kept.source)));
    }
    facts.extend(prices(model).map(|prices| ("prices", prices)));
    facts
}

/// Describes the fate of a model's own reasoning at its later calls.
fn sent_back(kept: ReasoningScope) -> &'static str {
    match kept {
        ReasoningScope::Never => "its earlier reasoning is not sent back to the model",
        ReasoningScope::Turn => "its reasoning is sent back to the model until the turn ends",
        ReasoningScope::Always => "its reasoning is sent back to the model at every later call",
    }
}

fn window(model: &ModelFacts) -> String {
    let bound = model.entry.and_then(|entry| entry.upper_bound());
    match (model.window(), bound) {
        // A wrong declaration shows up here and not in the middle of a long session.
        (Some(window), Some(bound)) if window.value > bound => format!(
            "{} tokens · {}, which is more than the {} that this model can have",
            grouped(window.value),
            window.source,
            grouped(bound),
        ),
        (Some(window), _) => {
            let how = if window.source == LimitSource::Learned { " from an overflow error" } else { "" };
            format!("{} tokens · {}{how}", grouped(window.value), window.source)
        }
        (None, bound) => {
            let trained = bound.map(|bound| format!("; at most {}", grouped(bound))).unwrap_or_default();
            format!("not stated; {} is assumed{trained}; set model.context_window", grouped(ASSUMED_WINDOW))
        }
    }
}

fn prices(model: &ModelFacts) -> Option<String> {
    let prices = model.prices()?;
    // The rates of a short request. Long ones may cost more.
    let rates = prices.value.at(0);
    let cached = rates.cached.map(|cached| format!(" · ${} cached", dollars(cached))).unwrap_or_default();
    let source = match (prices.source, model.entry.and_then(|entry| entry.source())) {
        (LimitSource::Catalogue, Some(source)) => format!("catalogue of {}", source.date),
        (source, _) => source.to_string(),
    };
    Some(format!(
        "${} in{cached} · ${} out, per million tokens · {source}",
        dollars(rates.input),
        dollars(rates.output)
    ))
}
