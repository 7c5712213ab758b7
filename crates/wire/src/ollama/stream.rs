//! The decoder from the lines of an answer to the events of one model call.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    ModelAnswer, ModelStopReason, Part, RawJson, ReasoningPart, TextPart, ToolCall,
};
use longhaul_core::usage::Usage;

use crate::StreamDecoder;
use crate::raw_json::{self, RawObject};
use crate::server_error;
use crate::{AnswerSize, ModelEvent, ProviderError, finish};

/// Fields of the closing line that are kept elsewhere.
const LEFT_OUT: &[&str] = &["message", "logprobs"];

const WITHHELD: &str = "a filter withheld the answer";
const FAILED: &str = "the server failed inside its answer";

/// A decoder of one answer, line by line.
#[derive(Debug, Default)]
pub struct OllamaStreamDecoder {
    parts: Vec<Part>,
    /// Text or thinking that the next line may continue.
    open: Option<OllamaTextRun>,
    size: AnswerSize,
    /// The closing line.
    closing: Option<RawObject>,
}

/// The joined text of several lines.
#[derive(Debug)]
struct OllamaTextRun {
    is_thinking: bool,
    text: String,
}

impl OllamaStreamDecoder {
    /// Takes one line, or a whole answer that was not streamed.
    ///
    /// # Errors
    /// The server's error; `third-party` for data that is no JSON object; `truncated-stream` for JSON that stops
    /// in the middle.
    pub fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let payload = payload.trim();
        let mut events = Vec::new();
        if payload.is_empty() {
            return Ok(events);
        }
        let line: RawObject =
            serde_json::from_str(payload).map_err(|error| raw_json::unreadable(payload, &error))?;
        // The status is 200 by then, so an error in the middle of an answer can only come as a line.
        if line.get("error").is_some_and(|error| error != "null") {
            return Err(server_error::from_answer(payload));
        }
        if line.get("done").is_none()
            && let Some(error) = server_error::error_in_place_of_answer(payload)
        {
            return Err(error);
        }
        self.message(&line.content("message")?.unwrap_or_default(), &mut events)?;
        if line.get("done") == Some("true") {
            self.flush(&mut events)?;
            events.extend(counted(&line).map(ModelEvent::Usage));
            // The line is kept whole: it has the counts and the reason, and is the answer's envelope.
            self.closing = Some(line);
        }
        Ok(events)
    }

    /// Reports whether the closing line was read.
    pub fn is_closed(&self) -> bool {
        self.closing.is_some()
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if no closing line came; `refused` if a filter withheld the answer; `third-party` if
    /// the reason is the server's own failure. The error contains the usage.
    pub fn finish(self) -> Result<ModelAnswer, ProviderError> {
        let closing = self.closing.ok_or_else(raw_json::truncated)?;
        let reason = closing.text("done_reason");
        // `load` and `unload` answer a request without a prompt, so they have no content. Ollama's other reasons
        // are `stop` and `length`; proxies in between may add more.
        let finish = match finish::finish_of_reason(reason.as_deref().unwrap_or("stop")) {
            Some(ModelStopReason::ContentFilter) => {
                return Err(unanswered(ErrorCode::Refused, WITHHELD, reason, &closing));
            }
            Some(finish) => finish::agree_with_parts(finish, &self.parts),
            None => return Err(unanswered(ErrorCode::ThirdParty, FAILED, reason, &closing)),
        };
        let envelope = without(&closing, LEFT_OUT).to_json();
        Ok(ModelAnswer { parts: self.parts, finish, usage: counted(&closing), envelope: Some(envelope) })
    }

    /// Takes a message. One line may hold thinking, text and calls, in this order.
    ///
    /// # Errors
    /// `third-party` for unreadable content.
    fn message(&mut self, message: &RawObject, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.say(true, message.content("thinking")?, events)?;
        self.say(false, message.content("content")?, events)?;
        for native in message.contents("tool_calls")? {
            let call = raw_json::element("tool_calls", &native)?;
            // The text before a call is a part of its own, so that the order of the parts is the model's.
            self.flush(events)?;
            self.call(native.get(), call, events)?;
        }
        Ok(())
    }

    fn say(
        &mut self,
        is_thinking: bool,
        text: Option<String>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        // Ollama sends an empty `content` beside thinking and calls; it must not end the thinking.
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(()) };
        if self.open.as_ref().is_some_and(|run| run.is_thinking != is_thinking) {
            self.flush(events)?;
        }
        self.open.get_or_insert(OllamaTextRun { is_thinking, text: String::new() }).text.push_str(&text);
        events.push(if is_thinking { ModelEvent::Reasoning(text) } else { ModelEvent::Text(text) });
        Ok(())
    }

    fn flush(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(OllamaTextRun { is_thinking, text }) = self.open.take() {
            self.size.add_part()?;
            let part = if is_thinking {
                Part::Reasoning(ReasoningPart { text, native: None })
            } else {
                Part::Text(TextPart { text, native: None })
            };
            self.done(part, events);
        }
        Ok(())
    }

    /// Takes a call, which comes whole. Its arguments are an object and keep their bytes. Some proxies turn the
    /// arguments into a text, which Ollama would not take back. `null` means no arguments, and is sent back as an
    /// empty object.
    fn call(
        &mut self,
        native: &str,
        mut call: RawObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let function = call.object("function").unwrap_or_default();
        let quoted = function.text("arguments");
        let native = match (&quoted, function.get("arguments")) {
            // The native bytes are dropped, since Ollama refuses arguments that are a text.
            (Some(_), _) => None,
            (None, Some("null")) => Some(without_null(&mut call, &function)),
            (None, _) => Some(RawJson(native.to_owned())),
        };
        let given = function.get("arguments").filter(|arguments| *arguments != "null").unwrap_or("{}");
        let arguments = quoted.unwrap_or_else(|| given.to_owned());
        // Ollama never streams arguments, so a single event has the whole call.
        let (index, name) = (self.size.add_call()?, function.text("name").unwrap_or_default());
        events.push(ModelEvent::ToolInput { index, name: Some(name.clone()), delta: arguments.clone() });
        let provider_id = call.text("id").filter(|id| !id.is_empty());
        // Older versions give no ids; the loop needs one to find the call's result.
        let call_id = provider_id.clone().unwrap_or_else(|| format!("call_{index}")).into();
        self.done(Part::ToolCall(ToolCall { call_id, name, arguments, provider_id, native }), events);
        Ok(())
    }

    fn done(&mut self, part: Part, events: &mut Vec<ModelEvent>) {
        self.parts.push(part.clone());
        events.push(ModelEvent::PartDone(part));
    }
}

