//! Anthropic's Messages: `/v1/messages`, also as served by llama.cpp, vLLM and Ollama.

mod collect;
mod errors;
mod hidden;
mod item;
mod render;
mod stream_merger;
mod stream_parser;
#[cfg(test)]
mod tests;

use crate::ToolChoice;
use bytes::Bytes;
use longhaul_core::message::{Part, RawJson, ToolSpec};

use crate::edit::canonical::{JsonNode, settle_content};
use crate::edit::envelope::EnvelopeFieldNames;
use crate::edit::ephemeral::is_volatile;
use crate::edit::{
    AnswerEvents, AnsweredToolCall, Dialect, FixedContent, GatewayError, ItemSegment, ModelStep, ParseError,
    PartialResponse, RequestEdit, RequestEnvelope, StreamMerger, StreamParser, WireCodec,
};
use crate::raw_json::{elements, field, fields, string, text_field};

pub use self::item::NOTES;

const NAMES: EnvelopeFieldNames = EnvelopeFieldNames {
    items: "messages",
    max_output: &["max_tokens"],
    system: "system",
    others: &[
        "tool_choice",
        "thinking",
        "stop_sequences",
        "temperature",
        "top_p",
        "top_k",
        "output_config",
        "output_format",
        "context_management",
    ],
    items_may_be_text: false,
};

/// The Messages dialect.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesCodec;

impl WireCodec for MessagesCodec {
    fn dialect(&self) -> Dialect {
        Dialect::Messages
    }

    fn parse_request(&self, bytes: Bytes) -> Result<RequestEnvelope, ParseError> {
        RequestEnvelope::read(bytes, &NAMES)
    }

    fn parse_continued_request(&self, bytes: &Bytes, known: &RequestEnvelope) -> Option<RequestEnvelope> {
        RequestEnvelope::parse_continued(bytes, &NAMES, known)
    }

    fn parse_segments(&self, items: &[&str], before: usize) -> Result<Vec<Vec<ItemSegment>>, ParseError> {
        (before..).zip(items).map(|(index, item)| item::segments(item, index)).collect()
    }

    fn fixed_content(&self, envelope: &RequestEnvelope) -> Result<FixedContent, ParseError> {
        let system = envelope.system_at.as_ref().map(|at| system(envelope.text(at))).transpose()?;
        let tools = envelope.tools_at.as_ref().map(|at| tools(envelope.text(at))).transpose()?;
        Ok(FixedContent { system: system.unwrap_or_default(), tools: tools.unwrap_or_default() })
    }

    fn write_canonical_item(&self, item: &str, index: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let mut node = JsonNode::parse(item)
            .ok_or_else(|| ParseError::field(format!("messages[{index}]"), "not JSON"))?;
        if let Some(content) = node.get_mut("content") {
            settle_content(content, "text");
            settle_results(content);
        }
        node.write(out);
        Ok(())
    }

    fn render_request(&self, envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
        render::render(envelope, edited)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::<stream_parser::MessagesStreamParser>::default()
    }

    fn stream_merger(&self) -> Box<dyn StreamMerger> {
        Box::<stream_merger::MessagesStreamMerger>::default()
    }

    fn parse_answer(&self, body: &[u8]) -> Option<PartialResponse> {
        stream_parser::whole(std::str::from_utf8(body).ok()?)
    }

    fn collect_answer(&self, events: &[Bytes]) -> Option<Bytes> {
        collect::collect(events)
    }

    fn write_answer_events(&self, body: &[u8]) -> Option<AnswerEvents> {
        collect::events(std::str::from_utf8(body).ok()?)
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
        errors::body(fault).into()
    }

    fn error_event(&self, fault: &GatewayError) -> Bytes {
        format!("event: error\ndata: {}\n\n", errors::body(fault)).into()
    }
}

/// Writes tool results in a single form, because clients may send text or blocks.
fn settle_results(content: &mut JsonNode<'_>) {
    let JsonNode::List(blocks) = content else { return };
    for block in blocks {
        if block.get("type").and_then(JsonNode::as_text) == Some("tool_result")
            && let Some(content) = block.get_mut("content")
        {
            settle_content(content, "text");
        }
    }
}

/// Returns the system prompt: a text, or blocks of text. Blocks with other content in every request are left out.
fn system(raw: &str) -> Result<String, ParseError> {
    if let Some(text) = string(raw) {
        return Ok(text);
    }
    let blocks =
        elements(raw).ok_or_else(|| ParseError::field("system", "`system` must be a string or a list"))?;
    let texts = blocks.into_iter().filter_map(|block| string(field(&fields(block)?, "text")?));
    // A block that changes with every request must not make the prefix a new one.
    let texts = texts.filter(|text: &String| !is_volatile(text));
    Ok(texts.collect::<Vec<String>>().join("\n\n"))
}

/// The schema for a client's tool without a schema.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Returns the tools. Tools of Anthropic's servers have no schema and count by the known fields.
fn tools(raw: &str) -> Result<Vec<ToolSpec>, ParseError> {
    let tools = elements(raw).ok_or_else(|| ParseError::field("tools", "`tools` must be a list"))?;
    tools.into_iter().enumerate().map(|(index, raw)| tool(raw, index)).collect()
}

fn tool(raw: &str, index: usize) -> Result<ToolSpec, ParseError> {
    let place = format!("tools[{index}]");
    let fields = fields(raw).ok_or_else(|| ParseError::field(&place, "a tool must be an object"))?;
    let name = text_field(&fields, "name").ok_or_else(|| ParseError::field(&place, "`name` is missing"))?;
    let is_clients = matches!(text_field(&fields, "type").as_deref(), None | Some("custom"));
    // The model is shown a server tool in a form of the server's own. Its whole definition is the best
    // estimate.
    let unsaid = if is_clients { NO_PARAMETERS } else { raw };
    let parameters = field(&fields, "input_schema").filter(|raw| *raw != "null").unwrap_or(unsaid);
    Ok(ToolSpec {
        name,
        description: text_field(&fields, "description").unwrap_or_default(),
        parameters: RawJson(parameters.to_owned()),
        read_only: false,
        poll: false,
        source: "client".to_owned(),
    })
}

/// Returns a text part, unless the text is empty.
fn text(text: String) -> Option<Part> {
    let text = crate::edit::ephemeral::without_notices(&text).unwrap_or(text);
    // A text that had only notices is empty now.
    (!text.is_empty()).then(|| Part::text(text))
}

/// Returns the request's choice of tools: whether the model may, must or must not call one.
///
/// # Errors
/// [`ParseError`] if no other dialect has the form of the choice.
pub fn tool_choice(envelope: &RequestEnvelope) -> Result<ToolChoice, ParseError> {
    let Some(raw) = envelope.other("tool_choice").filter(|raw| *raw != "null") else {
        return Ok(ToolChoice::Auto);
    };
    let said = fields(raw).ok_or_else(ParseError::inexpressible_tool_choice)?;
    match text_field(&said, "type").as_deref() {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("any") => Ok(ToolChoice::Required),
        Some("tool") => {
            text_field(&said, "name").map(ToolChoice::Named).ok_or_else(ParseError::inexpressible_tool_choice)
        }
        _ => Err(ParseError::inexpressible_tool_choice()),
    }
}

/// Returns the answer to `/v1/messages/count_tokens`.
pub fn count(input_tokens: u64) -> Bytes {
    serde_json::json!({ "input_tokens": input_tokens }).to_string().into()
}
