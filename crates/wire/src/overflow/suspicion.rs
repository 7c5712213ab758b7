//! Answers that came with 200 to another request than the one that was sent.

use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};

use super::ReportedOverflow;
use super::texts::ErrorBodyContents;
use crate::LimitSource;

/// Of what a server has counted itself before, it must count this share again, in percent: what is said does not
/// shrink, but a template may show an older message in fewer tokens.
const COUNTED_BEFORE_PERCENT: u64 = 90;

/// Of what is only estimated it must count this share, in percent. A server that cuts the newest message keeps half
/// of its window (Ollama: 2,050 of 4,096); no estimate of a whole request errs by as much.
const ESTIMATED_PERCENT: u64 = 50;

/// Fewer missing tokens than this are no proof: a single odd text can be estimated so badly.
const MIN_MISSING_TOKENS: u64 = 256;

/// By so much a request must have grown before a report that stays the same, to the token, is no chance.
const MIN_GROWN_TOKENS: u64 = 64;

/// No server that cuts in silence has a smaller window than 2,048 tokens, and none keeps less than half of it.
const MIN_KEPT_TOKENS: u64 = 1_000;

/// An answer that ends for length after so few tokens was not ended by a limit on answers: nobody sets one so low.
const FEW_OUTPUT_TOKENS: u64 = 256;

/// How much of a window, in percent, a request may fill before no answer at all is more likely its doing than chance.
const NEARLY_FULL_PERCENT: u64 = 80;

/// The same where the window is unknown, in tokens: near the smallest window that servers load by default (2,048).
const NEARLY_FULL_TOKENS: u64 = 1_800;

/// Words for the end of an answer that name the window: Anthropic, Mistral, LM Studio.
const WINDOW_WORDS: &[&str] = &[
    "model_context_window_exceeded",
    "context_window_exceeded",
    "context_length_exceeded",
    "model_length",
    "contextlengthreached",
    "context_length_reached",
];

/// What is known of a request that was answered. Tokens throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnsweredRequestTokens {
    /// The part of its input that this server has counted itself, in an earlier answer.
    pub counted_before: u64,
    /// The part that is estimated since.
    pub estimated: u64,
    /// The input that this server reported last, of a request that this one begins with; 0 if there was none.
    pub last_input: u64,
    /// Whether its reports have grown with the requests before.
    pub has_grown: bool,
    /// Of both, what the server may leave out and still have read everything: reasoning of earlier turns, media that
    /// it does not count.
    pub may_be_left_out: u64,
    /// Expected p99 error of the two parts together, as a share.
    pub margin: f64,
    /// The window, if somebody said it; never an assumed one.
    pub window: Option<u64>,
    /// Who said it.
    pub source: LimitSource,
    /// The output limit that was asked for.
    pub max_output: Option<u64>,
}

/// An overflow that looks like success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspectedOverflow {
    /// The window was full: it ended the answer, or it is smaller than what was read.
    WindowFull {
        /// Input and output together, which is what fits; `None` if the server counted nothing.
        total: Option<u64>,
    },
    /// No answer at all, to a request that fills the window or nearly.
    Empty,
    /// The server has read much less than was sent.
    SilentlyTruncated {
        /// Input tokens that it reports.
        reported: u64,
        /// Input tokens that were sent, by our count.
        counted: u64,
    },
}

impl SuspectedOverflow {
    /// As if it had been said: the limit is what the server has shown to hold, which may be less than its window and
    /// is never more.
    pub fn overflow(self) -> ReportedOverflow {
        let limit_tokens = match self {
            Self::WindowFull { total } => total,
            Self::Empty => None,
            Self::SilentlyTruncated { reported, .. } => Some(reported),
        };
        ReportedOverflow { used_tokens: None, limit_tokens }
    }
}

/// Looks at an answer that came with 200. `None`: nothing speaks against it.
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
        answer.usage.as_ref().map(longhaul_core::usage::Usage::total_tokens).filter(|total| *total > 0);
    if names_the_window(answer) {
        return Some(SuspectedOverflow::WindowFull { total });
    }
    let reported = answer.usage.as_ref().map(|usage| usage.input_tokens).filter(|input| *input > 0);
    if let Some(reported) = reported.filter(|reported| sent.was_cut_to(*reported)) {
        return Some(SuspectedOverflow::SilentlyTruncated { reported, counted: sent.counted() });
    }
    let over = sent.window.is_some_and(|window| reported.is_some_and(|input| input > window));
    if over || (answer.finish == ModelStopReason::Length && sent.was_ended_by_the_window(answer)) {
        return Some(SuspectedOverflow::WindowFull { total });
    }
    let ended = matches!(answer.finish, ModelStopReason::Stop | ModelStopReason::Other);
    (ended && is_silent(&answer.parts) && sent.is_nearly_full()).then_some(SuspectedOverflow::Empty)
}

impl AnsweredRequestTokens {
    fn counted(&self) -> u64 {
        self.counted_before.saturating_add(self.estimated)
    }

    fn max_input_tokens(&self) -> u64 {
        let counted = self.counted();
        counted.saturating_add((counted as f64 * self.margin).ceil() as u64)
    }

    /// The least that a server reports which has read everything.
    fn min_reported_tokens(&self) -> u64 {
        let counted = self.counted_before.saturating_mul(COUNTED_BEFORE_PERCENT) / 100;
        let estimated = self.estimated.saturating_mul(ESTIMATED_PERCENT) / 100;
        counted.saturating_add(estimated).saturating_sub(self.may_be_left_out)
    }

    /// A report that never grows with the request, or that is below half of any window the server may have, is a wrong report
    /// and no cut. A small one is no reason to doubt a window that was stated or discovered.
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

    /// Returns whether it counts to the token what it counted last time, although more was sent. If it has counted
    /// more each time before, that is where it cuts.
    fn is_unchanged_report(&self, reported: u64) -> bool {
        let grown = self.counted().saturating_sub(self.may_be_left_out).saturating_sub(self.last_input);
        reported == self.last_input && grown >= MIN_GROWN_TOKENS
    }

    fn was_ended_by_the_window(&self, answer: &ModelAnswer) -> bool {
        let usage = answer.usage.as_ref();
        // As many as were asked for.
        if usage.zip(self.max_output).is_some_and(|(usage, most)| usage.output_tokens >= most) {
            return false;
        }
        let input = usage.map(|usage| usage.input_tokens).filter(|input| *input > 0);
        let output = usage.map(|usage| usage.output_tokens);
        match self.window {
            Some(window) => {
                let total = input.unwrap_or_else(|| self.counted()).saturating_add(output.unwrap_or(0));
                total.saturating_add((window / 100).max(16)) >= window
            }
            None => {
                let few =
                    |output: u64| output < FEW_OUTPUT_TOKENS.min(self.max_output.unwrap_or(u64::MAX) / 2);
                self.counted() >= NEARLY_FULL_TOKENS && output.is_some_and(few)
            }
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
        _ => false,
    })
}

#[cfg(test)]
mod tests;
