//! The reader of an answer of any wire: streamed or whole, broken off, stalled, or no answer at all.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use longhaul_core::error::ErrorCode;
use longhaul_wire::sse::SseEvent;
use reqwest::Url;
use tokio::time::timeout;

use super::arguments::{EmptyArgumentsFilter, settled_answer};
use super::base_url::{BaseUrl, is_elsewhere, is_page, names_missing_model, page, with_tried_hint};
use super::body_idle_timeout::BodyIdleTimeout;
use super::byte_counts::{self, AnswerByteCounts};
use super::joined_events::join_characters;
use super::progress_deadline::ProgressDeadline;
use super::{
    ByteStream, MAX_ERROR_BYTES, ProviderHttpClient, collect, endpoint, request_id, too_large_error,
};
use crate::sse::{self, EventStream};
use crate::{ModelEvent, ModelStream, ProviderError, ndjson};
use longhaul_wire::{StreamDecoder, server_error, surrogates};

/// The wait for usage and the closing event once the stop reason is known. A complete answer does not wait for a
/// server with an open connection.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// The wait for the end of the body after the closing event. Only a connection with a fully read body can be reused.
const AFTER_CLOSE: Duration = Duration::from_millis(50);

/// The largest size of a whole, unstreamed answer, in bytes.
const MAX_WHOLE_BYTES: usize = 64 << 20;

/// Makes a call below a base URL and waits for the first event. If the API is not there, the call is made below the
/// version's path.
///
/// # Errors
/// Every failure before the first event.
pub(crate) async fn call_below<D: StreamDecoder>(
    http: &ProviderHttpClient,
    base: &BaseUrl,
    segments: &[&str],
    body: Bytes,
) -> Result<ModelStream, ProviderError> {
    call_at::<D>(http, base, |base| endpoint(base, segments), body).await
}

/// Makes a call as [`call_below`] does, at the address that `address` makes of a base URL.
///
/// # Errors
/// Every failure before the first event.
pub(crate) async fn call_at<D: StreamDecoder>(
    http: &ProviderHttpClient,
    base: &BaseUrl,
    address: impl Fn(&str) -> Result<Url, ProviderError>,
    body: Bytes,
) -> Result<ModelStream, ProviderError> {
    let url = address(base.current())?;
    // A base URL with a version has no alternative. After a successful search there is none either.
    let Some(versioned) = base.alternative() else { return call::<D>(http, url, body).await };
    let first = match call::<D>(http, url, body.clone()).await {
        Err(error) if is_elsewhere(&error) => error,
        answered => return answered,
    };
    tracing::debug!(
        status = first.status,
        "no API is at the base URL: the call is made below the path of its version"
    );
    match call::<D>(http, address(&versioned)?, body).await {
        // No API is at either path. The first error is about the address that the user wrote.
        Err(error) if is_elsewhere(&error) && !names_missing_model(&error) => {
            Err(with_tried_hint(first, &versioned))
        }
        // A server that could not be asked proves nothing about the path.
        Err(error) if error.unsent => Err(error),
        answered => {
            // A refusal proves the path as well as an answer does: an API has replied there.
            base.adopt_alternative();
            answered
        }
    }
}

/// Makes a call and waits for the first event.
///
/// # Errors
/// Every failure before the first event.
pub(crate) async fn call<D: StreamDecoder>(
    http: &ProviderHttpClient,
    url: Url,
    body: Bytes,
) -> Result<ModelStream, ProviderError> {
    let response = http.post(url.clone(), body).await?;
    let context = AnswerErrorContext {
        http: http.clone(),
        request_id: request_id::read(response.headers()),
        server: url.origin().ascii_serialization(),
    };
    // The bytes and the deadlines share this value: the first content, seen by the decoder, changes the limit of the
    // bytes.
    let silence = BodyIdleTimeout::before_start(http.timeouts);
    let bytes = http.bytes_with_idle_timeout(response, silence.clone());
    let patience = ProgressDeadline::new(http.timeouts, silence);
    let begun = Instant::now();
    let mut answering =
        open::<D>(bytes, patience, &url).await.map_err(|error| context.complete_error(error))?;
    // Until the first event the caller may still repeat the call, so an early failure is an error of the call itself.
    let first = answering.next().await.transpose().map_err(|error| context.complete_error(error))?;
    tracing::debug!(
        server = %context.server,
        request_id = context.request_id.as_deref(),
        streamed = answering.events.is_some(),
        elapsed_ms = begun.elapsed().as_millis() as u64,
        "the answer begins"
    );
    let rest = futures_util::stream::unfold(answering, |mut answering| async move {
        answering.next().await.map(|event| (event, answering))
    });
    let rest = rest.map_err(move |error| context.complete_error(error));
    Ok(Box::pin(futures_util::stream::iter(first.map(Ok)).chain(rest)))
}

/// The facts about a call for the call's errors.
struct AnswerErrorContext {
    http: ProviderHttpClient,
    request_id: Option<String>,
    /// The server's origin.
    server: String,
}

