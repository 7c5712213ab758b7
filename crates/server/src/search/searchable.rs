//! The text of a message that a search looks through.

use std::collections::BTreeSet;

use longhaul::text_encoding::{DecodedText, decode_windows_1252};
use longhaul_core::event::{Event, EventBody};
use longhaul_core::message::{BlobRef, MediaPart, Part, Role, ToolCall, ToolResult};
use serde_json::Value;

use super::{BYTES_OF_A_BLOB, SearchBudget, SearchGap, passage};
use crate::app::AppState;

/// The length of a text, in bytes, above which it is searched on a thread of its own.
const LONG_TEXT_BYTES: usize = 64 << 10;

/// A message as a search sees it.
pub(super) struct SearchableMessage<'a> {
    pub(super) role: Role,
    /// The text that the event itself has.
    text: String,
    /// Texts in the blob store: whole outputs of which the event has a part, and attached text files.
    blobs: Vec<&'a BlobRef>,
}

impl<'a> SearchableMessage<'a> {
    /// Returns the message that an event added, if it added one.
    pub(super) fn of(event: &'a Event) -> Option<Self> {
        let mut texts = MessageTexts::default();
        let role = match &event.body {
            EventBody::MessagesTaken { message, .. }
            | EventBody::NoteAdded { message, .. }
            | EventBody::AssistantAdded { message, .. } => {
                texts.add_parts(&message.parts);
                message.role
            }
            EventBody::ToolFinished { result } => {
                texts.add_result(result);
                Role::Tool
            }
            _ => return None,
        };
        Some(Self { role, text: texts.texts.join("\n"), blobs: texts.blobs })
    }

    /// Returns the passage around the words, if the event's own text has them all.
    pub(super) fn passage(&self, words: &[String]) -> Option<String> {
        passage(&self.text, words)
    }

    /// Returns the passage around the words, if the event's text and its blobs have them all.
    pub(super) async fn passage_with_blobs(
        &self,
        app: &AppState,
        words: &[String],
        left: &mut SearchBudget,
        gaps: &mut BTreeSet<SearchGap>,
    ) -> Option<String> {
        let mut text = String::new();
        for blob in &self.blobs {
            let length = blob.bytes.min(BYTES_OF_A_BLOB).min(left.blob_bytes);
            if length < blob.bytes {
                gaps.insert(SearchGap::TooMuchContent);
            }
            match app.runtime().blobs().get_range(blob, 0..length).await {
                Ok(content) => {
                    left.blob_bytes -= length;
                    let decoded = decode_windows_1252(&content).or_else(|| {
                        let decoded = Some(DecodedText::new(&content));
                        decoded.filter(|decoded| !decoded.is_binary()).map(|decoded| decoded.text)
                    });
                    // A piece of a file may end within a character, and an output may have bytes of any kind.
                    text.push_str(&decoded.unwrap_or_else(|| String::from_utf8_lossy(&content).into_owned()));
                    text.push('\n');
                }
                Err(error) => {
                    tracing::debug!(blob = blob.hash, %error, "a search cannot read stored content");
                    gaps.insert(SearchGap::Damage);
                }
            }
        }
        if text.is_empty() {
            return None;
        }
        // The event's own text comes last: it repeats the ends of an output, and the passage shows the first hit.
        text.push_str(&self.text);
        if text.len() <= LONG_TEXT_BYTES {
            return passage(&text, words);
        }
        let words = words.to_vec();
        // The search neither panics nor is it aborted, so it has an answer.
        tokio::task::spawn_blocking(move || passage(&text, &words)).await.unwrap_or_default()
    }
}

/// The texts of a message while they are gathered.
#[derive(Default)]
struct MessageTexts<'a> {
    texts: Vec<String>,
    blobs: Vec<&'a BlobRef>,
}

impl<'a> MessageTexts<'a> {
    fn add_parts(&mut self, parts: &'a [Part]) {
        for part in parts {
            match part {
                Part::Text(text) => self.texts.push(text.text.clone()),
                Part::Reasoning(reasoning) => self.texts.push(reasoning.text.clone()),
                Part::ToolCall(call) => self.texts.push(call_text(call)),
                Part::ToolResult(result) => self.add_result(result),
                Part::Image(media) => self.texts.extend(media.name.clone()),
                Part::File(media) => self.add_file(media),
                // A provider's own block is no text that anybody was shown.
                _ => {}
            }
        }
    }

    fn add_result(&mut self, result: &'a ToolResult) {
        self.add_parts(&result.content);
        self.blobs.extend(result.truncated.as_ref().map(|truncation| &truncation.blob));
    }

    fn add_file(&mut self, file: &'a MediaPart) {
        self.texts.extend(file.name.clone());
        if file.is_text() {
            self.blobs.push(&file.blob);
        }
    }
}

/// Returns a call as a person reads it: the tool and a line for each argument.
fn call_text(call: &ToolCall) -> String {
    let mut text = call.name.clone();
    // JSON escapes quotation marks and line ends, and people do not type the escapes into a search.
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(arguments) => add_values(&arguments, &mut text),
        Err(_) => {
            text.push('\n');
            text.push_str(&call.arguments);
        }
    }
    text
}

fn add_values(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                text.push('\n');
                text.push_str(name);
                text.push(':');
                add_values(field, text);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_values(item, text)),
        Value::String(string) => {
            text.push(' ');
            text.push_str(string);
        }
        other => {
            text.push(' ');
            text.push_str(&other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_searched_as_a_person_reads_it() {
        let text = |arguments: &str| {
            call_text(&ToolCall {
                call_id: "c".into(),
                name: "edit".to_owned(),
                arguments: arguments.to_owned(),
                provider_id: None,
                native: None,
            })
        };
        let nested = r#"{"path":"a.rs","edits":[{"old":"say \"hi\"\n","all":true}],"n":null}"#;
        assert_eq!(text(nested), "edit\npath: a.rs\nedits:\nold: say \"hi\"\n\nall: true\nn: null");
        assert_eq!(text("{\"cut"), "edit\n{\"cut");
        assert_eq!(text("{}"), "edit");
    }
}
