//! A request with changes: the client's own bytes wherever nothing was changed.

use bytes::Bytes;
use serde_json::json;

use super::hidden;
use crate::edit::insertion::{MessageListEntry, MessageSpeaker, RolePolicy, insert_and_merge, pop, write};
use crate::edit::media::text_beside_media;
use crate::edit::patch::RequestPatch;
use crate::edit::{AnswerPrefill, GO_ON, ParseError, RenderOp, RequestEdit, RequestEnvelope, SegmentEdit};
use crate::raw_json::{elements, field, fields, quote, string, with_field};

/// Returns the request with `edited`'s changes.
///
/// # Errors
/// [`ParseError`] if a change cannot be expressed.
pub(super) fn render(envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
    let mut patch = RequestPatch::default();
    patch.scalars(envelope, edited, "max_tokens");
    if edited.prefill.as_ref().is_some_and(|prefill| prefill.must_be_told) {
        // vLLM refuses `continue_final_message` unless the generation prompt is switched off too.
        patch.add("add_generation_prompt", "false");
        patch.add("continue_final_message", "true");
    }
    if edited.include_usage {
        report_usage(envelope, &mut patch);
    }
    if let Some(tool) = &edited.tool {
        patch.add_tool(envelope, &hidden::tool(tool));
    }
    if edited.forbids_calls {
        patch.forbid_calls(envelope, "\"none\"");
    }
    if edited.changes_items() {
        // Without operations all items stay, but messages may still be merged or added.
        let whole = [RenderOp::Keep(0..envelope.items.len())];
        let slots = place(envelope, edited.steps.as_deref().unwrap_or(&whole))?;
        let mut slots = insert_and_merge(envelope, slots, &ChatRolePolicy)?;
        // The order matters. Hidden calls belong to messages of the client, the hidden steps follow all of the
        // client's messages, and the begun answer is last.
        hidden::replay(envelope, &mut slots, &edited.replays);
        slots.extend(edited.rounds.iter().cloned().map(MessageListEntry::Own));
        if let Some(prefill) = edited.prefill.as_ref().filter(|prefill| !prefill.text.is_empty()) {
            begin_answer(envelope, &mut slots, prefill)?;
            slots.extend(
                edited.asks_to_go_on.then(|| MessageListEntry::Own(ChatRolePolicy.own(&[GO_ON.to_owned()]))),
            );
        }
        patch.replace(envelope.items_at.clone(), write(envelope, slots));
    }
    Ok(patch.apply(&envelope.bytes))
}

fn report_usage(envelope: &RequestEnvelope, patch: &mut RequestPatch) {
    let at = envelope.others_at.iter().find(|(name, _)| *name == "stream_options").map(|(_, at)| at.clone());
    // `null` is a legal value of `stream_options` and holds no field to change.
    let old = at.as_ref().map(|at| envelope.text(at)).filter(|raw| raw.starts_with('{')).unwrap_or("{}");
    let options = with_field(old, "include_usage", "true").unwrap_or_else(|| old.to_owned());
    match at {
        Some(at) => patch.replace(at, options),
        None => patch.add("stream_options", &options),
    }
}

fn place(envelope: &RequestEnvelope, steps: &[RenderOp]) -> Result<Vec<MessageListEntry>, ParseError> {
    let mut slots = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            RenderOp::Keep(range) if range.end > envelope.items.len() => {
                return Err(ParseError::field("messages", format!("there is no message {}", range.end)));
            }
            RenderOp::Keep(range) if range.is_empty() => {}
            RenderOp::Keep(range) => slots.push(MessageListEntry::Keep(range.clone())),
            RenderOp::Change { item, fates } => match fates.as_slice() {
                [SegmentEdit::Keep] => slots.push(MessageListEntry::Keep(*item..item + 1)),
                [SegmentEdit::Show(text)] => {
                    let message = envelope.item(*item);
                    let media = Some(message).filter(|message| is_role(message, "user")).and_then(content_of);
                    let content = media.and_then(|content| text_beside_media(content, &text_block(text)));
                    let content = content.unwrap_or_else(|| quote(text));
                    let changed = with_field(message, "content", &content);
                    slots.push(MessageListEntry::Change(*item, changed.ok_or_else(|| no_message(*item))?));
                }
                [SegmentEdit::Drop] => {}
                // One message of this dialect is one segment, so more than one edit cannot apply to it.
                _ => return Err(no_message(*item)),
            },
            RenderOp::Rewrite { item, text } => slots.push(MessageListEntry::Change(*item, text.clone())),
            RenderOp::Say(text) => slots.push(MessageListEntry::Say(text.clone())),
        }
    }
    Ok(slots)
}

