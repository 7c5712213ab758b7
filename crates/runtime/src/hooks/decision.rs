//! The decisions of a program's own hooks around tools and messages.

use serde_json::{Map, Value};

use super::{PostToolUseResponse, PreToolUseDecision, PreToolUseResponse, UserPromptSubmitResponse};

/// The decision of a program about a tool call that is about to run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ToolCallDecision {
    /// The tool runs with the model's arguments.
    #[default]
    Proceed,
    /// The tool does not run, and the model gets the reason.
    Deny {
        /// The reason, in words for the model: at most 4,000 characters.
        reason: String,
    },
    /// The tool runs with these arguments in the place of the model's. The log keeps the model's own.
    Replace {
        /// The arguments.
        arguments: Map<String, Value>,
    },
}

impl ToolCallDecision {
    /// Returns a decision against the call, with a reason for the model.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// Returns a decision against the call if `condition` is true, and [`Proceed`](Self::Proceed) otherwise.
    pub fn deny_if(condition: bool, reason: impl Into<String>) -> Self {
        if condition { Self::deny(reason) } else { Self::Proceed }
    }

    /// Returns a decision for the call with other arguments.
    pub fn replace(arguments: Map<String, Value>) -> Self {
        Self::Replace { arguments }
    }
}

impl From<ToolCallDecision> for PreToolUseResponse {
    fn from(decision: ToolCallDecision) -> Self {
        match decision {
            ToolCallDecision::Proceed => Self::default(),
            ToolCallDecision::Deny { reason } => {
                Self { decision: Some(PreToolUseDecision::Deny), reason: Some(reason), args: None }
            }
            ToolCallDecision::Replace { arguments } => Self { args: Some(arguments), ..Self::default() },
        }
    }
}

/// Text for the model behind a tool's result; `None` adds nothing.
impl From<Option<String>> for PostToolUseResponse {
    fn from(added_context: Option<String>) -> Self {
        Self { added_context }
    }
}

/// The decision of a program about an incoming message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptDecision {
    /// The message is accepted.
    #[default]
    Proceed,
    /// The message is refused, and the sender gets the reason.
    Refuse {
        /// The reason, in words for the person.
        reason: String,
    },
    /// The message is accepted, and the model reads this text behind it.
    Add {
        /// The text.
        context: String,
    },
}

impl PromptDecision {
    /// Returns a decision against the message, with a reason for the person.
    pub fn refuse(reason: impl Into<String>) -> Self {
        Self::Refuse { reason: reason.into() }
    }

    /// Returns a decision against the message if `condition` is true, and [`Proceed`](Self::Proceed) otherwise.
    pub fn refuse_if(condition: bool, reason: impl Into<String>) -> Self {
        if condition { Self::refuse(reason) } else { Self::Proceed }
    }

    /// Returns a decision for the message, with a text for the model behind it.
    pub fn add(context: impl Into<String>) -> Self {
        Self::Add { context: context.into() }
    }
}

impl From<PromptDecision> for UserPromptSubmitResponse {
    fn from(decision: PromptDecision) -> Self {
        match decision {
            PromptDecision::Proceed => Self::default(),
            PromptDecision::Refuse { reason } => {
                Self { block: true, reason: Some(reason), added_context: None }
            }
            PromptDecision::Add { context } => Self { added_context: Some(context), ..Self::default() },
        }
    }
}
