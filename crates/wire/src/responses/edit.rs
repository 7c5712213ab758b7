//! The Responses dialect of OpenAI: `/v1/responses`.

mod errors;
mod hidden;
mod hidden_call_matcher;
mod item;
mod namespaces;
mod render;
mod stream_merger;
mod stream_parser;
#[cfg(test)]
mod tests;
mod whole;

use crate::ToolChoice;
use bytes::Bytes;
use longhaul_core::message::{RawJson, ToolSpec};

pub use self::namespaces::{NamespacedTool, namespaced_tools};
pub(crate) use self::namespaces::{flat_name, members as namespace_members};
use crate::edit::canonical::{JsonNode, settle_content};
use crate::edit::envelope::EnvelopeFieldNames;
use crate::edit::{
    AnswerEvents, AnsweredToolCall, Dialect, FixedContent, GatewayError, ItemSegment, ModelStep, ParseError,
    PartialResponse, RequestEdit, RequestEnvelope, StreamMerger, StreamParser, WireCodec,
};
use crate::raw_json::{elements, field, fields, string, text_field};

const NAMES: EnvelopeFieldNames = EnvelopeFieldNames {
    items: "input",
    max_output: &["max_output_tokens"],
    system: "instructions",
    others: &[
        "previous_response_id",
        "conversation",
        "store",
        "background",
        "truncation",
        "context_management",
        "tool_choice",
        "reasoning",
        "text",
        "prompt_cache_key",
    ],
    items_may_be_text: true,
};

/// The schema for a tool that takes a text, where only objects are known.
const TEXT_INPUT: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

/// The schema for a function without one.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// The Responses dialect. Every item is one segment: a model's answer is several items in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponsesCodec;

impl WireCodec for ResponsesCodec {
    fn dialect(&self) -> Dialect {
        Dialect::Responses
    }

    fn parse_request(&self, bytes: Bytes) -> Result<RequestEnvelope, ParseError> {
        RequestEnvelope::read(bytes, &NAMES)
    }

    fn parse_continued_request(&self, bytes: &Bytes, known: &RequestEnvelope) -> Option<RequestEnvelope> {
        RequestEnvelope::parse_continued(bytes, &NAMES, known)
    }

    fn parse_segments(&self, items: &[&str], before: usize) -> Result<Vec<Vec<ItemSegment>>, ParseError> {
        (before..)
            .zip(items)
            .map(|(index, item)| Ok(item::piece(item, index)?.into_iter().collect()))
            .collect()
    }

    fn fixed_content(&self, envelope: &RequestEnvelope) -> Result<FixedContent, ParseError> {
        let system = envelope
            .system_at
            .as_ref()
            .map(|at| {
                string(envelope.text(at))
                    .ok_or_else(|| ParseError::field("instructions", "`instructions` must be a string"))
            })
            .transpose()?;
        let tools = envelope.tools_at.as_ref().map(|at| tools(envelope.text(at))).transpose()?;
        Ok(FixedContent { system: system.unwrap_or_default(), tools: tools.unwrap_or_default() })
    }

    fn write_canonical_item(&self, item: &str, index: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let mut node =
            JsonNode::parse(item).ok_or_else(|| ParseError::field(format!("input[{index}]"), "not JSON"))?;
        // An input that is only a text means one user message.
        if let JsonNode::Text(text) = &mut node {
            let text = std::mem::take(text);
            node = JsonNode::Object(vec![
                ("role".into(), JsonNode::Text("user".into())),
                ("content".into(), JsonNode::Text(text)),
            ]);
        }
        // Some clients send an answer's items back with the server's id and status, some without.
        for name in ["id", "status"] {
            node.remove(name);
        }
        // OpenAI takes messages with and without a type, and clients send both forms.
        if node.get("type").and_then(JsonNode::as_text) == Some("message") {
            node.remove("type");
        }
        let by_model = node.get("role").and_then(JsonNode::as_text) == Some("assistant");
        if let Some(content) = node.get_mut("content") {
            settle_content(content, if by_model { "output_text" } else { "input_text" });
            settle_details(content);
        }
        node.write(out);
        Ok(())
    }

    fn render_request(&self, envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
        render::render(envelope, edited)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::<stream_parser::ResponsesStreamParser>::default()
    }

    fn stream_merger(&self) -> Box<dyn StreamMerger> {
        Box::<stream_merger::ResponsesStreamMerger>::default()
    }

    fn parse_answer(&self, body: &[u8]) -> Option<PartialResponse> {
        whole::answer(std::str::from_utf8(body).ok()?)
    }

    fn collect_answer(&self, events: &[Bytes]) -> Option<Bytes> {
        whole::collect(events)
    }

    fn write_answer_events(&self, body: &[u8]) -> Option<AnswerEvents> {
        whole::events(std::str::from_utf8(body).ok()?)
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
        items.map(|item| hidden::with_call_of(&item, &mut calls).unwrap_or(item)).collect()
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
        self.error_event_after(fault, &PartialResponse::default())
    }

    fn error_event_after(&self, fault: &GatewayError, seen: &PartialResponse) -> Bytes {
        errors::events(fault, seen).into()
    }
}