/// Returns the JSON of a message's content. `None` if the message is no object.
fn content_of(message: &str) -> Option<&str> {
    Some(field(&fields(message)?, "content").unwrap_or("null"))
}

fn no_message(index: usize) -> ParseError {
    let param = format!("messages[{index}]");
    ParseError::field(param.clone(), format!("{param} is not a message that can be changed"))
}

/// The rules for merging messages of Chat Completions.
struct ChatRolePolicy;

impl RolePolicy for ChatRolePolicy {
    fn speaker(&self, message: &str, _: usize) -> Result<MessageSpeaker, ParseError> {
        Ok(if is_role(message, "user") { MessageSpeaker::Person } else { MessageSpeaker::Other })
    }

    fn with(&self, message: &str, index: usize, said: &[String], before: bool) -> Result<String, ParseError> {
        merged(message, index, &said.join("\n\n"), before)
    }

    fn join_user_messages(&self, first: &str, second: &str, index: usize) -> Result<String, ParseError> {
        let own = content_of(first).ok_or_else(|| no_message(index))?;
        let more = content_of(second).ok_or_else(|| no_message(index))?;
        // Two texts stay a text: some servers take no list of blocks.
        let joined = match (string(own), string(more)) {
            (Some(own), Some(more)) => quote(&format!("{own}\n\n{more}")),
            _ => format!("[{}]", [blocks(own), blocks(more)].concat().join(",")),
        };
        with_field(first, "content", &joined).ok_or_else(|| no_message(index))
    }

    fn join_model_messages(&self, first: &str, second: &str) -> Option<String> {
        let own = fields(first).filter(|_| is_role(first, "assistant") && is_role(second, "assistant"))?;
        // The results must follow a message with calls directly, so such a message takes no text of a later one.
        let has_more = ["tool_calls", "function_call", "audio"]
            .iter()
            .any(|name| field(&own, name).is_some_and(|raw| !matches!(raw, "null" | "[]")));
        // A list of blocks may hold more than text, so such a message stays on its own.
        let said = field(&own, "content").and_then(string).filter(|_| !has_more)?;
        merged(second, 0, &said, true).ok()
    }

    fn own(&self, said: &[String]) -> String {
        json!({ "role": "user", "content": said.join("\n\n") }).to_string()
    }

    fn system_follows_person(&self) -> bool {
        false
    }
}

fn text_block(text: &str) -> String {
    json!({ "type": "text", "text": text }).to_string()
}

/// Returns content as blocks.
fn blocks(content: &str) -> Vec<String> {
    match string(content) {
        Some(text) => vec![text_block(&text)],
        None => elements(content).unwrap_or_default().into_iter().map(str::to_owned).collect(),
    }
}

fn is_role(message: &str, role: &str) -> bool {
    fields(message).and_then(|fields| string(field(&fields, "role")?)).is_some_and(|found| found == role)
}

/// Returns a message with more text, before or behind the message's own text.
fn merged(message: &str, index: usize, said: &str, before: bool) -> Result<String, ParseError> {
    let own = content_of(message).ok_or_else(|| no_message(index))?;
    let content = match (string(own), elements(own)) {
        (Some(own), _) if before => quote(&format!("{said}\n\n{own}")),
        (Some(own), _) => quote(&format!("{own}\n\n{said}")),
        (None, Some(blocks)) => {
            let text = text_block(said);
            let blocks: Vec<&str> = if before {
                std::iter::once(text.as_str()).chain(blocks).collect()
            } else {
                blocks.into_iter().chain([text.as_str()]).collect()
            };
            format!("[{}]", blocks.join(","))
        }
        // The content of an assistant's message with calls may be `null`.
        (None, None) => quote(said),
    };
    with_field(message, "content", &content).ok_or_else(|| no_message(index))
}

/// Appends the answer's beginning as the last message.
fn begin_answer(
    envelope: &RequestEnvelope,
    slots: &mut Vec<MessageListEntry>,
    prefill: &AnswerPrefill,
) -> Result<(), ParseError> {
    match pop(envelope, slots) {
        // The client itself has begun the answer.
        Some(MessageListEntry::Change(index, text)) if is_role(&text, "assistant") => {
            let fields = fields(&text).ok_or_else(|| no_message(index))?;
            let own = field(&fields, "content").and_then(string).unwrap_or_default();
            let content = quote(&format!("{own}{}", prefill.text));
            let text = with_field(&text, "content", &content).ok_or_else(|| no_message(index))?;
            slots.push(MessageListEntry::Change(index, text));
        }
        other => {
            slots.extend(other);
            slots.push(MessageListEntry::Own(
                json!({ "role": "assistant", "content": prefill.text }).to_string(),
            ));
        }
    }
    Ok(())
}
