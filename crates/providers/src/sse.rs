//! Server-sent events of an answer.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul_core::error::ErrorCode;
use sse_stream::{Sse, SseByteStream};

use crate::ProviderError;

/// The events of an answer, as they arrive.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Sse, ProviderError>> + Send>>;

/// Cuts a body into events, wherever the network cut it.
///
/// A last event without its empty line is delivered too: some servers end with `data: [DONE]` and close.
/// Whether it is whole, its reader sees from what it says.
pub fn events<S>(body: S) -> EventStream
where
    S: Stream<Item = Result<Bytes, ProviderError>> + Send + 'static,
{
    let closed = futures_util::stream::iter([Ok(Bytes::from_static(b"\n\n"))]);
    Box::pin(SseByteStream::new(Box::pin(body.chain(closed))).map(|event| event.map_err(unwrap)))
}

fn unwrap(error: sse_stream::Error) -> ProviderError {
    match error {
        sse_stream::Error::Body(cause) => match cause.downcast::<ProviderError>() {
            Ok(own) => *own,
            Err(other) => ProviderError::new(ErrorCode::Network, other.to_string()),
        },
        other => ProviderError::new(ErrorCode::ThirdParty, format!("the answer is no event stream: {other}")),
    }
}
