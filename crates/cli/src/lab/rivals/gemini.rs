//! gemini-cli.

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem, ends};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::SessionRecording;

/// The window assumed in gemini-cli's code for every model but Gemma's.
const TOKEN_LIMIT: u64 = 1_048_576;
const TRIGGER_SHARE: f64 = 0.5;
/// The summarised share of the characters.
const COMPRESS_SHARE: f64 = 0.7;
/// The tokens of results, the newest first, beyond which results are cut before a compression.
const RESULT_BUDGET_TOKENS: u64 = 50_000;
/// The characters to which a result is cut. A fifth of them is from its start.
const OUTPUT_CHARS: u64 = 40_000;
const MASK_PROTECT_TOKENS: u64 = 50_000;
const MASK_MINIMUM_TOKENS: u64 = 30_000;
const UNMASKED_TOOLS: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// The tokens of the compression prompt and the order.
const ORDER_TOKENS: u64 = 1_000;
/// The tokens of the order to check the summary.
const CHECK_TOKENS: u64 = 75;
const ANSWER: &str = "Got it. Thanks for the additional context!";
/// Longer texts are counted by their length alone, in characters.
const LONG_TEXT_CHARS: u64 = 100_000;

/// gemini-cli: at half of the window it knows, the older seven tenths go into a summary, cut at a prompt of the user;
/// masks old results.
///
/// The window cannot be declared: its code believes in 1,048,576 tokens, so that in smaller windows it never compresses
/// and a request grows until it is refused. [`GeminiCliPolicy::declared`] does as if the window were known.
pub(crate) struct GeminiCliPolicy {
    thread: RivalView,
    is_declared: bool,
    /// `true` after a compression that made the view longer. From then on only results are cut.
    has_failed: bool,
}

impl GeminiCliPolicy {
    /// Creates the model with gemini-cli's own table of windows.
    pub(crate) fn new() -> Self {
        Self { thread: RivalView::default(), is_declared: false, has_failed: false }
    }

    /// Creates the model as if gemini-cli's table of windows had the window of the replay.
    pub(crate) fn declared() -> Self {
        Self { is_declared: true, ..Self::new() }
    }

    fn limit(&self, moment: &RivalContext<'_>) -> u64 {
        if self.is_declared { moment.budget().window } else { TOKEN_LIMIT }
    }

    /// Returns the maximum size of an arriving result, in characters: four for each token that is left.
    fn output_chars(&self, moment: &RivalContext<'_>) -> usize {
        let left = self.limit(moment).saturating_sub(moment.now.last_input);
        (left * 4).min(OUTPUT_CHARS) as usize
    }

    /// Compresses the history: all but what waits for an answer.
    fn compress(&mut self, moment: &RivalContext<'_>) -> (Vec<SideCall>, Option<PolicyEdit>) {
        let end = self.thread.after_answer();
        let trigger = self.limit(moment) as f64 * TRIGGER_SHARE;
        if end == 0 || (moment.now.last_input as f64) < trigger {
            return (Vec::new(), None);
        }
        let cut = self.with_cut_results(moment, end);
        if self.has_failed {
            return (Vec::new(), self.cut_only(moment, cut));
        }
        let split = split_point(&cut, moment.recording);
        if split == 0 {
            return (Vec::new(), None);
        }
        let before = moment.total(&self.thread);
        let (new, calls) = self.compressed_view(moment, &cut, split);
        // gemini-cli pays for a summary that is longer than before, throws it away, and later only cuts
        // results.
        if new.iter().map(|item| estimate(item.text())).sum::<u64>() > moment.now.last_input {
            self.has_failed = true;
            return (calls, None);
        }
        self.thread.replace(0..end, new);
        let why = "the last prompt reached half of the window it knows".to_owned();
        (calls, moment.compaction(before, &self.thread, why))
    }

    fn cut_only(&mut self, moment: &RivalContext<'_>, cut: Vec<RivalViewItem>) -> Option<PolicyEdit> {
        let before = moment.total(&self.thread);
        if cut.iter().map(|item| estimate(item.text())).sum::<u64>() >= moment.now.last_input {
            return None;
        }
        self.thread.replace(0..cut.len(), cut);
        let why = "results cut, since a compression had failed".to_owned();
        // Its own estimate may see a gain where the replay's count sees none. That is no edit.
        moment.clearing(before, &self.thread, why).filter(|edit| edit.after_tokens < edit.before_tokens)
    }

