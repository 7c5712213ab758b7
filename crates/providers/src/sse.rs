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
    let mut text = Text::default();
    let readable = body.chain(closed).map(move |chunk| chunk.map(|chunk| text.take(chunk)));
    Box::pin(SseByteStream::new(Box::pin(readable)).map(|event| event.map_err(unwrap)))
}

/// A body as text: bytes that are no characters become U+FFFD, as in a whole answer. They cost
/// the answer nothing else.
#[derive(Default)]
struct Text {
    /// The beginning of a character whose other bytes have not come.
    begun: Vec<u8>,
}

impl Text {
    fn take(&mut self, chunk: Bytes) -> Bytes {
        if self.begun.is_empty() && std::str::from_utf8(&chunk).is_ok() {
            return chunk;
        }
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(&chunk);
        let end = bytes.len() - begun_bytes(&bytes);
        self.begun = bytes.split_off(end);
        Bytes::from(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// How many bytes at the end may become a character with those that follow.
fn begun_bytes(bytes: &[u8]) -> usize {
    (1..=3.min(bytes.len()))
        .find(|count| {
            let end = std::str::from_utf8(&bytes[bytes.len() - count..]);
            end.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: Vec<Vec<u8>>) -> Vec<String> {
        let body = futures_util::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        events(body).map(|event| event.unwrap().data.unwrap()).collect().await
    }

    #[tokio::test]
    async fn bytes_that_are_no_characters_cost_nothing_else() {
        let body =
            [b"data: caf\xe9 \xf0\x9f\n\n", "data: ü 🦀 次\n\n".as_bytes(), b"data: \xff\n\n"].concat();
        let expected = ["caf\u{fffd} \u{fffd}", "ü 🦀 次", "\u{fffd}"];
        for size in 1..=body.len() {
            let chunks = body.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(chunks).await, expected, "pieces of {size}");
        }
    }

    #[tokio::test]
    async fn a_character_that_never_ends_is_told() {
        assert_eq!(read(vec![b"data: a\xf0\x9f".to_vec()]).await, ["a\u{fffd}"]);
    }
}
