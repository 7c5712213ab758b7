//! What a provider calls a request: whoever reports a failure is asked for it.

use reqwest::header::HeaderMap;

use crate::ProviderError;

/// Where providers put it; the first that is there counts.
const HEADERS: [&str; 6] = [
    "request-id",
    "x-request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
];

/// Longer values are no name.
const MAX_CHARS: usize = 128;

/// The name of the request that was answered with these headers.
pub(super) fn read(headers: &HeaderMap) -> Option<String> {
    let given = HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    given.map(str::trim).find(|id| (1..=MAX_CHARS).contains(&id.len())).map(str::to_owned)
}

/// The error with the name in the text that people see.
pub(super) fn with_request_id(id: Option<&str>, mut error: ProviderError) -> ProviderError {
    if let Some(id) = id {
        error.message = format!("{} [request {id}]", error.message);
    }
    error
}