impl AnswerErrorContext {
    /// Adds the server's name and the request's id to an error, tells a break of the answer, and hides keys.
    fn complete_error(&self, error: ProviderError) -> ProviderError {
        let mut error = with_server_name(error, &self.server);
        // The status line has come, so a fault of the network is a break inside the answer.
        error.broke_off |= matches!(error.code, ErrorCode::Network | ErrorCode::TruncatedStream);
        if error.code == ErrorCode::RateLimitExceeded && error.retry_after.is_none() {
            let body = error.body.as_deref().unwrap_or_default();
            error.retry_after = server_error::wait_of_body(body, SystemTime::now());
        }
        let error = self.http.hide_secrets(request_id::with_request_id(self.request_id.as_deref(), error));
        tracing::debug!(
            server = %self.server,
            request_id = self.request_id.as_deref(),
            code = %error.code,
            retryable = error.retryable,
            "the answer failed"
        );
        error
    }
}

/// Names the server in the error of an answer after an early end, because the server's log has the reason.
fn with_server_name(mut error: ProviderError, server: &str) -> ProviderError {
    if error.code == ErrorCode::TruncatedStream {
        error.message = format!("the model server at {server} ended its answer early: {}", error.message);
    }
    error
}

async fn open<D: StreamDecoder>(
    mut bytes: ByteStream,
    patience: ProgressDeadline,
    url: &Url,
) -> Result<AnswerReader<D>, ProviderError> {
    // The outer error is the deadline's, the inner error the body's.
    let start = patience.wait(first_chunk(&mut bytes)).await??;
    let kind = ResponseBodyKind::of(&start);
    let all: ByteStream = Box::pin(futures_util::stream::iter([Ok(start)]).chain(bytes));
    match kind {
        ResponseBodyKind::Events => {
            let events = sse::events(byte_counts::events(all, false, D::MAX_EVENT_BYTES));
            Ok(AnswerReader::streamed(events, patience))
        }
        ResponseBodyKind::Json if D::LINES => {
            let events = ndjson::events(byte_counts::events(all, true, D::MAX_EVENT_BYTES));
            Ok(AnswerReader::streamed(events, patience))
        }
        // One byte more than the limit tells a longer answer from one of exactly that size.
        ResponseBodyKind::Json => AnswerReader::whole(&collect(all, MAX_WHOLE_BYTES + 1).await?, patience),
        ResponseBodyKind::Other => Err(not_an_answer_error(&collect(all, MAX_ERROR_BYTES).await?, url)),
    }
}

/// The kind of a response body. The content type does not decide: servers and proxies set wrong types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseBodyKind {
    Events,
    Json,
    Other,
}

impl ResponseBodyKind {
    fn of(start: &[u8]) -> Self {
        const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b":"];
        // A stream of events may begin with a byte order mark (WHATWG, server-sent events).
        let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
        // The first chunk may end inside the name of a field.
        let is_field = FIELDS.iter().any(|field| start.starts_with(field) || field.starts_with(start));
        match start.first() {
            Some(b'{' | b'[') => Self::Json,
            Some(_) if !is_field => Self::Other,
            _ => Self::Events,
        }
    }
}

/// Returns the first bytes after empty lines. Some servers send empty lines to keep the connection alive.
async fn first_chunk(bytes: &mut ByteStream) -> Result<Bytes, ProviderError> {
    while let Some(chunk) = bytes.try_next().await? {
        if !chunk.trim_ascii_start().is_empty() {
            return Ok(chunk);
        }
    }
    Err(ProviderError::new(ErrorCode::TruncatedStream, "the answer is empty"))
}

fn not_an_answer_error(body: &[u8], url: &Url) -> ProviderError {
    let said = String::from_utf8_lossy(body);
    if is_page(body) {
        return page(url, &said);
    }
    let mut error = server_error::from_answer(&said);
    error.message = format!("this is not an answer of a model: {}", error.message);
    error
}

/// A reader of an arriving answer.
struct AnswerReader<D> {
    /// The events of the stream; `None` if the answer came whole.
    events: Option<EventStream>,
    /// The body of a whole answer that has brought no event.
    silent_body: Option<String>,
    /// The decoder; `None` once the answer or an error was delivered.
    decoder: Option<D>,
    ready: VecDeque<ModelEvent>,
    said: AnswerByteCounts,
    arguments: EmptyArgumentsFilter,
    patience: ProgressDeadline,
}

impl<D: StreamDecoder> AnswerReader<D> {
    fn streamed(events: EventStream, patience: ProgressDeadline) -> Self {
        let events = Some(join_characters(events));
        let (said, arguments) = (AnswerByteCounts::default(), EmptyArgumentsFilter::default());
        Self {
            events,
            silent_body: None,
            decoder: Some(D::default()),
            ready: VecDeque::new(),
            said,
            arguments,
            patience,
        }
    }

