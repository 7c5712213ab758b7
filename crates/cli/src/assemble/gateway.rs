//! The gateway in front of the configured model's server.

use std::sync::Arc;

use longhaul::config::{Config, GatewayCredentials, GatewayMidstream};
use longhaul_gateway::{Credentials, Gateway, Midstream, Parts, Upstream};
use longhaul_providers::http::Secret;
use longhaul_store::Memo;

use super::{declared, key_variable};
use crate::failure::{Failure, Outcome};
use crate::place::Place;

/// The gateway; `None` for a model that has no server.
///
/// # Errors
/// Usage, for a server that cannot be used.
pub(crate) fn gateway(place: &Place, config: &Config, memo: Arc<dyn Memo>) -> Outcome<Option<Gateway>> {
    let model = &config.model;
    let Some(kind) = model.provider.kind() else { return Ok(None) };
    let mut upstream = Upstream::new(kind.as_str(), kind, &model.base_url);
    let endpoint = &mut upstream.endpoint;
    endpoint.api_key = key_variable(place, model).and_then(|name| place.variable(name)).map(Secret::new);
    endpoint.headers =
        model.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect();
    endpoint.declared = declared(config);
    let settings = longhaul_gateway::Config {
        credentials: match config.gateway.credentials {
            GatewayCredentials::Own => Credentials::Own,
            GatewayCredentials::Forward => Credentials::Forward,
        },
        midstream: match config.gateway.midstream {
            GatewayMidstream::Exact => Midstream::Exact,
            GatewayMidstream::Off => Midstream::Off,
        },
        ..longhaul_gateway::Config::new(vec![upstream])
    };
    let parts = Parts { memo, ..Parts::default() };
    Gateway::new(settings, parts).map(Some).map_err(|error| Failure::usage(error.to_string()))
}
