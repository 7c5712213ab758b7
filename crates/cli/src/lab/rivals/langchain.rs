//! The two context middlewares of LangChain.

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The number of tokens added to each message in langchain's estimate.
const MESSAGE_TOKENS: u64 = 3;
const TRIGGER_SHARE: f64 = 0.8;
const KEPT_MESSAGES: usize = 20;
/// The maximum tokens for the summariser, the newest first.
const SUMMARISED_TOKENS: u64 = 4_000;
const ORDER_TOKENS: u64 = 340;
const TOO_LONG: &str = "Previous conversation was too long to summarize.";
const CLEAR_TRIGGER_TOKENS: u64 = 100_000;
const KEPT_RESULTS: usize = 3;
const CLEARED: &str = "[cleared]";

/// `SummarizationMiddleware`: at a share of the window all but the newest 20 messages go into a summary. The model that
/// writes the summary sees only the last 4,000 tokens of them.
///
/// In small windows 20 messages are more than the window: then it summarises before every request and still overflows.
#[derive(Default)]
pub(crate) struct LangChainSummarization {
    thread: RivalView,
}

/// `ContextEditingMiddleware` with `ClearToolUsesEdit`: over 100,000 tokens all but the newest 3 results are cleared
/// in what is sent, anew for every request.
///
/// The constant does not know the window: in windows under 100,000 tokens it never acts.
#[derive(Default)]
pub(crate) struct LangChainToolClearing {
    thread: RivalView,
    cleared: usize,
}

impl LangChainSummarization {
    fn is_due(&self, moment: &RivalContext<'_>) -> bool {
        let trigger = (moment.budget().window as f64 * TRIGGER_SHARE) as u64;
        approximate(&self.thread.items) >= trigger || moment.reported() >= trigger
    }

    /// Returns the start of the messages that stay: 20 from the end, or the message with the calls if that is
    /// a result.
    fn cutoff(&self) -> usize {
        let mut at = self.thread.items.len().saturating_sub(KEPT_MESSAGES);
        while at > 0 && self.thread.items[at].role == Role::Tool {
            at -= 1;
        }
        at
    }

    fn summary(&self, moment: &RivalContext<'_>, old: &[RivalViewItem]) -> (RivalViewItem, Option<SideCall>) {
        let counter = &moment.recording.counter;
        let shown = newest_from_prompt(old);
        if shown.is_empty() {
            return (RivalViewItem::note(&summary_frame(TOO_LONG), Role::User, counter), None);
        }
        let summary = moment.summarise(&moment.texts(shown), ORDER_TOKENS, None);
        (RivalViewItem::summary(summary.recorded, Role::User, counter, summary_frame), Some(summary.call))
    }
}

fn summary_frame(text: &str) -> String {
    format!("Here is a summary of the conversation to date:\n\n{text}")
}

impl ContextPolicy for LangChainSummarization {
    fn name(&self) -> &'static str {
        "langchain-summarization"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = (\"fraction\", 0.8) of the window, an assumption: there is no default, this is the value \
             in its own documentation; by estimate or by the last reported total — langchain-ai/langchain \
             libs/langchain_v1/langchain/agents/middleware/summarization.py, 1.2 (_should_summarize, \
             _should_summarize_based_on_reported_tokens)",
            "kept = the newest 20 messages, from the message with the calls if that would begin with a result \
             — same file, _DEFAULT_MESSAGES_TO_KEEP, _find_safe_cutoff_point (1.2); 01b1122a has the constant",
            "summary request = of its own, order of about 340 tokens and the newest 4,000 tokens of what goes, \
             from a user message on; without one there no call is made and the summary is a sentence that says \
             so — same file 01b1122a, _DEFAULT_TRIM_TOKEN_LIMIT, _trim_messages_for_summary; \
             langchain-ai/langchain#39261",
            "summary limit = none; the stand-in's typical length; the agent waits",
            "counting = characters / 4 + 3 for each message, without system prompt and tools — \
             langchain_core/messages/utils.py, count_tokens_approximately; names of calls not counted again",
            "reaction to a refusal = none",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        self.thread.take(recording, next, |_| None);
        let cutoff = self.cutoff();
        if cutoff == 0 || !self.is_due(&moment) {
            return request(&self.thread, Vec::new(), None);
        }
        let before = moment.total(&self.thread);
        let (summary, call) = self.summary(&moment, &self.thread.items[..cutoff]);
        self.thread.replace(0..cutoff, vec![summary]);
        let why = "the trigger share of the window is reached".to_owned();
        let edit = moment.compaction(before, &self.thread, why);
        request(&self.thread, call.into_iter().collect(), edit)
    }
}

impl ContextPolicy for LangChainToolClearing {
    fn name(&self) -> &'static str {
        "langchain-clear-tool-uses"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = over 100,000 tokens, by estimate, of the conversation with nothing cleared — \
             langchain-ai/langchain libs/langchain_v1/langchain/agents/middleware/context_editing.py 03373459, \
             ClearToolUsesEdit.trigger, count_tokens_approximately",
            "kept = the newest 3 results; arguments stay — same file, keep, clear_tool_inputs",
            "placeholder = \"[cleared]\", no minimum gain, no tool exempt — same file, DEFAULT_TOOL_PLACEHOLDER, \
             clear_at_least 0",
            "the conversation itself is not changed: each request is edited anew, so the prefix breaks with \
             every result — same file, ContextEditingMiddleware.wrap_model_call",
            "reaction to a refusal = none",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        self.thread.take(recording, next, |_| None);
        if approximate(&self.thread.items) <= CLEAR_TRIGGER_TOKENS {
            return request(&self.thread, Vec::new(), None);
        }
        let before = moment.total(&self.thread);
        // The middleware edits a copy: the conversation itself keeps its results.
        let mut sent = RivalView::default();
        sent.items = self.thread.items.clone();
        let results: Vec<usize> =
            (0..sent.items.len()).filter(|at| sent.items[*at].role == Role::Tool).collect();
        let cleared = results.len().saturating_sub(KEPT_RESULTS);
        sent.clear_results(recording, &results[..cleared], CLEARED);
        // The same results are cleared anew in every request. Only newly cleared ones count as an edit.
        let is_more = cleared > std::mem::replace(&mut self.cleared, cleared);
        let why = format!("all but the newest {KEPT_RESULTS} results cleared");
        let edit = is_more.then(|| moment.clearing(before, &sent, why)).flatten();
        request(&sent, Vec::new(), edit)
    }
}

/// Estimates tokens as langchain does: for each message with its role's name a quarter of the characters, rounded
/// up, and three.
fn approximate(items: &[RivalViewItem]) -> u64 {
    let tokens = items.iter().map(|item| {
        // The lengths of `assistant`, and of `user` and `tool`.
        let role_chars = if item.role == Role::Assistant { 9 } else { 4 };
        (item.chars() + role_chars).div_ceil(4) + MESSAGE_TOKENS
    });
    tokens.sum()
}

/// Returns the newest messages within 4,000 tokens, from the first user message among them on.
fn newest_from_prompt(items: &[RivalViewItem]) -> &[RivalViewItem] {
    let mut start = items.len();
    while start > 0 && approximate(&items[start - 1..]) <= SUMMARISED_TOKENS {
        start -= 1;
    }
    let shown = &items[start..];
    // langchain drops what comes before the first user message, even if that is everything.
    let prompt = shown.iter().position(|item| item.role == Role::User).unwrap_or(shown.len());
    &shown[prompt..]
}
