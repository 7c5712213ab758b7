//! Refusal of redirects: the key is meant for a single server, so no request follows a redirect.

use reqwest::Response;
use reqwest::header::LOCATION;

use super::place;
use crate::ProviderError;

/// Returns the target of a redirect, without secrets; `None` for any other answer.
pub(super) fn read(response: &Response) -> Option<String> {
    let target = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    // The header may hold a bare path, which is relative to the request's address (RFC 9110, 10.2.2).
    let target = target.to_str().ok().and_then(|target| response.url().join(target).ok());
    Some(match target {
        Some(url) if place(&url) == place(response.url()) => format!("another path of {}", place(&url)),
        Some(url) => place(&url),
        None => "a place that cannot be read".to_owned(),
    })
}

/// Adds the redirect's target to the error.
pub(super) fn explain(target: Option<String>, mut error: ProviderError) -> ProviderError {
    if let (Some(target), Some(status)) = (target, error.status) {
        error.message = format!(
            "the server redirects to {target}; redirects are not followed, so that the key is not sent elsewhere: \
             set `base_url` to the server that answers (HTTP {status})"
        );
    }
    error
}
