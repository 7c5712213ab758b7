//! A request for a summary in the client's own bytes: the newest request with one message of ours behind it. Its upstream
//! has read everything before that message and takes it from its prompt cache.

use bytes::Bytes;
use http::header;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Answer, Finish};
use longhaul_core::plan::SummaryRequest;
use longhaul_providers::ProviderError;

use super::Route;
use super::flow::Body;
use super::log::Log;
use super::send::whole;
use super::steps;
use crate::wire::{Edited, Event, Events, Fault, Seen, Step, Watcher};

impl Route {
    /// The answer to a request for a summary that was sent in the client's bytes, read until `is_enough` of what was
    /// written. `None` where that is not possible, or was refused: it can still be asked for in another form.
    ///
    /// # Errors
    /// The provider's, if the answer broke off.
    pub(super) async fn ride(
        &self,
        log: &Log,
        asked: &SummaryRequest,
        mut is_enough: impl FnMut(&Seen) -> bool,
    ) -> Option<Result<Seen, ProviderError>> {
        let body = self.riding_body(log, asked).await?;
        let response = self.send(body).await.ok().filter(|response| response.status().is_success())?;
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let body = Body::new(response, self.target.server.timeouts().idle).ok()?;
        match is_stream {
            true => Some(self.read_events(body, &mut is_enough).await),
            false => self.passage.wire.answer(&whole(body).await.ok()?).map(Ok),
        }
    }

    /// The newest request's bytes with what the summary's writer is told behind them. `None` if its answer would not be
    /// plain text, or it is not the request that the log was made of.
    async fn riding_body(&self, log: &Log, asked: &SummaryRequest) -> Option<Bytes> {
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        let is_its_request = log.items == envelope.items.len() && !log.history.is_paused();
        let is_plain = self.is_prose() && envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"));
        let order = asked.messages.last()?.parts.last()?.as_text()?.to_owned();
        if self.crosses() || !is_its_request || !is_plain {
            return None;
        }
        let kept = steps::steps(log, log.items);
        let mut steps = steps::clean(kept, &steps::noticed(envelope), envelope)
            .unwrap_or_else(|| vec![Step::Keep(0..envelope.items.len())]);
        steps.push(Step::Say(order));
        // Of a model that must call a tool no text could be had.
        let choice = envelope.other("tool_choice").unwrap_or("null");
        let must_call = !(choice == "null" || choice.contains("auto") || choice.contains("none"));
        // A limit below what the model may think is refused.
        let thinks = envelope.other("thinking").is_some_and(|raw| raw.contains("budget"));
        let edited = Edited {
            steps: Some(steps),
            stream: Some(true),
            include_usage: true,
            max_output: (!thinks).then_some(asked.max_output_tokens),
            forbids_calls: must_call,
            ..self.edited()
        };
        let body = self.work(|| wire.render(envelope, &edited)).await.ok()?;
        Some(self.with_omissions(body).0)
    }

    async fn read_events(
        &self,
        mut body: Body,
        is_enough: &mut impl FnMut(&Seen) -> bool,
    ) -> Result<Seen, ProviderError> {
        let broke = |fault: Fault| ProviderError::new(ErrorCode::TruncatedStream, fault.message);
        let (mut watcher, mut events) = (self.passage.wire.watcher(), Events::default());
        while let Some(chunk) = body.next().await.map_err(broke)? {
            events.feed(chunk);
            while let Some(raw) = events.next_event() {
                watcher.read(&Event::parse(&raw));
            }
            if watcher.seen().over || is_enough(watcher.seen()) {
                break;
            }
        }
        watcher.read(&Event::parse(&events.rest()));
        ended(&*watcher)
    }
}

fn ended(watcher: &dyn Watcher) -> Result<Seen, ProviderError> {
    let seen = watcher.seen().clone();
    match &seen.error {
        Some(error) => {
            let said: String = error.chars().take(500).collect();
            Err(ProviderError::new(ErrorCode::ThirdParty, said))
        }
        None => Ok(seen),
    }
}

/// What was read of an answer, as a provider would have given it; `None` if it did not come to its end.
pub(super) fn answer_of(seen: Seen) -> Option<Answer> {
    let is_whole = seen.over || seen.finish.is_some();
    let finish = seen.finish.unwrap_or(Finish::Stop);
    is_whole.then(|| Answer { parts: seen.parts(), finish, usage: seen.usage, envelope: None })
}
