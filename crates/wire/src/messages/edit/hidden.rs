//! Hidden calls in the Messages dialect.

use std::collections::VecDeque;

use bytes::Bytes;

use super::item::{BorrowedMessagesBlock, BorrowedMessagesContent, BorrowedMessagesItem};
use crate::edit::hidden::{
    AnsweredToolCall, HiddenCallReplay, ModelStep, object, strip_shown_texts, take_message,
};
use crate::edit::insertion::MessageListEntry;
use crate::edit::{PartialToolCall, RequestEnvelope};
use crate::raw_json::{elements, field, fields, quote, string, with_field};
use longhaul_core::message::ToolSpec;

/// Returns the tool in the Messages dialect.
pub(super) fn tool(spec: &ToolSpec) -> String {
    format!(
        r#"{{"name":{},"description":{},"input_schema":{}}}"#,
        quote(&spec.name),
        quote(&spec.description),
        spec.parameters.as_str()
    )
}

/// Returns the model's message in a whole answer. Empty texts are left out: the API refuses requests with empty
/// texts.
pub(super) fn step(answer: &[u8]) -> Option<ModelStep> {
    let said = fields(std::str::from_utf8(answer).ok()?)?;
    if field(&said, "type").and_then(string)? != "message" {
        return None;
    }
    let blocks: Vec<BorrowedMessagesBlock<'_>> =
        elements(field(&said, "content")?)?.into_iter().filter_map(BorrowedMessagesBlock::read).collect();
    let calls = blocks.iter().filter(|block| block.kind == "tool_use").map(call).collect();
    // Anthropic refuses blank text blocks, even those that its own models wrote.
    let content = blocks.iter().filter(|block| {
        block.kind != "text" || block.text("text").is_some_and(|text| !text.trim().is_empty())
    });
    let content: Vec<&str> = content.map(|block| block.raw).collect();
    Some(ModelStep { items: vec![message("assistant", &content)], calls })
}

fn call(block: &BorrowedMessagesBlock<'_>) -> PartialToolCall {
    let arguments = field(&block.fields, "input").unwrap_or("{}").to_owned();
    PartialToolCall {
        id: block.text("id").unwrap_or_default(),
        name: block.text("name").unwrap_or_default(),
        arguments,
    }
}

/// Returns the model's message with the ids and arguments of `calls` in place of the message's own.
pub(super) fn with_calls_of(
    message: &str,
    calls: &mut dyn Iterator<Item = &PartialToolCall>,
) -> Option<String> {
    let item = BorrowedMessagesItem::read(message, 0).ok()?;
    let BorrowedMessagesContent::Blocks(blocks) = &item.content else { return None };
    let mut all = Vec::with_capacity(blocks.len());
    for block in blocks {
        let given = if block.kind == "tool_use" { calls.next() } else { None };
        all.push(match given {
            Some(given) => {
                let raw = with_field(block.raw, "id", &quote(&given.id))?;
                with_field(&raw, "input", object(&given.arguments))?
            }
            None => block.raw.to_owned(),
        });
    }
    with_field(message, "content", &format!("[{}]", all.join(",")))
}

fn message(role: &str, content: &[&str]) -> String {
    format!(r#"{{"role":"{role}","content":[{}]}}"#, content.join(","))
}

fn result(answered: &AnsweredToolCall) -> String {
    let failed = if answered.failed { r#","is_error":true"# } else { "" };
    let (id, text) = (quote(&answered.call.id), quote(&answered.result));
    format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}{failed}}}"#)
}

/// Returns the message with the results of calls.
pub(super) fn results(answered: &[AnsweredToolCall]) -> Vec<String> {
    let blocks: Vec<String> = answered.iter().map(result).collect();
    vec![message("user", &blocks.iter().map(String::as_str).collect::<Vec<_>>())]
}

/// Returns an answer without the calls of a tool.
pub(super) fn without_calls(answer: &[u8], tool: &str) -> Option<Bytes> {
    let answer = std::str::from_utf8(answer).ok()?;
    let blocks = elements(field(&fields(answer)?, "content")?)?;
    let kept = blocks.into_iter().filter(|raw| {
        let block = BorrowedMessagesBlock::read(raw);
        block.is_none_or(|block| block.kind != "tool_use" || block.text("name").as_deref() != Some(tool))
    });
    let kept: Vec<&str> = kept.collect();
    with_field(answer, "content", &format!("[{}]", kept.join(","))).map(Bytes::from)
}

