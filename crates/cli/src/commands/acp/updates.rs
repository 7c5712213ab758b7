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
use longhaul::SessionEvent;
use longhaul::session_event::MessageSource;
use longhaul_core::event::PartialAnswerReason;
use longhaul_core::ids::MessageId as OwnMessageId;
use longhaul_core::message::{Part, Role, ToolStatus};
use serde_json::json;

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

/// The facts for updates that are missing in an event.
#[derive(Clone, Debug, Default)]
pub(super) struct UpdateDetails {
    /// `true` for an event of the log. An error of the log is told by the end of its run.
    pub(super) is_stored: bool,
    /// The cost of the session so far, in dollars.
    pub(super) cost: Option<f64>,
    /// The summary shown by a compaction.
    pub(super) summary: Option<String>,
    /// The earlier content of the file changed by a call.
    pub(super) before: PriorFileContent,
    /// The contents of media.
    pub(super) contents: Contents,
}

/// The way from events to updates.
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

    /// Returns an editor's updates for an event.
    pub(super) fn take(&mut self, event: &SessionEvent, beside: &UpdateDetails) -> Vec<SessionUpdate> {
        match event {
            SessionEvent::TextDelta { text, message_id, offset, .. } => {
                self.chunk(EditorTextKind::Text, message_id, text, *offset)
            }
            SessionEvent::ReasoningDelta { text, message_id, offset, .. } => {
                self.chunk(EditorTextKind::Reasoning, message_id, text, *offset)
            }
            SessionEvent::MessageAdded { role: Role::Assistant, .. } => self.answered(event),
            SessionEvent::MessageAdded {
                role: Role::User,
                source: MessageSource::Typed,
                message_id,
                parts,
                ..
            } => self.typed(message_id, parts, beside),
            SessionEvent::ToolCall { call_id, tool_name, arguments_text, .. } => {
                let id = call_id.as_str();
                let call =
                    EditorToolCall::new(id, tool_name, arguments_text, &self.root, beside.before.clone());
                let announced = call.announced();
                self.calls.insert(id.to_owned(), call);
                vec![SessionUpdate::ToolCall(announced)]
            }
            SessionEvent::ToolStarted { call_id } => self.of_call(call_id.as_str(), |call| call.started()),
            SessionEvent::ToolProgress { call_id, text, .. } => {
                self.of_call(call_id.as_str(), |call| call.printed(text))
            }
            SessionEvent::ToolResult { .. } => self.result(event, beside),
            SessionEvent::ContextUsage { total_tokens, window_tokens, .. } => {
                // A replay would move the meter through the whole past of the session.
                let wanted = self.telling == UpdateDelivery::Live;
                wanted.then(|| usage_of(*total_tokens, *window_tokens, beside.cost)).into_iter().collect()
            }
            SessionEvent::Waiting { error, .. } => self.tried_again(&error.message),
            // Stored errors come with the end of their run, and would be shown twice.
            SessionEvent::ModelError { error, is_recoverable: true } if !beside.is_stored => {
                self.tried_again(&error.message)
            }
            SessionEvent::InputUnsupported { errors } => {
                self.notice(NoticeSeverity::Warning, "Something is not shown to the model", errors.join("\n"))
            }
            event => self.edits.take(event, beside, self.shows, self.telling),
        }
    }

    /// Returns a call in the form of a question to a person.
    pub(super) fn asked(&self, call_id: &str) -> Option<ToolCallUpdate> {
        self.calls.get(call_id).map(EditorToolCall::asked)
    }

    fn of_call(
        &mut self,
        call_id: &str,
        update: impl FnOnce(&mut EditorToolCall) -> ToolCallUpdate,
    ) -> Vec<SessionUpdate> {
        let call = self.calls.get_mut(call_id);
        call.map(|call| SessionUpdate::ToolCallUpdate(update(call))).into_iter().collect()
    }

    /// Translates a piece of the answer in flight. A piece that does not continue the sent text waits for the
    /// whole message.
    fn chunk(
        &mut self,
        voice: EditorTextKind,
        id: &OwnMessageId,
        content: &str,
        offset: u64,
    ) -> Vec<SessionUpdate> {
        let extent = self.spoken.entry(id.to_string()).or_default().of(voice);
        // A gap means that a chunk was missed. Text behind the gap would stand at the wrong place.
        if offset > extent.sent || content.is_empty() {
            return Vec::new();
        }
        let new = behind(content, extent.sent - offset);
        // Chunks may come twice after a lag, so the number never goes back.
        extent.sent = extent.sent.max(offset + content.chars().count() as u64);
        said(voice, id.as_str(), new).into_iter().collect()
    }

    /// Returns a message of the user. In a live session the editor shows its user's prompt by itself.
    fn typed(&self, id: &OwnMessageId, parts: &[Part], beside: &UpdateDetails) -> Vec<SessionUpdate> {
        if self.telling == UpdateDelivery::Live {
            return Vec::new();
        }
        let blocks = parts.iter().filter_map(|part| shown(part, &beside.contents, &self.root));
        blocks.map(|block| SessionUpdate::UserMessageChunk(chunk(block, id.as_str()))).collect()
    }

    /// Returns the part of a message that was not streamed: all of it in a replay.
    fn answered(&mut self, event: &SessionEvent) -> Vec<SessionUpdate> {
        let SessionEvent::MessageAdded { message_id, parts, continues, interrupted, .. } = event else {
            return Vec::new();
        };
        // The pieces of a paused answer are one message to the editor, under the id of the first one.
        let id = continues.as_ref().unwrap_or(message_id).to_string();
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
        if *interrupted != Some(PartialAnswerReason::Paused) {
            self.spoken.remove(&id);
        }
        made
    }

    fn result(&mut self, event: &SessionEvent, beside: &UpdateDetails) -> Vec<SessionUpdate> {
        let SessionEvent::ToolResult { call_id, status, content, omitted_chars, total_chars, .. } = event
        else {
            return Vec::new();
        };
        // An editor refuses an update of a call that it was never shown.
        let Some(call) = self.calls.remove(call_id.as_str()) else { return Vec::new() };
        let mut blocks: Vec<ContentBlock> =
            content.iter().filter_map(|part| shown(part, &beside.contents, &self.root)).collect();
        if *omitted_chars > 0 {
            let (omitted, total) = (grouped(*omitted_chars), grouped(*total_chars));
            blocks.push(text_block(&format!("[{omitted} of {total} characters are left out; all are kept]")));
        }
        let text: String = content.iter().filter_map(Part::as_text).collect();
        // For editors that show the raw output. It has the text only, because pictures would be in it twice.
        let raw = json!({ "status": status, "output": text, "omittedChars": omitted_chars });
        let done = *status == ToolStatus::Completed;
        vec![SessionUpdate::ToolCallUpdate(call.ended(done, blocks, raw))]
    }

    fn tried_again(&self, error: &str) -> Vec<SessionUpdate> {
        let title = "The model call failed and is tried again";
        self.notice(NoticeSeverity::Warning, title, error.to_owned())
    }

    fn notice(&self, severity: NoticeSeverity, title: &str, about: String) -> Vec<SessionUpdate> {
        let wanted = self.shows.notices && self.telling == UpdateDelivery::Live;
        let notice = Notice::new(severity, title).description(about);
        wanted.then_some(SessionUpdate::Notice(notice)).into_iter().collect()
    }
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
