//! Hidden calls in the Responses dialect.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use longhaul_core::message::ToolSpec;

use super::item::BorrowedResponsesItem;
use crate::edit::hidden::{AnsweredToolCall, HiddenCallReplay, ModelStep, object, strip_shown_texts};
use crate::edit::patch::ItemListWriter;
use crate::edit::{PartialToolCall, RequestEnvelope};
use crate::raw_json::{elements, field, fields, quote, string, text_field, with_field};

/// Returns the tool in the Responses dialect.
pub(super) fn tool(spec: &ToolSpec) -> String {
    format!(
        r#"{{"type":"function","name":{},"description":{},"parameters":{},"strict":false}}"#,
        quote(&spec.name),
        quote(&spec.description),
        spec.parameters.as_str()
    )
}

/// Returns the model's items in a whole answer. Reasoning whose content the server did not send is left out. The
/// server knows such reasoning only with a stored answer, and our requests must not depend on storage.
pub(super) fn step(answer: &[u8]) -> Option<ModelStep> {
    let answer = fields(std::str::from_utf8(answer).ok()?)?;
    // An error body is JSON too, and has no step.
    if field(&answer, "object").and_then(string)? != "response" {
        return None;
    }
    let mut step = ModelStep::default();
    for raw in elements(field(&answer, "output")?)? {
        let Ok(item) = BorrowedResponsesItem::read(raw, 0) else { continue };
        if item.kind == "function_call" || item.kind == "custom_tool_call" {
            // A custom call has its text in `input`.
            let arguments = item.text("arguments").unwrap_or_else(|| item.text("input").unwrap_or_default());
            step.calls.push(PartialToolCall {
                id: item.text("call_id").unwrap_or_default(),
                name: item.text("name").unwrap_or_default(),
                arguments,
            });
        }
        // OpenAI encrypts reasoning, and servers of open models send it readable. An item with neither is only a
        // reference.
        let is_elsewhere = item.kind == "reasoning"
            && field(&item.fields, "encrypted_content").is_none_or(|own| own == "null")
            && field(&item.fields, "content").and_then(elements).is_none_or(|own| own.is_empty());
        if !is_elsewhere {
            step.items.push(raw.to_owned());
        }
    }
    Some(step)
}

/// Returns a call of the model with the next of `calls`: id and arguments. `None` if the item is no call of a
/// function.
pub(super) fn with_call_of(item: &str, calls: &mut dyn Iterator<Item = &PartialToolCall>) -> Option<String> {
    let read = BorrowedResponsesItem::read(item, 0).ok()?;
    if read.kind != "function_call" && read.kind != "custom_tool_call" {
        return None;
    }
    let given = calls.next()?;
    let item = with_field(item, "call_id", &quote(&given.id))?;
    if read.kind == "function_call" {
        return with_field(&item, "arguments", &quote(object(&given.arguments)));
    }
    Some(item)
}

/// Returns the model's message with text before its own. `None` if the item is no message.
pub(super) fn with_text_before(item: &str, text: &str) -> Option<String> {
    let message = BorrowedResponsesItem::read(item, 0).ok().filter(|item| item.kind == "message")?;
    let mut parts: Vec<String> =
        elements(field(&message.fields, "content")?)?.into_iter().map(str::to_owned).collect();
    let first = parts.first_mut()?;
    let own = field(&fields(first)?, "text").and_then(string).unwrap_or_default();
    *first = with_field(first, "text", &quote(&format!("{text}{own}")))?;
    with_field(item, "content", &format!("[{}]", parts.join(",")))
}

