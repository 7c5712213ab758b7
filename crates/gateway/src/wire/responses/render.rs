//! A request with changes: the client's own bytes wherever nothing was changed.

use bytes::Bytes;

use super::hidden::{self, Woven};
use super::item::Item;
use crate::wire::json::{quoted, with_field};
use crate::wire::patch::{List, Patch};
use crate::wire::{Bad, Edited, Envelope, Fate, GO_ON, Prefill, Step};

/// The request with `edited`'s changes.
///
/// # Errors
/// [`Bad`] if a change cannot be expressed.
pub(super) fn render(envelope: &Envelope, edited: &Edited) -> Result<Bytes, Bad> {
    let mut patch = Patch::default();
    patch.scalars(envelope, edited, "max_output_tokens");
    if edited.prefill.as_ref().is_some_and(|prefill| prefill.must_be_told) {
        patch.add("add_generation_prompt", "false");
        patch.add("continue_final_message", "true");
    }
    let whole = [Step::Keep(0..envelope.items.len())];
    let steps = edited.steps.as_deref().unwrap_or(&whole);
    if let Some(tool) = &edited.tool {
        patch.add_tool(envelope, &hidden::tool(tool));
    }
    if edited.forbids_calls {
        patch.forbid_calls(envelope, "\"none\"");
    }
    let mut begun = edited.rounds.clone();
    if let Some(prefill) = edited.prefill.as_ref().and_then(begin_answer) {
        begun.push(prefill);
        begun.extend(edited.asks_to_go_on.then(|| said(&quoted(GO_ON))));
    }
    let woven = Woven::of(envelope, &edited.replays);
    let changes = steps.iter().any(|step| !matches!(step, Step::Keep(_))) || !begun.is_empty();
    let is_text = envelope.text(&envelope.items_at).starts_with('"');
    if is_text && (changes || steps.iter().all(|step| matches!(step, Step::Keep(range) if range.is_empty())))
    {
        patch.replace(envelope.items_at.clone(), list_of_text(envelope, steps, begun)?);
    } else if !is_text && (edited.steps.is_some() || !begun.is_empty() || !woven.is_empty()) {
        let mut list = List::new(envelope);
        for step in steps {
            write(envelope, step, &woven, &mut list)?;
        }
        for begun in &begun {
            list.insert(begun);
        }
        patch.replace(envelope.items_at.clone(), list.finish());
    }
    Ok(patch.apply(&envelope.bytes))
}

fn write(envelope: &Envelope, step: &Step, woven: &Woven, list: &mut List<'_>) -> Result<(), Bad> {
    match step {
        Step::Keep(range) if range.end > envelope.items.len() => return Err(unknown(range.end)),
        Step::Keep(range) if woven.is_empty() => list.keep(range.clone()),
        Step::Keep(range) => {
            for item in range.clone() {
                woven.around(item, list, |list| list.keep(item..item + 1));
            }
        }
        Step::Say(text) => list.insert(&said(&quoted(text))),
        Step::Rewrite { item, text } => woven.around(*item, list, |list| list.change(*item, text)),
        Step::Change { item, fates } if *item < envelope.items.len() => {
            let raw = envelope.item(*item);
            match changed(raw, *item, fates)? {
                Some(text) if text == raw => woven.around(*item, list, |list| list.keep(*item..*item + 1)),
                Some(text) => woven.around(*item, list, |list| list.change(*item, &text)),
                None => {}
            }
        }
        Step::Change { item, .. } => return Err(unknown(*item)),
    }
    Ok(())
}

fn unknown(item: usize) -> Bad {
    Bad::field("input", format!("there is no item {item}"))
}

/// An item with its fate. `None` if it goes.
fn changed(raw: &str, index: usize, fates: &[Fate]) -> Result<Option<String>, Bad> {
    let wrong = || Bad::field(format!("input[{index}]"), "the change does not fit the item");
    let text = match fates {
        [] | [Fate::Keep] => return Ok(Some(raw.to_owned())),
        [Fate::Drop] => return Ok(None),
        [Fate::Show(text)] => quoted(text),
        _ => return Err(wrong()),
    };
    let item = Item::read(raw, index)?;
    let field = match item.kind.as_str() {
        "message" => "content",
        "function_call" => "arguments",
        _ if item.is_result() => "output",
        _ => return Err(wrong()),
    };
    with_field(raw, field, &text).map(Some).ok_or_else(wrong)
}

/// A message in a person's place, of a JSON string.
fn said(text: &str) -> String {
    format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#)
}

/// The answer's beginning. `None` if nothing is begun.
fn begin_answer(prefill: &Prefill) -> Option<String> {
    let text = quoted(&prefill.text);
    (!prefill.text.is_empty()).then(|| {
        format!(
            r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}"#
        )
    })
}

/// The items where the client had only a text.
fn list_of_text(envelope: &Envelope, steps: &[Step], begun: Vec<String>) -> Result<String, Bad> {
    let mut items = Vec::new();
    for step in steps {
        match step {
            Step::Keep(range) if range.end > 1 => return Err(unknown(range.end)),
            Step::Keep(range) if range.is_empty() => {}
            Step::Keep(_) => items.push(said(envelope.text(&envelope.items_at))),
            Step::Say(text) => items.push(said(&quoted(text))),
            Step::Rewrite { text, .. } => items.push(text.clone()),
            Step::Change { item: 0, fates } => match fates.as_slice() {
                [] | [Fate::Keep] => items.push(said(envelope.text(&envelope.items_at))),
                [Fate::Show(text)] => items.push(said(&quoted(text))),
                _ => {}
            },
            Step::Change { item, .. } => return Err(unknown(*item)),
        }
    }
    items.extend(begun);
    Ok(format!("[{}]", items.join(",")))
}
