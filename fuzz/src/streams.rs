//! Answers of model servers.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use longhaul_providers::sse::EventStream;
use longhaul_providers::{
    ProviderError, anthropic, gemini, ndjson, ollama, openai_chat, openai_responses, sse as events,
};
use longhaul_wire::sse::{SseEvent, SseReader};

/// The first byte says where the body is cut.
pub(crate) fn sse(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let (whole, cut) = (pieces(body, body.len()), pieces(body, usize::from(*cut % 23) + 1));
    assert_eq!(read(events::events(of(&whole))), read(events::events(of(&cut))), "cut elsewhere");
    assert_eq!(read(ndjson::events(of(&whole))), read(ndjson::events(of(&cut))), "cut elsewhere");
    let one = raw(&whole);
    assert_eq!(one, raw(&cut), "cut elsewhere");
    assert!(body.starts_with(&one.concat()), "bytes were changed");
    one.iter().for_each(|event| {
        SseEvent::parse(event);
    });
}

fn pieces(body: &[u8], size: usize) -> Vec<Bytes> {
    body.chunks(size.max(1)).map(Bytes::copy_from_slice).collect()
}

fn of(pieces: &[Bytes]) -> stream::Iter<std::vec::IntoIter<Result<Bytes, ProviderError>>> {
    stream::iter(pieces.iter().cloned().map(Ok).collect::<Vec<_>>())
}

/// What comes out, as text; nothing waits here, so it is there at once.
fn read(events: EventStream) -> Vec<String> {
    let all = events.map(|event| match event {
        Ok(event) => format!("{event:?}"),
        Err(error) => error.code.to_string(),
    });
    all.collect::<Vec<String>>().now_or_never().unwrap_or_default()
}

fn raw(pieces: &[Bytes]) -> Vec<Bytes> {
    let (mut events, mut all) = (SseReader::default(), Vec::new());
    for piece in pieces {
        events.feed(piece.clone());
        while let Some(event) = events.next_event() {
            all.push(event);
        }
    }
    all
}

/// The payloads of a stream: the data of events, else lines as they are.
fn payloads(data: &[u8]) -> impl Iterator<Item = &str> {
    let lines = std::str::from_utf8(data).unwrap_or_default().lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("event:") && !line.starts_with(':'))
        .map(|line| line.strip_prefix("data:").map_or(line, |data| data.strip_prefix(' ').unwrap_or(data)))
}

macro_rules! decoders {
    ($($name:ident: $decoder:path;)*) => {$(
        pub(crate) fn $name(data: &[u8]) {
            let mut decoder = <$decoder>::default();
            for payload in payloads(data) {
                if decoder.push(payload).is_err() {
                    break;
                }
            }
            let _ = decoder.finish();
        }
    )*};
}

decoders! {
    anthropic: anthropic::MessagesStreamDecoder;
    openai_chat: openai_chat::stream::ChatStreamDecoder;
    openai_responses: openai_responses::ResponsesStreamDecoder;
    gemini: gemini::GeminiStreamDecoder;
    ollama: ollama::OllamaStreamDecoder;
}
