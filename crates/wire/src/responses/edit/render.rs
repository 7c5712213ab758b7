//! A request with changes: the client's own bytes wherever nothing was changed.

use bytes::Bytes;

use super::hidden::{self, HiddenItemInsertions};
use super::item::BorrowedResponsesItem;
use crate::edit::media::text_beside_media;
use crate::edit::patch::{ItemListWriter, RequestPatch};
use crate::edit::{AnswerPrefill, GO_ON, ParseError, RenderOp, RequestEdit, RequestEnvelope, SegmentEdit};
use crate::raw_json::{field, quote, with_field};

/// Returns the request with `edited`'s changes.
///
/// # Errors
/// [`ParseError`] if a change cannot be expressed.
pub(super) fn render(envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
    let mut patch = RequestPatch::default();
    patch.scalars(envelope, edited, "max_output_tokens");
    if edited.prefill.as_ref().is_some_and(|prefill| prefill.must_be_told) {
        // vLLM refuses `continue_final_message` unless the generation prompt is switched off too.
        patch.add("add_generation_prompt", "false");
        patch.add("continue_final_message", "true");
    }
    let whole = [RenderOp::Keep(0..envelope.items.len())];
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
        begun.extend(edited.asks_to_go_on.then(|| user_message(&quote(GO_ON))));
    }
    let woven = HiddenItemInsertions::of(envelope, &edited.replays);
    // An input that is a text becomes a list only for a change, so an unchanged request keeps its bytes.
    let changes = steps.iter().any(|step| !matches!(step, RenderOp::Keep(_))) || !begun.is_empty();
    let is_text = envelope.text(&envelope.items_at).starts_with('"');
    if is_text
        && (changes || steps.iter().all(|step| matches!(step, RenderOp::Keep(range) if range.is_empty())))
    {
        patch.replace(envelope.items_at.clone(), list_of_text(envelope, steps, begun)?);
    } else if !is_text && (edited.steps.is_some() || !begun.is_empty() || !woven.is_empty()) {
        let mut list = ItemListWriter::new(envelope);
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

fn write(
    envelope: &RequestEnvelope,
    step: &RenderOp,
    woven: &HiddenItemInsertions,
    list: &mut ItemListWriter<'_>,
) -> Result<(), ParseError> {
    match step {
        RenderOp::Keep(range) if range.end > envelope.items.len() => return Err(unknown(range.end)),
        // Without insertions a whole range is copied at once.
        RenderOp::Keep(range) if woven.is_empty() => list.keep(range.clone()),
        RenderOp::Keep(range) => {
            for item in range.clone() {
                woven.around(item, list, |list| list.keep(item..item + 1));
            }
        }
        RenderOp::Say(text) => list.insert(&user_message(&quote(text))),
        RenderOp::Rewrite { item, text } => woven.around(*item, list, |list| list.change(*item, text)),
        RenderOp::Change { item, fates } if *item < envelope.items.len() => {
            let raw = envelope.item(*item);
            match changed(raw, *item, fates)? {
                // An edit that changes nothing keeps the client's bytes.
                Some(text) if text == raw => woven.around(*item, list, |list| list.keep(*item..*item + 1)),
                Some(text) => woven.around(*item, list, |list| list.change(*item, &text)),
                None => {}
            }
        }
        RenderOp::Change { item, .. } => return Err(unknown(*item)),
    }
    Ok(())
}

fn unknown(item: usize) -> ParseError {
    ParseError::field("input", format!("there is no item {item}"))
}

/// Returns an item with its edits applied. `None` if the item is left out.
fn changed(raw: &str, index: usize, fates: &[SegmentEdit]) -> Result<Option<String>, ParseError> {
    let text = match fates {
        [] | [SegmentEdit::Keep] => return Ok(Some(raw.to_owned())),
        [SegmentEdit::Drop] => return Ok(None),
        [SegmentEdit::Show(text)] => quote(text),
        _ => return Err(misfit(index)),
    };
    let item = BorrowedResponsesItem::read(raw, index)?;
    let is_typed = item.kind == "message" && item.role.as_deref() == Some("user");
    let media = if is_typed { field(&item.fields, "content") } else { None };
    let block = format!(r#"{{"type":"input_text","text":{text}}}"#);
    let text = media.and_then(|content| text_beside_media(content, &block)).unwrap_or(text);
    let field = match item.kind.as_str() {
        "message" => "content",
        "function_call" => "arguments",
        _ if item.is_result() => "output",
        _ => return Err(misfit(index)),
    };
    with_field(raw, field, &text).map(Some).ok_or_else(|| misfit(index))
}

fn misfit(index: usize) -> ParseError {
    ParseError::field(format!("input[{index}]"), "the change does not fit the item")
}

/// Returns a user message with a JSON string.
fn user_message(text: &str) -> String {
    format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#)
}

/// Returns the answer's beginning. `None` if nothing is begun.
fn begin_answer(prefill: &AnswerPrefill) -> Option<String> {
    let text = quote(&prefill.text);
    (!prefill.text.is_empty()).then(|| {
        format!(
            r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}"#
        )
    })
}

/// Returns the items for a client that sent only a text.
fn list_of_text(
    envelope: &RequestEnvelope,
    steps: &[RenderOp],
    begun: Vec<String>,
) -> Result<String, ParseError> {
    let mut items = Vec::new();
    for step in steps {
        match step {
            // A text counts as a single item.
            RenderOp::Keep(range) if range.end > 1 => return Err(unknown(range.end)),
            RenderOp::Keep(range) if range.is_empty() => {}
            RenderOp::Keep(_) => items.push(user_message(envelope.text(&envelope.items_at))),
            RenderOp::Say(text) => items.push(user_message(&quote(text))),
            RenderOp::Rewrite { text, .. } => items.push(text.clone()),
            RenderOp::Change { item: 0, fates } => match fates.as_slice() {
                [] | [SegmentEdit::Keep] => items.push(user_message(envelope.text(&envelope.items_at))),
                [SegmentEdit::Show(text)] => items.push(user_message(&quote(text))),
                // A dropped text leaves no item.
                _ => {}
            },
            RenderOp::Change { item, .. } => return Err(unknown(*item)),
        }
    }
    items.extend(begun);
    Ok(format!("[{}]", items.join(",")))
}
