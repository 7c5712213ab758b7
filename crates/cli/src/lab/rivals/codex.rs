//! codex, the local compaction of codex-rs.

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem, ends};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The maximum tokens of kept user messages, the newest first.
const USER_MESSAGE_TOKENS: u64 = 20_000;
/// The tokens of the order for the summary.
const ORDER_TOKENS: u64 = 90;
/// The size to which an arriving result is cut in its middle.
const OUTPUT_CHARS: usize = 10_000;
/// The introduction of the summary, in as many tokens as codex's own.
const LEAD: &str = "A model worked on this problem before you and left the summary below of how far it came. \
    The state of the tools it used is still there for you. Build on what was done and do not do it a second \
    time; use the summary, written by the other model, to help with your own analysis:";

/// codex: at nine tenths of the window a summary replaces everything but the user's own messages.
///
/// In small windows the kept user messages alone can fill the window; then it compacts before every request and still
/// overflows.
#[derive(Default)]
pub(crate) struct CodexPolicy {
    thread: RivalView,
    /// `true` after a refused request, which sets the meter to full. The next request then compacts first.
    is_full: bool,
}

impl CodexPolicy {
    fn limit(moment: &RivalContext<'_>) -> u64 {
        moment.budget().window * 9 / 10
    }

    /// Returns the last reported usage plus an estimate of everything after the last answer.
    fn used(&self, moment: &RivalContext<'_>) -> u64 {
        let new = &self.thread.items[self.thread.after_answer()..];
        let estimate: u64 = new.iter().map(|item| bytes_by_four(item.text())).sum();
        // Before the first report there is no total to add to, so the first request never compacts.
        if moment.now.last_input == 0 { 0 } else { moment.reported() + estimate }
    }

    fn compact(&mut self, moment: &RivalContext<'_>) -> Option<(SideCall, PolicyEdit)> {
        let before = moment.total(&self.thread);
        let counter = &moment.recording.counter;
        let fitting = self.fitting_messages(moment.budget().window)?;
        let texts = moment.texts(fitting);
        let summary = moment.summarise(&texts, ORDER_TOKENS, None);
        let mut items = kept_user_messages(&self.thread.items, moment.recording);
        items.push(RivalViewItem::summary(summary.recorded, Role::User, counter, |text| {
            format!("{LEAD}\n{text}")
        }));
        self.thread.items = items;
        let why = "the window is nine tenths full".to_owned();
        Some((summary.call, moment.compaction(before, &self.thread, why)?))
    }

    /// Returns the newest messages for which the summary request has room. After a refusal the oldest are
    /// dropped first, calls with their results.
    fn fitting_messages(&self, window: u64) -> Option<&[RivalViewItem]> {
        let items = &self.thread.items;
        let mut tokens = self.thread.tokens() + ORDER_TOKENS;
        let mut start = 0;
        // A result whose call was dropped is dropped too.
        while tokens > window || items.get(start).is_some_and(|item| item.role == Role::Tool) {
            tokens -= items.get(start)?.segment.tokens;
            start += 1;
        }
        items.get(start..).filter(|items| !items.is_empty())
    }
}

impl ContextPolicy for CodexPolicy {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = last reported total + bytes / 4 of what came after the last answer ≥ 90 % of the \
             window, before a turn (the new prompt not counted) and before each further request — openai/codex \
             codex-rs/protocol/src/openai_models.rs auto_compact_token_limit; codex-rs/core/src/codex.rs and \
             context_manager/history.rs (versions of 2026)",
            "kept = user messages up to 20,000 tokens, the newest first, the one over the line cut in its \
             middle — openai/codex codex-rs/core/src/compact.rs 0100b103 (COMPACT_USER_MESSAGE_MAX_TOKENS, \
             build_compacted_history)",
            "summary request = the history and an order of about 90 tokens, without tools: nothing cached, the \
             agent waits; when it is refused the oldest items go — same file, run_compact_task_inner",
            "summary limit = none; the stand-in's typical length",
            "reaction to a refusal = the meter is set to full, the next request compacts first — same file, \
             set_total_tokens_full",
            "results cut in the middle to 10,000 characters when they come in — codex-rs/core TruncationPolicy \
             (10,000 bytes for models it does not know), seen in release 0.169.0",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        // codex checks before a turn without counting the new prompt.
        let end = if moment.turn_begins() { moment.prompt_start() } else { next };
        self.thread.take(recording, end, shorten);
        let acts = self.is_full || self.used(&moment) >= Self::limit(&moment);
        let compacted = (acts && now.last_input > 0).then(|| self.compact(&moment)).flatten();
        // The prompt comes in after the compaction, so it is never part of the summary.
        self.thread.take(recording, next, shorten);
        self.is_full = moment.is_refused(&self.thread);
        let (call, edit) = compacted.unzip();
        request(&self.thread, call.into_iter().collect(), edit)
    }
}

fn kept_user_messages(items: &[RivalViewItem], recording: &SessionRecording) -> Vec<RivalViewItem> {
    let mut room = USER_MESSAGE_TOKENS;
    let mut kept = Vec::new();
    for item in items.iter().rev().filter(|item| item.is_user()) {
        let tokens = bytes_by_four(item.text());
        // The message that crosses the line is cut, and all older ones go.
        if tokens > room {
            let chars = room as usize * 4;
            let text = ends(item.text(), chars, chars / 2, |omitted: usize| {
                format!("…{} tokens truncated…", omitted.div_ceil(4))
            });
            kept.extend(
                text.filter(|_| room > 0)
                    .map(|text| RivalViewItem::note(&text, Role::User, &recording.counter)),
            );
            break;
        }
        room -= tokens;
        kept.push(item.clone());
    }
    kept.reverse();
    kept
}

fn bytes_by_four(text: &str) -> u64 {
    // codex divides bytes, not characters, so text beyond ASCII counts more.
    (text.len() as u64).div_ceil(4)
}

fn shorten(text: &str) -> Option<String> {
    ends(text, OUTPUT_CHARS, OUTPUT_CHARS / 2, |omitted| format!("…{omitted} chars truncated…"))
}
