//! crush.

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The size above which a window is large, in tokens.
const LARGE_WINDOW: u64 = 200_000;
/// The free tokens in large windows. Other windows keep a fifth free.
const LARGE_BUFFER: u64 = 20_000;
/// The tokens of the summary's own system prompt and order.
const ORDER_TOKENS: u64 = 420;

/// crush: when a step leaves too little room, everything is replaced by one summary.
///
/// A fifth of a small window is kept free, so it works in small windows too; but it knows no refused requests, and one
/// large result ends the session.
#[derive(Default)]
pub(crate) struct CrushPolicy {
    thread: RivalView,
    /// The user's request, which each compaction of the same run wraps again.
    prompt: String,
}

impl CrushPolicy {
    fn is_due(moment: &RivalContext<'_>) -> bool {
        let window = moment.budget().window;
        let threshold = if window > LARGE_WINDOW { LARGE_BUFFER } else { (window as f64 * 0.2) as u64 };
        // Before the first answer there is no report to judge by.
        moment.now.last_input > 0 && window.saturating_sub(moment.reported()) <= threshold
    }

    fn compact(&mut self, moment: &RivalContext<'_>) -> Option<(SideCall, PolicyEdit)> {
        let before = moment.total(&self.thread);
        let counter = &moment.recording.counter;
        let texts = moment.texts(&self.thread.items);
        let summary = moment.summarise(&texts, ORDER_TOKENS, None);
        // crush has no answer to a refused summary request: nothing is compacted then.
        if summary.call.fresh_tokens + summary.call.output_tokens > moment.budget().window {
            return None;
        }
        self.thread.items =
            vec![RivalViewItem::summary(summary.recorded, Role::User, counter, str::to_owned)];
        // Between turns the prompt is answered, so nothing has to be said again.
        if !moment.turn_begins() {
            self.prompt = format!(
                "The previous session was interrupted because it got too long, the initial user request was: `{}`",
                self.prompt
            );
            self.thread.items.push(RivalViewItem::note(&self.prompt, Role::User, counter));
        }
        let why = "the last step left too little room".to_owned();
        Some((summary.call, moment.compaction(before, &self.thread, why)?))
    }
}

impl ContextPolicy for CrushPolicy {
    fn name(&self) -> &'static str {
        "crush"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = after a step, window − reported input and output ≤ 20,000 if the window is over \
             200,000, else ≤ 20 % of it — charmbracelet/crush internal/agent/agent.go 37f36e93 (StopWhen)",
            "kept = nothing; one summary as user message, in the middle of a run the original prompt again in \
             a sentence about the interruption, wrapped anew each time — same file, Summarize, Run, \
             getSessionMessages",
            "summary request = own system prompt (templates/summary.md, 1,752 bytes) and no tools before the \
             conversation: nothing cached, no output limit asked for, the agent waits; if it does not fit the \
             window nothing is compacted — same file",
            "summary limit = none; the stand-in's typical length",
            "reaction to a refusal = none — charmbracelet/crush#3620",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        let begins = moment.turn_begins();
        // crush checks after a step, when the new prompt is not there yet.
        let end = if begins { moment.prompt_start() } else { next };
        self.thread.take(recording, end, |_| None);
        let compacted = Self::is_due(&moment).then(|| self.compact(&moment)).flatten();
        self.thread.take(recording, next, |_| None);
        if begins {
            self.prompt = self.thread.items.last().map(|item| item.text().to_owned()).unwrap_or_default();
        }
        let (call, edit) = compacted.unzip();
        request(&self.thread, call.into_iter().collect(), edit)
    }
}
