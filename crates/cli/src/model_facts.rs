//! The known facts about one model with their sources: the user, the server, an overflow error, the
//! catalogue, in this order.

use longhaul::calibration::{CalibrationStore, MissingAbility};
use longhaul::clock::now_ms;
use longhaul::config::AgentConfig;
use longhaul::config_agent;
use longhaul_core::ids::Millis;
use longhaul_core::message::ModelOrigin;
use longhaul_core::refusal::PictureSizeLimits;
use longhaul_providers::{
    DeclaredLimits, FeatureSupport, LimitSource, Limits, ReasoningScope, catalog_provider,
};
use longhaul_wire::catalog::{self, CatalogModel, ListPrices};

use crate::assemble::{self, counting};
use crate::environment::CliEnvironment;
use crate::failure::Outcome;

/// The facts about one model, in layers.
#[derive(Clone, Debug)]
pub(crate) struct ModelFacts {
    /// The model's name, in its server's words.
    pub(crate) name: String,
    declared: DeclaredLimits,
    said: Limits,
    /// The window named by an earlier overflow error, in tokens.
    learned: Option<u64>,
    /// The facts that sessions have learned within the last day, besides the window.
    learned_abilities: LearnedAbilities,
    known: Limits,
    declared_prices: Option<ListPrices>,
    known_prices: Option<ListPrices>,
    /// The model's entry in the catalogue.
    pub(crate) entry: Option<&'static CatalogModel>,
}

/// The abilities that earlier sessions found missing, the learned limits on pictures, and the refused parameters.
#[derive(Clone, Debug, Default)]
struct LearnedAbilities {
    has_no_tools: bool,
    has_no_prefill: bool,
    has_unreliable_usage: bool,
    max_images: Option<u32>,
    picture_size: PictureSizeLimits,
    refused_parameters: Vec<String>,
}

impl LearnedAbilities {
    fn of(learned: &CalibrationStore, origin: &ModelOrigin, now: Millis) -> Self {
        Self {
            has_no_tools: learned.refuses_tools(origin, now),
            has_no_prefill: learned.lacks(origin, MissingAbility::Prefill, now),
            has_unreliable_usage: learned.lacks(origin, MissingAbility::ReliableUsage, now),
            max_images: learned.most_images(origin, now),
            picture_size: learned.picture_size(origin, now),
            refused_parameters: learned.refused_parameters(origin, now),
        }
    }
}

/// A value and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SourcedValue<T> {
    pub(crate) value: T,
    pub(crate) source: LimitSource,
}

impl ModelFacts {
    /// Returns the facts about the model of a configuration. Asks the model's server.
    ///
    /// # Errors
    /// Usage, for an unusable server.
    pub(crate) async fn ask(place: &CliEnvironment, config: &AgentConfig) -> Outcome<(ModelOrigin, Self)> {
        let (origin, said) = assemble::server_limits(place, &config.model).await?;
        let learned = counting::calibrations(place, &config.model.base_url);
        let unasked = Self::unasked(config, &learned, &origin);
        let facts = Self { declared: config_agent::declared_limits(config), said, ..unasked };
        Ok((origin, facts))
    }

    /// Returns the facts about another model of the server, without asking the server. Learned facts are
    /// included.
    pub(crate) fn unasked(config: &AgentConfig, learned: &CalibrationStore, origin: &ModelOrigin) -> Self {
        let base_url = &config.model.base_url;
        Self {
            name: origin.model.clone(),
            declared: config_agent::listed_limits(config, &origin.model),
            said: Limits::default(),
            learned: learned.window(origin),
            learned_abilities: LearnedAbilities::of(learned, origin, now_ms()),
            known: catalog_provider::limits(origin, base_url),
            declared_prices: config_agent::declared_rates(config, &origin.model).map(ListPrices::flat),
            known_prices: catalog::prices(&origin.model, base_url),
            entry: catalog::find(&origin.model),
        }
    }

    /// Returns the context window in tokens. If neither the user nor the server states it, the learned window
    /// and the catalogue's both bound it, as in the planner.
    pub(crate) fn window(&self) -> Option<SourcedValue<u64>> {
        let said = self.of(self.declared.window, |limits| limits.window);
        let Some(learned) = self.learned else { return said };
        match said {
            Some(SourcedValue { source: LimitSource::Declared | LimitSource::Server, .. }) => said,
            Some(SourcedValue { value, .. }) if value <= learned => said,
            _ => Some(SourcedValue { value: learned, source: LimitSource::Learned }),
        }
    }

