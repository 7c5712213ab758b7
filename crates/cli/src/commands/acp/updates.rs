//! Translates events of a session into updates for an editor. Pure: facts that must be looked up come as
//! arguments.

mod edits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, MessageId, Notice, NoticeSeverity, SessionUpdate, ToolCallUpdate,
    UsageUpdate,
};
use longhaul::api_events::ApiEvent;
use longhaul_core::message::Part;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::term::human::grouped;

use super::call::{EditorToolCall, PriorFileContent};
use super::prompt::{Contents, shown, text_block};

/// The mode of delivery: an event as it happens, or a replay of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateDelivery {
    /// The editor shows what its user typed by itself, and the meter moves.
    Live,
    /// The whole conversation, to an editor without any of it.
    Again,
}

/// The editor's announced abilities, beyond those of every editor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EditorCapabilities {
    /// Compactions, as rows of their own.
    pub(super) compactions: bool,
    /// Notices.
    pub(super) notices: bool,
}

/// The facts for updates that are missing in an announcement.
#[derive(Clone, Debug, Default)]
pub(super) struct UpdateDetails {
    /// The cost of the session so far, in dollars.
    pub(super) cost: Option<f64>,
    /// The summary shown by a compaction.
    pub(super) summary: Option<String>,
    /// The earlier content of the file changed by a call.
    pub(super) before: PriorFileContent,
    /// The contents of media.
    pub(super) contents: Contents,
}

/// The way from announcements to updates.
#[derive(Debug)]
pub(super) struct EditorUpdateTranslator {
    pub(super) telling: UpdateDelivery,
    shows: EditorCapabilities,
    root: PathBuf,
    spoken: BTreeMap<String, MessageSendProgress>,
    calls: BTreeMap<String, EditorToolCall>,
    edits: edits::CompactionUpdates,
}

/// The number of characters of a message that were sent, and the number that are in stored pieces, by kind of
/// text.
#[derive(Clone, Copy, Debug, Default)]
struct MessageSendProgress {
    text: TextSendProgress,
    reasoning: TextSendProgress,
}

#[derive(Clone, Copy, Debug, Default)]
struct TextSendProgress {
    sent: u64,
    stored: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorTextKind {
    Text,
    Reasoning,
}

impl MessageSendProgress {
    fn of(&mut self, voice: EditorTextKind) -> &mut TextSendProgress {
        match voice {
            EditorTextKind::Text => &mut self.text,
            EditorTextKind::Reasoning => &mut self.reasoning,
        }
    }
}

impl EditorUpdateTranslator {
    pub(super) fn new(root: PathBuf, shows: EditorCapabilities) -> Self {
        let (spoken, calls) = Default::default();
        Self {
            telling: UpdateDelivery::Live,
            shows,
            root,
            spoken,
            calls,
            edits: edits::CompactionUpdates::default(),
        }
    }

    /// Returns an editor's updates for an announcement.
    pub(super) fn take(&mut self, told: &ApiEvent, beside: &UpdateDetails) -> Vec<SessionUpdate> {
        match told.name {
            "llm:chunk" => self.chunk(told),
            "message:added" => self.added(told, beside),
            "llm:tool-call" => {
                let (id, tool) = (told.text("callId"), told.text("toolName"));
                let call =
                    EditorToolCall::new(id, tool, told.text("argsText"), &self.root, beside.before.clone());
                let announced = call.announced();
                self.calls.insert(id.to_owned(), call);
                vec![SessionUpdate::ToolCall(announced)]
            }
            "tool:started" => self.of_call(told, |call| call.started()),
            "tool:output" => {
                let text = told.text("text").to_owned();
                self.of_call(told, move |call| call.printed(&text))
            }
            "llm:tool-result" => self.result(told, beside),
            "context:usage" if self.telling == UpdateDelivery::Live => vec![usage(told, beside)],
            "run:waiting" => {
                let error = told.payload.get("lastError").and_then(|error| error["message"].as_str());
                let error = error.unwrap_or_default().to_owned();
                self.notice(NoticeSeverity::Warning, "The model call failed and is tried again", error)
            }
            "llm:error"
                if told.seq.is_none() && told.payload.get("recoverable") == Some(&Value::Bool(true)) =>
            {
                let error = told.text("error").to_owned();
                self.notice(NoticeSeverity::Warning, "The model call failed and is tried again", error)
            }
            "llm:unsupported-input" => {
                let errors = told.payload.get("errors").and_then(Value::as_array).into_iter().flatten();
                let why: Vec<&str> = errors.filter_map(Value::as_str).collect();
                self.notice(NoticeSeverity::Warning, "Something is not shown to the model", why.join("\n"))
            }
            name if name.starts_with("context:") || name == "run:complete" => {
                self.edits.take(told, beside, self.shows, self.telling)
            }
            _ => Vec::new(),
        }
    }

