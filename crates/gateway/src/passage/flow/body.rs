//! An upstream's body as it comes.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul_providers::http::Coding;
use longhaul_providers::overflow::{self, Overflow};
use tokio::time::{Instant, timeout_at};

use crate::wire::{Event, Events, Fault, FaultKind, Wire};

/// An upstream's body as it comes.
pub(in crate::passage) struct Body {
    stream: Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>,
    coding: Option<Coding>,
    /// What was read ahead.
    first: Option<Result<Option<Bytes>, Fault>>,
    /// How long it may be silent; `None` where somebody else sees to that.
    idle: Option<Duration>,
    heard_at: Instant,
}

impl Body {
    /// # Errors
    /// [`Fault`] if it comes in a coding that cannot be read.
    pub(in crate::passage) fn new(response: reqwest::Response, idle: Duration) -> Result<Self, Fault> {
        let coding = Coding::of(response.headers())?;
        let pieces = response.bytes_stream().map(|piece| {
            piece.map_err(|error| {
                let message = format!("the upstream broke off in its answer: {error}");
                Fault::new(FaultKind::Unreachable, message)
            })
        });
        Ok(Self { coding, idle: Some(idle), ..Self::written(pieces) })
    }

    /// An answer that is written here. Whoever reads what it is written from sees to its silence.
    pub(in crate::passage) fn written(
        pieces: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
    ) -> Self {
        Self { stream: Box::pin(pieces), coding: None, first: None, idle: None, heard_at: Instant::now() }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Fault`] if it breaks off or nothing comes for too long.
    pub(in crate::passage) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some(first) = self.first.take() {
            return first;
        }
        loop {
            let Some(chunk) = self.next_piece().await? else { return Ok(None) };
            let Some(coding) = &mut self.coding else { return Ok(Some(chunk)) };
            let plain = coding.decode(&chunk)?;
            if !plain.is_empty() {
                return Ok(Some(plain));
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Fault> {
        let next = self.stream.next();
        let next = match self.idle {
            // Whoever waits may give up and come again: the silence goes on.
            Some(idle) => timeout_at(self.heard_at + idle, next).await.map_err(|_| {
                let message = format!("the upstream was silent for {} s", idle.as_secs_f64());
                Fault::new(FaultKind::Timeout, message)
            })?,
            None => next.await,
        };
        let chunk = next.transpose()?;
        self.heard_at = Instant::now();
        Ok(chunk)
    }

    /// The overflow that a stream begins with instead of an answer. What was read of it is read again.
    pub(in crate::passage) async fn first_error(&mut self, wire: &dyn Wire) -> Option<Overflow> {
        let first = self.next().await;
        let chunk = first.as_ref().ok().cloned().flatten();
        self.first = Some(first);
        let chunk = chunk?;
        let mut events = Events::default();
        events.feed(chunk);
        let raw = events.next_event().unwrap_or_else(|| events.rest());
        let mut watcher = wire.watcher();
        watcher.read(&Event::parse(&raw));
        overflow::recognise(Some(200), watcher.seen().error.as_deref()?)
    }
}
