//! The configured targets of spans and metrics.

use longhaul::config::AgentConfig;
use longhaul::telemetry::Telemetry;

use crate::failure::{CommandError, Outcome};

/// Returns the configured telemetry; without a collector nothing is sent.
///
/// # Errors
/// Usage, for an unusable address of a collector.
#[cfg(feature = "telemetry")]
pub(crate) fn telemetry(config: &AgentConfig) -> Outcome<Telemetry> {
    use longhaul::telemetry::{ContentCapture, ServiceIdentity};

    let Some(url) = &config.telemetry.otlp else { return Ok(Telemetry::default().named(&config.name)) };
    let service =
        ServiceIdentity { name: "longhaul".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let content = if config.telemetry.content { ContentCapture::Included } else { ContentCapture::LeftOut };
    tracing::debug!(
        collector = %crate::trust::server_of(url),
        content = config.telemetry.content,
        "spans and metrics are sent"
    );
    let telemetry = Telemetry::otlp(url, &service, content);
    let telemetry = telemetry.map_err(|error| CommandError::usage(format!("telemetry.otlp: {error}")))?;
    Ok(telemetry.named(&config.name))
}

/// Returns telemetry without a sender, because this build cannot send.
///
/// # Errors
/// Usage, if a collector is named: this build cannot send.
#[cfg(not(feature = "telemetry"))]
pub(crate) fn telemetry(config: &AgentConfig) -> Outcome<Telemetry> {
    match config.telemetry.otlp {
        Some(_) => Err(CommandError::usage(
            "telemetry.otlp is set, but this longhaul was built without telemetry: remove the key, or build \
             with the feature `telemetry`",
        )),
        None => Ok(Telemetry::default().named(&config.name)),
    }
}
