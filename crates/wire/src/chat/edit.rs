//! The codec of OpenAI's Chat Completions for the gateway's clients.

use crate::ToolChoice;
use bytes::Bytes;

use crate::edit::canonical::JsonNode;
use crate::edit::{
    AnswerEvents, AnsweredToolCall, Dialect, FixedContent, GatewayError, ItemSegment, ModelStep, ParseError,
    PartialResponse, RequestEdit, RequestEnvelope, StreamMerger, StreamParser, WireCodec,
};
use crate::raw_json::{field, fields, string};

mod error;
mod hidden;
mod item;
mod render;
mod stream_merger;
mod stream_parser;
mod tool_call_filter;
mod whole;

pub use stream_merger::ChatStreamMerger;
pub use stream_parser::ChatStreamParser;

use crate::edit::envelope::EnvelopeFieldNames;

const NAMES: EnvelopeFieldNames = EnvelopeFieldNames {
    items: "messages",
    // OpenAI deprecates `max_tokens`: if a client sends both, the newer field wins.
    max_output: &["max_completion_tokens", "max_tokens"],
    // This dialect has its system prompt among the messages.
    system: "",
    others: &["n", "stream_options", "tool_choice", "response_format", "functions", "prompt_cache_key"],
    items_may_be_text: false,
};

/// Returns the request's choice of tools: whether the model may, must or must not call one.
///
/// # Errors
/// [`ParseError`] if no other dialect has the form of the choice.
pub fn tool_choice(envelope: &RequestEnvelope) -> Result<ToolChoice, ParseError> {
    // A client that writes `null` means the default.
    let Some(raw) = envelope.other("tool_choice").filter(|raw| *raw != "null") else {
        return Ok(ToolChoice::Auto);
    };
    match string(raw).as_deref() {
        Some("auto") => return Ok(ToolChoice::Auto),
        Some("none") => return Ok(ToolChoice::None),
        Some("required") => return Ok(ToolChoice::Required),
        Some(_) => return Err(ParseError::inexpressible_tool_choice()),
        None => {}
    }
    let named = fields(raw).and_then(|said| string(field(&fields(field(&said, "function")?)?, "name")?));
    named.map(ToolChoice::Named).ok_or_else(ParseError::inexpressible_tool_choice)
}

/// The Chat Completions dialect.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatCodec;

impl WireCodec for ChatCodec {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn parse_request(&self, bytes: Bytes) -> Result<RequestEnvelope, ParseError> {
        RequestEnvelope::read(bytes, &NAMES)
    }

    fn parse_continued_request(&self, bytes: &Bytes, known: &RequestEnvelope) -> Option<RequestEnvelope> {
        RequestEnvelope::parse_continued(bytes, &NAMES, known)
    }

    fn parse_segments(&self, items: &[&str], before: usize) -> Result<Vec<Vec<ItemSegment>>, ParseError> {
        items
            .iter()
            .enumerate()
            .map(|(index, item)| item::piece(item, before + index).map(|piece| vec![piece]))
            .collect()
    }

    fn fixed_content(&self, envelope: &RequestEnvelope) -> Result<FixedContent, ParseError> {
        let tools = envelope.tools_at.as_ref().map(|at| item::tools(envelope.text(at))).transpose()?;
        Ok(FixedContent { system: String::new(), tools: tools.unwrap_or_default() })
    }

    fn write_canonical_item(&self, item: &str, index: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let mut node: JsonNode<'_> =
            serde_json::from_str(item).map_err(|error| item::unreadable(index, &error))?;
        item::settle(&mut node);
        node.write(out);
        Ok(())
    }

    fn render_request(&self, envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
        render::render(envelope, edited)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::<ChatStreamParser>::default()
    }

    fn stream_merger(&self) -> Box<dyn StreamMerger> {
        Box::<ChatStreamMerger>::default()
    }

    fn parse_answer(&self, body: &[u8]) -> Option<PartialResponse> {
        whole::read(body)
    }

    fn collect_answer(&self, events: &[Bytes]) -> Option<Bytes> {
        whole::collect(events)
    }

    fn write_answer_events(&self, body: &[u8]) -> Option<AnswerEvents> {
        whole::events(body)
    }

    fn parse_model_step(&self, answer: &[u8]) -> Option<ModelStep> {
        hidden::step(answer)
    }

    fn prepend_text(&self, item: &str, text: &str) -> Option<String> {
        hidden::with_text_before(item, text)
    }

    fn replace_calls(&self, items: Vec<String>, calls: &[crate::edit::PartialToolCall]) -> Vec<String> {
        let mut calls = calls.iter();
        let items = items.into_iter();
        items.map(|item| hidden::with_calls_of(&item, &mut calls).unwrap_or(item)).collect()
    }

    fn write_tool_results(&self, answered: &[AnsweredToolCall]) -> Vec<String> {
        hidden::results(answered)
    }

    fn remove_calls(&self, answer: &[u8], tool: &str) -> Option<Bytes> {
        hidden::without_calls(answer, tool)
    }

    fn error_body(&self, fault: &GatewayError) -> Bytes {
        error::body(fault)
    }

    fn error_event(&self, fault: &GatewayError) -> Bytes {
        error::event(fault)
    }
}

#[cfg(test)]
mod tests;
