//! cline, its newer runtime with the agentic compaction.

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem, ends};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The share of the window used as the input limit if only a window is known.
const INPUT_SHARE: f64 = 0.9;
const TRIGGER_SHARE: f64 = 0.9;
/// The target of a compaction, as a share of the trigger.
const TARGET_SHARE: f64 = 0.7;
const KEPT_TOKENS: u64 = 20_000;
const SUMMARY_TOKENS: u64 = 4_096;
/// The maximum number of characters of a result for the summariser.
const TRANSCRIPT_CHARS: usize = 2_000;
/// The tokens of a summary request's system line and order.
const ORDER_TOKENS: u64 = 350;
/// The number of characters to which an arriving result is cut in its middle.
const OUTPUT_CHARS: usize = 48_000;
const CHARS_PER_TOKEN: u64 = 3;

/// cline: at 81 % of the window, by a generous estimate of the whole request, all but the newest 20,000 tokens and the
/// current turn go into a summary.
///
/// The kept part never exceeds its target, so the policy follows small windows. A turn that is larger than
/// the window is kept whole and overflows.
#[derive(Default)]
pub(crate) struct ClinePolicy {
    thread: RivalView,
}

impl ClinePolicy {
    fn trigger(moment: &RivalContext<'_>) -> f64 {
        moment.budget().window as f64 * INPUT_SHARE * TRIGGER_SHARE
    }

    /// Returns the allowed tokens of the conversation: the share of the trigger, less system prompt and
    /// tools.
    fn kept_tokens(moment: &RivalContext<'_>) -> u64 {
        let target = (Self::trigger(moment) * TARGET_SHARE) as u64;
        // At least 1, or a window that is all fixed tokens would keep nothing at all.
        KEPT_TOKENS.min(target.saturating_sub(moment.recording.fixed_tokens).max(1))
    }

    /// Returns the start of the kept messages. The start is never after the newest prompt, and never at a
    /// result.
    fn cut(&self, moment: &RivalContext<'_>) -> usize {
        let items = &self.thread.items;
        let (mut total, mut at) = (0, items.len());
        while at > 0 && total < Self::kept_tokens(moment) {
            at -= 1;
            total += by_three(items[at].text());
        }
        let prompt = items.iter().rposition(RivalViewItem::is_user).unwrap_or(0);
        // cline keeps the whole current turn, except the first one of a session.
        if prompt > 0 {
            at = at.min(prompt);
        }
        // A result must not stand without its call, so the cut moves back to the call.
        while at > 0 && items[at].role == Role::Tool {
            at -= 1;
        }
        if items.get(at).is_some_and(RivalViewItem::is_summary) { 0 } else { at }
    }

    fn compact(&mut self, moment: &RivalContext<'_>) -> Option<(SideCall, PolicyEdit)> {
        let cut = self.cut(moment);
        let before = moment.total(&self.thread);
        // A summary of nothing but summaries would gain nothing.
        let old = self.thread.items.get(..cut).filter(|old| old.iter().any(|item| !item.is_summary()))?;
        let texts = moment.cut_texts(old, TRANSCRIPT_CHARS, "\n...[truncated]");
        let summary = moment.summarise(&texts, ORDER_TOKENS, Some(SUMMARY_TOKENS));
        let item =
            RivalViewItem::summary(summary.recorded, Role::User, &moment.recording.counter, |text: &str| {
                format!("Context summary:\n\n{text}")
            });
        self.thread.replace(0..cut, vec![item]);
        let why = "the estimate reached 81 % of the window".to_owned();
        Some((summary.call, moment.compaction(before, &self.thread, why)?))
    }
}

impl ContextPolicy for ClinePolicy {
    fn name(&self) -> &'static str {
        "cline"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = characters / 3 of the whole request ≥ 0.9 × input limit, which is 0.9 × window where \
             only a window is known — cline/cline sdk/packages/core/src/extensions/context/compaction.ts and \
             compaction-shared.ts 21cb8d25, COMPACTION_TRIGGER_RATIO, CONTEXT_WINDOW_INPUT_RATIO; \
             sdk/packages/shared/src/llms/tokens.ts CHARS_PER_TOKEN; system prompt and tools are taken as \
             counted",
            "kept = the newest messages until they have 20,000 tokens or 0.7 × trigger less system prompt and \
             tools, the smaller, and always the whole current turn if it is not the first — same files, \
             findCutIndex, DEFAULT_PRESERVE_RECENT_TOKENS, DEFAULT_TARGET_RATIO",
            "summary request = of its own, conversation as text, results cut to 2,000 characters, earlier \
             summary beside it; nothing cached, the agent waits — agentic-compaction.ts 21cb8d25",
            "summary limit = 4,096 tokens; the stand-in's typical length is less — compaction-shared.ts \
             DEFAULT_SUMMARY_MAX_OUTPUT_TOKENS",
            "the fall-back without a model (basic-compaction.ts) and the recovery after a refusal are not \
             modelled",
            "results cut in the middle to 48,000 characters when they come in — sdk/packages/core, tool output \
             limit 21cb8d25",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        self.thread.take(recording, next, |text| {
            ends(text, OUTPUT_CHARS, OUTPUT_CHARS / 2, |omitted| {
                format!("\n...[truncated {omitted} chars]...\n")
            })
        });
        // cline counts by characters, and the replay's own counts would trigger it at other moments.
        let estimate: u64 = self.thread.items.iter().map(|item| by_three(item.text())).sum();
        let acts = (recording.fixed_tokens + estimate) as f64 >= Self::trigger(&moment);
        let (call, edit) = acts.then(|| self.compact(&moment)).flatten().unzip();
        request(&self.thread, call.into_iter().collect(), edit)
    }
}

fn by_three(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(CHARS_PER_TOKEN)
}
