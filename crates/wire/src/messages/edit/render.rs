//! A request with changes: the client's own bytes wherever nothing was changed.

use super::hidden;
use super::item::{BorrowedMessagesBlock, BorrowedMessagesContent, BorrowedMessagesItem};
use crate::edit::insertion::{MessageListEntry, MessageSpeaker, RolePolicy, insert_and_merge, pop, write};
use crate::edit::patch::RequestPatch;
use crate::edit::{AnswerPrefill, GO_ON, ParseError, RenderOp, RequestEdit, RequestEnvelope, SegmentEdit};
use crate::raw_json::{quote, with_field};
use bytes::Bytes;

/// Returns the request with `edited`'s changes.
///
/// # Errors
/// [`ParseError`] if a change cannot be expressed.
pub(super) fn render(envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError> {
    let mut patch = RequestPatch::default();
    patch.scalars(envelope, edited, "max_tokens");
    if let Some(life) = edited.cache_mark {
        // A mark outside of the content moves to the newest block by itself, so the client's items keep their bytes.
        let ttl = life.field(false).map(|ttl| format!(r#","ttl":"{ttl}""#)).unwrap_or_default();
        patch.add("cache_control", &format!(r#"{{"type":"ephemeral"{ttl}}}"#));
    }
    if edited.prefill.as_ref().is_some_and(|prefill| prefill.must_be_told) {
        // vLLM refuses `continue_final_message` unless the generation prompt is switched off too.
        patch.add("add_generation_prompt", "false");
        patch.add("continue_final_message", "true");
    }
    if let Some(tool) = &edited.tool {
        patch.add_tool(envelope, &hidden::tool(tool));
    }
    if edited.forbids_calls {
        patch.forbid_calls(envelope, r#"{"type":"none"}"#);
    }
    if edited.changes_items() {
        let whole = [RenderOp::Keep(0..envelope.items.len())];
        let steps = edited.steps.as_deref().unwrap_or(&whole);
        let mut messages = insert_and_merge(envelope, place(envelope, steps)?, &MessagesRolePolicy)?;
        // The order matters: hidden calls belong to the client's messages, hidden steps follow all of them, the
        // begun answer is last.
        hidden::replay(envelope, &mut messages, &edited.replays);
        messages.extend(edited.rounds.iter().cloned().map(MessageListEntry::Own));
        if let Some(prefill) = &edited.prefill {
            begin_answer(envelope, &mut messages, prefill)?;
            messages.extend(
                edited
                    .asks_to_go_on
                    .then(|| MessageListEntry::Own(MessagesRolePolicy.own(&[GO_ON.to_owned()]))),
            );
        }
        patch.replace(envelope.items_at.clone(), write(envelope, messages));
    }
    Ok(patch.apply(&envelope.bytes))
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
            RenderOp::Change { item, fates } => {
                slots.extend(
                    change(envelope, *item, fates)?.map(|text| MessageListEntry::Change(*item, text)),
                );
            }
            RenderOp::Rewrite { item, text } => slots.push(MessageListEntry::Change(*item, text.clone())),
            RenderOp::Say(text) => slots.push(MessageListEntry::Say(text.clone())),
        }
    }
    Ok(slots)
}

/// Returns the message with edited segments. `None` if no segment is left.
fn change(
    envelope: &RequestEnvelope,
    index: usize,
    fates: &[SegmentEdit],
) -> Result<Option<String>, ParseError> {
    let raw = envelope.item(index);
    let item = BorrowedMessagesItem::read(raw, index)?;
    let blocks = match &item.content {
        BorrowedMessagesContent::Text(_) => {
            // A content that is a text is one segment.
            return match fates {
                [SegmentEdit::Keep] => Ok(Some(raw.to_owned())),
                [SegmentEdit::Show(text)] => {
                    with_field(raw, "content", &quote(text)).map(Some).ok_or_else(|| misfit(index))
                }
                [SegmentEdit::Drop] => Ok(None),
                _ => Err(misfit(index)),
            };
        }
        BorrowedMessagesContent::Blocks(blocks) => blocks,
    };
    let apart = blocks.iter().filter(|block| block.is_apart(&item.role)).count();
    if fates.len() < apart || fates.len() > apart + 1 {
        return Err(misfit(index));
    }
    let (mut own, rest) = (fates.iter(), fates.get(apart));
    let mut content: Vec<String> = Vec::new();
    let mut shown = false;
    for block in blocks {
        if block.is_apart(&item.role) {
            content.extend(
                with_content(block, own.next().unwrap_or(&SegmentEdit::Keep)).ok_or_else(|| misfit(index))?,
            );
            continue;
        }
        match rest {
            None | Some(SegmentEdit::Keep) => content.push(block.raw.to_owned()),
            Some(SegmentEdit::Drop) => {}
            // The new text stands for all text of the message. Pictures and files stay beside it.
            Some(SegmentEdit::Show(_)) if !block.is_text() => content.push(block.raw.to_owned()),
            Some(SegmentEdit::Show(text)) if !shown => {
                shown = true;
                content.push(text_block(text));
            }
            Some(SegmentEdit::Show(_)) => {}
        }
    }
    if content.is_empty() {
        return Ok(None);
    }
    with_field(raw, "content", &format!("[{}]", content.join(","))).map(Some).ok_or_else(|| misfit(index))
}

fn misfit(index: usize) -> ParseError {
    ParseError::field(format!("messages[{index}]"), "the change does not fit the message")
}

/// Returns an edited result or compaction. The outer `None` if the block is no object.
fn with_content(block: &BorrowedMessagesBlock<'_>, fate: &SegmentEdit) -> Option<Option<String>> {
    match fate {
        SegmentEdit::Keep => Some(Some(block.raw.to_owned())),
        SegmentEdit::Drop => Some(None),
        SegmentEdit::Show(text) => with_field(block.raw, "content", &quote(text)).map(Some),
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quote(text))
}

/// The rules for merging messages of the dialect.
struct MessagesRolePolicy;

impl RolePolicy for MessagesRolePolicy {
    fn speaker(&self, message: &str, index: usize) -> Result<MessageSpeaker, ParseError> {
        Ok(match role(message, index)?.as_str() {
            "user" => MessageSpeaker::Person,
            "system" => MessageSpeaker::System,
            _ => MessageSpeaker::Other,
        })
    }

    fn with(&self, message: &str, index: usize, said: &[String], before: bool) -> Result<String, ParseError> {
        merged(message, index, said, before)
    }

    fn join_user_messages(&self, first: &str, second: &str, index: usize) -> Result<String, ParseError> {
        let (mut results, mut own) = parts_of(first, index)?;
        let (more_results, more) = parts_of(second, index)?;
        // The API takes tool results only at the beginning of a message.
        results.extend(more_results);
        own.extend(more);
        with_blocks(first, index, &[results, own].concat())
    }

    fn join_model_messages(&self, first: &str, second: &str) -> Option<String> {
        // The results must follow a message with calls directly, so it takes no text of a later one.
        let said = said_by_model(first).filter(|blocks| blocks.iter().all(|(kind, _)| kind != "tool_use"))?;
        let more = said_by_model(second)?;
        // The API refuses reasoning behind other blocks, so such messages stay apart.
        let [begins, continues] =
            [&said, &more].map(|blocks| blocks.first().is_some_and(|(kind, _)| kind.ends_with("thinking")));
        if continues && !begins {
            return None;
        }
        let raw: Vec<String> = said.into_iter().chain(more).map(|(_, raw)| raw).collect();
        with_blocks(second, 0, &raw).ok()
    }

    fn own(&self, said: &[String]) -> String {
        let blocks: Vec<String> = said.iter().map(|text| text_block(text)).collect();
        format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","))
    }

    fn system_follows_person(&self) -> bool {
        true
    }
}

fn role(message: &str, index: usize) -> Result<String, ParseError> {
    BorrowedMessagesItem::read(message, index).map(|item| item.role)
}

/// Returns the blocks of a model's message, each with the block's type.
fn said_by_model(message: &str) -> Option<Vec<(String, String)>> {
    let item = BorrowedMessagesItem::read(message, 0).ok().filter(|item| item.role == "assistant")?;
    Some(match item.content {
        // The API refuses empty text blocks.
        BorrowedMessagesContent::Text(text) if text.trim().is_empty() => Vec::new(),
        BorrowedMessagesContent::Text(text) => vec![("text".to_owned(), text_block(&text))],
        BorrowedMessagesContent::Blocks(blocks) => {
            blocks.into_iter().map(|block| (block.kind, block.raw.to_owned())).collect()
        }
    })
}

/// Returns a person's message with more text: before the message's own text, but behind results: results must come
/// first.
fn merged(message: &str, index: usize, said: &[String], before: bool) -> Result<String, ParseError> {
    let (results, own) = parts_of(message, index)?;
    let said = said.iter().map(|text| text_block(text));
    let blocks: Vec<String> = if before {
        results.into_iter().chain(said).chain(own).collect()
    } else {
        results.into_iter().chain(own).chain(said).collect()
    };
    with_blocks(message, index, &blocks)
}

/// Returns the results in a message, and the other blocks.
fn parts_of(message: &str, index: usize) -> Result<(Vec<String>, Vec<String>), ParseError> {
    let item = BorrowedMessagesItem::read(message, index)?;
    Ok(match &item.content {
        BorrowedMessagesContent::Text(_) => {
            // The text's own JSON is used, so its escapes stay as the client wrote them.
            (Vec::new(), vec![format!(r#"{{"type":"text","text":{}}}"#, item.raw_content)])
        }
        BorrowedMessagesContent::Blocks(blocks) => {
            let (results, own): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.is_result());
            (raw_blocks(&results), raw_blocks(&own))
        }
    })
}

fn raw_blocks(blocks: &[&BorrowedMessagesBlock<'_>]) -> Vec<String> {
    blocks.iter().map(|block| block.raw.to_owned()).collect()
}

fn with_blocks(message: &str, index: usize, blocks: &[String]) -> Result<String, ParseError> {
    with_field(message, "content", &format!("[{}]", blocks.join(",")))
        .ok_or_else(|| ParseError::field(format!("messages[{index}]"), "a message must be an object"))
}

/// Appends the answer's beginning as the last message. Anthropic's own servers refuse a last message with whitespace
/// at the end.
fn begin_answer(
    envelope: &RequestEnvelope,
    slots: &mut Vec<MessageListEntry>,
    prefill: &AnswerPrefill,
) -> Result<(), ParseError> {
    let begun = prefill.text.trim_end();
    if begun.is_empty() {
        return Ok(());
    }
    match pop(envelope, slots) {
        // The client itself has begun the answer.
        Some(MessageListEntry::Change(index, text)) if role(&text, index)? == "assistant" => {
            slots.push(MessageListEntry::Change(index, continued(&text, index, begun)?));
        }
        other => {
            slots.extend(other);
            slots
                .push(MessageListEntry::Own(format!(r#"{{"role":"assistant","content":{}}}"#, quote(begun))));
        }
    }
    Ok(())
}

/// Returns the model's message with more text at the end.
fn continued(message: &str, index: usize, more: &str) -> Result<String, ParseError> {
    let item = BorrowedMessagesItem::read(message, index)?;
    let content = match &item.content {
        BorrowedMessagesContent::Text(text) => quote(&format!("{text}{more}")),
        BorrowedMessagesContent::Blocks(blocks) => {
            let mut raw: Vec<String> = blocks.iter().map(|block| block.raw.to_owned()).collect();
            // The begun text may end inside a word, so more of it goes into the same block.
            let last = blocks.last().filter(|block| block.kind == "text");
            match last.and_then(|block| Some((block, block.text("text")?))) {
                Some((block, text)) => {
                    raw.pop();
                    raw.extend(with_field(block.raw, "text", &quote(&format!("{text}{more}"))));
                }
                None => raw.push(text_block(more)),
            }
            format!("[{}]", raw.join(","))
        }
    };
    with_field(message, "content", &content)
        .ok_or_else(|| ParseError::field(format!("messages[{index}]"), "a message must be an object"))
}
