//! A hook behind a server: the ask is posted, the body of the response is the answer.

use std::fmt;

use async_trait::async_trait;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Url, redirect};
use serde_json::Value;

use super::{Hook, HookError, HookEvent, MAX_ANSWER_BYTES, parse_output, to_bytes};
use crate::ssrf_guard;

const JSON: &str = "application/json";

/// A server. 2xx: the body is the answer, and an empty body is no objection. Anything else is a failure, redirects
/// included, which are not followed. Only the request is sent.
#[derive(Clone)]
pub struct HttpHook {
    client: Client,
    url: Url,
}

impl HttpHook {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// [`HookError::NotStarted`] for an invalid address, which the error does not repeat.
    pub fn new(url: &str) -> Result<Self, HookError> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url =
            url.ok_or_else(|| HookError::NotStarted("its address is not one of http or https".to_owned()))?;
        let builder = ssrf_guard::client(&url)
            // The request holds words of the conversation, which must not go to another address.
            .redirect(redirect::Policy::none())
            .referer(false)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let client = builder
            .build()
            .map_err(|_| HookError::NotStarted("its connection could not be set up".to_owned()))?;
        Ok(Self { client, url })
    }
}

#[async_trait]
impl Hook for HttpHook {
    async fn answer(&self, event: HookEvent, ask: Value) -> Result<Value, HookError> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, JSON).header(ACCEPT, JSON);
        let response = request.body(to_bytes(&ask)?).send().await.map_err(|error| unsent(&error))?;
        let status = response.status();
        tracing::debug!(hook = event.as_str(), status = status.as_u16(), "the server of a hook answered");
        if !status.is_success() {
            return Err(HookError::Status(status.as_u16()));
        }
        // Read piece by piece, because the client has no limit of its own.
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| unsent(&error))?;
            // A declared length may be missing or wrong, so the bytes are counted as they come.
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(HookError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        parse_output(&body)
    }
}

impl fmt::Debug for HttpHook {
    /// Shows the hook without path and query, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHook").field("server", &self.url.origin().ascii_serialization()).finish()
    }
}

/// Converts an error of the HTTP client without the client's words, which repeat the address.
fn unsent(error: &reqwest::Error) -> HookError {
    if error.is_connect() { HookError::Unreachable } else { HookError::Broken }
}
