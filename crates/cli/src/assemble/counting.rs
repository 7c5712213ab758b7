//! Who counts the tokens: the server, the model's tokenizer, or the estimate with what earlier sessions have shown.

use std::path::Path;
use std::sync::Arc;

use longhaul::calibration::Calibrations;
use longhaul::config::{Config, ModelConfig, ProviderKind, TokenCounter};
use longhaul_core::estimate::{CountKind, Counter, Family};
use longhaul_core::message::Origin;
use longhaul_core::run::Counting;
use longhaul_tokenizers::{Cached, OpenAi, TokenizerJson, encoding_of};

use crate::failure::{Failure, Outcome};
use crate::place::Place;

/// What was learned of models' vocabularies, in the data folder.
const CALIBRATIONS: &str = "calibration.json";

/// How tokens are counted.
pub(super) struct Counts {
    pub(super) counter: Counter,
    pub(super) counting: Counting,
    pub(super) calibrations: Arc<Calibrations>,
}

/// What earlier sessions have shown of the models of a server.
pub(crate) fn calibrations(place: &Place, base_url: &str) -> Calibrations {
    Calibrations::open(place.data_dir.join(CALIBRATIONS)).of_server(base_url)
}

/// How `config` has tokens counted for `model`.
///
/// # Errors
/// Usage, for a `tokenizer.json` that cannot be used.
pub(super) async fn counts(place: &Place, config: &Config, model: &Origin) -> Outcome<Counts> {
    let calibrations = Arc::new(calibrations(place, &config.model.base_url));
    let wanted = config.context.token_counter.clone();
    let name = model.model.clone();
    let root = place.workspace.clone();
    // Building a vocabulary takes up to seconds.
    let counter = tokio::task::spawn_blocking(move || counter(&wanted, &name, &root)).await??;
    let counting = counting(&config.context.token_counter, &config.model, &counter);
    let counter = match calibrations.prior(model, counter.name()) {
        Some(prior) => counter.with_prior(prior),
        None => counter,
    };
    Ok(Counts { counter, counting, calibrations })
}

/// The counter for texts.
///
/// # Errors
/// Usage, for a `tokenizer.json` that cannot be used.
pub(crate) fn counter(wanted: &TokenCounter, model: &str, root: &Path) -> Outcome<Counter> {
    let encoding = match wanted {
        TokenCounter::Chars => return Ok(Counter::characters().for_model(model)),
        TokenCounter::File(file) => return Ok(from_file(&root.join(file))?.for_model(model)),
        TokenCounter::Encoding(name) => Some(*name),
        TokenCounter::Auto | TokenCounter::Server => encoding_of(model),
    };
    let exact = encoding.and_then(OpenAi::named);
    let estimated = || Counter::estimated(Family::of(model));
    let counter = exact.map_or_else(estimated, |exact| Counter::new(Arc::new(Cached::new(exact))));
    Ok(counter.for_model(model))
}

fn from_file(file: &Path) -> Outcome<Counter> {
    let tokenizer = TokenizerJson::from_path(file)
        .map_err(|error| Failure::usage(format!("context.tokenCounter: {}: {error}", file.display())))?;
    Ok(Counter::new(Arc::new(Cached::new(tokenizer))))
}

/// A server on this machine counts before every call: that is near and free. One far away is asked only where there
/// is no report to build on, and not at all if the model's own tokenizer is at hand.
fn counting(wanted: &TokenCounter, model: &ModelConfig, counter: &Counter) -> Counting {
    match (wanted, model.provider) {
        (_, ProviderKind::Scripted) => Counting::Never,
        (TokenCounter::Server, _) => Counting::Always,
        (TokenCounter::Auto, _) if crate::trust::is_local(&model.base_url) => Counting::Always,
        (TokenCounter::Auto, ProviderKind::OpenaiCompatible) => Counting::Never,
        (TokenCounter::Auto, _) if counter.kind() != CountKind::Exact => Counting::Unanchored,
        _ => Counting::Never,
    }
}