    /// Returns the history in which results beyond the newest 50,000 tokens of results are cut.
    fn with_cut_results(&self, moment: &RivalContext<'_>, end: usize) -> Vec<RivalViewItem> {
        let (mut used, max_chars) = (0, self.output_chars(moment));
        let mut items: Vec<RivalViewItem> = self.thread.items[..end].to_vec();
        for item in items.iter_mut().rev().filter(|item| item.role == Role::Tool) {
            let mut tokens = estimate(item.text());
            if used + tokens > RESULT_BUDGET_TOKENS
                && let Some(text) = shorten(item.text(), max_chars)
                && let Some(cut) = item.cut(moment.recording, &text)
            {
                tokens = estimate(&text);
                *item = cut;
            }
            used += tokens;
        }
        items
    }

    /// Returns the view of summary, answer and kept messages, and the two calls: one writes the summary, one
    /// checks it on the same prefix.
    fn compressed_view(
        &self,
        moment: &RivalContext<'_>,
        cut: &[RivalViewItem],
        split: usize,
    ) -> (Vec<RivalViewItem>, Vec<SideCall>) {
        let counter = &moment.recording.counter;
        let old = &self.thread.items[..split];
        // The summariser gets the whole results as long as they fit the window that the peer believes in.
        let shown = if old.iter().map(|item| estimate(item.text())).sum::<u64>() < self.limit(moment) {
            old
        } else {
            cut
        };
        let summary = moment.summarise(&moment.texts(&shown[..split]), ORDER_TOKENS, None);
        let prefix = summary.call.fresh_tokens;
        // The check repeats the prefix of the summary request, which the provider may have cached by then.
        let is_cached = prefix >= moment.now.prices.cache_minimum_tokens;
        let check = SideCall {
            cached_tokens: if is_cached { prefix } else { 0 },
            fresh_tokens: if is_cached { 0 } else { prefix } + summary.call.output_tokens + CHECK_TOKENS,
            ..summary.call
        };
        let mut items = vec![
            RivalViewItem::summary(summary.recorded, Role::User, counter, |text| {
                format!("<state_snapshot>\n{text}</state_snapshot>")
            }),
            RivalViewItem::note(ANSWER, Role::Assistant, counter),
        ];
        items.extend_from_slice(&cut[split..]);
        (items, vec![summary.call, check])
    }

    /// Leaves of old results only their ends.
    fn mask_old_results(&mut self, moment: &RivalContext<'_>) -> Option<PolicyEdit> {
        let before = moment.total(&self.thread);
        let found = self.maskable_results(moment.recording);
        let tokens: u64 = found.iter().map(|at| estimate(self.thread.items[*at].text())).sum();
        if found.is_empty() || tokens < MASK_MINIMUM_TOKENS {
            return None;
        }
        for at in found {
            let item = &self.thread.items[at];
            let text = masked(item, item.tool(moment.recording).unwrap_or_default());
            // The frame around a short result is longer than the result.
            if estimate(&text) < estimate(item.text())
                && let Some(cleared) = item.with_cleared_result(moment.recording, &text)
            {
                self.thread.items[at] = cleared;
            }
        }
        moment.clearing(before, &self.thread, format!("about {tokens} tokens of old results masked"))
    }

    fn maskable_results(&self, recording: &SessionRecording) -> Vec<usize> {
        let (mut seen, mut found) = (0, Vec::new());
        let history = &self.thread.items[..self.thread.after_answer()];
        for (at, item) in history.iter().enumerate().rev() {
            if item.tool(recording).is_some_and(|tool| !UNMASKED_TOOLS.contains(&tool)) {
                seen += estimate(item.text());
                if seen > MASK_PROTECT_TOKENS {
                    found.push(at);
                }
            }
        }
        found
    }
}