    fn whole(body: &[u8], patience: ProgressDeadline) -> Result<Self, ProviderError> {
        if body.len() > MAX_WHOLE_BYTES {
            return Err(too_large_error("the answer", MAX_WHOLE_BYTES));
        }
        let (mut decoder, mut said, mut arguments) =
            (D::default(), AnswerByteCounts::default(), EmptyArgumentsFilter::default());
        let body = String::from_utf8_lossy(body);
        let ready = decoder.push(&surrogates::whole(&body))?;
        // Sizes are counted before the filter, so that held-back arguments count too.
        said.count(&ready).map_err(|error| with_usage(error, &decoder))?;
        let silent_body = ready.is_empty().then(|| body.into_owned());
        let ready = arguments.filter_events(ready).into();
        Ok(Self { events: None, silent_body, decoder: Some(decoder), ready, said, arguments, patience })
    }

    /// Returns the next event; `None` after the answer or an error.
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let decoder = self.decoder.as_mut()?;
            let more = match self.events.as_mut() {
                Some(events) => read(events, decoder, &mut self.patience).await,
                None => Ok(None),
            };
            let more = more.and_then(|more| match more {
                Some(more) => self.said.count(&more).map(|()| Some(more)),
                None => Ok(None),
            });
            match more {
                Ok(Some(more)) => self.ready.extend(self.arguments.filter_events(more)),
                Ok(None) => {
                    // Without a decoder every later poll returns `None`, as a finished stream must.
                    let decoder = self.decoder.take()?;
                    let answer = match self.silent_body.take() {
                        Some(body) => decoder.finish_whole(&body),
                        None => decoder.finish(),
                    };
                    let answer = answer.map(settled_answer);
                    if let Ok(answer) = &answer {
                        let usage = answer.usage.as_ref();
                        tracing::debug!(
                            finish = ?answer.finish,
                            parts = answer.parts.len(),
                            input_tokens = usage.map(|usage| usage.input_tokens),
                            cache_read_tokens = usage.map(|usage| usage.cache_read_tokens),
                            output_tokens = usage.map(|usage| usage.output_tokens),
                            reasoning_tokens = usage.map(|usage| usage.reasoning_tokens),
                            "the answer is complete"
                        );
                    }
                    return Some(answer.map(ModelEvent::Finished));
                }
                // A failed answer is billed as well, so its error carries the usage so far.
                Err(error) => return self.decoder.take().map(|last| Err(with_usage(error, &last))),
            }
        }
    }
}

/// Reads an event of the stream; `None` where the answer is over.
async fn read<D: StreamDecoder>(
    events: &mut EventStream,
    decoder: &mut D,
    patience: &mut ProgressDeadline,
) -> Result<Option<Vec<ModelEvent>>, ProviderError> {
    if decoder.is_closed() {
        // The answer is complete, so neither more data nor an error matters here.
        let _ = timeout(AFTER_CLOSE, events.next()).await;
        return Ok(None);
    }
    if decoder.has_finished() {
        // A later failure must not lose a complete answer.
        return match timeout(AFTER_FINISH, events.next()).await {
            Ok(Some(Ok(event))) => take(&event, decoder).map(Some),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => {
                tracing::debug!(code = %error.code, "the stream broke after the stop reason: the answer counts as complete");
                Ok(None)
            }
            Err(_) => {
                tracing::debug!(waited = ?AFTER_FINISH, "the stream stays open after the stop reason: its usage is not waited for");
                Ok(None)
            }
        };
    }
    let Some(event) = patience.wait(events.next()).await?.transpose()? else { return Ok(None) };
    if decoder.is_working_silently() || !surrogates::is_ping(&event.data) {
        patience.extend_deadline();
    }
    let said = take(&event, decoder)?;
    if !said.is_empty() {
        patience.begin();
    }
    Ok(Some(said))
}

/// Decodes an event. LM Studio names error events `error` and may send a sentence instead of an object.
fn take<D: StreamDecoder>(event: &SseEvent<'_>, decoder: &mut D) -> Result<Vec<ModelEvent>, ProviderError> {
    if event.is_error() { Err(server_error::from_answer(&event.data)) } else { decoder.push(&event.data) }
}

fn with_usage<D: StreamDecoder>(mut error: ProviderError, decoder: &D) -> ProviderError {
    error.usage = error.usage.or_else(|| decoder.usage());
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_first_bytes() {
        for start in ["data: {}", ": ping", "event: error", "\n\ndata:", "\u{feff}data:", "da", "id: 1"] {
            assert_eq!(ResponseBodyKind::of(start.as_bytes()), ResponseBodyKind::Events, "{start:?}");
        }
        assert_eq!(ResponseBodyKind::of(b" {\"id\""), ResponseBodyKind::Json);
        assert_eq!(ResponseBodyKind::of(b"[{\"error\""), ResponseBodyKind::Json);
        assert_eq!(ResponseBodyKind::of(b"<!DOCTYPE html>"), ResponseBodyKind::Other);
        assert_eq!(ResponseBodyKind::of(b"upstream says no"), ResponseBodyKind::Other);
    }
}
