//! The part that touches the network.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use longhaul_core::error::ErrorCode;
use longhaul_core::message::Origin;
use reqwest::Url;
use sse_stream::Sse;
use tokio::time::timeout;

use super::stream::Decoder;
use super::{API, Config, limits, request};
use crate::http::{self, ByteStream, Http, failure};
use crate::sse::{self, EventStream};
use crate::{Limits, ModelEvent, ModelStream, Provider, ProviderError, Request};

/// How long usage and `[DONE]` may take once the reason to stop is known. An answer that is whole does not
/// wait for a server that keeps the line open.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// How long the end of the body may take after `[DONE]`: reading it lets the connection be used again.
const AFTER_DONE: Duration = Duration::from_millis(50);

/// Bytes of a whole answer that was not streamed.
const MAX_WHOLE_BYTES: usize = 64 << 20;

/// A model behind OpenAI Chat Completions.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    config: Config,
    url: Url,
    http: Http,
}

impl OpenAiChat {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// `invalid-request` if the base URL or a header cannot be used; `network` if TLS cannot be set up.
    pub fn new(config: Config) -> Result<Self, ProviderError> {
        let url = http::endpoint(&config.base_url, &["chat", "completions"])?;
        let http = Http::new(&url, &config.all_headers(), config.timeouts)?;
        Ok(Self { config, url, http })
    }

    async fn open(&self, body: Bytes) -> Result<Answering, ProviderError> {
        let response = self.http.post(self.url.clone(), body).await?;
        let mut bytes = self.http.bytes(response);
        let start = beginning(&mut bytes).await?;
        let rest: ByteStream = Box::pin(futures_util::stream::iter([Ok(start.clone())]).chain(bytes));
        match Kind::of(&start) {
            Kind::Events => Ok(Answering::streamed(sse::events(rest))),
            Kind::Json => Answering::whole(&http::collect(rest, MAX_WHOLE_BYTES).await?),
            Kind::Other => Err(no_answer(&http::collect(rest, 64 << 10).await?)),
        }
    }
}

#[async_trait]
impl Provider for OpenAiChat {
    fn origin(&self) -> Origin {
        Origin {
            provider: self.config.provider.clone(),
            api: API.to_owned(),
            model: self.config.model.clone(),
        }
    }

    async fn limits(&self) -> Limits {
        limits::ask(&self.http, &self.config).await
    }

    fn render(&self, request: &Request) -> Result<Bytes, ProviderError> {
        request::encode(request, &self.config)
    }

    async fn call(&self, request: Request) -> Result<ModelStream, ProviderError> {
        let body = self.render(&request)?;
        drop(request);
        let answering = self.open(body).await.map_err(|error| self.http.hide(error))?;
        let http = self.http.clone();
        let events = futures_util::stream::unfold(answering, |mut answering| async move {
            answering.next().await.map(|event| (event, answering))
        });
        Ok(Box::pin(events.map_err(move |error| http.hide(error))))
    }
}

/// What a body turns out to be. Its content type is not asked: servers and proxies set it wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Events,
    Json,
    Other,
}

impl Kind {
    fn of(start: &[u8]) -> Self {
        const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b":"];
        let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
        let begins = |field: &&[u8]| start.starts_with(field) || field.starts_with(start);
        match start.first() {
            Some(b'{' | b'[') => Self::Json,
            Some(_) if FIELDS.iter().any(begins) => Self::Events,
            Some(_) => Self::Other,
            None => Self::Events,
        }
    }
}

/// The first bytes that are not empty lines, which some servers send to keep the line alive.
async fn beginning(bytes: &mut ByteStream) -> Result<Bytes, ProviderError> {
    while let Some(chunk) = bytes.try_next().await? {
        if !chunk.trim_ascii_start().is_empty() {
            return Ok(chunk);
        }
    }
    Err(ProviderError::new(ErrorCode::TruncatedStream, "the answer is empty"))
}

fn no_answer(body: &[u8]) -> ProviderError {
    let mut error = failure::in_band(&String::from_utf8_lossy(body));
    error.message = format!("this is no answer of a model: {}", error.message);
    error
}

/// An answer on its way.
struct Answering {
    events: Option<EventStream>,
    decoder: Option<Decoder>,
    ready: VecDeque<ModelEvent>,
}

impl Answering {
    fn streamed(events: EventStream) -> Self {
        Self { events: Some(events), decoder: Some(Decoder::default()), ready: VecDeque::new() }
    }

    fn whole(body: &[u8]) -> Result<Self, ProviderError> {
        let mut decoder = Decoder::default();
        let ready = decoder.push(&String::from_utf8_lossy(body))?.into();
        Ok(Self { events: None, decoder: Some(decoder), ready })
    }

    /// The next event; `None` after the answer or an error.
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let decoder = self.decoder.as_mut()?;
            let step = match self.events.as_mut() {
                Some(events) => read(events, decoder).await,
                None => Ok(None),
            };
            match step {
                Ok(Some(more)) => self.ready.extend(more),
                Ok(None) => {
                    return self.decoder.take().map(|decoder| decoder.finish().map(ModelEvent::Finished));
                }
                Err(error) => return self.decoder.take().map(|_| Err(error)),
            }
        }
    }
}

/// Reads one event of the stream; `None` where the answer is over.
async fn read(
    events: &mut EventStream,
    decoder: &mut Decoder,
) -> Result<Option<Vec<ModelEvent>>, ProviderError> {
    if decoder.is_closed() {
        // Only the end is wanted of it.
        let _ = timeout(AFTER_DONE, events.next()).await;
        return Ok(None);
    }
    if decoder.has_finished() {
        // What is missing is usage at most: an answer that is whole is not lost for it.
        return match timeout(AFTER_FINISH, events.next()).await {
            Ok(Some(Ok(event))) => take(&event, decoder).map(Some),
            Ok(None | Some(Err(_))) | Err(_) => Ok(None),
        };
    }
    match events.next().await {
        Some(Ok(event)) => take(&event, decoder).map(Some),
        Some(Err(error)) => Err(decoder.with_usage(error)),
        None => Ok(None),
    }
}

fn take(event: &Sse, decoder: &mut Decoder) -> Result<Vec<ModelEvent>, ProviderError> {
    let data = event.data.as_deref().unwrap_or_default();
    if event.event.as_deref() == Some("error") {
        return Err(decoder.with_usage(failure::in_band(data)));
    }
    decoder.push(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_first_bytes() {
        for start in ["data: {}", ": ping", "event: error", "\n\ndata:", "\u{feff}data:", "da", "id: 1"] {
            assert_eq!(Kind::of(start.as_bytes()), Kind::Events, "{start:?}");
        }
        assert_eq!(Kind::of(b" {\"id\""), Kind::Json);
        assert_eq!(Kind::of(b"[{\"error\""), Kind::Json);
        assert_eq!(Kind::of(b"<!DOCTYPE html>"), Kind::Other);
        assert_eq!(Kind::of(b"upstream says no"), Kind::Other);
    }
}