impl Default for GeminiCliPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl ContextPolicy for GeminiCliPolicy {
    fn name(&self) -> &str {
        if self.is_declared { "gemini-cli-declared" } else { "gemini-cli" }
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "window = 1,048,576 tokens whatever the model (Gemma 4: 256,000) — google-gemini/gemini-cli \
             packages/core/src/core/tokenLimits.ts 5411f113; gemini-cli-declared takes the replay's window \
             instead",
            "trigger = prompt tokens of the last request ≥ 0.5 × window, before every request — \
             packages/core/src/context/chatCompressionService.ts 5411f113, DEFAULT_COMPRESSION_TOKEN_THRESHOLD",
            "kept = the messages from the first prompt after 70 % of the characters on; without one nothing if \
             a run has just ended, else those from the newest prompt on, and if that is the first message \
             nothing happens — same file, COMPRESSION_PRESERVE_THRESHOLD 0.3, findCompressSplitPoint",
            "results beyond the newest 50,000 tokens are cut to 40,000 characters (or 4 × the tokens left) \
             before — same file, COMPRESSION_FUNCTION_RESPONSE_TOKEN_BUDGET; \
             packages/core/src/config/config.ts getTruncateToolOutputThreshold; the same cut when they come \
             in: packages/core/src/scheduler/tool-executor.ts",
            "summary request = own system prompt (about 950 tokens) before the part that goes, then a second \
             call that checks it on the same prefix; the agent waits for both — same file; the scratchpad it \
             writes first is not charged",
            "summary limit = none; the stand-in's typical length; a result longer than before is thrown away, \
             and later only results are cut — same file, COMPRESSION_FAILED_INFLATED_TOKEN_COUNT",
            "mask = before every request, results beyond the newest 50,000 tokens if they have ≥ 30,000 \
             together: 250 characters of each end (shell: 10 lines) and the name of a file; 4 tools exempt — \
             packages/core/src/context/toolOutputMaskingService.ts 5411f113",
            "reaction to a refusal = none — packages/core/src/core/client.ts 5411f113",
            "counting = characters / 4, 1.5 for each that is not ASCII — \
             packages/core/src/utils/tokenCalculation.ts 5411f113",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        let max_chars = self.output_chars(&moment);
        self.thread.take(recording, next, |text| shorten(text, max_chars));
        let (calls, compressed) = self.compress(&moment);
        let masked = self.mask_old_results(&moment);
        request(&self.thread, calls, compressed.or(masked))
    }
}

/// Returns the start of the kept part.
fn split_point(items: &[RivalViewItem], recording: &SessionRecording) -> usize {
    let total: u64 = items.iter().map(RivalViewItem::chars).sum();
    let target = total as f64 * COMPRESS_SHARE;
    let (mut before, mut last) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        if item.role == Role::User {
            if before as f64 >= target {
                return at;
            }
            last = at;
        }
        before += item.chars();
    }
    let is_settled =
        items.last().is_some_and(|item| item.role == Role::Assistant && item.calls(recording) == 0);
    if is_settled { items.len() } else { last }
}

fn estimate(text: &str) -> u64 {
    let chars = text.chars().count() as u64;
    if chars > LONG_TEXT_CHARS {
        return chars / 4;
    }
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    // A quarter of a token for an ASCII character, one and a half for any other.
    (ascii + (chars - ascii) * 6) / 4
}

/// Shortens a text to `max_chars`. If no token is left, nothing is cut.
fn shorten(text: &str, max_chars: usize) -> Option<String> {
    ends(text, max_chars, max_chars / 5, |omitted: usize| {
        format!("\n\n... [{omitted} characters omitted] ...\n\n")
    })
    .filter(|_| max_chars > 0)
}

fn masked(item: &RivalViewItem, tool: &str) -> String {
    let is_shell = ["shell", "bash"].iter().any(|name| tool.contains(name));
    let text = item.text();
    let preview = if is_shell {
        line_ends(text)
    } else {
        ends(text, 500, 250, |_| "\n... [TRUNCATED] ...\n".to_owned())
    };
    let preview = preview.as_deref().unwrap_or(text);
    let file = format!("~/.gemini/tmp/tool-outputs/{tool}_{}.txt", item.entry().unwrap_or_default());
    format!(
        "<tool_output_masked>\n{preview}\n\nOutput too large. Full output available at: {file}\n</tool_output_masked>"
    )
}

/// Returns ten lines of each end.
fn line_ends(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let omitted = lines.len().checked_sub(20).filter(|omitted| *omitted > 0)?;
    let (head, tail) = (lines[..10].join("\n"), lines[10 + omitted..].join("\n"));
    Some(format!("{head}\n\n... [{omitted} lines omitted] ...\n\n{tail}"))
}
