//! The provider's id of a request, for reports of failures.

use reqwest::header::HeaderMap;

use crate::ProviderError;

/// The possible headers of the id; the first present header wins.
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

/// Returns the id of a request from the headers of the answer.
pub(super) fn read(headers: &HeaderMap) -> Option<String> {
    let given = HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    // A proxy may send an empty header of a known name. The next one is taken then.
    given.map(str::trim).find(|id| (1..=MAX_CHARS).contains(&id.len())).map(str::to_owned)
}

/// Adds the id to the error's message.
pub(super) fn with_request_id(id: Option<&str>, mut error: ProviderError) -> ProviderError {
    if let Some(id) = id {
        error.message = format!("{} [request {id}]", error.message);
    }
    error
}
