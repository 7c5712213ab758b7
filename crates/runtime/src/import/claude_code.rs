//! Sessions of Claude Code: a JSON object per line, with Anthropic messages.
//!
//! An answer may be spread over several lines, one per block, with the same message id. Lines name their parents; a
//! prompt rewound and typed again leaves a branch without a continuation.

use std::collections::{BTreeMap, HashMap, HashSet};

use longhaul_core::ids::Millis;
use longhaul_core::message::{ModelOrigin, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use longhaul_wire::raw_json::RawObject;
use longhaul_wire::usage::MessagesUsage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::{ImportMetadata, assemble};
use super::blocks::{BlockAuthor, parts, user_parts};
use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedCompaction};
use super::sink::ImportSink;
use super::{
    ImportError, ImportFormat, ImportPosition, ImportedSession, json_lines, lines, pi, time, unreadable,
};

/// The most lines before the first message of a session.
const LINES_BEFORE: usize = 100;

/// A line of the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an entry of a session")]
struct ClaudeCodeLine<'a> {
    r#type: String,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    timestamp: Option<String>,
    is_sidechain: Option<bool>,
    is_meta: Option<bool>,
    is_compact_summary: Option<bool>,
    is_api_error_message: Option<bool>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    subtype: Option<String>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    leaf_uuid: Option<String>,
}

