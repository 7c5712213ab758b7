//! Claude Code, as far as its documentation says. Its source is not published.
//!
//! Numbers that the documentation lacks are readings of the package by others. [`ContextPolicy::sources`] names the
//! page or the reading for each number, and says what is assumed.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_core::budget::Budget;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::ids::CallId;
use longhaul_core::message::{Part, Role, ToolCall, ToolStatus};
use serde_json::Value;

use super::thread::{CLEARED, RivalView, RivalViewItem};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The maximum tokens of a summary, and of the room that is kept for it.
const SUMMARY_TOKENS: u64 = 20_000;
/// The free tokens besides the room for the summary.
const BUFFER_TOKENS: u64 = 13_000;
/// The tokens of the newest results that are not cleared.
const KEPT_RESULT_TOKENS: u64 = 40_000;
/// The number of newest results that are not cleared, however large they are.
const KEPT_RESULTS: usize = 3;
/// The minimum gain of clearing, in tokens.
const CLEARED_MINIMUM_TOKENS: u64 = 20_000;
/// The tokens of the order for the summary, which names nine sections. An assumption.
const ORDER_TOKENS: u64 = 1_200;
/// The maximum number of files that are read again after a compaction.
const RESTORED_FILES: usize = 5;
/// The maximum tokens of such a file. Of a larger one only the path comes back.
const RESTORED_FILE_TOKENS: u64 = 5_000;
/// The sentences around a summary. Their wording is an assumption.
const LEAD: &str = "The window was full, so the conversation so far was replaced by this summary:";
const CONTINUE: &str = "Go on with the last task. Do not ask the user about it again.";
/// The arguments that name a file, in the tools of many agents.
const PATH_KEYS: [&str; 5] = ["file_path", "filePath", "path", "file", "filename"];
/// The arguments with the whole content of a file.
const CONTENT_KEYS: [&str; 3] = ["content", "file_text", "contents"];

/// Claude Code: near the end of the window it clears old results; where that is not enough, a summary replaces
/// everything, and five files are read again.
///
/// The room that it keeps free hardly shrinks with the window: in windows under about 17,000 tokens it compacts before
/// nearly every request. Its own setting takes no window under 100,000 tokens.
#[derive(Default)]
pub(crate) struct ClaudeCodePolicy {
    thread: RivalView,
    files: RecentFiles,
}

impl ClaudeCodePolicy {
    /// Returns the size of a request from which it acts, in tokens.
    pub(super) fn threshold(budget: &Budget) -> u64 {
        budget.window.saturating_sub(budget.reserve.min(SUMMARY_TOKENS) + BUFFER_TOKENS)
    }

    /// Clears old results if that is enough. Nothing happens if a summary is necessary anyway.
    fn clear(&mut self, moment: &RivalContext<'_>) -> Option<PolicyEdit> {
        let before = moment.total(&self.thread);
        let found = self.clearable_results();
        let gained: u64 = found.iter().filter_map(|at| self.gain_of_clearing(moment.recording, *at)).sum();
        if gained < CLEARED_MINIMUM_TOKENS || before - gained >= Self::threshold(moment.budget()) {
            return None;
        }
        self.thread.clear_results(moment.recording, &found, CLEARED);
        moment.clearing(before, &self.thread, format!("{gained} tokens of old results cleared"))
    }

    /// Returns the tokens that clearing a result frees, less those of the placeholder.
    fn gain_of_clearing(&self, recording: &SessionRecording, at: usize) -> Option<u64> {
        let item = self.thread.items.get(at)?;
        let cleared = item.with_cleared_result(recording, CLEARED)?;
        Some(item.segment.tokens.saturating_sub(cleared.segment.tokens))
    }

    /// Returns the results older than the kept ones.
    fn clearable_results(&self) -> Vec<usize> {
        let (mut number, mut total, mut found) = (0, 0, Vec::new());
        for (at, item) in self.thread.items.iter().enumerate().rev() {
            if item.role != Role::Tool {
                continue;
            }
            number += 1;
            total += item.segment.tokens;
            // Both limits must be passed: the newest three stay, whatever their size.
            if number > KEPT_RESULTS && total > KEPT_RESULT_TOKENS && !item.is_cleared() {
                found.push(at);
            }
        }
        found
    }

