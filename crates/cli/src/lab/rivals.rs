//! Models of other agents and libraries when their window is full, as far as their source says.
//!
//! Claude Code's source is not published, so its model follows its documentation.
//!
//! Each model keeps its own view of a recording. It counts, acts and removes messages as its peer does. Constants are
//! applied as the peer's code applies them, also where that makes them useless in a small window. Common to all
//! models, because no source decides it:
//!
//! - A summary is the stand-in of [`summary`](crate::lab::summary) and costs its own tokens. No cheaper model writes it.
//! - A request is refused when system prompt, tools and view have more than the usable room, as the replay counts
//!   overflows. Peers without a reaction to that go on as if nothing were.
//! - System prompt and tools of a summary request are not charged if they differ from the live ones, because their
//!   sizes are not known. The request itself is charged, with the tokens that its source has.
//! - Answers that were lost in a crash are in no view.
//! - Results that peers spill into files (opencode, gemini-cli, goose) are gone from the view. The agent could read the
//!   file again, but that is not modelled.

mod append_only;
mod claude_code;
mod cline;
mod codex;
mod crush;
mod gemini;
mod goose;
mod langchain;
mod opencode;
mod thread;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use longhaul_core::budget::Budget;
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::Role;

pub(crate) use append_only::AppendOnlyPolicy;
pub(crate) use claude_code::ClaudeCodePolicy;
pub(crate) use cline::ClinePolicy;
pub(crate) use codex::CodexPolicy;
pub(crate) use crush::CrushPolicy;
pub(crate) use gemini::GeminiCliPolicy;
pub(crate) use goose::GoosePolicy;
pub(crate) use langchain::{LangChainSummarization, LangChainToolClearing};
pub(crate) use opencode::OpenCodePolicy;

use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::{RecordedMessage, SessionRecording};
use crate::lab::summary::{length_tokens, recorded_summary, stand_in_summary};
use thread::{RivalView, RivalViewItem};

/// Returns all peers, new for one replay.
pub(crate) fn all() -> Vec<Box<dyn ContextPolicy>> {
    vec![
        Box::new(AppendOnlyPolicy::default()),
        Box::new(OpenCodePolicy::new()),
        Box::new(OpenCodePolicy::with_pruning()),
        Box::new(GeminiCliPolicy::new()),
        Box::new(GeminiCliPolicy::declared()),
        Box::new(ClaudeCodePolicy::default()),
        Box::new(CodexPolicy::default()),
        Box::new(GoosePolicy::default()),
        Box::new(LangChainSummarization::default()),
        Box::new(LangChainToolClearing::default()),
        Box::new(CrushPolicy::default()),
        Box::new(ClinePolicy::default()),
    ]
}

/// Returns the peer of a name, new for one replay.
pub(crate) fn named(name: &str) -> Option<Box<dyn ContextPolicy>> {
    all().into_iter().find(|policy| policy.name() == name)
}

/// The facts for one call of [`ContextPolicy::request`].
#[derive(Clone, Copy)]
struct RivalContext<'a> {
    recording: &'a SessionRecording,
    next: usize,
    now: &'a PolicyInput,
}

/// A requested summary: its text as a message, and its model call.
struct RivalSummary {
    recorded: RecordedMessage,
    call: SideCall,
}

impl<'a> RivalContext<'a> {
    fn new(recording: &'a SessionRecording, next: usize, now: &'a PolicyInput) -> Self {
        Self { recording, next, now }
    }

    fn budget(&self) -> &Budget {
        &self.now.budget
    }

    /// Returns the tokens reported by the provider for the last call: its input and its answer.
    fn reported(&self) -> u64 {
        self.now.last_input + self.now.last_output
    }

    /// Returns the tokens of a request with this view.
    fn total(&self, thread: &RivalView) -> u64 {
        self.recording.overhead_tokens() + thread.tokens()
    }

    /// Returns whether a provider would refuse this view.
    fn is_refused(&self, thread: &RivalView) -> bool {
        self.total(thread) > self.budget().usable
    }

    /// Returns whether the newest message was typed by a person: a turn begins.
    fn turn_begins(&self) -> bool {
        let newest = self.recording.entries[..self.next].last();
        newest.is_some_and(|entry| entry.kind == LogEntryKind::Typed)
    }

    /// Returns the start of the unanswered user messages: the pending prompt.
    fn prompt_start(&self) -> usize {
        // Only what the agent had at this moment: a policy must not look ahead.
        let entries = &self.recording.entries[..self.next];
        entries.iter().rposition(|entry| entry.message.role != Role::User).map_or(0, |at| at + 1)
    }

    /// Makes a summary of `texts` in a request of its own: nothing of it is cached.
    fn summarise(
        &self,
        texts: &[Cow<'_, RecordedMessage>],
        request_tokens: u64,
        limit: Option<u64>,
    ) -> RivalSummary {
        let counter = &self.recording.counter;
        let covered: u64 = texts.iter().map(|text| text.tokens).sum();
        let texts: Vec<&RecordedMessage> = texts.iter().map(AsRef::as_ref).collect();
        let text = stand_in_summary(&texts, length_tokens(covered, limit), counter);
        let call = SideCall {
            cached_tokens: 0,
            fresh_tokens: covered + request_tokens,
            output_tokens: counter.text(&text),
            waits: true,
        };
        RivalSummary { recorded: recorded_summary(&text, Role::User, counter), call }
    }

    /// Returns the texts of `items` shown to the model of a summary. Cleared results have no text.
    fn texts(&self, items: &'a [RivalViewItem]) -> Vec<Cow<'a, RecordedMessage>> {
        items.iter().filter_map(|item| item.recorded(self.recording)).map(Cow::Borrowed).collect()
    }

    /// Returns the same texts as `texts`, with every tool result cut to its first `max_chars`.
    fn cut_texts(
        &self,
        items: &'a [RivalViewItem],
        max_chars: usize,
        mark: &str,
    ) -> Vec<Cow<'a, RecordedMessage>> {
        let cut = self.texts(items).into_iter().map(|text| {
            let end = match &text.kind {
                LogEntryKind::Result { .. } => text.text.char_indices().nth(max_chars),
                _ => None,
            };
            let Some((end, _)) = end else { return text };
            let kept = format!("{}{mark}", &text.text[..end]);
            Cow::Owned(thread::with_result(&text, &kept, &self.recording.counter))
        });
        cut.collect()
    }

    fn compaction(&self, before_tokens: u64, thread: &RivalView, why: String) -> Option<PolicyEdit> {
        Some(PolicyEdit { compaction: true, before_tokens, after_tokens: self.total(thread), why })
    }

    fn clearing(&self, before_tokens: u64, thread: &RivalView, why: String) -> Option<PolicyEdit> {
        Some(PolicyEdit { compaction: false, before_tokens, after_tokens: self.total(thread), why })
    }
}

/// Returns a request as this view makes it.
fn request(thread: &RivalView, side_calls: Vec<SideCall>, edit: Option<PolicyEdit>) -> PolicyRequest {
    PolicyRequest { view: thread.view(), side_calls, edit }
}

/// Estimates tokens as opencode does: a quarter of the characters, rounded.
fn chars_by_four(text: &str) -> u64 {
    // The 2 makes the division round.
    (text.chars().count() as u64 + 2) / 4
}

/// Returns the lines of [`ContextPolicy::sources`].
fn lines(sources: &[&str]) -> Vec<String> {
    sources.iter().map(|line| (*line).to_owned()).collect()
}
