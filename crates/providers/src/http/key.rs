//! The key in errors: a refused request's error reports whether a key was sent.

use super::Secret;
use super::proxy_answer::PROXY_AUTHENTICATION_REQUIRED;
use crate::{ModelEndpoint, ProviderError};
use longhaul_core::error::ErrorCode;
use longhaul_wire::server_error::NO_CREDIT_LEFT;

/// Headers with a key.
const HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Returns a description of the key in every request; never the key itself.
pub(super) fn describe(headers: &[(String, Secret)]) -> String {
    // A later header of one name replaces an earlier one, so the newest is the one that was sent.
    let mut newest_first = headers.iter().rev();
    match newest_first.find(|(name, _)| is_key_header(name)) {
        None => "no key was sent: set `model.api_key_env` in longhaul.yml".to_owned(),
        Some((name, key)) if key.is_empty() => {
            format!("the key sent as `{name}` was empty: set the variable that `model.api_key_env` names")
        }
        Some((name, _)) => format!("a key was sent, as `{name}`"),
    }
}

/// Returns the description of a sent key with the environment variable that held the key, if it is known.
pub(super) fn with_variable(description: String, endpoint: &ModelEndpoint) -> String {
    // A configured header of that kind replaces the key, and its value came from elsewhere.
    let is_replaced = endpoint.headers.iter().any(|(name, _)| is_key_header(name));
    let is_sent = endpoint.api_key.as_ref().is_some_and(|key| !key.is_empty()) && !is_replaced;
    match &endpoint.key_variable {
        Some(variable) if is_sent => format!("{description}, from the variable `{variable}`"),
        _ => description,
    }
}

fn is_key_header(name: &str) -> bool {
    HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the description of the key that an endpoint sends.
    fn description(endpoint: &ModelEndpoint) -> String {
        with_variable(describe(&endpoint.all_headers("authorization", "Bearer ")), endpoint)
    }

    #[test]
    fn a_sent_key_is_named_with_its_variable() {
        let mut endpoint = ModelEndpoint::new("openai", "http://localhost/v1", "m");
        endpoint.key_variable = Some("BOX_KEY".to_owned());
        assert!(description(&endpoint).starts_with("no key was sent"), "{}", description(&endpoint));
        endpoint.api_key = Some(Secret::new("k"));
        assert_eq!(description(&endpoint), "a key was sent, as `authorization`, from the variable `BOX_KEY`");
        endpoint.headers.push(("Authorization".to_owned(), Secret::new("Bearer other")));
        assert_eq!(description(&endpoint), "a key was sent, as `Authorization`");
    }
}