/// The message in a line.
#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct ClaudeCodeMessage<'a> {
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    stop_reason: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marked<'a> {
        r#type: String,
        session_id: Option<String>,
        uuid: Option<String>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    let each = lines(bytes).take(LINES_BEFORE).map(|(_, line)| serde_json::from_slice::<Marked<'_>>(line));
    each.map_while(Result::ok).any(|line| {
        matches!(line.r#type.as_str(), "user" | "assistant")
            && line.message.is_some()
            && (line.session_id.is_some() || line.uuid.is_some())
    })
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<ImportedSession, ImportError> {
    let mut reader = ClaudeCodeImporter::default();
    let all: Vec<(usize, ClaudeCodeLine<'_>)> = json_lines(bytes, &mut reader.sink)?;
    let title = title(&all);
    let rewound = rewound(&all);
    for (index, (number, line)) in all.iter().enumerate() {
        match () {
            () if line.is_sidechain == Some(true) => reader.side += 1,
            () if rewound.contains(&index) => reader.rewound += 1,
            () => reader.line(ImportPosition::Line(*number), line)?,
        }
    }
    reader.finish(at, title)
}

/// Returns the newest summary line about this file: the file also keeps summaries of earlier sessions.
fn title(all: &[(usize, ClaudeCodeLine<'_>)]) -> Option<String> {
    let here: HashSet<&str> = all.iter().filter_map(|(_, line)| line.uuid.as_deref()).collect();
    let mut summaries = all.iter().rev().map(|(_, line)| line).filter(|line| {
        line.r#type == "summary" && line.leaf_uuid.as_deref().is_some_and(|leaf| here.contains(leaf))
    });
    let summary: String = summaries.find_map(|line| serde_json::from_str(line.summary?.get()).ok())?;
    summary.lines().next().map(|line| line.chars().take(80).collect())
}

/// Returns the lines on abandoned branches. Of several prompts typed after one line, only the last has a lasting
/// answer.
fn rewound(all: &[(usize, ClaudeCodeLine<'_>)]) -> HashSet<usize> {
    let prompts: Vec<bool> = all.iter().map(|(_, line)| is_prompt(line)).collect();
    let mut newest: HashMap<&str, usize> = HashMap::new();
    for (index, (_, line)) in all.iter().enumerate() {
        if let (Some(true), Some(parent)) = (prompts.get(index), line.parent_uuid.as_deref()) {
            newest.insert(parent, index);
        }
    }
    let (mut left, mut names): (HashSet<usize>, HashSet<&str>) = (HashSet::new(), HashSet::new());
    for (index, (_, line)) in all.iter().enumerate() {
        let Some(parent) = line.parent_uuid.as_deref() else { continue };
        let replaced = prompts.get(index) == Some(&true) && newest.get(parent) != Some(&index);
        // Everything that continues an abandoned prompt is abandoned with it.
        if replaced || names.contains(parent) {
            left.insert(index);
            names.extend(line.uuid.as_deref());
        }
    }
    left
}

/// Returns whether a person typed the line.
fn is_prompt(line: &ClaudeCodeLine<'_>) -> bool {
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }
    let made = [line.is_sidechain, line.is_meta, line.is_compact_summary].contains(&Some(true));
    if line.r#type != "user" || made {
        return false;
    }
    let message = line.message.and_then(|raw| serde_json::from_str::<Content<'_>>(raw.get()).ok());
    let blocks = message.and_then(|message| serde_json::from_str::<Vec<Kind>>(message.content.get()).ok());
    !blocks.is_some_and(|blocks| blocks.iter().any(|block| block.r#type == "tool_result"))
}

#[derive(Default)]
struct ClaudeCodeImporter {
    sink: ImportSink,
    items: Vec<ImportItem>,
    /// The item of each answer, by the id of its message.
    answers: HashMap<String, usize>,
    /// The size of the conversation before the newest announced compaction, in tokens.
    tokens_before: u64,
    side: usize,
    rewound: usize,
    skipped: BTreeMap<String, usize>,
}

impl ClaudeCodeImporter {
    fn line(&mut self, place: ImportPosition, line: &ClaudeCodeLine<'_>) -> Result<(), ImportError> {
        let at = line.timestamp.as_deref().and_then(time::rfc3339);
        match line.r#type.as_str() {
            "user" => self.user(place, at, line, recorded(place, line)?),
            "assistant" if line.is_api_error_message == Some(true) => {
                self.failure(place, at, recorded(place, line)?);
            }
            "assistant" => self.assistant(place, at, recorded(place, line)?),
            "system" if line.subtype.as_deref() == Some("compact_boundary") => {
                // The boundary comes before its summary, which takes this number.
                self.tokens_before = line.compact_metadata.and_then(tokens_before).unwrap_or_default();
            }
            // Summary lines were read for the title before.
            "summary" => {}
            other => *self.skipped.entry(other.chars().take(60).collect()).or_default() += 1,
        }
        Ok(())
    }

    fn push(&mut self, place: ImportPosition, at: Option<Millis>, kind: ImportItemKind) {
        self.items.push(ImportItem { place, at, kind });
    }

    fn user(
        &mut self,
        place: ImportPosition,
        at: Option<Millis>,
        line: &ClaudeCodeLine<'_>,
        recorded: ClaudeCodeMessage<'_>,
    ) {
        let (answers, rest) = user_parts(recorded.content, place, &mut self.sink);
        if line.is_compact_summary == Some(true) {
            let compaction = ImportedCompaction {
                summary: rest.iter().filter_map(Part::as_text).collect(),
                // Claude Code keeps no message beside its summary: what stays begins here.
                first_kept: Some(self.items.len()),
                tokens_before: std::mem::take(&mut self.tokens_before),
            };
            return self.push(place, at, ImportItemKind::Compaction(compaction));
        }
        let only_answers = !answers.is_empty() && rest.is_empty();
        for answered in answers {
            self.push(place, at, ImportItemKind::Result(answered));
        }
        match line.is_meta {
            _ if only_answers => {}
            Some(true) => self.push(place, at, ImportItemKind::Note(rest)),
            _ => self.push(place, at, ImportItemKind::Typed(rest)),
        }
    }

    fn assistant(&mut self, place: ImportPosition, at: Option<Millis>, recorded: ClaudeCodeMessage<'_>) {
        let said = parts(recorded.content, BlockAuthor::Assistant, place, &mut self.sink);
        let known = recorded.id.as_ref().and_then(|id| self.answers.get(id)).copied();
        // Claude Code writes one line per block under one message id: later lines extend the first.
        if let Some(ImportItem { kind: ImportItemKind::Assistant(earlier), .. }) =
            known.and_then(|index| self.items.get_mut(index))
        {
            earlier.parts.extend(said);
            earlier.usage = recorded.usage.and_then(usage).or(earlier.usage.take());
            earlier.finish = finish(recorded.stop_reason.as_deref(), &earlier.parts);
            return;
        }
        if let Some(id) = recorded.id {
            self.answers.insert(id, self.items.len());
        }
        let said = ImportedAnswer {
            finish: finish(recorded.stop_reason.as_deref(), &said),
            parts: said,
            origin: recorded.model.and_then(origin),
            cut: None,
            usage: recorded.usage.and_then(usage),
            error: None,
        };
        self.push(place, at, ImportItemKind::Assistant(Box::new(said)));
    }

    /// Converts a failed call, which stands in the file as an answer whose text is the error.
    fn failure(&mut self, place: ImportPosition, at: Option<Millis>, recorded: ClaudeCodeMessage<'_>) {
        let said = parts(recorded.content, BlockAuthor::Other, place, &mut self.sink);
        let text: String = said.iter().filter_map(Part::as_text).collect();
        // Behind the prefix the text begins with the HTTP status, as in errors of pi.
        let code = pi::code(text.strip_prefix("API Error: ").unwrap_or(&text));
        let said = ImportedAnswer {
            parts: Vec::new(),
            origin: None,
            finish: ModelStopReason::Other,
            cut: None,
            usage: None,
            error: Some((code, text)),
        };
        self.push(place, at, ImportItemKind::Assistant(Box::new(said)));
    }

    fn finish(self, at: Millis, title: Option<String>) -> Result<ImportedSession, ImportError> {
        let Self { mut sink, items, side, rewound, skipped, .. } = self;
        if items.is_empty() {
            return Err(ImportError::Empty);
        }
        if side > 0 {
            sink.warn(None, format!("messages of side conversations: {side} left out"));
        }
        if rewound > 0 {
            sink.warn(None, format!("messages on other branches of the session: {rewound} left out"));
        }
        for (kind, count) in skipped {
            sink.warn(None, format!("entries of kind `{kind}` have no counterpart here: {count} left out"));
        }
        let head =
            ImportMetadata { format: ImportFormat::ClaudeCode, at, title, system_prompt: None, tools: None };
        Ok(assemble(items, head, sink))
    }
}

fn recorded<'a>(
    place: ImportPosition,
    line: &ClaudeCodeLine<'a>,
) -> Result<ClaudeCodeMessage<'a>, ImportError> {
    let raw = line.message.map_or("null", RawValue::get);
    serde_json::from_str(raw).map_err(unreadable(place))
}

fn tokens_before(raw: &RawValue) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Compacted {
        pre_tokens: u64,
    }
    serde_json::from_str::<Compacted>(raw.get()).ok().map(|compacted| compacted.pre_tokens)
}

/// Returns the model of an answer; `None` for messages written by the program itself.
fn origin(model: String) -> Option<ModelOrigin> {
    let api = "imported:anthropic-messages".to_owned();
    (model != "<synthetic>").then(|| ModelOrigin { provider: "imported".to_owned(), api, model })
}

fn finish(stop: Option<&str>, said: &[Part]) -> ModelStopReason {
    match stop {
        Some("max_tokens" | "model_context_window_exceeded") => ModelStopReason::Length,
        Some("refusal") => ModelStopReason::ContentFilter,
        _ if said.iter().any(|part| matches!(part, Part::ToolCall(_))) => ModelStopReason::ToolCalls,
        _ => ModelStopReason::Stop,
    }
}

fn usage(raw: &RawValue) -> Option<Usage> {
    let mut reported = MessagesUsage::default();
    reported.record(RawObject::parse(raw.get())?);
    reported.usage().filter(|usage| usage.input_tokens > 0 || usage.output_tokens > 0)
}
