//! A request with changes: the client's own bytes wherever nothing was changed.

use std::ops::Range;

use bytes::Bytes;
use serde_json::json;

use super::super::json::{elements, field, fields, quoted, string, with_field};
use super::super::patch::{List, Patch};
use super::super::{Bad, Edited, Envelope, Fate, Prefill, Step};

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
    if edited.include_usage {
        report_usage(envelope, &mut patch);
    }
    if edited.steps.is_some() || edited.prefill.is_some() {
        let whole = [Step::Keep(0..envelope.items.len())];
        let slots = place(envelope, edited.steps.as_deref().unwrap_or(&whole))?;
        let mut slots = settle(envelope, slots)?;
        if let Some(prefill) = edited.prefill.as_ref().filter(|prefill| !prefill.text.is_empty()) {
            begin_answer(envelope, &mut slots, prefill)?;
        }
        patch.replace(envelope.items_at.clone(), write(envelope, slots));
    }
    Ok(patch.apply(&envelope.bytes))
}

fn report_usage(envelope: &Envelope, patch: &mut Patch) {
    let at = envelope.others_at.iter().find(|(name, _)| *name == "stream_options").map(|(_, at)| at.clone());
    let old = at.as_ref().map(|at| envelope.text(at)).filter(|raw| raw.starts_with('{')).unwrap_or("{}");
    let options = with_field(old, "include_usage", "true").unwrap_or_else(|| old.to_owned());
    match at {
        Some(at) => patch.replace(at, options),
        None => patch.add("stream_options", &options),
    }
}

/// What stands at one place of the list.
enum Slot {
    Keep(Range<usize>),
    Change(usize, String),
    Own(String),
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
            Step::Change { item, fates } => match fates.as_slice() {
                [Fate::Keep] => slots.push(Slot::Keep(*item..item + 1)),
                [Fate::Show(text)] => {
                    let changed = with_field(envelope.item(*item), "content", &quoted(text));
                    slots.push(Slot::Change(*item, changed.ok_or_else(|| no_message(*item))?));
                }
                [Fate::Drop] => {}
                _ => return Err(no_message(*item)),
            },
            Step::Say(text) => slots.push(Slot::Say(text.clone())),
        }
    }
    Ok(slots)
}

fn no_message(index: usize) -> Bad {
    let param = format!("messages[{index}]");
    Bad::field(param.clone(), format!("{param} is not a message that can be changed"))
}

/// Many templates want roles to alternate: what we say becomes part of the person's message that follows, else of one
/// that precedes, else it is a message of its own.
fn settle(envelope: &Envelope, slots: Vec<Slot>) -> Result<Vec<Slot>, Bad> {
    let mut settled: Vec<Slot> = Vec::with_capacity(slots.len());
    let mut waiting: Vec<String> = Vec::new();
    for slot in slots {
        match slot {
            Slot::Say(text) => waiting.push(text),
            slot if waiting.is_empty() => settled.push(slot),
            slot => {
                let said = std::mem::take(&mut waiting).join("\n\n");
                let (first, rest) = split_first(envelope, slot);
                match first {
                    Slot::Change(index, text) if is_role(&text, "user") => {
                        settled.push(Slot::Change(index, merged(&text, index, &said, true)?));
                    }
                    other => {
                        settle_behind(envelope, &mut settled, &said)?;
                        settled.push(other);
                    }
                }
                settled.extend(rest);
            }
        }
    }
    if !waiting.is_empty() {
        settle_behind(envelope, &mut settled, &waiting.join("\n\n"))?;
    }
    Ok(settled)
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

/// Takes the newest message out of what is settled.
fn pop(envelope: &Envelope, settled: &mut Vec<Slot>) -> Option<Slot> {
    match settled.pop()? {
        Slot::Keep(range) => {
            let newest = range.end - 1;
            if range.start < newest {
                settled.push(Slot::Keep(range.start..newest));
            }
            Some(Slot::Change(newest, envelope.item(newest).to_owned()))
        }
        other => Some(other),
    }
}

fn settle_behind(envelope: &Envelope, settled: &mut Vec<Slot>, said: &str) -> Result<(), Bad> {
    match pop(envelope, settled) {
        Some(Slot::Change(index, text)) if is_role(&text, "user") => {
            settled.push(Slot::Change(index, merged(&text, index, said, false)?));
        }
        other => {
            settled.extend(other);
            settled.push(Slot::Own(json!({ "role": "user", "content": said }).to_string()));
        }
    }
    Ok(())
}

fn is_role(message: &str, role: &str) -> bool {
    fields(message).and_then(|fields| string(field(&fields, "role")?)).is_some_and(|found| found == role)
}

/// A message with more text in it, before its own or behind it.
fn merged(message: &str, index: usize, said: &str, before: bool) -> Result<String, Bad> {
    let wrong = || no_message(index);
    let fields = fields(message).ok_or_else(wrong)?;
    let own = field(&fields, "content").unwrap_or("null");
    let content = match (string(own), elements(own)) {
        (Some(own), _) if before => quoted(&format!("{said}\n\n{own}")),
        (Some(own), _) => quoted(&format!("{own}\n\n{said}")),
        (None, Some(blocks)) => {
            let text = json!({ "type": "text", "text": said }).to_string();
            let blocks: Vec<&str> = match before {
                true => std::iter::once(text.as_str()).chain(blocks).collect(),
                false => blocks.into_iter().chain([text.as_str()]).collect(),
            };
            format!("[{}]", blocks.join(","))
        }
        (None, None) => quoted(said),
    };
    with_field(message, "content", &content).ok_or_else(wrong)
}

/// The answer's beginning as the last message.
fn begin_answer(envelope: &Envelope, slots: &mut Vec<Slot>, prefill: &Prefill) -> Result<(), Bad> {
    match pop(envelope, slots) {
        // The client itself has begun the answer.
        Some(Slot::Change(index, text)) if is_role(&text, "assistant") => {
            let fields = fields(&text).ok_or_else(|| no_message(index))?;
            let own = field(&fields, "content").and_then(string).unwrap_or_default();
            let content = quoted(&format!("{own}{}", prefill.text));
            let text = with_field(&text, "content", &content).ok_or_else(|| no_message(index))?;
            slots.push(Slot::Change(index, text));
        }
        other => {
            slots.extend(other);
            slots.push(Slot::Own(json!({ "role": "assistant", "content": prefill.text }).to_string()));
        }
    }
    Ok(())
}

fn write(envelope: &Envelope, slots: Vec<Slot>) -> String {
    let mut list = List::new(envelope);
    for slot in slots {
        match slot {
            Slot::Keep(range) => list.keep(range),
            Slot::Change(item, text) => list.change(item, &text),
            Slot::Own(text) => list.insert(&text),
            Slot::Say(_) => {}
        }
    }
    list.finish()
}
