//! opencode, its session loop as shipped in 1.18.

use longhaul_core::message::Role;

use super::thread::{CLEARED, RivalView, RivalViewItem};
use super::{RivalContext, chars_by_four, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The maximum lines of an arriving result. Longer results are cut.
const OUTPUT_LINES: usize = 2_000;
/// The maximum bytes of an arriving result.
const OUTPUT_BYTES: usize = 50 * 1_024;
/// The maximum part of the window that is kept for the answer, in tokens.
const OUTPUT_TOKEN_MAX: u64 = 32_000;
/// The bounds of the verbatim tail, which is a quarter of the usable room.
const TAIL_MIN_TOKENS: u64 = 2_000;
const TAIL_MAX_TOKENS: u64 = 15_000;
/// The maximum number of characters of a result for the summariser.
const TRANSCRIPT_CHARS: usize = 2_000;
/// The tokens of the order with its template.
const ORDER_TOKENS: u64 = 450;
const PRUNE_PROTECT_TOKENS: u64 = 40_000;
const PRUNE_MINIMUM_TOKENS: u64 = 20_000;
/// The tool whose result is never pruned.
const PROTECTED_TOOL: &str = "skill";
const QUESTION: &str = "What did we do so far?";
const CONTINUE: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// opencode: acts when the last reported usage reaches the usable room, or when a request was refused.
///
/// The tail of at least 2,000 tokens and the order do not shrink with the window. So in windows below about 8,000
/// tokens it compacts at nearly every step.
pub(crate) struct OpenCodePolicy {
    thread: RivalView,
    prunes: bool,
}

impl OpenCodePolicy {
    /// Creates the model with opencode's default configuration: without pruning.
    pub(crate) fn new() -> Self {
        Self { thread: RivalView::default(), prunes: false }
    }

    /// Creates the model with pruning, an option of users.
    pub(crate) fn with_pruning() -> Self {
        Self { thread: RivalView::default(), prunes: true }
    }

    /// Returns the context limit minus the largest requested answer.
    fn usable(moment: &RivalContext<'_>) -> u64 {
        moment.budget().window.saturating_sub(moment.budget().reserve.min(OUTPUT_TOKEN_MAX))
    }

    /// Clears old results once a run has ended, before the next prompt.
    fn prune(&mut self, moment: &RivalContext<'_>) -> Option<PolicyEdit> {
        let before = moment.total(&self.thread);
        let found = self.prunable_results(moment.recording);
        let gained: u64 = found.iter().map(|at| chars_by_four(self.thread.items[*at].text())).sum();
        if gained <= PRUNE_MINIMUM_TOKENS {
            return None;
        }
        self.thread.clear_results(moment.recording, &found, CLEARED);
        moment.clearing(
            before,
            &self.thread,
            format!("about {gained} tokens of old results cleared after a run"),
        )
    }

    fn prunable_results(&self, recording: &SessionRecording) -> Vec<usize> {
        let (mut turns, mut total, mut found) = (0, 0, Vec::new());
        for (at, item) in self.thread.items.iter().enumerate().rev() {
            turns += u64::from(item.is_user());
            // opencode never clears results of the last two turns.
            if turns < 2 {
                continue;
            }
            // Everything older was summarised or cleared by an earlier pass.
            if item.is_summary() || item.is_cleared() {
                break;
            }
            if item.tool(recording).is_some_and(|tool| tool != PROTECTED_TOOL) {
                total += chars_by_four(item.text());
                if total > PRUNE_PROTECT_TOKENS {
                    found.push(at);
                }
            }
        }
        found
    }

    /// Summarises all but the tail. After a refusal the newest user message is taken out and repeated at the
    /// end, and the steps that had followed it are removed.
    fn compact(&mut self, moment: &RivalContext<'_>, refused: bool) -> Option<(SideCall, PolicyEdit)> {
        let before = moment.total(&self.thread);
        let counter = &moment.recording.counter;
        let replay = self.replayed_prompt().filter(|_| refused);
        let end = replay.unwrap_or(self.thread.items.len());
        let start = tail_start(&self.thread.items[..end], tail_budget(Self::usable(moment)));
        // The question of an earlier compaction has no content for the summariser.
        let head: Vec<RivalViewItem> =
            self.thread.items[..start].iter().filter(|item| item.text() != QUESTION).cloned().collect();
        let texts = moment.cut_texts(&head, TRANSCRIPT_CHARS, "\n[truncated]");
        let summary = moment.summarise(&texts, ORDER_TOKENS, None);
        // The real summariser would refuse a request of this size, and opencode goes on without a compaction.
        if summary.call.fresh_tokens > Self::usable(moment) {
            return None;
        }
        // The question comes first, because a summary in the assistant's name must answer something.
        let mut items = vec![
            RivalViewItem::note(QUESTION, Role::User, counter),
            RivalViewItem::summary(summary.recorded, Role::Assistant, counter, str::to_owned),
        ];
        items.extend_from_slice(&self.thread.items[start..end]);
        items.push(match replay {
            Some(at) => self.thread.items[at].clone(),
            None => RivalViewItem::note(CONTINUE, Role::User, counter),
        });
        self.thread.items = items;
        let why = if refused { "the request was refused" } else { "the last usage reached the usable room" };
        Some((summary.call, moment.compaction(before, &self.thread, why.to_owned())?))
    }

    /// Returns the newest user message, if there is another before it.
    fn replayed_prompt(&self) -> Option<usize> {
        let newest = self.thread.items.iter().rposition(is_prompt)?;
        // Without an earlier prompt nothing would be left to summarise.
        self.thread.items[..newest].iter().any(is_prompt).then_some(newest)
    }
}

fn is_prompt(item: &RivalViewItem) -> bool {
    item.is_user() && item.text() != QUESTION
}

impl Default for OpenCodePolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl ContextPolicy for OpenCodePolicy {
    fn name(&self) -> &str {
        if self.prunes { "opencode-prune" } else { "opencode" }
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = last reported input + output ≥ context limit − min(output limit, 32,000), checked \
             before each request; the output limit is what users declare, here the reserve — \
             anomalyco/opencode packages/opencode/src/session/overflow.ts 08f74b9b, OUTPUT_TOKEN_MAX in \
             provider/transform.ts",
            "reaction to a refusal = one compaction that says the newest user message again and drops the \
             steps after it — anomalyco/opencode packages/opencode/src/session/compaction.ts 001aa6cc \
             (overflow, replay)",
            "tail kept = whole turns, or the end of one from a message on, up to 25 % of the usable room \
             within 2,000 and 15,000 tokens (characters / 4) — packages/opencode/src/session/compaction.ts as \
             of d138b9d9 (release 1.18), select and splitTurn",
            "summary request = of its own, conversation as text, results cut to 2,000 characters, earlier \
             summary beside it; nothing cached, the agent waits — same file, serialize; order of about 450 \
             tokens",
            "summary limit = none; the stand-in's typical length",
            "after it = question, summary, tail, synthetic order to continue — same file",
            "prune (off by default since it became opt-in; opencode-prune switches it on) = after a run, \
             results beyond the newest 40,000 tokens, not in the last 2 turns, if more than 20,000 are gained; \
             `skill` exempt — same file, prune",
            "results cut at 2,000 lines or 50 KiB when they come in — packages/opencode/src/tool/truncate.ts, \
             release 1.18",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        let (mut edit, mut calls) = (None, Vec::new());
        if self.prunes && moment.turn_begins() {
            // Only what was there before the new prompt is pruned, so the results of this turn come in later.
            self.thread.take(recording, moment.prompt_start(), shorten);
            edit = self.prune(&moment);
        }
        self.thread.take(recording, next, shorten);
        // Before the first answer there is no reported usage to act on.
        let is_full = now.last_input > 0 && moment.reported() >= Self::usable(&moment);
        // The check on usage comes first. A request that is still too large is then refused by the server.
        for refused in [false, true] {
            let acts = if refused { moment.is_refused(&self.thread) } else { is_full };
            if let Some((call, compaction)) = acts.then(|| self.compact(&moment, refused)).flatten() {
                calls.push(call);
                edit = Some(compaction);
            }
        }
        request(&self.thread, calls, edit)
    }
}

fn tail_budget(usable: u64) -> u64 {
    // The lower bound holds in small windows too, where it is more than a quarter.
    (usable / 4).clamp(TAIL_MIN_TOKENS, TAIL_MAX_TOKENS)
}

/// Returns the start of the tail; the end if there is no tail.
fn tail_start(items: &[RivalViewItem], budget: u64) -> usize {
    let mut turns: Vec<usize> = (0..items.len()).filter(|at| is_prompt(&items[*at])).collect();
    let (mut kept, mut end, mut room) = (items.len(), items.len(), budget);
    while let Some(start) = turns.pop() {
        let tokens = tokens_of(&items[start..end]);
        // Whole turns are kept while they fit. The turn that does not fit is cut at a message.
        if tokens > room {
            // A tail that began with a result would lack the result's call.
            let mut cuts = (start + 1..end).filter(|at| items[*at].role != Role::Tool);
            kept = cuts.find(|at| tokens_of(&items[*at..end]) <= room).unwrap_or(kept);
            break;
        }
        (kept, end, room) = (start, start, room - tokens);
    }
    // A tail of everything would leave nothing to summarise, so there is no tail then.
    if kept == 0 { items.len() } else { kept }
}

fn tokens_of(items: &[RivalViewItem]) -> u64 {
    items.iter().map(|item| chars_by_four(item.text())).sum()
}

/// Returns the head of a too long result.
fn shorten(text: &str) -> Option<String> {
    // The limit in lines and the limit in bytes hold together: the earlier one cuts.
    let lines = text.match_indices('\n').nth(OUTPUT_LINES - 1).map_or(text.len(), |(at, _)| at);
    let end = text.floor_char_boundary(lines.min(OUTPUT_BYTES));
    (end < text.len()).then(|| format!("{}\n\n...output truncated...", &text[..end]))
}