    /// Returns the longest answer in tokens.
    pub(crate) fn max_output(&self) -> Option<SourcedValue<u64>> {
        self.of(self.declared.max_output, |limits| limits.max_output)
    }

    /// Returns the abilities of the model, by name. Unknown ones are left out.
    pub(crate) fn abilities(&self) -> Vec<(&'static str, SourcedValue<bool>)> {
        let Self { declared, learned_abilities: learned, .. } = self;
        let missing = |is_missing: bool| {
            is_missing.then_some(SourcedValue { value: false, source: LimitSource::Learned })
        };
        // As in a session: an error about tools counts only if nothing better is known, the other errors always.
        let tools = self.of(declared.tools, |limits| can(limits.tools)).or(missing(learned.has_no_tools));
        let images = missing(learned.max_images == Some(0));
        let prefill = missing(learned.has_no_prefill);
        let all = [
            ("tools", tools),
            ("images", images.or_else(|| self.of(declared.images, |limits| can(limits.images)))),
            ("files", self.of(declared.files, |limits| can(limits.files))),
            ("prefill", prefill.or_else(|| self.of(declared.prefill, |limits| can(limits.prefill)))),
            ("reliableUsage", missing(learned.has_unreliable_usage)),
        ];
        all.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
    }

    /// Returns the most pictures of a request, as an error has named the number.
    pub(crate) fn max_images(&self) -> Option<SourcedValue<u64>> {
        let most = self.learned_abilities.max_images.filter(|most| *most > 0)?;
        Some(SourcedValue { value: most.into(), source: LimitSource::Learned })
    }

    /// Returns the limits on one picture, as an error has named them.
    pub(crate) fn picture_size(&self) -> Option<SourcedValue<PictureSizeLimits>> {
        let size = self.learned_abilities.picture_size;
        (size != PictureSizeLimits::default())
            .then_some(SourcedValue { value: size, source: LimitSource::Learned })
    }

    /// Returns the names of the parameters that the model's server has refused. Requests leave them out.
    pub(crate) fn refused_parameters(&self) -> &[String] {
        &self.learned_abilities.refused_parameters
    }

    /// Returns the share of its own reasoning that the model is shown again.
    pub(crate) fn reasoning(&self) -> Option<SourcedValue<ReasoningScope>> {
        self.of(self.declared.reasoning, |limits| limits.reasoning)
    }

    /// Returns the prices of the model's calls.
    pub(crate) fn prices(&self) -> Option<SourcedValue<ListPrices>> {
        let declared =
            self.declared_prices.map(|value| SourcedValue { value, source: LimitSource::Declared });
        declared.or(self.known_prices.map(|value| SourcedValue { value, source: LimitSource::Catalogue }))
    }

    fn of<T>(&self, declared: Option<T>, read: impl Fn(&Limits) -> Option<T>) -> Option<SourcedValue<T>> {
        fact(declared, LimitSource::Declared)
            .or_else(|| fact(read(&self.said), LimitSource::Server))
            .or_else(|| fact(read(&self.known), LimitSource::Catalogue))
    }
}

fn fact<T>(value: Option<T>, source: LimitSource) -> Option<SourcedValue<T>> {
    value.map(|value| SourcedValue { value, source })
}

/// Returns the configuration's word for a reasoning scope.
pub(crate) fn retention(kept: ReasoningScope) -> &'static str {
    match kept {
        ReasoningScope::Never => "never",
        ReasoningScope::Turn => "turn",
        ReasoningScope::Always => "always",
    }
}

fn can(ability: FeatureSupport) -> Option<bool> {
    match ability {
        FeatureSupport::Yes => Some(true),
        FeatureSupport::No => Some(false),
        FeatureSupport::Unknown => None,
    }
}

