//! The decision of a program's own PreCompact hook.

use super::PreCompactResponse;

/// The decision of a program about an imminent compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreCompactDecision {
    /// The compaction proceeds as planned.
    #[default]
    Proceed,
    /// The compaction is not made. The next compaction waits until the request no longer fits the window; then messages
    /// are left out without a summary.
    Cancel {
        /// The reason, for people.
        reason: String,
    },
    /// The compaction proceeds, and its summary follows these instructions in place of a person's.
    Instruct {
        /// The instructions, in words for the summary's model.
        instructions: String,
    },
    /// The compaction proceeds with this summary, and no model is asked.
    Summarize {
        /// The summary.
        summary: String,
    },
}

impl PreCompactDecision {
    /// Returns a decision against the compaction, with a reason for people.
    pub fn cancel(reason: impl Into<String>) -> Self {
        Self::Cancel { reason: reason.into() }
    }

    /// Returns a decision against the compaction if `condition` is true, and [`Proceed`](Self::Proceed) otherwise.
    pub fn cancel_if(condition: bool, reason: impl Into<String>) -> Self {
        if condition { Self::cancel(reason) } else { Self::Proceed }
    }

    /// Returns a decision for the compaction, with instructions for the summary.
    pub fn instruct(instructions: impl Into<String>) -> Self {
        Self::Instruct { instructions: instructions.into() }
    }

    /// Returns a decision for the compaction, with the summary itself.
    pub fn summarize(summary: impl Into<String>) -> Self {
        Self::Summarize { summary: summary.into() }
    }
}

impl From<PreCompactDecision> for PreCompactResponse {
    fn from(decision: PreCompactDecision) -> Self {
        match decision {
            PreCompactDecision::Proceed => Self::default(),
            PreCompactDecision::Cancel { reason } => {
                Self { cancel: true, reason: Some(reason), ..Self::default() }
            }
            PreCompactDecision::Instruct { instructions } => {
                Self { custom_instructions: Some(instructions), ..Self::default() }
            }
            PreCompactDecision::Summarize { summary } => {
                Self { custom_summary: Some(summary), ..Self::default() }
            }
        }
    }
}