/// Returns a message with `text` before the message's own text.
pub(super) fn with_text_before(message: &str, text: &str) -> Option<String> {
    let item = BorrowedMessagesItem::read(message, 0).ok()?;
    let BorrowedMessagesContent::Blocks(blocks) = &item.content else { return None };
    let mut all: Vec<String> = blocks.iter().map(|block| block.raw.to_owned()).collect();
    match blocks.iter().position(|block| block.kind == "text") {
        Some(at) => {
            let own = blocks[at].text("text").unwrap_or_default();
            all[at] = with_field(blocks[at].raw, "text", &quote(&format!("{text}{own}")))?;
        }
        None => {
            // The text stands behind the reasoning, which must come first, and before the calls.
            let at = blocks.iter().position(|block| block.kind == "tool_use").unwrap_or(blocks.len());
            all.insert(at, format!(r#"{{"type":"text","text":{}}}"#, quote(text)));
        }
    }
    with_field(message, "content", &format!("[{}]", all.join(",")))
}

/// Puts the calls back, with the results before the results of the client's calls.
pub(super) fn replay(
    envelope: &RequestEnvelope,
    slots: &mut Vec<MessageListEntry>,
    replays: &[HiddenCallReplay],
) {
    for replay in replays {
        // The API refuses a call without its result. So both are put back, or neither.
        let next = take_message(envelope, slots, replay.at + 1);
        let answers = next.and_then(|(_, message)| with_results(&message, replay));
        let step = take_message(envelope, slots, replay.at);
        let step = step.and_then(|(at, message)| Some((at, with_calls(&message, replay)?)));
        let (Some((at, step)), Some(answers)) = (step, answers) else { continue };
        slots[at] = MessageListEntry::Change(replay.at, step);
        if let Some((behind, _)) = take_message(envelope, slots, replay.at + 1) {
            slots[behind] = MessageListEntry::Change(replay.at + 1, answers);
        }
        slots.splice(at..at, replay.rounds.iter().cloned().map(MessageListEntry::Own));
    }
}

fn with_calls(message: &str, replay: &HiddenCallReplay) -> Option<String> {
    let item = BorrowedMessagesItem::read(message, replay.at).ok()?;
    let BorrowedMessagesContent::Blocks(blocks) = &item.content else { return None };
    let calls = blocks.iter().filter(|block| block.kind == "tool_use");
    let ids: Vec<String> = calls.map(|block| block.text("id").unwrap_or_default()).collect();
    if !replay.has_shown_calls(&ids) || item.role != "assistant" {
        return None;
    }
    let own = without_rounds(blocks, replay.shown_rounds());
    let all = replay.with_hidden_calls(own, |call| {
        let (id, name) = (quote(&call.id), quote(&call.name));
        format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{}}}"#, object(&call.arguments))
    });
    with_field(message, "content", &format!("[{}]", all.join(",")))
}

/// Returns the blocks of the client's copy of a step, without the text of earlier steps of the same answer. The
/// client has a single message for all steps. Each block comes with a flag: `true` for a call.
fn without_rounds(blocks: &[BorrowedMessagesBlock<'_>], rounds: &[String]) -> Vec<(bool, String)> {
    let mut said: VecDeque<String> = rounds.iter().flat_map(|round| said_in(round)).collect();
    let mut all: Vec<(bool, String)> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let raw = block.raw.to_owned();
        if block.kind == "tool_use" {
            all.push((true, raw));
            continue;
        }
        if let Some(at) = said.iter().position(|said| *said == words(block)) {
            // The blocks before a repeated block are older than it, so they are repetitions too.
            all.retain(|(is_call, _)| *is_call);
            said.drain(..=at);
            continue;
        }
        let text = if block.kind == "text" { block.text("text") } else { None };
        let rest = text.as_deref().and_then(|text| strip_shown_texts(text, &mut said));
        match rest {
            Some("") => {}
            Some(rest) => all.push((false, with_field(&raw, "text", &quote(rest)).unwrap_or(raw))),
            None => all.push((false, raw)),
        }
    }
    all
}

/// Returns the text of a block of any form.
fn words(block: &BorrowedMessagesBlock<'_>) -> String {
    let names = ["text", "signature", "data", "thinking"];
    names.into_iter().find_map(|name| block.text(name).filter(|text| !text.is_empty())).unwrap_or_default()
}

/// Returns the texts of a model's step, without calls.
fn said_in(round: &str) -> Vec<String> {
    let Ok(item) = BorrowedMessagesItem::read(round, 0) else { return Vec::new() };
    match &item.content {
        BorrowedMessagesContent::Blocks(blocks) if item.role == "assistant" => {
            let said = blocks.iter().filter(|block| block.kind != "tool_use").map(words);
            said.filter(|words| !words.trim().is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

fn with_results(message: &str, replay: &HiddenCallReplay) -> Option<String> {
    let item = BorrowedMessagesItem::read(message, replay.at + 1).ok()?;
    if item.role != "user" {
        return None;
    }
    let ours = replay.hidden.iter().map(|(_, answered)| result(answered));
    let theirs = match &item.content {
        BorrowedMessagesContent::Text(text) => vec![format!(r#"{{"type":"text","text":{}}}"#, quote(text))],
        BorrowedMessagesContent::Blocks(blocks) => blocks.iter().map(|block| block.raw.to_owned()).collect(),
    };
    let all: Vec<String> = ours.chain(theirs).collect();
    with_field(message, "content", &format!("[{}]", all.join(",")))
}
