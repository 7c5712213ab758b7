//! A transcript for people.

use std::collections::HashMap;
use std::fmt::Write as _;

use longhaul_core::event::{Event, EventBody, PartialAnswerReason, ViewEdit, ViewOperation};
use longhaul_core::history::join;
use longhaul_core::ids::{CallId, Seq};
use longhaul_core::message::{MediaPart, Message, Part, ToolResult, ToolStatus};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::truncate::shown_content;

use super::SessionMeta;

/// Renders the conversation as Markdown: all messages, tool calls with their full results, and the places at which the
/// view was compacted. Text of the conversation is unchanged; tool output and arguments are in fences longer than any
/// fence inside.
pub fn markdown(meta: &SessionMeta, events: &[Event]) -> String {
    let mut transcript = MarkdownTranscript { out: String::new(), tools: HashMap::new(), paused: None };
    // A line break in the title would end the heading.
    let title = meta.title.as_deref().unwrap_or(meta.id.as_str()).replace(['\n', '\r'], " ");
    transcript.block(&format!("# {title}"));
    for event in events {
        transcript.event(event);
    }
    transcript.end_paused();
    transcript.out
}

struct MarkdownTranscript<'a> {
    out: String,
    tools: HashMap<&'a CallId, &'a str>,
    /// The beginning of a paused answer, written at the end of the answer.
    paused: Option<Message>,
}

impl<'a> MarkdownTranscript<'a> {
    fn event(&mut self, event: &'a Event) {
        match &event.body {
            EventBody::MessagesTaken { message, metadata, coalesced, .. } => {
                self.end_paused();
                self.message("User", message);
                let originals = coalesced.iter().flat_map(|coalesced| coalesced.original_metadata.values());
                metadata.iter().chain(originals).for_each(|metadata| self.metadata(metadata));
            }
            EventBody::NoteAdded { message, .. } => {
                self.end_paused();
                self.message("Note", message);
            }
            EventBody::AssistantAdded { message, cut, .. } => self.assistant(message, *cut),
            EventBody::StepFailed { code, message, .. } => {
                self.block(&format!("> **{code}**: {}", quoted(message)))
            }
            EventBody::ToolFinished { result } => self.result(event.seq, result),
            EventBody::ViewEdited(edit) => self.edit(edit),
            EventBody::PartsOmitted { edit_id, reason, .. } => self.block(&format!(
                "*{edit_id}: parts that the model's server refused are not shown to it any more: {}*",
                quoted(reason)
            )),
            EventBody::ViewRestored { edit_id } => self.block(&format!("*Compaction {edit_id} was undone.*")),
            EventBody::ModelSwitched { to, .. } => {
                self.block(&format!("*The model is {} from here on.*", to.model))
            }
            _ => {}
        }
    }

    fn block(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.push_str(text);
            self.out.push_str("\n\n");
        }
    }

    fn message(&mut self, who: &str, message: &Message) {
        self.block(&format!("## {who}"));
        self.parts(&message.parts);
    }

    fn metadata(&mut self, metadata: &MessageMetadata) {
        if let Ok(json) = serde_json::to_string(metadata) {
            self.block("**Metadata**");
            self.block(&fenced(&json, "json"));
        }
    }

    fn assistant(&mut self, message: &'a Message, cut: Option<PartialAnswerReason>) {
        // Results name only their call, so the tool's name is remembered from here.
        self.tools.extend(message.tool_calls().map(|call| (&call.call_id, call.name.as_str())));
        match (self.paused.take(), cut) {
            (before, Some(PartialAnswerReason::Paused)) => {
                self.paused = Some(before.map_or_else(|| message.clone(), |before| join(&before, message)));
            }
            // A lost piece is no part of the answer: the next piece continues from the paused one.
            (Some(before), Some(PartialAnswerReason::Lost)) => {
                self.answer(message, cut);
                self.paused = Some(before);
            }
            (Some(before), _) => self.answer(&join(&before, message), cut),
            (None, _) => self.answer(message, cut),
        }
    }

    /// Writes a paused answer whose rest never came.
    fn end_paused(&mut self) {
        if let Some(paused) = self.paused.take() {
            self.answer(&paused, None);
        }
    }

    fn answer(&mut self, message: &Message, cut: Option<PartialAnswerReason>) {
        let model = message.origin.as_ref().map(|origin| format!(" ({})", origin.model)).unwrap_or_default();
        self.message(&format!("Assistant{model}"), message);
        match cut {
            Some(PartialAnswerReason::Cancelled) => self.block("*Cancelled here.*"),
            Some(PartialAnswerReason::Lost) => self.block("*Lost here; the model never saw this.*"),
            _ => {}
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text(text) => self.block(text.text.trim_end()),
                Part::Reasoning(reasoning) if reasoning.text.is_empty() => {}
                Part::Reasoning(reasoning) => self.block(&format!("> {}", quoted(reasoning.text.trim_end()))),
                Part::ToolCall(call) => {
                    self.block(&format!("**Call** `{}`", call.name));
                    self.block(&fenced(&call.arguments, "json"));
                }
                Part::Image(media) => self.block(&stored("image", media)),
                Part::File(media) => self.block(&stored("file", media)),
                Part::Opaque(opaque) => self.block(&format!("*[{}]*", opaque.kind)),
                // Results have events of their own, which are rendered at their place.
                _ => {}
            }
        }
    }

    fn result(&mut self, seq: Seq, result: &ToolResult) {
        let tool = self.tools.get(&result.call_id).copied().unwrap_or("tool");
        let how = match result.status {
            ToolStatus::Completed => "",
            ToolStatus::Error => ", error",
            ToolStatus::Cancelled => ", cancelled",
            ToolStatus::Interrupted => ", interrupted",
        };
        self.block(&format!("**Result** `{tool}`{how}"));
        for part in &shown_content(result, seq) {
            match part {
                Part::Text(text) => self.block(&fenced(text.text.trim_end(), "")),
                other => self.parts(std::slice::from_ref(other)),
            }
        }
        if let Some(truncation) = &result.truncated {
            self.block(&format!("*The whole output: {}*", truncation.blob));
        }
    }

    fn edit(&mut self, edit: &'a ViewEdit) {
        let mut head = String::new();
        let (before, after) = (edit.original_tokens, edit.compressed_tokens);
        let _ =
            write!(head, "---\n\n*{} ({}): {before} → {after} tokens. {}*", edit.id, edit.strategy, edit.why);
        self.block(&head);
        for op in &edit.ops {
            if let ViewOperation::Replace { parts, .. } = op {
                for text in parts.iter().filter_map(Part::as_text) {
                    self.block(&format!("> {}", quoted(text.trim_end())));
                }
            }
        }
        self.block("---");
    }
}

fn quoted(text: &str) -> String {
    text.replace('\n', "\n> ")
}

fn stored(what: &str, media: &MediaPart) -> String {
    let name = media.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    format!("*[{what}{name}: {}, {} bytes, {}]*", media.media_type, media.blob.bytes, media.blob)
}

/// Returns a fence longer than any run of backticks in the text.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    // Longer than any run of backticks in the text, which could otherwise end the fence.
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}