    /// Replaces the messages before `end` by a summary and the files that are read again.
    fn compact(&mut self, moment: &RivalContext<'_>, end: usize) -> Option<(SideCall, PolicyEdit)> {
        let before = moment.total(&self.thread);
        let counter = &moment.recording.counter;
        let overhead = moment.recording.overhead_tokens();
        let old = &self.thread.items[..end];
        // Without an answer since the last compaction there is nothing new to summarise.
        if !old.iter().any(|item| item.role == Role::Assistant) {
            return None;
        }
        let start = fitting_start(old, moment.budget().window.saturating_sub(overhead + ORDER_TOKENS))?;
        let summary = moment.summarise(&moment.texts(&old[start..]), ORDER_TOKENS, Some(SUMMARY_TOKENS));
        // The request goes on from the last one: system prompt, tools and all messages up to the answer are the same.
        let same = if start == 0 { end.min(self.thread.after_answer()) } else { 0 };
        let call = SideCall {
            cached_tokens: overhead + tokens_of(&old[..same]),
            fresh_tokens: tokens_of(&old[start.max(same)..]) + ORDER_TOKENS,
            ..summary.call
        };
        let mut items = vec![RivalViewItem::summary(summary.recorded, Role::User, counter, |text| {
            format!("{LEAD}\n\n{text}\n{CONTINUE}")
        })];
        items.extend(self.files.newest().map(|file| file.restored(counter)));
        self.thread.replace(0..end, items);
        let why = "the room for a summary is reached".to_owned();
        Some((call, moment.compaction(before, &self.thread, why)?))
    }
}

impl ContextPolicy for ClaudeCodePolicy {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = system prompt, tools and conversation ≥ window − min(output limit, 20,000) − 13,000, \
             before each request — readings of the package: anthropics/claude-code#31806 (13,000), \
             jojoprison/mnemo release v1.2.16 (whole formula); it gives the 967K of 1M in \
             code.claude.com/docs/en/model-config and the 167,189 of 200K in \
             code.claude.com/docs/en/sub-agents (pages of 2026; older ones say 95 %); assumption: the \
             output limit is the reserve, as for opencode",
            "order = old results are cleared first, a summary is written if that is not enough — \
             code.claude.com/docs/en/how-claude-code-works (When context fills up); assumption: both at the \
             same threshold, and results are cleared only where no summary is necessary afterwards",
            "results kept = the newest 3, and up to 40,000 tokens of the newest; cleared only for a gain of \
             20,000 — a reading of release 2.1.17, decodeclaude.com/claude-code-compaction. 3 is also the \
             default of the API's clear_tool_uses_20250919, \
             platform.claude.com/docs/en/build-with-claude/context-editing; that strategy's trigger of \
             100,000 and its missing minimum are langchain-clear-tool-uses",
            "clearing breaks the cached prefix — same page; all tools are cleared, the placeholder is a \
             reading of others. Clearing after an idle hour, and in the provider's cache, are read by \
             others only and not modelled",
            "summary request = the live system prompt, tools and history with an order at the end: read \
             from the cache while that is warm, the agent waits — code.claude.com/docs/en/prompt-caching \
             (Compacting the conversation); by the session's model. Assumptions: an order of 1,200 tokens; \
             where it does not fit the window, the oldest messages are left out",
            "summary limit = 20,000 tokens, in the same readings; the stand-in's typical length is less",
            "kept = nothing but the pending prompt, which is an assumption in its favour: the page says \
             that requests are preserved — code.claude.com/docs/en/how-claude-code-works",
            "read again = up to 5 files that were read or edited, those modified last first; a file over \
             5,000 tokens comes back as its path — code.claude.com/docs/en/context-window (What survives \
             compaction). Assumptions: edited files before files that were only read, by the session's \
             order; the content is the one last read or written in the recording; CLAUDE.md and skills are \
             part of the system prompt",
            "reaction to a refusal = a compaction (anthropics/claude-code CHANGELOG.md 2.1.274, as quoted \
             by others), which the trigger forestalls. It gives up after a few compactions if the window is full \
             again at once each time (code.claude.com/docs/en/how-claude-code-works); not modelled, in its \
             favour",
            "results are not shortened when they come in: the limits are those of its own tools \
             (code.claude.com/docs/en/env-vars), and recordings have others",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        let begins = moment.turn_begins();
        // Before a turn, the new prompt is not part of what is compacted, so it is taken in afterwards.
        self.thread.take(recording, if begins { moment.prompt_start() } else { next }, |_| None);
        let end = self.thread.items.len();
        self.thread.take(recording, next, |_| None);
        self.files.take(recording, next);
        if moment.total(&self.thread) < Self::threshold(moment.budget()) {
            return request(&self.thread, Vec::new(), None);
        }
        if let Some(edit) = self.clear(&moment) {
            return request(&self.thread, Vec::new(), Some(edit));
        }
        let (call, edit) = self.compact(&moment, end).unzip();
        request(&self.thread, call.into_iter().collect(), edit)
    }
}

