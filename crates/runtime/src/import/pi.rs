//! Sessions of the pi coding agent: a JSON object per line, oldest first.
//!
//! Early files are a list; later ones a tree (`id`, `parentId`) whose newest leaf is the conversation.

use std::collections::{BTreeMap, HashMap};

use longhaul_core::error::ErrorCode;
use longhaul_core::event::PartialAnswerReason;
use longhaul_core::ids::Millis;
use longhaul_core::message::{ModelOrigin, ModelStopReason, Part, RawJson, ToolStatus};
use longhaul_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::{ImportMetadata, assemble};
use super::blocks::{BlockAuthor, parts};
use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedCompaction, ImportedToolResult};
use super::sink::ImportSink;
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, json_lines, time, unreadable};

/// A line of the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an entry of a session")]
struct PiLine<'a> {
    r#type: String,
    id: Option<String>,
    parent_id: Option<String>,
    timestamp: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    summary: Option<String>,
    first_kept_entry_index: Option<usize>,
    first_kept_entry_id: Option<String>,
    tokens_before: Option<u64>,
    name: Option<String>,
}

/// The message in a line of type `message`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a message")]
struct PiMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    timestamp: Option<u64>,
    provider: Option<String>,
    model: Option<String>,
    api: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    stop_reason: Option<String>,
    error_message: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    #[serde(default)]
    is_error: bool,
    command: Option<String>,
    output: Option<String>,
    exit_code: Option<i64>,
    #[serde(default)]
    cancelled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiUsage {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
}

// Other formats have a JSON object in each line too. The kinds tell the files of pi from those.
const KINDS: [&str; 10] = [
    "session",
    "message",
    "compaction",
    "model_change",
    "thinking_level_change",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
];

