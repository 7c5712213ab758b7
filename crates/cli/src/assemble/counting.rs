//! The token counter: the server, the model's tokenizer, or the estimate, calibrated by earlier sessions.

use std::path::Path;
use std::sync::Arc;

use longhaul::calibration::CalibrationStore;
use longhaul::config::{AgentConfig, TokenCounter};
use longhaul::config_agent;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::ModelOrigin;
use longhaul_core::run::ServerCountPolicy;

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
    let counting = config_agent::server_count_policy(&config.context.token_counter, &config.model, &counter);
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
    config_agent::token_counter(wanted, model, root).map_err(|error| CommandError::usage(error.to_string()))
}