    /// Returns a call in the form of a question to a person.
    pub(super) fn asked(&self, call_id: &str) -> Option<ToolCallUpdate> {
        self.calls.get(call_id).map(EditorToolCall::asked)
    }

    fn of_call(
        &mut self,
        told: &ApiEvent,
        update: impl FnOnce(&mut EditorToolCall) -> ToolCallUpdate,
    ) -> Vec<SessionUpdate> {
        let call = self.calls.get_mut(told.text("callId"));
        call.map(|call| SessionUpdate::ToolCallUpdate(update(call))).into_iter().collect()
    }

    /// Translates a piece of the answer in flight. A piece that does not continue the sent text waits for the
    /// whole message.
    fn chunk(&mut self, told: &ApiEvent) -> Vec<SessionUpdate> {
        let (id, content) = (told.text("messageId"), told.text("content"));
        let voice = if told.text("chunkType") == "reasoning" {
            EditorTextKind::Reasoning
        } else {
            EditorTextKind::Text
        };
        let begins = told.payload.get("offset").and_then(Value::as_u64).unwrap_or_default();
        let extent = self.spoken.entry(id.to_owned()).or_default().of(voice);
        // A gap means that a chunk was missed. Text behind the gap would stand at the wrong place.
        if begins > extent.sent || content.is_empty() {
            return Vec::new();
        }
        let new = behind(content, extent.sent - begins);
        // Chunks may come twice after a lag, so the number never goes back.
        extent.sent = extent.sent.max(begins + content.chars().count() as u64);
        said(voice, id, new).into_iter().collect()
    }

