//! The decoder from the payloads of a stream to the events of one model call.

use longhaul_core::message::{
    ModelAnswer, ModelStopReason, OpaquePart, Part, RawJson, ReasoningPart, TextPart,
};
use longhaul_core::usage::Usage;
use serde_json::value::RawValue;

use super::call::{self, PendingFunctionCall};
use super::missing_answer;
use crate::StreamDecoder;
use crate::raw_json::{self, RawObject};
use crate::server_error;
use crate::usage::gemini_usage;
use crate::{AnswerSize, ModelEvent, ProviderError};

/// A decoder of one answer, payload by payload.
#[derive(Debug, Default)]
pub struct GeminiStreamDecoder {
    parts: Vec<Part>,
    /// Plain text or plain reasoning that the next chunk may continue.
    open: Option<GeminiTextRun>,
    pending: Option<PendingFunctionCall>,
    size: AnswerSize,
    /// The newest snapshot of each count.
    usage: RawObject,
    /// `true` if `usage` was reported when the answer was over: earlier reports count a part of the answer.
    is_counted: bool,
    /// The newest value of every field beside the parts and the counts.
    envelope: RawObject,
    finish: Option<ModelStopReason>,
}

/// Chunks of one plain text.
#[derive(Debug)]
struct GeminiTextRun {
    thought: bool,
    text: String,
}

