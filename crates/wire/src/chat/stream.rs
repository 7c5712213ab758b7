//! The decoder from the payloads of a stream to the events of one model call.

mod arguments;
mod calls;
mod details;
mod envelope;
mod parts;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, ModelStopReason, OpaquePart};
use longhaul_core::usage::Usage;
use serde_json::value::RawValue;

use super::response::{self, ChatResponseChoice, ChatResponseChunk, ChatResponseDelta, ChatResponsePart};
use crate::StreamDecoder;
use crate::server_error;
use crate::{AnswerSize, ModelEvent, ProviderError, finish, raw_json, usage};
use calls::ChatCallAssembler;
use details::ReasoningDetailsAssembler;
use envelope::ChatResponseEnvelope;

/// The number of characters of an unreadable payload in an error.
const MAX_QUOTE_CHARS: usize = 200;

/// A decoder of an answer, payload by payload.
#[derive(Debug, Default)]
pub struct ChatStreamDecoder {
    /// Text, reasoning and calls, in the order of their beginnings.
    slots: Vec<PartialChatPart>,
    /// The indices of the unfinished `slots`, in order.
    open: Vec<usize>,
    /// The index of the first reasoning among the `slots`.
    first_reasoning: Option<usize>,
    size: AnswerSize,
    calls: ChatCallAssembler,
    details: ReasoningDetailsAssembler,
    envelope: ChatResponseEnvelope,
    usage: Option<Usage>,
    /// `true` if the model refuses, in the field `refusal`.
    refused: bool,
    /// The kinds of content held back by a filter.
    filtered: Vec<String>,
    /// The stop reason, once reported; `None` inside if the server failed.
    finish: Option<Option<ModelStopReason>>,
    /// The error of the choice, if any. Content before the error is delivered first.
    failure: Option<ProviderError>,
    closed: bool,
}

/// The place of a part of the answer.
#[derive(Debug)]
enum PartialChatPart {
    Text(String),
    Reasoning(String),
    Call(usize),
    Opaque(OpaquePart),
}

