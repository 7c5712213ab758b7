//! Suspicion of a shortened request behind an answer with status 200.

use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};

use super::ReportedOverflow;
use super::texts::ErrorBodyContents;
use crate::LimitSource;

/// The share of the tokens counted before that the server must count again, in percent. Earlier messages do not
/// shrink, but a template may show an older message in fewer tokens.
const COUNTED_BEFORE_PERCENT: u64 = 90;

/// The share of the estimated tokens that the server must count, in percent. A server that cuts the newest
/// message keeps half of its window (Ollama: 2,050 of 4,096). No estimate of a whole request errs by as much.
const ESTIMATED_PERCENT: u64 = 50;

/// The least number of missing tokens as proof: the estimate of a single odd text can be far off.
const MIN_MISSING_TOKENS: u64 = 256;

/// The least growth of a request, in tokens, after which a report that stays exactly the same is no chance.
const MIN_GROWN_TOKENS: u64 = 64;

/// The least number of tokens kept by a cutting server. No such server has a window below 2,048 tokens, and none
/// keeps less than half of the window.
const MIN_KEPT_TOKENS: u64 = 1_000;

/// The output, in tokens, below which an end for length was not set by an output limit: no client sets one so low.
const FEW_OUTPUT_TOKENS: u64 = 256;

/// The share of a window, in percent, above which a request more likely caused an empty answer than chance did.
const NEARLY_FULL_PERCENT: u64 = 80;

/// The bound for an unknown window, in tokens: near the smallest window that servers load by default
/// (2,048).
const NEARLY_FULL_TOKENS: u64 = 1_800;

/// The largest ratio between a server's count and ours. Vocabularies differ by less (decision 0008).
const MAX_COUNT_RATIO: u64 = 4;

/// Words for the end of an answer that name the window: Anthropic, Mistral, LM Studio.
const WINDOW_WORDS: &[&str] = &[
    "model_context_window_exceeded",
    "context_window_exceeded",
    "context_length_exceeded",
    "model_length",
    "contextlengthreached",
    "context_length_reached",
];

/// The token counts of an answered request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnsweredRequestTokens {
    /// The part of the input counted by the server itself, in an earlier answer.
    pub counted_before: u64,
    /// The part estimated since.
    pub estimated: u64,
    /// The input of the server's last report, for a request with the same prefix; 0 without a report.
    pub last_input: u64,
    /// `true` if the server's reports have grown with the earlier requests.
    pub has_grown: bool,
    /// The part of both that the server may leave out without a cut: reasoning of earlier turns, media that it
    /// does not count.
    pub may_be_left_out: u64,
    /// The expected p99 error of the two parts together, as a share.
    pub margin: f64,
    /// The window, if a source gave a window; never an assumed window.
    pub window: Option<u64>,
    /// The source of the window.
    pub source: LimitSource,
    /// The requested output limit.
    pub max_output: Option<u64>,
}

/// An overflow that looks like success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspectedOverflow {
    /// The window was full: the answer ended there, or the window is smaller than the input.
    WindowFull {
        /// Input and output together, the size that fits; `None` if the server counted nothing.
        total: Option<u64>,
    },
    /// The answer is empty, and the request fills the window or nearly.
    Empty,
    /// The server has read much less than the request held.
    SilentlyTruncated {
        /// The input tokens reported by the server.
        reported: u64,
        /// The input tokens of the request, by our count.
        counted: u64,
    },
}

impl SuspectedOverflow {
    /// Returns the overflow as if the server had reported it. The limit is the size that the server has shown to
    /// hold. The limit may be less than the window and is never more.
    pub fn overflow(self) -> ReportedOverflow {
        let limit_tokens = match self {
            Self::WindowFull { total } => total,
            Self::Empty => None,
            Self::SilentlyTruncated { reported, .. } => Some(reported),
        };
        ReportedOverflow { used_tokens: None, limit_tokens }
    }
}

/// Examines an answer with status 200. `None`: no suspicion.
///
/// ```
/// use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
/// use longhaul_core::usage::Usage;
/// use longhaul_wire::overflow::{AnsweredRequestTokens, SuspectedOverflow, suspect};
///
/// let usage = Usage { input_tokens: 2_050, output_tokens: 9, ..Usage::default() };
/// let answer = ModelAnswer {
///     parts: vec![Part::text("Hello!")],
///     finish: ModelStopReason::Stop,
///     usage: Some(usage),
///     envelope: None,
/// };
/// let sent = AnsweredRequestTokens { estimated: 9_000, ..AnsweredRequestTokens::default() };
/// let expected = SuspectedOverflow::SilentlyTruncated { reported: 2_050, counted: 9_000 };
/// assert_eq!(suspect(&sent, &answer), Some(expected));
/// ```
pub fn suspect(sent: &AnsweredRequestTokens, answer: &ModelAnswer) -> Option<SuspectedOverflow> {
    let total =
        // A total of 0 means that the server did not count.
        answer.usage.as_ref().map(longhaul_core::usage::Usage::total_tokens).filter(|total| *total > 0);
    // The server's own word needs no counts, so it is examined before the numbers.
    if names_the_window(answer) {
        return Some(SuspectedOverflow::WindowFull { total });
    }
    let reported = answer.usage.as_ref().map(|usage| usage.input_tokens).filter(|input| *input > 0);
    if let Some(reported) = reported.filter(|reported| sent.was_cut_to(*reported)) {
        return Some(SuspectedOverflow::SilentlyTruncated { reported, counted: sent.counted() });
    }
    let over = reported.is_some_and(|input| sent.is_beyond_window(input));
    if over || (answer.finish == ModelStopReason::Length && sent.was_ended_by_the_window(answer)) {
        return Some(SuspectedOverflow::WindowFull { total });
    }
    let has_no_room = match answer.finish {
        ModelStopReason::Stop | ModelStopReason::Other => sent.is_nearly_full(),
        ModelStopReason::Length => sent.had_no_room(answer),
        // After a tool call or a filter an empty text says nothing about the window.
        _ => false,
    };
    (has_no_room && is_silent(&answer.parts)).then_some(SuspectedOverflow::Empty)
}