/// Returns the call with an object for its arguments.
fn without_null(call: &mut RawObject, function: &RawObject) -> RawJson {
    let mut function = function.clone();
    if let Some(none) = raw_json::value("{}") {
        function.set("arguments", none);
    }
    if let Some(function) = raw_json::value(function.to_json().as_str()) {
        call.set("function", function);
    }
    call.to_json()
}

/// Returns the error of an answer that ended for this reason.
fn unanswered(code: ErrorCode, what: &str, reason: Option<String>, closing: &RawObject) -> ProviderError {
    let codes: Vec<String> = reason.into_iter().collect();
    let envelope = without(closing, LEFT_OUT);
    ProviderError { usage: counted(closing), ..finish::error(code, what, &codes, None, &envelope) }
}

/// Returns the usage. Ollama counts the whole prompt, cached tokens included. Versions before 0.4 counted only
/// the evaluated tokens, and nothing for a prompt that was cached whole. No count is better than a wrong one
/// then.
fn counted(closing: &RawObject) -> Option<Usage> {
    let input_tokens = closing.tokens("prompt_eval_count").filter(|tokens| *tokens > 0)?;
    Some(Usage {
        input_tokens,
        output_tokens: closing.tokens("eval_count").unwrap_or_default(),
        raw: Some(only(closing, &["_count", "_duration"]).to_json()),
        ..Usage::default()
    })
}

fn only(line: &RawObject, endings: &[&str]) -> RawObject {
    kept(line, |key| endings.iter().any(|ending| key.ends_with(ending)))
}

fn without(line: &RawObject, keys: &[&str]) -> RawObject {
    kept(line, |key| !keys.contains(&key))
}

fn kept(line: &RawObject, keep: impl Fn(&str) -> bool) -> RawObject {
    let mut object = RawObject::default();
    for (key, value) in line.fields().filter(|(key, _)| keep(key)) {
        if let Some(value) = raw_json::value(value) {
            object.set(key, value);
        }
    }
    object
}

impl StreamDecoder for OllamaStreamDecoder {
    const LINES: bool = true;

    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        self.push(payload)
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    /// Returns the usage, which only the closing line has.
    fn usage(&self) -> Option<Usage> {
        self.closing.as_ref().and_then(counted)
    }

    fn finish(self) -> Result<ModelAnswer, ProviderError> {
        self.finish()
    }
}

#[cfg(test)]
mod tests;
