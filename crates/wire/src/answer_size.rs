//! Limits of one answer. A decoder stops at a limit while the answer streams, so a server causes bounded work.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, Part};

use crate::ProviderError;

/// The largest number of tool calls in one answer. OpenAI's API takes no message back with more elements in
/// `tool_calls`, so nothing could follow a longer answer there. Serious answers stay far below the limit.
pub const MAX_TOOL_CALLS: usize = 128;

/// The largest number of parts in one answer: texts, reasoning, calls and a provider's own items.
pub const MAX_PARTS: usize = 4_096;

/// The largest size of all tool arguments of one answer together, in bytes: 2 million tokens.
pub const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// The longest name of a tool, in bytes. OpenAI's API allows 64 characters, others up to 128.
pub(crate) const MAX_TOOL_NAME_BYTES: usize = 1 << 10;

/// A limit exceeded by an answer. The answer is given up there, and none of the answer's tool calls runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerTooLarge {
    /// More than [`MAX_TOOL_CALLS`] calls.
    #[error(
        "the answer asks for more than {MAX_TOOL_CALLS} tools at once: it was given up there, and none of them ran"
    )]
    ToolCalls,
    /// More than [`MAX_PARTS`] parts.
    #[error("the answer has more than {MAX_PARTS} parts: it was given up there")]
    Parts,
    /// More than [`MAX_ARGUMENT_BYTES`] of arguments.
    #[error(
        "the arguments of the answer's tool calls were given up after {} MiB, and none of its tools ran",
        MAX_ARGUMENT_BYTES >> 20
    )]
    Arguments,
    /// A tool's name of more than 1 KiB.
    #[error(
        "the answer asks for a tool whose name is longer than {MAX_TOOL_NAME_BYTES} bytes: it was given up there"
    )]
    ToolName,
}

impl From<AnswerTooLarge> for ProviderError {
    /// Creates an error that is not retryable: a repeated call would exceed the limit again.
    fn from(exceeded: AnswerTooLarge) -> Self {
        Self { retryable: false, ..Self::new(ErrorCode::ThirdParty, exceeded.to_string()) }
    }
}

/// The number of an answer's parts so far.
#[derive(Debug, Default)]
pub struct AnswerSize {
    parts: usize,
    calls: usize,
}

impl AnswerSize {
    /// Counts a part other than a tool call.
    ///
    /// # Errors
    /// [`AnswerTooLarge::Parts`].
    pub fn add_part(&mut self) -> Result<(), AnswerTooLarge> {
        self.parts += 1;
        if self.parts > MAX_PARTS { Err(AnswerTooLarge::Parts) } else { Ok(()) }
    }

    /// Counts a tool call, and returns the call's position among the answer's calls, from 0.
    ///
    /// # Errors
    /// [`AnswerTooLarge::ToolCalls`], or the error of [`add_part`](Self::add_part).
    pub fn add_call(&mut self) -> Result<usize, AnswerTooLarge> {
        // The calls are checked before the parts, because only their error says that no tool ran.
        if self.calls >= MAX_TOOL_CALLS {
            return Err(AnswerTooLarge::ToolCalls);
        }
        self.add_part()?;
        self.calls += 1;
        Ok(self.calls - 1)
    }

    /// Counts the parts of an unstreamed answer.
    ///
    /// # Errors
    /// [`AnswerTooLarge`].
    pub fn check(answer: &ModelAnswer) -> Result<(), AnswerTooLarge> {
        let mut size = Self::default();
        answer.parts.iter().try_for_each(|part| match part {
            Part::ToolCall(_) => size.add_call().map(|_| ()),
            _ => size.add_part(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_at_its_limits_is_taken() {
        let mut size = AnswerSize::default();
        let calls: Vec<usize> = (0..MAX_TOOL_CALLS).map(|_| size.add_call().unwrap()).collect();
        assert_eq!(calls, (0..MAX_TOOL_CALLS).collect::<Vec<_>>());
        assert_eq!(size.add_call(), Err(AnswerTooLarge::ToolCalls));
        for _ in MAX_TOOL_CALLS..MAX_PARTS {
            size.add_part().unwrap();
        }
        assert_eq!(size.add_part(), Err(AnswerTooLarge::Parts));
    }

    #[test]
    fn the_error_names_its_limit_and_is_not_repeated() {
        let error = ProviderError::from(AnswerTooLarge::ToolCalls);
        assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, false));
        assert!(error.message.contains("more than 128 tools"), "{error}");
        assert!(AnswerTooLarge::Arguments.to_string().contains("8 MiB"));
    }
}