/// Removes empty details of a text.
fn settle_details(content: &mut JsonNode<'_>) {
    let JsonNode::List(blocks) = content else { return };
    for block in blocks {
        for name in ["annotations", "logprobs"] {
            // Servers write the empty lists, and clients often leave them out when they send the item back.
            if matches!(block.get(name), Some(JsonNode::List(list)) if list.is_empty()) {
                block.remove(name);
            }
        }
    }
}

/// Returns the tools, those in namespaces included. Tools that OpenAI's servers run have no schema and count by
/// their known fields.
fn tools(raw: &str) -> Result<Vec<ToolSpec>, ParseError> {
    let tools = elements(raw).ok_or_else(|| ParseError::field("tools", "`tools` must be a list"))?;
    let mut specs = Vec::new();
    for (index, raw) in tools.into_iter().enumerate() {
        match namespaces::members(raw) {
            Some((namespace, inner)) => {
                for raw in inner {
                    let mut spec = tool(raw, index)?;
                    spec.name = namespaces::flat_name(&namespace, &spec.name);
                    specs.push(spec);
                }
            }
            None => specs.push(tool(raw, index)?),
        }
    }
    Ok(specs)
}

fn tool(raw: &str, index: usize) -> Result<ToolSpec, ParseError> {
    let fields = fields(raw)
        .ok_or_else(|| ParseError::field(format!("tools[{index}]"), "a tool must be an object"))?;
    let kind = text_field(&fields, "type")
        .ok_or_else(|| ParseError::field(format!("tools[{index}]"), "`type` is missing"))?;
    let said = field(&fields, "parameters").filter(|said| *said != "null");
    let parameters = match kind.as_str() {
        "custom" => TEXT_INPUT,
        "function" => said.unwrap_or(NO_PARAMETERS),
        // A server's own tool has no schema. Its whole definition stands in, so that its tokens count.
        _ => said.unwrap_or(raw),
    };
    let grammar = field(&fields, "format").and_then(self::fields);
    let grammar = grammar.and_then(|grammar| field(&grammar, "definition").and_then(string));
    let described =
        // The grammar of a custom tool has no place in other dialects, so the model reads it as a description.
        [text_field(&fields, "description"), grammar].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    Ok(ToolSpec {
        name: text_field(&fields, "name").unwrap_or(kind),
        description: described,
        parameters: RawJson(parameters.to_owned()),
        read_only: false,
        poll: false,
        source: "client".to_owned(),
    })
}

/// Returns the names of the tools that take a text instead of JSON.
pub fn custom_tools(envelope: &RequestEnvelope) -> Vec<String> {
    let tools = envelope.tools_at.as_ref().and_then(|at| elements(envelope.text(at))).unwrap_or_default();
    let names = tools.into_iter().flat_map(|tool| match namespaces::members(tool) {
        Some((namespace, inner)) => {
            let names = inner.into_iter().filter_map(custom_tool_name);
            names.map(|name| namespaces::flat_name(&namespace, &name)).collect()
        }
        None => Vec::from_iter(custom_tool_name(tool)),
    });
    names.collect()
}

fn custom_tool_name(tool: &str) -> Option<String> {
    let fields = fields(tool)?;
    text_field(&fields, "type").filter(|kind| kind == "custom").and(text_field(&fields, "name"))
}

/// Checks that a request is complete by itself: only OpenAI's own server has its stored content.
///
/// # Errors
/// [`ParseError`] with the field that refers to stored content.
pub fn check_whole(envelope: &RequestEnvelope) -> Result<(), ParseError> {
    check_without(envelope, "previous_response_id")?;
    check_no_conversation(envelope)
}

/// Checks that a request belongs to no stored conversation: only OpenAI's own server stores conversations.
///
/// # Errors
/// [`ParseError`] with the field.
pub fn check_no_conversation(envelope: &RequestEnvelope) -> Result<(), ParseError> {
    check_without(envelope, "conversation")
}

fn check_without(envelope: &RequestEnvelope, name: &str) -> Result<(), ParseError> {
    // Clients write the field as `null` when they do not use it.
    if envelope.other(name).is_none_or(|raw| raw == "null") {
        return Ok(());
    }
    let message = format!(
        "`{name}` cannot be followed: the model's server keeps no conversations; send the whole input"
    );
    Err(ParseError::field(name, message))
}

/// Returns the request's choice of tools: whether the model may, must or must not call one.
///
/// # Errors
/// [`ParseError`] if the choice has a form that no other dialect has.
pub fn tool_choice(envelope: &RequestEnvelope) -> Result<ToolChoice, ParseError> {
    let Some(raw) = envelope.other("tool_choice").filter(|raw| *raw != "null") else {
        return Ok(ToolChoice::Auto);
    };
    match string(raw).as_deref() {
        Some("auto") => return Ok(ToolChoice::Auto),
        Some("none") => return Ok(ToolChoice::None),
        Some("required") => return Ok(ToolChoice::Required),
        _ => {}
    }
    let said = fields(raw).ok_or_else(ParseError::inexpressible_tool_choice)?;
    match text_field(&said, "type").as_deref() {
        Some("function" | "custom") => {
            let name = text_field(&said, "name").ok_or_else(ParseError::inexpressible_tool_choice)?;
            Ok(ToolChoice::Named(match text_field(&said, "namespace") {
                Some(namespace) => namespaces::flat_name(&namespace, &name),
                None => name,
            }))
        }
        _ => Err(ParseError::inexpressible_tool_choice()),
    }
}
