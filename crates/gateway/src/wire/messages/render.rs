//! A request with changes: the client's own bytes wherever nothing was changed.

use std::ops::Range;

use bytes::Bytes;

use super::item::{Block, Content, Item};
use crate::wire::json::{quoted, with_field};
use crate::wire::patch::{List, Patch};
use crate::wire::{Bad, Edited, Envelope, Fate, Prefill, Step};

/// The request with `edited`'s changes.
///
/// # Errors
/// [`Bad`] if a change cannot be expressed.
pub(super) fn render(envelope: &Envelope, edited: &Edited) -> Result<Bytes, Bad> {
    let mut patch = Patch::default();
    patch.scalars(envelope, edited, "max_tokens");
    if edited.prefill.as_ref().is_some_and(|prefill| prefill.must_be_told) {
        patch.add("add_generation_prompt", "false");
        patch.add("continue_final_message", "true");
    }
    if edited.steps.is_some() || edited.prefill.is_some() {
        let whole = [Step::Keep(0..envelope.items.len())];
        let steps = edited.steps.as_deref().unwrap_or(&whole);
        let mut messages = place(envelope, steps)?;
        settle_says(envelope, &mut messages)?;
        if let Some(prefill) = &edited.prefill {
            begin_answer(envelope, &mut messages, prefill)?;
        }
        patch.replace(envelope.items_at.clone(), write(envelope, messages));
    }
    Ok(patch.apply(&envelope.bytes))
}

/// What stands at one place of the list.
enum Slot {
    Keep(Range<usize>),
    Change(usize, String),
    Own(String),
    /// A message in a person's place that waits for one to be merged with.
    Say(String),
}

fn place(envelope: &Envelope, steps: &[Step]) -> Result<Vec<Slot>, Bad> {
    let mut slots = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Keep(range) if range.end > envelope.items.len() => {
                return Err(Bad::field("messages", format!("there is no message {}", range.end)));
            }
            Step::Keep(range) if range.is_empty() => {}
            Step::Keep(range) => slots.push(Slot::Keep(range.clone())),
            Step::Change { item, fates } => {
                slots.extend(change(envelope, *item, fates)?.map(|text| Slot::Change(*item, text)));
            }
            Step::Say(text) => slots.push(Slot::Say(text.clone())),
        }
    }
    Ok(slots)
}

/// The message with those pieces. `None` if none is left.
fn change(envelope: &Envelope, index: usize, fates: &[Fate]) -> Result<Option<String>, Bad> {
    let raw = envelope.item(index);
    let item = Item::read(raw, index)?;
    let wrong = || Bad::field(format!("messages[{index}]"), "the change does not fit the message");
    let blocks = match &item.content {
        Content::Text(_) => {
            return match fates {
                [Fate::Keep] => Ok(Some(raw.to_owned())),
                [Fate::Show(text)] => with_field(raw, "content", &quoted(text)).map(Some).ok_or_else(wrong),
                [Fate::Drop] => Ok(None),
                _ => Err(wrong()),
            };
        }
        Content::Blocks(blocks) => blocks,
    };
    let has_results = item.role == "user";
    let results = if has_results { blocks.iter().filter(|block| block.is_result()).count() } else { 0 };
    if fates.len() < results || fates.len() > results + 1 {
        return Err(wrong());
    }
    let (mut answered, rest) = (fates.iter(), fates.get(results));
    let mut content: Vec<String> = Vec::new();
    let mut shown = false;
    for block in blocks {
        if has_results && block.is_result() {
            content.extend(result(block, answered.next().unwrap_or(&Fate::Keep)).ok_or_else(wrong)?);
            continue;
        }
        match rest {
            None | Some(Fate::Keep) => content.push(block.raw.to_owned()),
            Some(Fate::Drop) => {}
            Some(Fate::Show(text)) if !shown => {
                shown = true;
                content.push(text_block(text));
            }
            Some(Fate::Show(_)) => {}
        }
    }
    if content.is_empty() {
        return Ok(None);
    }
    with_field(raw, "content", &format!("[{}]", content.join(","))).map(Some).ok_or_else(wrong)
}