fn tokens_of(items: &[RivalViewItem]) -> u64 {
    items.iter().map(|item| item.segment.tokens).sum()
}

/// Returns the start of the newest messages that fit into `room`; `None` if none do.
fn fitting_start(items: &[RivalViewItem], room: u64) -> Option<usize> {
    let (mut tokens, mut start) = (tokens_of(items), 0);
    // A result whose call was left out is left out too.
    while tokens > room || (start > 0 && items.get(start)?.role == Role::Tool) {
        tokens -= items.get(start)?.segment.tokens;
        start += 1;
    }
    (start < items.len()).then_some(start)
}

/// The files of a session in the order in which they come back after a compaction.
#[derive(Default)]
struct RecentFiles {
    /// The number of entries that were looked at.
    read: usize,
    /// The calls without a result.
    calls: HashMap<CallId, FileCall>,
    /// The files, the newest last.
    files: Vec<RecentFile>,
}

/// A file that was read or edited.
struct RecentFile {
    path: String,
    is_edited: bool,
    /// The content, if the recording has it.
    content: Option<Arc<str>>,
}

/// A call of a tool on one file.
struct FileCall {
    path: String,
    action: FileCallAction,
}

/// The action of a call on a file.
enum FileCallAction {
    /// The result is the content.
    Read,
    /// A part of the content is changed.
    Edit,
    /// The content is replaced.
    Write(Arc<str>),
}

impl RecentFiles {
    /// Reads the entries up to `next`.
    fn take(&mut self, recording: &SessionRecording, next: usize) {
        for entry in recording.entries.get(self.read..next).unwrap_or_default() {
            for call in entry.message.tool_calls() {
                if let Some(file) = file_call(call) {
                    self.calls.insert(call.call_id.clone(), file);
                }
            }
            for part in &entry.message.parts {
                let Part::ToolResult(result) = part else { continue };
                let call = self.calls.remove(&result.call_id);
                // A failed call has changed nothing and read nothing.
                if let Some(call) = call.filter(|_| result.status == ToolStatus::Completed) {
                    self.add(call, &entry.text);
                }
            }
        }
        self.read = self.read.max(next);
    }

    fn add(&mut self, call: FileCall, result: &Arc<str>) {
        let at = self.files.iter().position(|file| file.path == call.path);
        let is_read = matches!(call.action, FileCallAction::Read);
        // Reading a file does not change the time of its last modification.
        if let Some(known) = at.map(|at| &mut self.files[at]).filter(|known| is_read && known.is_edited) {
            known.content = Some(result.clone());
            return;
        }
        let known = at.map(|at| self.files.remove(at));
        let content = match call.action {
            FileCallAction::Read => Some(result.clone()),
            FileCallAction::Write(content) => Some(content),
            // The recording has only the changed part, so the last known content stands for the whole file.
            FileCallAction::Edit => known.and_then(|known| known.content),
        };
        self.files.push(RecentFile { path: call.path, is_edited: !is_read, content });
    }

    /// Returns the files that are read again: edited ones first, the newest first.
    fn newest(&self) -> impl Iterator<Item = &RecentFile> {
        let edited = self.files.iter().rev().filter(|file| file.is_edited);
        let read = self.files.iter().rev().filter(|file| !file.is_edited);
        edited.chain(read).take(RESTORED_FILES)
    }
}

impl RecentFile {
    /// Returns the message that brings the file back.
    fn restored(&self, counter: &MessageTokenCounter) -> RivalViewItem {
        let content = self.content.as_deref().filter(|text| counter.text(text) <= RESTORED_FILE_TOKENS);
        let text = match content {
            Some(content) => format!("Read again after the compaction: {}\n{content}", self.path),
            None => format!("Referenced file: {}", self.path),
        };
        RivalViewItem::note(&text, Role::User, counter)
    }
}

/// Returns the file of a call by the names of its tool and arguments; `None` if it is about no single file.
fn file_call(call: &ToolCall) -> Option<FileCall> {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return None };
    let text = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(*key)?.as_str());
    let path = text(&PATH_KEYS)?.to_owned();
    // `str_replace_editor` names its action in an argument.
    let name = text(&["command"]).unwrap_or(&call.name).to_lowercase();
    let is_any = |actions: &[&str]| actions.iter().any(|action| name.contains(action));
    // A call with the whole content is a write, however its tool is named.
    let action = match text(&CONTENT_KEYS) {
        Some(content) => FileCallAction::Write(content.into()),
        None if is_any(&["read", "view", "open"]) => FileCallAction::Read,
        None if is_any(&["edit", "replace", "patch", "insert"]) => FileCallAction::Edit,
        None => return None,
    };
    Some(FileCall { path, action })
}