impl GeminiStreamDecoder {
    /// Takes the data of one event, or a whole answer: one that was not streamed, or a list of chunks.
    ///
    /// # Errors
    /// The provider's error, with the code of its status; `third-party` for data that is no JSON object;
    /// `truncated-stream` for JSON that stops in the middle.
    pub fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let payload = payload.trim();
        let mut events = Vec::new();
        // Some proxies end the stream with OpenAI's marker `[DONE]`, which begins like a list.
        if payload.starts_with('[') && payload != "[DONE]" {
            let chunks: Vec<Box<RawValue>> = serde_json::from_str(payload)
                .map_err(|error| self.with_usage(raw_json::unreadable(payload, &error)))?;
            chunks.iter().try_for_each(|chunk| self.chunk(chunk.get(), &mut events))?;
        } else if !payload.is_empty() && payload != "[DONE]" {
            self.chunk(payload, &mut events)?;
        }
        Ok(events)
    }

    /// Reports whether the provider has sent the stop reason: only usage may follow.
    pub fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if no stop reason came; `refused` if the answer was withheld; `third-party` if the
    /// model wrote an unreadable call. The error contains the usage.
    pub fn finish(mut self) -> Result<ModelAnswer, ProviderError> {
        let Some(finish) = self.finish else { return Err(self.with_usage(raw_json::truncated())) };
        if let Some(error) = missing_answer::error(finish, &self.envelope) {
            return Err(self.with_usage(error));
        }
        // The events of this part come with the answer as a whole.
        self.flush(&mut Vec::new())?;
        // A call that stops in the middle is shown, but has no bytes that could be sent back.
        if let Some(pending) = self.pending.take() {
            self.parts.push(Part::ToolCall(pending.call(false)));
        }
        // Gemini ends a step with tool calls by `STOP`: it has no stop reason of its own for them.
        let calls = self.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish =
            if finish == ModelStopReason::Stop && calls { ModelStopReason::ToolCalls } else { finish };
        let envelope = self.envelope.fields().next().is_some().then(|| self.envelope.to_json());
        Ok(ModelAnswer { usage: self.counted(), parts: self.parts, finish, envelope })
    }

    fn chunk(&mut self, payload: &str, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let chunk: RawObject = serde_json::from_str(payload)
            .map_err(|error| self.with_usage(raw_json::unreadable(payload, &error)))?;
        if chunk.get("error").is_some_and(|error| error != "null") {
            return Err(self.with_usage(server_error::from_answer(payload)));
        }
        if chunk.get("candidates").is_none()
            && let Some(error) = server_error::error_in_place_of_answer(payload)
        {
            return Err(self.with_usage(error));
        }
        self.keep(&chunk, &["candidates", "usageMetadata"]);
        self.candidates(&chunk, events).map_err(|error| self.with_usage(error))?;
        // Gemini answers a blocked prompt without candidates, so there is no finish reason.
        if chunk.object("promptFeedback").is_some_and(|feedback| feedback.get("blockReason").is_some()) {
            self.finish = self.finish.or(Some(ModelStopReason::ContentFilter));
        }
        self.report(chunk.object("usageMetadata"), events);
        Ok(())
    }

    /// Puts fields into the envelope, except for those with a place of their own.
    fn keep(&mut self, said: &RawObject, elsewhere: &[&str]) {
        for (key, value) in said.fields().filter(|(key, value)| !elsewhere.contains(key) && *value != "null")
        {
            if let Some(value) = raw_json::value(value) {
                self.envelope.set(key, value);
            }
        }
    }

    fn candidates(&mut self, chunk: &RawObject, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        for candidate in chunk.contents("candidates")? {
            self.candidate(&raw_json::element("candidates", &candidate)?, events)?;
        }
        Ok(())
    }

    fn candidate(
        &mut self,
        candidate: &RawObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        // A configured `candidateCount` brings several answers. The first one is the answer.
        if candidate.number("index").unwrap_or_default() != 0 {
            return Ok(());
        }
        self.keep(candidate, &["content", "index"]);
        let content: RawObject = candidate.content("content")?.unwrap_or_default();
        for native in content.contents("parts")? {
            self.part(native.get(), raw_json::element("parts", &native)?, events)?;
        }
        if let Some(reason) =
            candidate.text("finishReason").filter(|reason| reason != "FINISH_REASON_UNSPECIFIED")
        {
            if missing_answer::is_spoilt(&reason) {
                // Thoughts before a spoilt call are no part of an answer, because the model call may be repeated.
                self.open.take_if(|run| run.thought);
            }
            self.flush(events)?;
            self.finish = Some(finish(&reason));
        }
        Ok(())
    }

    fn part(
        &mut self,
        native: &str,
        part: RawObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if let Some(function) = part.object("functionCall") {
            self.flush(events)?;
            return self.function(native, part, function, events);
        }
        // Code execution, pictures and other parts have no field of ours. They go back as they came.
        let Some(text) = part.text("text") else {
            self.flush(events)?;
            return self.said(opaque(native, &part), events);
        };
        let thought = part.get("thought") == Some("true");
        if !text.is_empty() {
            let show = if thought { ModelEvent::Reasoning } else { ModelEvent::Text };
            events.push(show(text.clone()));
        }
        if is_plain(&part) {
            return self.append(thought, &text, events);
        }
        self.flush(events)?;
        // A signed part must go back byte for byte, so it is never joined with its neighbours.
        self.said(text_part(thought, text, Some(RawJson(native.to_owned()))), events)
    }

    fn append(
        &mut self,
        thought: bool,
        text: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|run| run.thought != thought) {
            self.flush(events)?;
        }
        self.open.get_or_insert(GeminiTextRun { thought, text: String::new() }).text.push_str(text);
        Ok(())
    }

    fn flush(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.open.take() {
            Some(GeminiTextRun { thought, text }) => self.said(text_part(thought, text, None), events),
            None => Ok(()),
        }
    }

    fn function(
        &mut self,
        native: &str,
        part: RawObject,
        function: RawObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        match self.pending.take() {
            // Only the first piece of a call has the name.
            Some(mut pending) if function.get("name").is_none() => {
                pending.grow(&function);
                if call::goes_on(&function) {
                    self.pending = Some(pending);
                } else {
                    self.complete(pending, events);
                }
                Ok(())
            }
            before => {
                // A new name means that the call before is complete, even if it announced more.
                before.into_iter().for_each(|before| self.complete(before, events));
                self.begin(native, part, function, events)
            }
        }
    }

    fn begin(
        &mut self,
        native: &str,
        part: RawObject,
        function: RawObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let index = self.size.add_call()?;
        events.push(ModelEvent::ToolInput { index, name: function.text("name"), delta: String::new() });
        if call::goes_on(&function) {
            self.pending = Some(PendingFunctionCall::new(part, function, index));
        } else {
            let call = call::whole(RawJson(native.to_owned()), &function, index);
            events.push(ModelEvent::ToolInput { index, name: None, delta: call.arguments.clone() });
            self.done(Part::ToolCall(call), events);
        }
        Ok(())
    }

    fn complete(&mut self, pending: PendingFunctionCall, events: &mut Vec<ModelEvent>) {
        let index = pending.index;
        let call = pending.call(true);
        events.push(ModelEvent::ToolInput { index, name: None, delta: call.arguments.clone() });
        self.done(Part::ToolCall(call), events);
    }

    /// Takes a part that is no call.
    fn said(&mut self, part: Part, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.size.add_part()?;
        self.done(part, events);
        Ok(())
    }

    fn done(&mut self, part: Part, events: &mut Vec<ModelEvent>) {
        self.parts.push(part.clone());
        events.push(ModelEvent::PartDone(part));
    }

    /// Records a report. Each report is a snapshot of the call so far: its counts replace the older ones.
    fn report(&mut self, usage: Option<RawObject>, events: &mut Vec<ModelEvent>) {
        if let Some(usage) = usage {
            self.usage.overwrite(&usage);
            self.is_counted = self.finish.is_some();
            events.extend(self.counted().map(ModelEvent::Usage));
        }
    }

    /// Returns the usage; `None` before the answer is over. A count of a part would be taken for the count of the
    /// whole answer.
    fn counted(&self) -> Option<Usage> {
        if self.is_counted { gemini_usage(&self.usage) } else { None }
    }

    fn with_usage(&self, mut error: ProviderError) -> ProviderError {
        error.usage = self.counted();
        error
    }
}

