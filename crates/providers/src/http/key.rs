//! The key in errors: a refused request's error reports whether a key was sent.

use super::Secret;
use super::proxy_answer::PROXY_AUTHENTICATION_REQUIRED;
use crate::ProviderError;
use longhaul_core::error::ErrorCode;
use longhaul_wire::server_error::NO_CREDIT_LEFT;

/// Headers with a key.
const HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Returns a description of the key in every request; never the key itself.
pub(super) fn describe(headers: &[(String, Secret)]) -> String {
    // A later header of one name replaces an earlier one, so the newest is the one that was sent.
    let mut newest_first = headers.iter().rev();
    match newest_first.find(|(name, _)| HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))) {
        None => "no key was sent: set `model.api_key_env` in longhaul.yml".to_owned(),
        Some((name, key)) if key.is_empty() => {
            format!("the key sent as `{name}` was empty: set the variable that `model.api_key_env` names")
        }
        Some((name, _)) => format!("a key was sent, as `{name}`"),
    }
}

/// Adds the description of the key to the error of a refused request.
pub(super) fn explain(key: &str, mut error: ProviderError) -> ProviderError {
    // The key of an account without credit is valid, and 407 is about a proxy's user: a hint about the key would mislead.
    let is_of_key =
        error.status != Some(PROXY_AUTHENTICATION_REQUIRED) && !error.message.starts_with(NO_CREDIT_LEFT);
    if error.code == ErrorCode::Auth && is_of_key {
        error.message = format!("{}; {key}", error.message);
    }
    error
}