fn result(answered: &AnsweredToolCall) -> String {
    let (id, text) = (quote(&answered.call.id), quote(&answered.result));
    format!(r#"{{"type":"function_call_output","call_id":{id},"output":{text}}}"#)
}

/// Returns the items with the results of calls.
pub(super) fn results(answered: &[AnsweredToolCall]) -> Vec<String> {
    answered.iter().map(result).collect()
}

/// Returns an answer without the calls of a tool.
pub(super) fn without_calls(answer: &[u8], tool: &str) -> Option<Bytes> {
    let answer = std::str::from_utf8(answer).ok()?;
    let items = elements(field(&fields(answer)?, "output")?)?;
    let kept = items.into_iter().filter(|raw| match BorrowedResponsesItem::read(raw, 0) {
        Ok(item) => item.kind != "function_call" || item.text("name").as_deref() != Some(tool),
        // What cannot be read is no call of ours, and stays for the client.
        Err(_) => true,
    });
    let kept: Vec<&str> = kept.collect();
    with_field(answer, "output", &format!("[{}]", kept.join(","))).map(Bytes::from)
}

/// The items to insert around the client's: hidden calls beside those of their step, and their results behind all
/// calls.
#[derive(Debug, Default)]
pub(super) struct HiddenItemInsertions {
    /// The client's items that repeat earlier steps of an answer. The original items are inserted instead.
    gone: BTreeSet<usize>,
    /// The client's items with more text than the step has, and their shortened form.
    shorter: BTreeMap<usize, String>,
    before: BTreeMap<usize, Vec<String>>,
    behind: BTreeMap<usize, Vec<String>>,
}

impl HiddenItemInsertions {
    pub(super) fn of(envelope: &RequestEnvelope, replays: &[HiddenCallReplay]) -> Self {
        let mut woven = Self::default();
        for replay in replays {
            woven.add(envelope, replay);
        }
        woven
    }

    fn add(&mut self, envelope: &RequestEnvelope, replay: &HiddenCallReplay) {
        let calls = calls_from(envelope, replay.at);
        let ids: Vec<String> = calls.iter().map(|(_, id)| id.clone()).collect();
        let (true, Some((first, _)), Some((last, _))) =
            (replay.has_shown_calls(&ids), calls.first(), calls.last())
        else {
            return;
        };
        for (shown_before, answered) in &replay.hidden {
            let call = written(&answered.call);
            match shown_before.checked_sub(1).and_then(|at| calls.get(at).or(calls.last())) {
                Some((item, _)) => self.behind.entry(*item).or_default().push(call),
                None => self.before.entry(*first).or_default().push(call),
            }
        }
        self.leave_out(envelope, replay, *first);
        // The step may begin with text. Earlier rounds must come before that text.
        self.before.entry(replay.at).or_default().splice(0..0, replay.rounds.iter().cloned());
        let results = replay.hidden.iter().map(|(_, answered)| result(answered));
        self.behind.entry(*last).or_default().extend(results);
    }

    /// Removes from the client's copy the content of earlier steps of the same answer. The client has a single answer
    /// for all steps.
    fn leave_out(&mut self, envelope: &RequestEnvelope, replay: &HiddenCallReplay, end: usize) {
        let mut said: VecDeque<String> = replay.shown_rounds().iter().filter_map(|raw| words(raw)).collect();
        for at in replay.at..end {
            let raw = envelope.item(at);
            let Some(own) = words(raw) else { continue };
            let rest = match said.iter().position(|said| *said == own) {
                Some(found) => {
                    said.drain(..=found);
                    Some("")
                }
                None => strip_shown_texts(&own, &mut said),
            };
            match rest {
                Some("") => self.gone.extend(replay.at..=at),
                Some(rest) => {
                    // Only a message has a text that can be shortened.
                    let text = text_of(raw).is_some().then(|| shortened(raw, rest)).flatten();
                    self.shorter.extend(text.map(|text| (at, text)));
                    self.gone.extend(replay.at..at);
                }
                None => {}
            }
        }
    }

    /// Returns the replacement of a client's item, if there is one: nothing, or another text.
    fn own(&self, item: usize) -> Option<Option<&str>> {
        if self.gone.contains(&item) {
            return Some(None);
        }
        self.shorter.get(&item).map(|text| Some(text.as_str()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.behind.is_empty()
    }

    /// Writes an item with the insertions before and behind it.
    pub(super) fn around<'e>(
        &self,
        item: usize,
        list: &mut ItemListWriter<'e>,
        write: impl FnOnce(&mut ItemListWriter<'e>),
    ) {
        self.before.get(&item).into_iter().flatten().for_each(|own| list.insert(own));
        match self.own(item) {
            None => write(list),
            Some(None) => {}
            Some(Some(text)) => list.change(item, text),
        }
        self.behind.get(&item).into_iter().flatten().for_each(|own| list.insert(own));
    }
}

/// Returns the text of a message or of reasoning, whatever its form. `None` if the item is neither.
fn words(item: &str) -> Option<String> {
    let read = BorrowedResponsesItem::read(item, 0).ok()?;
    match read.kind.as_str() {
        "message" if read.role.as_deref() == Some("assistant") => text_of(item),
        // Reasoning is compared by its encrypted content or its id, which clients send back unchanged.
        "reasoning" => read.text("encrypted_content").or_else(|| read.text("id")),
        _ => None,
    }
    .filter(|text| !text.trim().is_empty())
}

fn text_of(message: &str) -> Option<String> {
    let content = BorrowedResponsesItem::read(message, 0).ok()?;
    let content = field(&content.fields, "content")?;
    if let Some(text) = string(content) {
        return Some(text);
    }
    Some(elements(content)?.into_iter().filter_map(|part| text_field(&fields(part)?, "text")).collect())
}

/// Returns a message with only the rest of its text.
fn shortened(message: &str, rest: &str) -> Option<String> {
    let text = quote(rest);
    with_field(message, "content", &format!(r#"[{{"type":"output_text","text":{text}}}]"#))
}

fn written(call: &PartialToolCall) -> String {
    let (id, name, arguments) = (quote(&call.id), quote(&call.name), quote(object(&call.arguments)));
    format!(r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":{arguments}}}"#)
}

/// Returns the calls of the model's step that begins with an item, with their ids.
fn calls_from(envelope: &RequestEnvelope, first: usize) -> Vec<(usize, String)> {
    let mut calls = Vec::new();
    for at in first..envelope.items.len() {
        let Ok(item) = BorrowedResponsesItem::read(envelope.item(at), at) else { break };
        let by_person = item.kind == "message" && item.role.as_deref() != Some("assistant");
        // A result, or a person's message, ends the model's step.
        if item.is_result() || by_person {
            break;
        }
        if ["function_call", "custom_tool_call"].contains(&item.kind.as_str())
            && let Some(id) = item.text("call_id")
        {
            calls.push((at, id));
        }
    }
    calls
}