impl ChatStreamDecoder {
    /// Takes the data of an event, or a whole, unstreamed answer.
    ///
    /// # Errors
    /// The server's error, with the code of the error's type; `third-party` for other data than JSON;
    /// `truncated-stream` for unfinished JSON.
    pub fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let payload = payload.trim();
        let mut events = Vec::new();
        if payload == "[DONE]" {
            self.close(&mut events);
        } else if !payload.is_empty() {
            self.chunk(payload, &mut events)?;
        }
        Ok(events)
    }

    /// Reports whether the server has sent the stop reason: only usage may follow.
    pub fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Reports whether nothing more can follow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the answer. Empty answers are returned unchanged.
    ///
    /// # Errors
    /// `truncated-stream` if neither a reason nor `[DONE]` came, if `[DONE]` came in the middle of a call, or if
    /// nothing else came; `refused` if a filter withheld the answer; the error of the choice, if any; `third-party`
    /// if the reason is the server's own failure. The error contains the usage.
    pub fn finish(mut self) -> Result<ModelAnswer, ProviderError> {
        // Content before the error was delivered, so the error comes at the end and carries the usage.
        if let Some(failure) = self.failure.take() {
            return Err(self.with_usage(failure));
        }
        let finish = match self.finish {
            Some(Some(ModelStopReason::ContentFilter)) => return Err(self.withheld()),
            Some(Some(finish)) => finish,
            Some(None) => {
                return Err(self.error(ErrorCode::ThirdParty, "the server failed inside its answer"));
            }
            None if !self.closed => {
                return Err(self.truncated("the stream ended without its closing event"));
            }
            None if self.slots.is_empty() => {
                return Err(self.truncated("the stream holds no answer, only its closing event"));
            }
            // Some servers end with `[DONE]` and no stop reason. Their text counts, but a call that stops in the
            // middle of its arguments must not run.
            None if !self.calls.are_complete() => {
                return Err(self.truncated("the stream ended inside a tool call"));
            }
            None => ModelStopReason::Other,
        };
        let parts = self.parts();
        let envelope = self.envelope.to_json();
        // A refusal in its own field often ends with `stop`, as if it were an answer.
        let finish = match finish::agree_with_parts(finish, &parts) {
            ModelStopReason::Stop | ModelStopReason::Other if self.refused => ModelStopReason::ContentFilter,
            finish => finish,
        };
        Ok(ModelAnswer { finish, parts, usage: self.usage.take(), envelope })
    }

    /// Adds the usage so far to an error at the end of the stream.
    fn with_usage(&self, mut error: ProviderError) -> ProviderError {
        error.usage = self.usage.clone();
        error
    }

    fn truncated(&self, message: &str) -> ProviderError {
        self.error(ErrorCode::TruncatedStream, message)
    }

    fn error(&self, code: ErrorCode, message: &str) -> ProviderError {
        self.with_usage(ProviderError::new(code, message))
    }

    /// Returns the error of an answer cut by a filter, or withheld completely.
    fn withheld(&self) -> ProviderError {
        let said = self.envelope.fields();
        let named = ["finish_reason", "native_finish_reason"].into_iter().filter_map(|key| said.text(key));
        let mut codes: Vec<String> = named.chain(self.filtered.iter().cloned()).collect();
        codes.dedup();
        let what = "the provider's filter withheld the answer";
        self.with_usage(finish::error(ErrorCode::Refused, what, &codes, None, said))
    }

    /// Takes a chunk. A list is no chunk: Gemini's compatible API wraps errors in a list.
    fn chunk(&mut self, payload: &str, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if payload.starts_with('[') {
            return Err(self.with_usage(server_error::from_answer(payload)));
        }
        let chunk: ChatResponseChunk<'_> =
            serde_json::from_str(payload).map_err(|error| self.unreadable(payload, &error))?;
        if chunk.is_error() {
            return Err(self.with_usage(server_error::from_answer(payload)));
        }
        let choices: Vec<&RawValue> =
            response::content("choices", chunk.choices).map_err(|error| self.with_usage(error))?;
        if choices.is_empty()
            && let Some(error) = server_error::error_in_place_of_answer(payload)
        {
            return Err(self.with_usage(error));
        }
        self.envelope.add(payload, &choices);
        for raw in choices {
            self.choice(raw, events).map_err(|error| self.with_usage(error))?;
        }
        if let Some(usage) = chunk.usage.and_then(|raw| usage::chat_usage(raw.get())) {
            self.usage = Some(usage.clone());
            // Some servers report usage with every chunk. Only the report after the finish counts the whole
            // answer.
            if self.finish.is_some() {
                events.push(ModelEvent::Usage(usage));
            }
        }
        Ok(())
    }

    fn unreadable(&self, payload: &str, error: &serde_json::Error) -> ProviderError {
        // An event that ends inside its JSON was cut by the connection, so the call is worth another attempt.
        if error.is_eof() {
            return self.error(ErrorCode::TruncatedStream, "the stream ended inside an event");
        }
        let quote: String = payload.chars().take(MAX_QUOTE_CHARS).collect();
        let mut error =
            self.error(ErrorCode::ThirdParty, &format!("the stream has something that is not JSON: {quote}"));
        error.body = Some(quote);
        error
    }

    fn choice(&mut self, raw: &RawValue, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let choice: ChatResponseChoice<'_> =
            // The parser's error names a position in one piece of a stream. A quote of the piece says more.
            serde_json::from_str(raw.get()).map_err(|_| raw_json::garbled("choices", raw.get()))?;
        if !choice.is_first() {
            return Ok(());
        }
        let streamed = !self.slots.is_empty();
        if let Some(delta) = choice.delta(streamed)? {
            self.delta(&delta, events)?;
        }
        // An empty reason is how some servers say in every chunk that the answer goes on.
        if let Some(reason) = choice.finish_reason.as_deref().filter(|reason| !reason.is_empty()) {
            let finish = finish::finish_of_reason(reason);
            self.filtered = choice.filtered();
            self.finish = Some(finish);
            self.report_done(
                matches!(finish, Some(ModelStopReason::Stop | ModelStopReason::ToolCalls)),
                events,
            );
        }
        // The content of the same chunk was taken above: a server may send its last words together with the error.
        if let Some(error) = choice.error() {
            self.failure = Some(server_error::from_answer(error));
            // Behind an error nothing can follow, so the stream is not waited for.
            self.closed = true;
        }
        Ok(())
    }

    fn delta(
        &mut self,
        delta: &ChatResponseDelta<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        self.refused |= delta.refuses();
        for piece in delta.pieces()? {
            match piece {
                ChatResponsePart::Text(text) => self.text(text, events)?,
                ChatResponsePart::Reasoning(text) => self.reasoning(text, events)?,
                ChatResponsePart::Opaque(block) => self.begin(PartialChatPart::Opaque(block), events)?,
            }
        }
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
        }
        let mut calls = delta.tool_calls()?;
        // A server that writes a call in both forms writes one call.
        if calls.is_empty() && self.calls.are_deprecated() {
            calls.extend(delta.function_call()?);
        }
        for piece in calls {
            let (index, is_new) = self.calls.add(&piece)?;
            if is_new {
                self.begin(PartialChatPart::Call(index), events)?;
            }
            events.extend(self.calls.event(index, piece.arguments()));
        }
        Ok(())
    }

    fn text(&mut self, more: String, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.slots.last_mut() {
            Some(PartialChatPart::Text(text)) => text.push_str(&more),
            _ => self.begin(PartialChatPart::Text(more.clone()), events)?,
        }
        events.push(ModelEvent::Text(more));
        Ok(())
    }

    fn reasoning(&mut self, more: String, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.slots.last_mut() {
            Some(PartialChatPart::Reasoning(text)) => text.push_str(&more),
            _ => self.begin(PartialChatPart::Reasoning(more.clone()), events)?,
        }
        events.push(ModelEvent::Reasoning(more));
        Ok(())
    }
}

impl StreamDecoder for ChatStreamDecoder {
    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        self.push(payload)
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_finished(&self) -> bool {
        self.has_finished()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    fn finish(self) -> Result<ModelAnswer, ProviderError> {
        self.finish()
    }
}

#[cfg(test)]
mod tests;
