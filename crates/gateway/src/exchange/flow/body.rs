//! An upstream's body as a stream of chunks.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul_providers::http::BodyDecompressor;
use tokio::time::{Instant, timeout_at};

use super::ended_early;
use longhaul_wire::edit::deferral::CallUnwrapper;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse, SseEvent, SseReader, WireCodec};

/// The maximum read-ahead of a stream, in bytes.
const MAX_HELD_BYTES: usize = 256 << 10;

/// The largest call to hold back until complete, in bytes.
const MAX_CALL_BYTES: usize = 16 << 20;

/// An upstream's body as a stream of chunks.
pub(in crate::exchange) struct UpstreamBody {
    stream: Pin<Box<dyn Stream<Item = Result<Bytes, GatewayError>> + Send>>,
    coding: Option<BodyDecompressor>,
    /// The chunks read ahead.
    held: VecDeque<Result<Option<Bytes>, GatewayError>>,
    /// The longest allowed silence; `None` if the source of the body enforces one.
    idle: Option<Duration>,
    heard_at: Instant,
    /// The filter that restores the client's own calls if some of its tools are deferred.
    calls: Option<CallUnwrapper>,
    is_over: bool,
}

impl UpstreamBody {
    /// Creates a body from a response.
    ///
    /// # Errors
    /// [`GatewayError`] if the body's encoding is not supported.
    pub(in crate::exchange) fn new(
        response: reqwest::Response,
        idle: Duration,
    ) -> Result<Self, GatewayError> {
        let coding = BodyDecompressor::of(response.headers())?;
        let pieces = response.bytes_stream().map(|piece| {
            piece.map_err(|error| {
                let message = format!("the upstream broke off in its answer: {error}");
                GatewayError::new(GatewayErrorKind::Unreachable, message)
            })
        });
        Ok(Self { coding, idle: Some(idle), ..Self::written(pieces) })
    }

    /// Creates a body written by the gateway. The reader of its source enforces the silence limit.
    pub(in crate::exchange) fn written(
        pieces: impl Stream<Item = Result<Bytes, GatewayError>> + Send + 'static,
    ) -> Self {
        Self {
            stream: Box::pin(pieces),
            coding: None,
            held: VecDeque::new(),
            idle: None,
            heard_at: Instant::now(),
            calls: None,
            is_over: false,
        }
    }

    /// Filters the stream from here on, including the chunks read ahead.
    pub(in crate::exchange) fn unwrap_calls(&mut self, calls: Option<CallUnwrapper>) {
        let Some(mut calls) = calls else { return };
        for held in std::mem::take(&mut self.held) {
            match held {
                Ok(Some(chunk)) => self.held.push_back(Ok(Some(calls.take(chunk)))),
                // The filter may hold half a call, which must come before the end or the error.
                ended => self.held.extend([Ok(Some(calls.rest())), ended]),
            }
        }
        self.calls = Some(calls);
    }

    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// [`GatewayError`] if the body breaks off or is silent for too long.
    pub(in crate::exchange) async fn next(&mut self) -> Result<Option<Bytes>, GatewayError> {
        if let Some(held) = self.held.pop_front() {
            return held;
        }
        loop {
            // A stream must not be polled behind its end.
            if self.is_over {
                return Ok(None);
            }
            let Some(chunk) = self.next_piece().await? else {
                self.is_over = true;
                let rest = self.calls.as_mut().map(CallUnwrapper::rest);
                return Ok(rest.filter(|rest| !rest.is_empty()));
            };
            let plain = match &mut self.coding {
                Some(coding) => coding.decode(&chunk)?,
                None => chunk,
            };
            let passed = match &mut self.calls {
                Some(calls) => calls.take(plain),
                None => plain,
            };
            if !passed.is_empty() {
                return Ok(Some(passed));
            }
            // A call without an end would fill the memory.
            if self.calls.as_ref().is_some_and(|calls| calls.held_bytes() > MAX_CALL_BYTES) {
                let message = format!("a call of the upstream's has more than {MAX_CALL_BYTES} bytes");
                return Err(GatewayError::new(GatewayErrorKind::Upstream, message));
            }
        }
    }

    /// Returns whether the body begins like an event stream. A body of too many leading blanks does not. The chunks
    /// stay available.
    pub(in crate::exchange) async fn has_events(&mut self) -> bool {
        let (mut held, mut begun) = (VecDeque::new(), Vec::new());
        let mut known = None;
        while known.is_none() && begun.len() <= MAX_HELD_BYTES {
            let next = self.next().await;
            match &next {
                Ok(Some(chunk)) => begun.extend_from_slice(chunk),
                // An end or an error decides as well. The caller meets it when it reads on.
                _ => known = Some(false),
            }
            held.push_back(next);
            known = known.or_else(|| longhaul_wire::sse::is_event_stream(&begun));
        }
        self.held = held;
        known.unwrap_or(false)
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, GatewayError> {
        let next = self.stream.next();
        let next = match self.idle {
            // The caller may cancel this wait and call again; the deadline counts from the last chunk all the same.
            Some(idle) => timeout_at(self.heard_at + idle, next).await.map_err(|_| {
                let message = format!("the upstream was silent for {} s", idle.as_secs_f64());
                GatewayError::new(GatewayErrorKind::Timeout, message)
            })?,
            None => next.await,
        };
        let chunk = next.transpose()?;
        self.heard_at = Instant::now();
        Ok(chunk)
    }

    /// Returns the beginning of a stream up to its first content: an error, or nothing at all. Waits at most `hold`
    /// after the first chunk. The chunks stay available.
    pub(in crate::exchange) async fn beginning(
        &mut self,
        wire: &dyn WireCodec,
        hold: Duration,
    ) -> StreamBeginning {
        let until = Instant::now() + hold;
        let (mut watcher, mut events) = (wire.stream_parser(), SseReader::default());
        let (mut held, mut held_bytes) = (VecDeque::new(), 0);
        let mut broke = None;
        loop {
            // Without a held chunk there is nothing to pass on, so the wait has no limit here.
            let next = match held.is_empty() {
                true => self.next().await,
                false => match timeout_at(until, self.next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                },
            };
            let chunk = match &next {
                Ok(Some(chunk)) => chunk.clone(),
                ended => {
                    broke = Some(ended.clone().err().unwrap_or_else(ended_early));
                    held.push_back(next);
                    break;
                }
            };
            held.push_back(next);
            held_bytes += chunk.len();
            events.feed(chunk);
            while let Some(raw) = events.next_event() {
                watcher.read(&SseEvent::parse(&raw));
            }
            let seen = watcher.seen();
            // A role or an id alone says nothing: a refusal may still follow.
            let is_known = seen.error.is_some() || seen.over || !seen.is_empty();
            if is_known || held_bytes > MAX_HELD_BYTES {
                break;
            }
        }
        // Some servers omit the empty line behind their last event.
        watcher.read(&SseEvent::parse(&events.take_rest()));
        // Chunks that an earlier check left unread come behind the ones read here.
        held.append(&mut self.held);
        self.held = held;
        let seen = watcher.seen().clone();
        // A stream that closes without content is no answer.
        let ended = (seen.over && seen.finish.is_none()).then(ended_early);
        let is_nothing = seen.finish.is_none() && seen.error.is_none() && seen.is_empty();
        StreamBeginning { broke: broke.or(ended).filter(|_| is_nothing), seen }
    }
}

/// The beginning of a stream.
pub(in crate::exchange) struct StreamBeginning {
    pub(in crate::exchange) seen: PartialResponse,
    /// The error at the end of a stream without content.
    pub(in crate::exchange) broke: Option<GatewayError>,
}