impl StreamDecoder for GeminiStreamDecoder {
    /// The largest size of one event. A picture comes in one event, in base64: one of 4096 × 4096 pixels takes
    /// more than 16 MiB.
    const MAX_EVENT_BYTES: usize = 64 << 20;

    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        self.push(payload)
    }

    /// Returns `false`: only the end of the stream closes it. The last counts may come after the stop reason.
    fn is_closed(&self) -> bool {
        false
    }

    fn has_finished(&self) -> bool {
        self.has_finished()
    }

    fn usage(&self) -> Option<Usage> {
        self.counted()
    }

    fn finish(self) -> Result<ModelAnswer, ProviderError> {
        self.finish()
    }
}

/// Reports whether a part has no content beside its text.
fn is_plain(part: &RawObject) -> bool {
    part.fields().all(|(key, _)| matches!(key, "text" | "thought"))
}

fn text_part(thought: bool, text: String, native: Option<RawJson>) -> Part {
    if thought {
        Part::Reasoning(ReasoningPart { text, native })
    } else {
        Part::Text(TextPart { text, native })
    }
}

fn opaque(native: &str, part: &RawObject) -> Part {
    let kind = part.fields().map(|(key, _)| key).find(|key| !matches!(*key, "thought" | "thoughtSignature"));
    let kind = kind.unwrap_or("thoughtSignature").to_owned();
    Part::Opaque(OpaquePart { kind, native: RawJson(native.to_owned()) })
}

fn finish(reason: &str) -> ModelStopReason {
    match reason {
        "STOP" => ModelStopReason::Stop,
        "MAX_TOKENS" => ModelStopReason::Length,
        reason if missing_answer::FILTERS.contains(&reason) => ModelStopReason::ContentFilter,
        _ => ModelStopReason::Other,
    }
}
