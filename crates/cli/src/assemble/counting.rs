//! The token counter: the server, the model's tokenizer, or the estimate, calibrated by earlier sessions.

use std::path::Path;
use std::sync::Arc;

use longhaul::calibration::CalibrationStore;
use longhaul::config::{AgentConfig, ModelConfig, ProviderKind, TokenCounter};
use longhaul_core::estimate::{CountAccuracy, MessageTokenCounter, TokenizerFamily};
use longhaul_core::message::ModelOrigin;
use longhaul_core::run::ServerCountPolicy;
use longhaul_tokenizers::{CachedCounter, OpenAiCounter, TokenizerJsonCounter, encoding_of};

use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};

/// The file in the data folder with the calibrations of models' vocabularies.
const CALIBRATIONS: &str = "calibration.json";

/// The way of counting tokens.
pub(super) struct TokenCounterSetup {
    pub(super) counter: MessageTokenCounter,
    pub(super) counting: ServerCountPolicy,
    pub(super) calibrations: Arc<CalibrationStore>,
}

/// Returns the calibrations of earlier sessions for the models of a server.
pub(crate) fn calibrations(place: &CliEnvironment, base_url: &str) -> CalibrationStore {
    CalibrationStore::open(place.data_dir.join(CALIBRATIONS)).of_server(base_url)
}

/// Sets up the token counter for `model` by `config`.
///
/// # Errors
/// Usage, for an unusable `tokenizer.json`.
pub(super) async fn counts(
    place: &CliEnvironment,
    config: &AgentConfig,
    model: &ModelOrigin,
) -> Outcome<TokenCounterSetup> {
    let calibrations = Arc::new(calibrations(place, &config.model.base_url));
    let wanted = config.context.token_counter.clone();
    let name = model.model.clone();
    let root = place.workspace.clone();
    // Building a vocabulary takes up to seconds.
    let counter = tokio::task::spawn_blocking(move || counter(&wanted, &name, &root)).await??;
    let counting = counting(&config.context.token_counter, &config.model, &counter);
    let counter = match calibrations.prior(model, counter.name()) {
        // Earlier sessions have compared the counter with the server's reports.
        Some(prior) => counter.with_prior(prior),
        None => counter,
    };
    tracing::debug!(counter = counter.name(), server = ?counting, "tokens are counted");
    Ok(TokenCounterSetup { counter, counting, calibrations })
}

/// Returns the counter for texts.
///
/// # Errors
/// Usage, for an unusable `tokenizer.json`.
pub(crate) fn counter(wanted: &TokenCounter, model: &str, root: &Path) -> Outcome<MessageTokenCounter> {
    let encoding = match wanted {
        TokenCounter::Chars => return Ok(MessageTokenCounter::characters().for_model(model)),
        TokenCounter::File(file) => return Ok(from_file(&root.join(file))?.for_model(model)),
        TokenCounter::Encoding(name) => Some(*name),
        TokenCounter::Auto | TokenCounter::Server => encoding_of(model),
    };
    let exact = encoding.and_then(OpenAiCounter::named);
    let counter = exact.map_or_else(
        || MessageTokenCounter::estimated(TokenizerFamily::of(model)),
        |exact| MessageTokenCounter::new(Arc::new(CachedCounter::new(exact))),
    );
    Ok(counter.for_model(model))
}

fn from_file(file: &Path) -> Outcome<MessageTokenCounter> {
    let tokenizer = TokenizerJsonCounter::from_path(file)
        .map_err(|error| CommandError::usage(format!("context.tokenCounter: {}: {error}", file.display())))?;
    Ok(MessageTokenCounter::new(Arc::new(CachedCounter::new(tokenizer))))
}

/// Returns when the server counts. A server on this machine counts before every call: that is near and free.
/// A distant one is asked only if there is no report to build on, and not at all if the model's own tokenizer
/// is at hand.
fn counting(wanted: &TokenCounter, model: &ModelConfig, counter: &MessageTokenCounter) -> ServerCountPolicy {
    match (wanted, model.provider) {
        (_, ProviderKind::Scripted) => ServerCountPolicy::Never,
        (TokenCounter::Server, _) => ServerCountPolicy::Always,
        (TokenCounter::Auto, _) if crate::trust::is_local(&model.base_url) => ServerCountPolicy::Always,
        (TokenCounter::Auto, ProviderKind::OpenaiCompatible) => ServerCountPolicy::Never,
        (TokenCounter::Auto, _) if counter.kind() != CountAccuracy::Exact => ServerCountPolicy::Unanchored,
        _ => ServerCountPolicy::Never,
    }
}