pub(super) fn fits(line: &[u8]) -> bool {
    serde_json::from_slice::<PiLine<'_>>(line).is_ok_and(|line| KINDS.contains(&line.r#type.as_str()))
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<ImportedSession, ImportError> {
    let mut sink = ImportSink::default();
    let all: Vec<(usize, PiLine<'_>)> = json_lines(bytes, &mut sink)?;
    // A session may be renamed. The newest name counts.
    let title =
        all.iter().rev().find_map(|(_, line)| line.name.clone().filter(|_| line.r#type == "session_info"));
    let path = newest_path(&all, &mut sink);
    let mut reader = PiImporter {
        sink,
        items: Vec::new(),
        by_entry: HashMap::new(),
        by_id: HashMap::new(),
        skipped: BTreeMap::new(),
    };
    for index in path {
        if let Some((number, line)) = all.get(index) {
            reader.line(index, ImportPosition::Line(*number), line)?;
        }
    }
    let PiImporter { mut sink, items, skipped, .. } = reader;
    if items.is_empty() {
        return Err(ImportError::Empty);
    }
    for (kind, count) in skipped {
        sink.warn(None, format!("entries of kind `{kind}` have no counterpart here: {count} left out"));
    }
    Ok(assemble(
        items,
        ImportMetadata { format: ImportFormat::Pi, at, title, system_prompt: None, tools: None },
        sink,
    ))
}

/// Returns the entries from the root to the newest leaf, by index; in a file without a tree, all.
fn newest_path(all: &[(usize, PiLine<'_>)], sink: &mut ImportSink) -> Vec<usize> {
    if !all.iter().any(|(_, line)| line.parent_id.is_some()) {
        return (0..all.len()).collect();
    }
    let by_id: HashMap<&str, usize> =
        all.iter().enumerate().filter_map(|(index, (_, line))| Some((line.id.as_deref()?, index))).collect();
    let mut path = Vec::new();
    // Lines are only appended, so the last line is the newest leaf.
    let mut next = all.len().checked_sub(1);
    let mut seen = vec![false; all.len()];
    // A damaged file may name its own descendants as parents.
    while let Some(index) = next.filter(|index| !std::mem::replace(&mut seen[*index], true)) {
        path.push(index);
        let parent = all.get(index).and_then(|(_, line)| line.parent_id.as_deref());
        // A missing parent had a damaged line: the path continues with the line before it.
        next = parent.and_then(|id| by_id.get(id).copied().or_else(|| index.checked_sub(1)));
    }
    path.reverse();
    let messages = all.iter().filter(|(_, line)| line.r#type == "message").count();
    let on_path = path.iter().filter_map(|index| all.get(*index));
    let left = messages - on_path.filter(|(_, line)| line.r#type == "message").count();
    if left > 0 {
        sink.warn(None, format!("messages on other branches of the session: {left} left out"));
    }
    path
}

struct PiImporter {
    sink: ImportSink,
    items: Vec<ImportItem>,
    /// The first item at or after an entry, by the entry's index in the file.
    by_entry: HashMap<usize, usize>,
    by_id: HashMap<String, usize>,
    skipped: BTreeMap<String, usize>,
}

impl PiImporter {
    fn line(&mut self, index: usize, place: ImportPosition, line: &PiLine<'_>) -> Result<(), ImportError> {
        // Noted for every entry: a compaction may name one that becomes no item here.
        self.by_entry.insert(index, self.items.len());
        if let Some(id) = &line.id {
            self.by_id.insert(id.clone(), self.items.len());
        }
        let at = line.timestamp.as_deref().and_then(time::rfc3339);
        let kind = match line.r#type.as_str() {
            "message" => {
                let raw = line.message.map_or("null", RawValue::get);
                let recorded = serde_json::from_str::<PiMessage<'_>>(raw).map_err(unreadable(place))?;
                return self.message(place, recorded.timestamp.or(at), recorded);
            }
            "compaction" => ImportItemKind::Compaction(self.compaction(line)),
            "branch_summary" => {
                let text = line.summary.clone().unwrap_or_default();
                ImportItemKind::Note(vec![Part::text(format!("[Summary of another branch]\n{text}"))])
            }
            "custom_message" => {
                ImportItemKind::Note(parts(line.content, BlockAuthor::Other, place, &mut self.sink))
            }
            "session" | "session_info" | "label" => return Ok(()),
            other => {
                // The kind comes from the file and ends up in a warning, so its length is bounded.
                *self.skipped.entry(other.chars().take(60).collect()).or_default() += 1;
                return Ok(());
            }
        };
        self.items.push(ImportItem { place, at, kind });
        Ok(())
    }

    fn compaction(&self, line: &PiLine<'_>) -> ImportedCompaction {
        let by_id = line.first_kept_entry_id.as_ref().and_then(|id| self.by_id.get(id));
        let by_index = line.first_kept_entry_index.as_ref().and_then(|index| self.by_entry.get(index));
        // A cut between a call and its result would show half of a step.
        let first_kept = by_id.or(by_index).copied().filter(|item| {
            !matches!(self.items.get(*item).map(|item| &item.kind), Some(ImportItemKind::Result(_)))
        });
        ImportedCompaction {
            summary: line.summary.clone().unwrap_or_default(),
            first_kept,
            tokens_before: line.tokens_before.unwrap_or_default(),
        }
    }

    fn message(
        &mut self,
        place: ImportPosition,
        at: Option<Millis>,
        recorded: PiMessage<'_>,
    ) -> Result<(), ImportError> {
        let (content, sink) = (recorded.content, &mut self.sink);
        let kind = match recorded.role.as_str() {
            "user" => ImportItemKind::Typed(parts(content, BlockAuthor::Other, place, sink)),
            "assistant" => {
                let parts = parts(content, BlockAuthor::Assistant, place, sink);
                ImportItemKind::Assistant(Box::new(assistant_answer(&recorded, parts)))
            }
            "toolResult" => ImportItemKind::Result(ImportedToolResult {
                content: parts(content, BlockAuthor::Other, place, sink),
                call: recorded.tool_call_id,
                tool: recorded.tool_name,
                status: if recorded.is_error { ToolStatus::Error } else { ToolStatus::Completed },
            }),
            "bashExecution" => ImportItemKind::Note(vec![Part::text(executed(&recorded))]),
            other => {
                let role: String = other.chars().take(60).collect();
                sink.warn(place, format!("a message of unknown role `{role}` was kept as a note"));
                ImportItemKind::Note(parts(content, BlockAuthor::Other, place, sink))
            }
        };
        self.items.push(ImportItem { place, at, kind });
        Ok(())
    }
}

fn assistant_answer(recorded: &PiMessage<'_>, parts: Vec<Part>) -> ImportedAnswer {
    let (finish, cut) = match recorded.stop_reason.as_deref() {
        Some("stop") => (ModelStopReason::Stop, None),
        Some("toolUse") => (ModelStopReason::ToolCalls, None),
        Some("length") => (ModelStopReason::Length, None),
        Some("aborted") => (ModelStopReason::Other, Some(PartialAnswerReason::Cancelled)),
        _ => (ModelStopReason::Other, None),
    };
    let error = (recorded.stop_reason.as_deref() == Some("error")).then(|| {
        let message =
            recorded.error_message.clone().unwrap_or_else(|| "the recording gives no reason".to_owned());
        (code(&message), message)
    });
    ImportedAnswer {
        parts,
        origin: origin(recorded),
        finish,
        cut,
        usage: recorded.usage.and_then(usage),
        error,
    }
}

/// Returns the model of a message. The blocks are pi's rendering of the provider's blocks, so `api` keeps the bytes
/// from going back to the provider unchanged.
fn origin(recorded: &PiMessage<'_>) -> Option<ModelOrigin> {
    Some(ModelOrigin {
        provider: recorded.provider.clone()?,
        api: format!("pi:{}", recorded.api.as_deref().unwrap_or_default()),
        model: recorded.model.clone()?,
    })
}

/// Decodes usage. pi counts cached input in addition to `input`. A call without any event reports zeros.
fn usage(raw: &RawValue) -> Option<Usage> {
    let spent: PiUsage = serde_json::from_str(raw.get()).ok()?;
    // Usage here counts cached input within the input, as most providers do.
    let input = spent.input.saturating_add(spent.cache_read).saturating_add(spent.cache_write);
    (input > 0 || spent.output > 0).then(|| Usage {
        input_tokens: input,
        output_tokens: spent.output,
        reasoning_tokens: 0,
        cache_read_tokens: spent.cache_read,
        cache_write_tokens: spent.cache_write,
        raw: Some(RawJson(raw.get().to_owned())),
    })
}

/// Returns the code of an error: the message begins with the HTTP status, if any.
pub(super) fn code(message: &str) -> ErrorCode {
    match message.get(..3) {
        Some("400" | "404" | "413" | "422") => ErrorCode::InvalidRequest,
        Some("401" | "403") => ErrorCode::Auth,
        Some("429") => ErrorCode::RateLimitExceeded,
        _ => ErrorCode::ThirdParty,
    }
}

/// Returns a command run by the user outside the conversation, which the model saw with the next message.
fn executed(recorded: &PiMessage<'_>) -> String {
    let command = recorded.command.as_deref().unwrap_or_default();
    let output = recorded.output.as_deref().unwrap_or_default().trim_end();
    let end = match (recorded.cancelled, recorded.exit_code) {
        (true, _) => " (cancelled)".to_owned(),
        (false, Some(0) | None) => String::new(),
        (false, Some(status)) => format!(" (exit status {status})"),
    };
    format!("The user ran `{command}`{end}:\n{output}")
}
