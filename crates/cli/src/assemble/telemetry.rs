//! Where spans and metrics go, as the configuration says.

use longhaul::config::Config;
use longhaul::telemetry::Telemetry;

use crate::failure::{Failure, Outcome};

/// # Errors
/// Usage, for a collector's address that cannot be used.
#[cfg(feature = "telemetry")]
pub(crate) fn telemetry(config: &Config) -> Outcome<Telemetry> {
    use longhaul::telemetry::{Content, Service};

    let Some(url) = &config.telemetry.otlp else { return Ok(Telemetry::default().named(&config.name)) };
    let service = Service { name: "longhaul".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let content = if config.telemetry.content { Content::Included } else { Content::LeftOut };
    let telemetry = Telemetry::otlp(url, &service, content);
    let telemetry = telemetry.map_err(|error| Failure::usage(format!("telemetry.otlp: {error}")))?;
    Ok(telemetry.named(&config.name))
}

/// # Errors
/// Usage, if a collector is named: this build cannot send.
#[cfg(not(feature = "telemetry"))]
pub(crate) fn telemetry(config: &Config) -> Outcome<Telemetry> {
    match config.telemetry.otlp {
        Some(_) => {
            Err(Failure::usage("telemetry.otlp is set, and this longhaul was built without telemetry"))
        }
        None => Ok(Telemetry::default().named(&config.name)),
    }
}
