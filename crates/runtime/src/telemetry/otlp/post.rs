//! Posts to a collector on the program's own tokio runtime, because the SDK's threads have none.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use reqwest::{Client, Url};
use tokio::runtime::Handle;

/// The maximum duration of a request to a collector.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a collector's answer, in bytes. The answer only says how many items the collector refused.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The HTTP client of one collector.
#[derive(Debug)]
pub(super) struct CollectorClient {
    client: Client,
    runtime: Handle,
    /// The collector's address for people, without a password that the address may hold.
    place: String,
    was_told: AtomicBool,
}

/// One client for both kinds of data, so that a problem is reported once.
#[derive(Clone, Debug)]
pub(super) struct SharedCollectorClient(pub(super) Arc<CollectorClient>);

impl CollectorClient {
    /// Makes a client for the collector at `base`.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(super) fn new(base: &Url, runtime: Handle) -> Result<Self, reqwest::Error> {
        // No redirects: the headers may hold the collector's key, which must not go to another host.
        let mut builder = Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        // A proxy of the environment cannot reach a collector on this machine.
        if matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let place = base.origin().ascii_serialization();
        Ok(Self { client: builder.build()?, runtime, place, was_told: AtomicBool::new(false) })
    }

    async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = client.execute(request.try_into()?).await?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = std::mem::take(answer.headers_mut());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER_BYTES {
                return Err("the collector's answer is too long".into());
            }
        }
        Ok(response.body(body.into())?)
    }

    /// Logs a problem once. The reader can act on the first line, and the next thousand would repeat it.
    pub(super) fn complain(&self, problem: impl std::fmt::Display) {
        if !self.was_told.swap(true, Ordering::Relaxed) {
            tracing::warn!("telemetry does not reach {}: {problem}", self.place);
        }
    }
}

/// Returns the innermost cause of an error: "connection refused" rather than "error sending request".
fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    cause
}

#[async_trait]
impl HttpClient for SharedCollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let Self(post) = self;
        let sent = post.runtime.spawn(CollectorClient::send(post.client.clone(), request)).await;
        // The runtime is ending and has dropped the task.
        let answer = sent.unwrap_or_else(|_| Err("the program ended before an answer came".into()));
        match &answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => post.complain(answer.status()),
            Err(error) => post.complain(cause(&**error)),
        }
        answer
    }
}
