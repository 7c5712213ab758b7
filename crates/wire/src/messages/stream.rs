//! The decoder from the payloads of a stream to the events of one model call.

use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;

use super::block::PartialMessagesBlock;
use super::unfinished;
use crate::StreamDecoder;
use crate::finish;
use crate::raw_json::{self, RawObject};
use crate::server_error;
use crate::usage::MessagesUsage;
use crate::{AnswerSize, ModelEvent, ProviderError};

/// A decoder of an answer, payload by payload.
#[derive(Debug, Default)]
pub struct MessagesStreamDecoder {
    blocks: Vec<PartialMessagesBlock>,
    /// The positions of unfinished blocks in `blocks`.
    open: Vec<usize>,
    size: AnswerSize,
    usage: MessagesUsage,
    /// The fields of the answer as a whole, without content and usage.
    envelope: RawObject,
    /// `true` once a `message_delta` gave the stop reason.
    has_reason: bool,
    closed: bool,
}

impl MessagesStreamDecoder {
    /// Takes the data of an event, or a whole, unstreamed message.
    ///
    /// # Errors
    /// The provider's error, with the code of the error's type; `third-party` for other data than a JSON object;
    /// `truncated-stream` for unfinished JSON.
    pub fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let payload = payload.trim();
        // Some compatible servers end this wire's streams with OpenAI's marker.
        if payload.is_empty() || payload == "[DONE]" {
            return Ok(Vec::new());
        }
        let event: RawObject = serde_json::from_str(payload)
            .map_err(|error| self.with_usage(raw_json::unreadable(payload, &error)))?;
        // The name of the server-sent event never gets here. The payload's own `type` says the same.
        match event.text("type").as_deref() {
            Some("message_start") => Ok(self.start(event.object("message").unwrap_or_default())),
            Some("content_block_start") => self.open(&event).map_err(|error| self.with_usage(error)),
            Some("content_block_delta") => self.grow(&event).map_err(|error| self.with_usage(error)),
            Some("content_block_stop") => Ok(self.stop(event.number("index").unwrap_or_default())),
            Some("message_delta") => Ok(self.conclude(&event)),
            Some("message_stop") => {
                self.closed = true;
                Ok(Vec::new())
            }
            Some("message") => self.whole(&event).map_err(|error| self.with_usage(error)),
            Some("error") => Err(self.with_usage(server_error::from_answer(payload))),
            // Compatible servers may leave the type of an error out.
            None if event.get("error").is_some() => Err(self.with_usage(server_error::from_answer(payload))),
            // Some compatible servers leave the type of a whole message out.
            None if event.get("content").is_some() => {
                self.whole(&event).map_err(|error| self.with_usage(error))
            }
            None => match server_error::error_in_place_of_answer(payload) {
                Some(error) => Err(self.with_usage(error)),
                None => Ok(Vec::new()),
            },
            Some(_) => Ok(Vec::new()),
        }
    }

    /// Reports whether nothing more can follow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reports whether the answer is whole: only the closing event may follow.
    pub fn has_finished(&self) -> bool {
        // The stop reason comes behind the last block. Some compatible servers send no `message_stop` behind it.
        let is_whole = self.has_reason && self.open.is_empty() && !self.blocks.is_empty();
        self.closed || is_whole
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if neither the closing event came nor a stop reason behind whole blocks; `refused` if the answer was withheld; `third-party` if
    /// the answer was paused. The error contains the usage.
    pub fn finish(self) -> Result<ModelAnswer, ProviderError> {
        // Without a stop reason a part of the answer may be missing, however complete its blocks look.
        if !self.has_finished() {
            return Err(self.with_usage(raw_json::truncated()));
        }
        let parts: Vec<Part> = self.blocks.iter().filter_map(PartialMessagesBlock::part).collect();
        let reason = self.envelope.text("stop_reason");
        // The parts are dropped: a refused or paused answer must not get into the conversation.
        if let Some(error) = unfinished::error(reason.as_deref(), &self.envelope) {
            return Err(self.with_usage(error));
        }
        let envelope = self.envelope.fields().next().is_some().then(|| self.envelope.to_json());
        Ok(ModelAnswer {
            finish: finish(reason.as_deref(), &parts),
            parts,
            usage: self.usage.usage(),
            envelope,
        })
    }

    /// Takes a start. A second start in a stream is a gateway's new attempt and voids the first start.
    fn start(&mut self, message: RawObject) -> Vec<ModelEvent> {
        *self = Self::default();
        self.describe(&message, &["content", "usage"]);
        self.report(message.object("usage"))
    }

    /// Records fields of the answer as a whole, except for fields with a place elsewhere.
    fn describe(&mut self, said: &RawObject, kept_elsewhere: &[&str]) {
        for (key, value) in said.fields().filter(|(key, _)| !kept_elsewhere.contains(key)) {
            // A later event may repeat a field as `null`: that does not take a known value back.
            let says = value != "null" || self.envelope.get(key).is_none();
            if let Some(value) = raw_json::value(value).filter(|_| says) {
                self.envelope.set(key, value);
            }
        }
    }

    fn open(&mut self, event: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        // Without an index the block is the next one.
        let index = event.number("index").unwrap_or(self.blocks.len() as u64);
        let begin = event.get("content_block").map(|json| self.begin(index, json)).transpose()?;
        Ok(begin.flatten().into_iter().collect())
    }

    fn begin(&mut self, index: u64, json: &str) -> Result<Option<ModelEvent>, ProviderError> {
        let mut block =
            PartialMessagesBlock::new(index, json).ok_or_else(|| raw_json::garbled("content_block", json))?;
        if block.is_call() {
            // The sizes are counted as the blocks come, so that an endless answer fails before it fills the memory.
            block.call = Some(self.size.add_call()?);
        } else {
            self.size.add_part()?;
        }
        let begin = block.begin();
        self.open.push(self.blocks.len());
        self.blocks.push(block);
        Ok(begin)
    }

    /// Takes a piece of a block. A piece without an open block has no place.
    fn grow(&mut self, event: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        let index = event.number("index").unwrap_or_default();
        let Some(delta) = event.content::<RawObject>("delta")? else { return Ok(Vec::new()) };
        let block = self.block(index).ok_or_else(|| raw_json::garbled("delta", delta.to_json().as_str()))?;
        Ok(block.grow(&delta)?.into_iter().collect())
    }

    fn stop(&mut self, index: u64) -> Vec<ModelEvent> {
        // Nothing is open under this index: a repeated stop, or one without a start.
        let Some(block) = self.block(index) else { return Vec::new() };
        block.done = true;
        let done = block.part().map(ModelEvent::PartDone);
        let events = block.end().into_iter().chain(done).collect();
        self.open.retain(|at| !self.blocks[*at].done);
        events
    }

    /// Returns the open block at `index`.
    fn block(&mut self, index: u64) -> Option<&mut PartialMessagesBlock> {
        // From the newest: should a server use an index again, its pieces belong to the block begun last.
        let at = self.open.iter().rev().find(|at| self.blocks[**at].index == index)?;
        self.blocks.get_mut(*at)
    }

    fn conclude(&mut self, event: &RawObject) -> Vec<ModelEvent> {
        let delta = event.object("delta").unwrap_or_default();
        self.has_reason |= delta.text("stop_reason").is_some_and(|reason| !reason.is_empty());
        self.describe(&delta, &[]);
        self.describe(event, &["type", "delta", "usage"]);
        self.report(event.object("usage"))
    }

    fn whole(&mut self, message: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        let mut events = Vec::new();
        for (index, json) in (0..).zip(message.contents("content")?) {
            // A whole message goes through the same steps as a stream, so both give equal parts.
            events.extend(self.begin(index, json.get())?);
            events.extend(self.stop(index));
        }
        self.describe(message, &["content", "usage"]);
        events.extend(self.report(message.object("usage")));
        self.closed = true;
        Ok(events)
    }

    fn report(&mut self, usage: Option<RawObject>) -> Vec<ModelEvent> {
        let Some(usage) = usage else { return Vec::new() };
        self.usage.record(usage);
        self.usage.usage().map(ModelEvent::Usage).into_iter().collect()
    }

    fn with_usage(&self, mut error: ProviderError) -> ProviderError {
        error.usage = self.usage.usage();
        error
    }
}

impl StreamDecoder for MessagesStreamDecoder {
    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        self.push(payload)
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_finished(&self) -> bool {
        self.has_finished()
    }

    fn is_working_silently(&self) -> bool {
        // Some blocks grow without an event. The loop must not take the silence for a dead connection.
        self.blocks.last().is_some_and(PartialMessagesBlock::grows_unseen)
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.usage()
    }

    fn finish(self) -> Result<ModelAnswer, ProviderError> {
        self.finish()
    }
}

/// Returns the stop reason. The provider's own word is in the envelope and tells a full window
/// (`model_context_window_exceeded`) from an output limit.
fn finish(reason: Option<&str>, parts: &[Part]) -> ModelStopReason {
    match reason {
        // The server stopped to compact its context. Calls in the answer do not change that.
        Some("compaction") => ModelStopReason::Other,
        reason => {
            let finish = reason.and_then(finish::finish_of_reason).unwrap_or(ModelStopReason::Other);
            finish::agree_with_parts(finish, parts)
        }
    }
}
