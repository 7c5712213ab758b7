//! The provider's id of a request, which a report of a failure needs.

use reqwest::header::HeaderMap;

use crate::ProviderError;

/// The headers that may hold the id; the first one that is present wins.
const HEADERS: [&str; 6] = [
    "request-id",
    "x-request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
];

/// The largest length of an id, in characters. A longer value is not an id.
const MAX_CHARS: usize = 128;

/// Returns the id of the request that was answered with these headers.
pub(super) fn read(headers: &HeaderMap) -> Option<String> {
    let given = HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    given.map(str::trim).find(|id| (1..=MAX_CHARS).contains(&id.len())).map(str::to_owned)
}

/// Adds the id to the error's message.
pub(super) fn with_request_id(id: Option<&str>, mut error: ProviderError) -> ProviderError {
    if let Some(id) = id {
        error.message = format!("{} [request {id}]", error.message);
    }
    error
}
