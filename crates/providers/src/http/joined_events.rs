//! Events of an answer with whole characters: halves from two events are joined.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::unfold;
use longhaul_wire::sse::SseEvent;
use longhaul_wire::surrogates::{SurrogateJoiner, is_ping};
use tokio::time::timeout;

use crate::ProviderError;
use crate::sse::EventStream;

/// The longest time an event waits for the other half of its last character. A server sends both halves of a cut
/// character at once; the last event of an answer must not wait for a server with an open connection.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Returns the events with whole characters. An event with an unfinished character at the end waits for the next
/// event.
pub(crate) fn join_characters(events: EventStream) -> EventStream {
    let joined = JoinedEventStream {
        events,
        joiner: SurrogateJoiner::default(),
        held: None,
        ready: VecDeque::new(),
        over: false,
    };
    Box::pin(unfold(joined, |mut joined| async move { joined.next().await.map(|event| (event, joined)) }))
}

struct JoinedEventStream {
    events: EventStream,
    joiner: SurrogateJoiner,
    /// The name of the event held by the joiner because of an unfinished character.
    held: Option<Option<Cow<'static, str>>>,
    ready: VecDeque<Result<SseEvent<'static>, ProviderError>>,
    over: bool,
}

impl JoinedEventStream {
    async fn next(&mut self) -> Option<Result<SseEvent<'static>, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            let next = match self.held {
                // Only a held event waits for so short a time. Without one the limits of the answer apply.
                Some(_) => timeout(MAX_WAIT, self.events.next()).await,
                None => Ok(self.events.next().await),
            };
            match next {
                Ok(Some(Ok(event))) => self.push(event),
                Ok(Some(Err(error))) => {
                    // The held event arrived before the error.
                    self.release_held();
                    self.ready.push_back(Err(error));
                }
                Ok(None) => {
                    self.over = true;
                    self.release_held();
                }
                Err(_) => self.release_held(),
            }
        }
    }

    fn push(&mut self, event: SseEvent<'static>) {
        // A ping has no content, so it must not end the wait for the other half.
        if self.joiner.lets_pass(&event.data) || is_ping(&event.data) {
            return self.ready.push_back(Ok(event));
        }
        let SseEvent { name, data } = event;
        let mut texts = self.joiner.take(data.into_owned()).into_iter();
        // The joiner returns the held text first, so the first text belongs to the held event's name.
        if let Some(held_name) = self.held.take() {
            self.ready.extend(texts.next().map(|text| Ok(SseEvent { name: held_name, data: text.into() })));
        }
        match texts.next() {
            Some(text) => self.ready.push_back(Ok(SseEvent { name, data: text.into() })),
            None => self.held = Some(name),
        }
    }

    fn release_held(&mut self) {
        if let (Some(name), Some(rest)) = (self.held.take(), self.joiner.rest()) {
            self.ready.push_back(Ok(SseEvent { name, data: rest.into() }));
        }
    }
}

#[cfg(test)]
mod tests;