/// A result with its fate. The outer `None` if it is no object.
fn result(block: &Block<'_>, fate: &Fate) -> Option<Option<String>> {
    match fate {
        Fate::Keep => Some(Some(block.raw.to_owned())),
        Fate::Drop => Some(None),
        Fate::Show(text) => with_field(block.raw, "content", &quoted(text)).map(Some),
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

/// Roles alternate: what we say becomes part of the message of a person that follows, else of one that precedes.
fn settle_says(envelope: &Envelope, slots: &mut Vec<Slot>) -> Result<(), Bad> {
    let mut settled: Vec<Slot> = Vec::with_capacity(slots.len());
    let mut waiting: Vec<String> = Vec::new();
    for slot in slots.drain(..) {
        if let Slot::Say(text) = slot {
            waiting.push(text);
            continue;
        }
        if waiting.is_empty() {
            settled.push(slot);
            continue;
        }
        let said = std::mem::take(&mut waiting);
        let (first, rest) = split_first(envelope, slot);
        match first {
            Slot::Change(index, text) if role(&text, index)? == "user" => {
                settled.push(Slot::Change(index, merged(&text, index, &said, true)?));
            }
            other => {
                settle_alone(envelope, &mut settled, &said)?;
                settled.push(other);
            }
        }
        settled.extend(rest);
    }
    if !waiting.is_empty() {
        settle_alone(envelope, &mut settled, &waiting)?;
    }
    *slots = settled;
    Ok(())
}

/// The first message of a slot as a change that changes nothing, and the others.
fn split_first(envelope: &Envelope, slot: Slot) -> (Slot, Option<Slot>) {
    match slot {
        Slot::Keep(range) => {
            let first = Slot::Change(range.start, envelope.item(range.start).to_owned());
            let rest = range.start + 1..range.end;
            (first, (!rest.is_empty()).then_some(Slot::Keep(rest)))
        }
        other => (other, None),
    }
}

/// What is said behind the last message: part of it if it is a person's, else a message of its own.
fn settle_alone(envelope: &Envelope, settled: &mut Vec<Slot>, said: &[String]) -> Result<(), Bad> {
    let last = settled.pop();
    let (rest, last) = match last {
        Some(Slot::Keep(range)) => {
            let newest = range.end - 1;
            let rest = range.start..newest;
            let item = envelope.item(newest).to_owned();
            ((!rest.is_empty()).then_some(Slot::Keep(rest)), Some(Slot::Change(newest, item)))
        }
        other => (None, other),
    };
    settled.extend(rest);
    match last {
        Some(Slot::Change(index, text)) if role(&text, index)? == "user" => {
            settled.push(Slot::Change(index, merged(&text, index, said, false)?));
        }
        other => {
            settled.extend(other);
            let blocks: Vec<String> = said.iter().map(|text| text_block(text)).collect();
            settled.push(Slot::Own(format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","))));
        }
    }
    Ok(())
}

fn role(message: &str, index: usize) -> Result<String, Bad> {
    Item::read(message, index).map(|item| item.role)
}

/// A person's message with more said in it: before its own words, but behind results, which must come first.
fn merged(message: &str, index: usize, said: &[String], before: bool) -> Result<String, Bad> {
    let item = Item::read(message, index)?;
    let said = said.iter().map(|text| text_block(text));
    let (results, own): (Vec<String>, Vec<String>) = match &item.content {
        Content::Text(_) => (Vec::new(), vec![format!(r#"{{"type":"text","text":{}}}"#, item.raw_content)]),
        Content::Blocks(blocks) => {
            let (results, own): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.is_result());
            let raw = |blocks: Vec<&Block<'_>>| blocks.iter().map(|block| block.raw.to_owned()).collect();
            (raw(results), raw(own))
        }
    };
    let blocks: Vec<String> = match before {
        true => results.into_iter().chain(said).chain(own).collect(),
        false => results.into_iter().chain(own).chain(said).collect(),
    };
    with_field(message, "content", &format!("[{}]", blocks.join(",")))
        .ok_or_else(|| Bad::field(format!("messages[{index}]"), "a message must be an object"))
}

/// The answer's beginning as the last message. Anthropic's own servers refuse one that ends with whitespace.
fn begin_answer(envelope: &Envelope, slots: &mut Vec<Slot>, prefill: &Prefill) -> Result<(), Bad> {
    let begun = prefill.text.trim_end();
    if begun.is_empty() {
        return Ok(());
    }
    let (rest, last) = match slots.pop() {
        Some(Slot::Keep(range)) => {
            let newest = range.end - 1;
            let rest = range.start..newest;
            let item = envelope.item(newest).to_owned();
            ((!rest.is_empty()).then_some(Slot::Keep(rest)), Some(Slot::Change(newest, item)))
        }
        other => (None, other),
    };
    slots.extend(rest);
    match last {
        // The client itself has begun the answer.
        Some(Slot::Change(index, text)) if role(&text, index)? == "assistant" => {
            slots.push(Slot::Change(index, continued(&text, index, begun)?));
        }
        other => {
            slots.extend(other);
            slots.push(Slot::Own(format!(r#"{{"role":"assistant","content":{}}}"#, quoted(begun))));
        }
    }
    Ok(())
}

/// The model's message with more text at its end.
fn continued(message: &str, index: usize, more: &str) -> Result<String, Bad> {
    let item = Item::read(message, index)?;
    let content = match &item.content {
        Content::Text(text) => quoted(&format!("{text}{more}")),
        Content::Blocks(blocks) => {
            let mut raw: Vec<String> = blocks.iter().map(|block| block.raw.to_owned()).collect();
            let last = blocks.last().filter(|block| block.kind == "text");
            match last.and_then(|block| Some((block, block.text("text")?))) {
                Some((block, text)) => {
                    raw.pop();
                    raw.extend(with_field(block.raw, "text", &quoted(&format!("{text}{more}"))));
                }
                None => raw.push(text_block(more)),
            }
            format!("[{}]", raw.join(","))
        }
    };
    with_field(message, "content", &content)
        .ok_or_else(|| Bad::field(format!("messages[{index}]"), "a message must be an object"))
}

fn write(envelope: &Envelope, slots: Vec<Slot>) -> String {
    let mut list = List::new(envelope);
    for slot in slots {
        match slot {
            Slot::Keep(range) => list.keep(range),
            Slot::Change(index, text) => list.change(index, &text),
            Slot::Own(text) | Slot::Say(text) => list.insert(&text),
        }
    }
    list.finish()
}
