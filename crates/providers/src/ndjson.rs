//! Events of a stream with a JSON object per line (NDJSON).

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::try_unfold;
use futures_util::{Stream, StreamExt};
use longhaul_wire::sse::SseEvent;

use crate::ProviderError;
use crate::sse::EventStream;

/// Cuts a body into lines, however the network cut the body; the data of each event is a line. Empty lines are
/// skipped. A last line without a line end is delivered too: the content shows the reader whether the line is
/// complete.
pub fn events<S>(body: S) -> EventStream
where
    S: Stream<Item = Result<Bytes, ProviderError>> + Send + 'static,
{
    let cutting =
        NdjsonEventStream { body: Box::pin(body), rest: Vec::new(), ready: VecDeque::new(), over: false };
    Box::pin(try_unfold(cutting, |mut cutting| async move {
        Ok(cutting.next().await.transpose()?.map(|event| (event, cutting)))
    }))
}

struct NdjsonEventStream<S> {
    body: Pin<Box<S>>,
    /// The begun line, always without a line end.
    rest: Vec<u8>,
    ready: VecDeque<SseEvent<'static>>,
    over: bool,
}

impl<S: Stream<Item = Result<Bytes, ProviderError>>> NdjsonEventStream<S> {
    async fn next(&mut self) -> Option<Result<SseEvent<'static>, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.add(&chunk),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.over = true;
                    self.end_line();
                }
            }
        }
    }

    fn add(&mut self, chunk: &Bytes) {
        let mut pieces = chunk.split(|byte| *byte == b'\n');
        // The first piece continues the line that an earlier chunk has begun.
        self.rest.extend_from_slice(pieces.next().unwrap_or_default());
        for piece in pieces {
            self.end_line();
            self.rest.extend_from_slice(piece);
        }
    }

    /// Lines are decoded whole, so no character is ever cut in two.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.rest);
        let line = line.trim_ascii();
        if !line.is_empty() {
            let data = String::from_utf8_lossy(line).into_owned().into();
            self.ready.push_back(SseEvent { name: None, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let events = events(futures_util::stream::iter(pieces));
        let events: Vec<_> = events.collect().now_or_never().unwrap();
        events.into_iter().map(|event| event.unwrap().data.into_owned()).collect()
    }

    #[test]
    fn every_cut_gives_the_same_lines() {
        let body = "{\"a\":\"é€😀\"}\r\n\n  \n{\"b\":1}\n{\"c\":".as_bytes();
        let expected = ["{\"a\":\"é€😀\"}", "{\"b\":1}", "{\"c\":"];
        assert_eq!(lines(&[body]), expected);
        for place in 0..=body.len() {
            assert_eq!(lines(&[&body[..place], &body[place..]]), expected, "cut at {place}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(lines(&bytes), expected);
    }

    #[test]
    fn nothing_is_no_line() {
        assert!(lines(&[]).is_empty() && lines(&[b"\n\r\n"]).is_empty());
    }
}