impl AnsweredRequestTokens {
    fn counted(&self) -> u64 {
        self.counted_before.saturating_add(self.estimated)
    }

    fn max_input_tokens(&self) -> u64 {
        let counted = self.counted();
        counted.saturating_add((counted as f64 * self.margin).ceil() as u64)
    }

    /// Returns the least count of a server after a read of the whole request.
    fn min_reported_tokens(&self) -> u64 {
        let counted = self.counted_before.saturating_mul(COUNTED_BEFORE_PERCENT) / 100;
        let estimated = self.estimated.saturating_mul(ESTIMATED_PERCENT) / 100;
        counted.saturating_add(estimated).saturating_sub(self.may_be_left_out)
    }

    /// Reports whether the server cut the request to `reported` tokens. A report that never grows with the
    /// request is a wrong report and no cut; so is one below half of any possible window. A small report is no
    /// reason to doubt a window that was stated or discovered.
    fn was_cut_to(&self, reported: u64) -> bool {
        let has_room = self.window.is_some_and(|window| self.max_input_tokens() <= window);
        let least_kept = self.window.map_or(MIN_KEPT_TOKENS, |window| MIN_KEPT_TOKENS.max(window / 2));
        if has_room || reported < least_kept {
            return false;
        }
        if self.is_unchanged_report(reported) {
            return self.has_grown;
        }
        let missing = self.counted().saturating_sub(self.may_be_left_out).saturating_sub(reported);
        missing >= MIN_MISSING_TOKENS && reported < self.min_reported_tokens()
    }

    /// Reports whether the server's count equals its last one exactly, although the request has grown. If every
    /// earlier count has grown, the server cuts at this size.
    fn is_unchanged_report(&self, reported: u64) -> bool {
        let grown = self.counted().saturating_sub(self.may_be_left_out).saturating_sub(self.last_input);
        reported == self.last_input && grown >= MIN_GROWN_TOKENS
    }

    /// Reports whether the server counts more input than the window holds. A count far above ours is a wrong report: the
    /// server has taken the request.
    fn is_beyond_window(&self, reported: u64) -> bool {
        let most = self.max_input_tokens().saturating_mul(MAX_COUNT_RATIO);
        reported <= most && self.window.is_some_and(|window| reported > window)
    }

    fn was_ended_by_the_window(&self, answer: &ModelAnswer) -> bool {
        let usage = answer.usage.as_ref();
        // The answer is as long as the request allowed, so the output limit ended it.
        if usage.zip(self.max_output).is_some_and(|(usage, most)| usage.output_tokens >= most) {
            return false;
        }
        let input = usage.map(|usage| usage.input_tokens).filter(|input| *input > 0);
        let output = usage.map(|usage| usage.output_tokens);
        match self.window {
            Some(window) => {
                let total = input.unwrap_or_else(|| self.counted()).saturating_add(output.unwrap_or(0));
                // Servers stop a little before the window's end, and the counts of both sides differ slightly.
                total.saturating_add((window / 100).max(16)) >= window
            }
            None => {
                // A caller's own low limit lowers the bound, so that it is not taken for the window.
                let few = FEW_OUTPUT_TOKENS.min(self.max_output.unwrap_or(u64::MAX) / 2);
                self.counted() >= NEARLY_FULL_TOKENS && output.is_some_and(|output| output < few)
            }
        }
    }

    /// Reports whether an answer that ended for its length had no room to begin. If the server has counted next to no
    /// output, its window is full, whatever window was stated.
    fn had_no_room(&self, answer: &ModelAnswer) -> bool {
        // A caller's own low limit ends an answer, too. A probe asks for one token.
        let few = FEW_OUTPUT_TOKENS.min(self.max_output.unwrap_or(u64::MAX) / 2);
        let counted = answer.usage.as_ref().filter(|usage| usage.total_tokens() > 0);
        match counted.map(|usage| usage.output_tokens) {
            Some(output) => output < few && self.counted() >= NEARLY_FULL_TOKENS,
            None => few > 0 && self.is_nearly_full(),
        }
    }

    fn is_nearly_full(&self) -> bool {
        match self.window {
            Some(window) => self.max_input_tokens() >= window.saturating_mul(NEARLY_FULL_PERCENT) / 100,
            None => self.counted() >= NEARLY_FULL_TOKENS,
        }
    }
}

fn names_the_window(answer: &ModelAnswer) -> bool {
    answer
        .envelope
        .as_ref()
        .is_some_and(|envelope| ErrorBodyContents::read(envelope.as_str()).has_code(WINDOW_WORDS))
}

fn is_silent(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text(text) => text.text.trim().is_empty(),
        Part::Reasoning(reasoning) => reasoning.text.trim().is_empty(),
        // A call, or any other part, is an answer.
        _ => false,
    })
}

#[cfg(test)]
mod tests;