/// Formats a price with all its digits: `2.5`, `0.075`, `15`.
pub(crate) fn dollars(price: f64) -> String {
    let text = format!("{price:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str, model: &str, said: Limits) -> ModelFacts {
        let config = AgentConfig::parse(text, "f").unwrap();
        let origin = ModelOrigin { provider: "p".into(), api: "openai-chat".into(), model: model.into() };
        ModelFacts { said, ..ModelFacts::unasked(&config, &CalibrationStore::in_memory(), &origin) }
    }

    #[test]
    fn the_user_comes_first_then_the_server_then_the_catalogue() {
        let text = "model: { name: m, base_url: 'https://api.z.ai/api/paas/v4' }\n\
                    models: { glm-4.6: { maxOutput: 500, prices: { input: 1, output: 2 }, media: [images] } }";
        let said =
            Limits { tools: FeatureSupport::No, ..Limits::from_window(Some(9_000), LimitSource::Server) };
        let facts = facts(text, "glm-4.6", said);
        assert_eq!(facts.window(), Some(SourcedValue { value: 9_000, source: LimitSource::Server }));
        assert_eq!(facts.max_output(), Some(SourcedValue { value: 500, source: LimitSource::Declared }));
        assert_eq!(facts.reasoning().map(|fact| fact.source), Some(LimitSource::Catalogue));
        let abilities = facts.abilities();
        assert_eq!(abilities[0], ("tools", SourcedValue { value: false, source: LimitSource::Server }));
        assert_eq!(abilities[1], ("images", SourcedValue { value: true, source: LimitSource::Declared }));
        assert_eq!(abilities[2], ("files", SourcedValue { value: false, source: LimitSource::Declared }));
        assert_eq!(
            facts.prices().map(|fact| (fact.value.at(0).output, fact.source)),
            Some((2.0, LimitSource::Declared))
        );
    }

    #[test]
    fn a_window_that_was_learned_stands_where_neither_the_user_nor_the_server_says_one() {
        let text = "model: { name: m, base_url: 'https://api.openai.com/v1' }";
        let learned = |tokens| Some((tokens, LimitSource::Learned));
        assert_eq!(window_of(text, "my-own", Limits::default(), 8_192), learned(8_192));
        assert_eq!(window_of(text, "gpt-4o", Limits::default(), 8_192), learned(8_192));
        let larger = window_of(text, "gpt-4o", Limits::default(), 900_000);
        assert_eq!(larger, Some((128_000, LimitSource::Catalogue)), "the smaller one bounds it");
        let said = Limits::from_window(Some(9_000), LimitSource::Server);
        assert_eq!(window_of(text, "my-own", said, 8_192), Some((9_000, LimitSource::Server)));
        let declared = "models: { my-own: { window: 7000 } }";
        assert_eq!(
            window_of(declared, "my-own", Limits::default(), 8_192),
            Some((7_000, LimitSource::Declared))
        );
    }

    fn window_of(text: &str, model: &str, said: Limits, learned: u64) -> Option<(u64, LimitSource)> {
        let facts = ModelFacts { learned: Some(learned), ..facts(text, model, said) };
        facts.window().map(|fact| (fact.value, fact.source))
    }

    #[test]
    fn what_sessions_have_learned_is_shown_as_learned() {
        let text = "model: { name: m }";
        let config = AgentConfig::parse(text, "f").unwrap();
        let origin = ModelOrigin { provider: "p".into(), api: "openai-chat".into(), model: "my-own".into() };
        let store = CalibrationStore::in_memory();
        store.learn_no_tools(&origin, now_ms());
        store.learn_most_images(&origin, 4, now_ms());
        let size = PictureSizeLimits { max_side: Some(2_000), ..PictureSizeLimits::default() };
        store.learn_picture_size(&origin, size, now_ms());
        store.learn_refused_parameter(&origin, "temperature", now_ms());
        store.learn_missing(&origin, MissingAbility::Prefill, now_ms());
        store.learn_missing(&origin, MissingAbility::ReliableUsage, now_ms());
        let said = Limits { prefill: FeatureSupport::Yes, ..Limits::default() };
        let facts = ModelFacts { said, ..ModelFacts::unasked(&config, &store, &origin) };
        let learned = SourcedValue { value: false, source: LimitSource::Learned };
        assert_eq!(facts.abilities(), [("tools", learned), ("prefill", learned), ("reliableUsage", learned)]);
        assert_eq!(facts.max_images(), Some(SourcedValue { value: 4, source: LimitSource::Learned }));
        assert_eq!(facts.picture_size(), Some(SourcedValue { value: size, source: LimitSource::Learned }));
        assert_eq!(facts.refused_parameters(), ["temperature"]);
    }

    #[test]
    fn nobody_knows_a_model_of_ones_own() {
        let facts = facts("model: { name: m }", "my-own", Limits::default());
        assert_eq!((facts.window(), facts.max_output(), facts.prices()), (None, None, None));
        assert!(facts.abilities().is_empty() && facts.entry.is_none());
    }

    #[test]
    fn prices_have_the_digits_that_they_need() {
        assert_eq!([2.5, 0.0375, 15.0, 0.0].map(dollars), ["2.5", "0.0375", "15", "0"]);
    }
}
