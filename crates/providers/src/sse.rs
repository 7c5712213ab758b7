//! Server-sent events of an answer, as a stream.

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::try_unfold;
use futures_util::{Stream, StreamExt};
use longhaul_wire::sse::{SseEvent, SseReader};

use crate::ProviderError;

/// The arriving events of an answer.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<SseEvent<'static>, ProviderError>> + Send>>;

/// Cuts a body into events, however the network cut the body. Comments and other events without name and data are
/// left out.
///
/// A last event without an empty line is delivered too: some servers end with `data: [DONE]` and close. The event's
/// data tells the decoder whether the event is complete.
pub fn events<S>(body: S) -> EventStream
where
    S: Stream<Item = Result<Bytes, ProviderError>> + Send + 'static,
{
    let cut = SseEventStream {
        body: Box::pin(body),
        reader: SseReader::default(),
        ready: VecDeque::new(),
        over: false,
    };
    Box::pin(try_unfold(
        cut,
        |mut cut| async move { Ok(cut.next().await.transpose()?.map(|event| (event, cut))) },
    ))
}

struct SseEventStream<S> {
    body: Pin<Box<S>>,
    reader: SseReader,
    ready: VecDeque<SseEvent<'static>>,
    over: bool,
}

impl<S: Stream<Item = Result<Bytes, ProviderError>>> SseEventStream<S> {
    async fn next(&mut self) -> Option<Result<SseEvent<'static>, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            match self.body.next().await {
                Some(Ok(chunk)) => {
                    self.reader.feed(chunk);
                    while let Some(raw) = self.reader.next_event() {
                        self.push_event(&raw);
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.over = true;
                    let rest = self.reader.take_rest();
                    self.push_event(&rest);
                }
            }
        }
    }

    fn push_event(&mut self, raw: &[u8]) {
        let event = SseEvent::parse(raw);
        // A comment keeps the connection alive and has nothing for the decoder.
        if event.name.is_some() || !event.data.is_empty() {
            self.ready.push_back(event.into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: Vec<Vec<u8>>) -> Vec<String> {
        let body = futures_util::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        events(body).map(|event| event.unwrap().data.into_owned()).collect().await
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