    fn added(&mut self, told: &ApiEvent, beside: &UpdateDetails) -> Vec<SessionUpdate> {
        let parts = told.payload.get("parts").and_then(|parts| Vec::<Part>::deserialize(parts).ok());
        let parts = parts.unwrap_or_default();
        match (told.text("role"), told.text("source")) {
            ("assistant", _) => self.answered(told, &parts),
            // In a live session the editor shows its user's prompt by itself.
            ("user", "typed") if self.telling == UpdateDelivery::Again => {
                let id = told.text("messageId");
                let blocks = parts.iter().filter_map(|part| shown(part, &beside.contents, &self.root));
                blocks.map(|block| SessionUpdate::UserMessageChunk(chunk(block, id))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the part of a message that was not streamed: all of it in a replay.
    fn answered(&mut self, told: &ApiEvent, parts: &[Part]) -> Vec<SessionUpdate> {
        let own = told.text("messageId");
        let id = Some(told.text("continues")).filter(|begun| !begun.is_empty()).unwrap_or(own).to_owned();
        let spoken = self.spoken.entry(id.clone()).or_default();
        let mut made = Vec::new();
        for part in parts {
            let (voice, text) = match part {
                Part::Text(text) => (EditorTextKind::Text, text.text.as_str()),
                Part::Reasoning(reasoning) => (EditorTextKind::Reasoning, reasoning.text.as_str()),
                _ => continue,
            };
            let extent = spoken.of(voice);
            // `sent` counts over all pieces of a paused message, and `text` begins behind the stored ones.
            let new = behind(text, extent.sent.saturating_sub(extent.stored));
            extent.stored += text.chars().count() as u64;
            extent.sent = extent.sent.max(extent.stored);
            made.extend(said(voice, &id, new));
        }
        // A paused message continues under the same id, so its progress must stay.
        if told.payload.get("paused") != Some(&Value::Bool(true)) {
            self.spoken.remove(&id);
        }
        made
    }

    fn result(&mut self, told: &ApiEvent, beside: &UpdateDetails) -> Vec<SessionUpdate> {
        let Some(call) = self.calls.remove(told.text("callId")) else { return Vec::new() };
        let parts = told.payload.get("sanitized").and_then(|parts| Vec::<Part>::deserialize(parts).ok());
        let parts = parts.unwrap_or_default();
        let mut blocks: Vec<ContentBlock> =
            parts.iter().filter_map(|part| shown(part, &beside.contents, &self.root)).collect();
        let omitted = number(told, "omittedChars");
        if omitted > 0 {
            let (omitted, total) = (grouped(omitted), grouped(number(told, "totalChars")));
            blocks.push(text_block(&format!("[{omitted} of {total} characters are left out; all are kept]")));
        }
        let text: String = parts.iter().filter_map(Part::as_text).collect();
        let status = told.payload.get("status").cloned().unwrap_or_default();
        let raw = json!({ "status": status, "output": text, "omittedChars": omitted });
        let done = told.payload.get("success") == Some(&Value::Bool(true));
        vec![SessionUpdate::ToolCallUpdate(call.ended(done, blocks, raw))]
    }

    fn notice(&self, severity: NoticeSeverity, title: &str, about: String) -> Vec<SessionUpdate> {
        let wanted = self.shows.notices && self.telling == UpdateDelivery::Live;
        let notice = Notice::new(severity, title).description(about);
        wanted.then_some(SessionUpdate::Notice(notice)).into_iter().collect()
    }
}

fn number(told: &ApiEvent, key: &str) -> u64 {
    told.payload.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the meter, as after each step.
fn usage(told: &ApiEvent, beside: &UpdateDetails) -> SessionUpdate {
    usage_of(number(told, "total"), number(told, "window"), beside.cost)
}

/// Returns the update with the used part of the window and the cost of the session.
pub(super) fn usage_of(total: u64, window: u64, cost: Option<f64>) -> SessionUpdate {
    let cost = cost.map(|dollars| Cost::new(dollars, "USD"));
    SessionUpdate::UsageUpdate(UsageUpdate::new(total, window).cost(cost))
}

/// Creates an update with a text of the agent that belongs to no message of the model's.
pub(super) fn remark(id: &str, text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(chunk(text_block(text), id))
}

/// Creates an update with the model's text, or none for empty text. Text and reasoning of a message are two
/// messages to an editor.
fn said(voice: EditorTextKind, id: &str, text: &str) -> Option<SessionUpdate> {
    let block = text_block(text);
    (!text.is_empty()).then(|| match voice {
        EditorTextKind::Text => SessionUpdate::AgentMessageChunk(chunk(block, id)),
        EditorTextKind::Reasoning => SessionUpdate::AgentThoughtChunk(chunk(block, &format!("{id}-thought"))),
    })
}

fn chunk(block: ContentBlock, id: &str) -> ContentChunk {
    ContentChunk::new(block).message_id(MessageId::new(id))
}

/// Returns the text after its first `chars` characters.
fn behind(text: &str, chars: u64) -> &str {
    let chars = usize::try_from(chars).unwrap_or(usize::MAX);
    text.char_indices().nth(chars).map_or("", |(at, _)| &text[at..])
}
