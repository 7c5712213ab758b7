//! The program's own word on tool calls in need of approval.

use async_trait::async_trait;
use longhaul_core::ids::{ApprovalId, CallId, SessionId};
use serde_json::Value;

/// A tool call in need of approval.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The session.
    pub session_id: SessionId,
    /// The name of the question within the session.
    pub approval_id: ApprovalId,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool_name: String,
    /// The arguments: an empty object if the model wrote none, and `null` for text other than JSON.
    pub arguments: Value,
    /// The arguments as written by the model.
    pub arguments_text: String,
}

/// The decision whether a tool call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// The call runs.
    Allow,
    /// The call does not run, and the model gets the reason.
    Deny {
        /// The reason, in words for the model.
        reason: String,
    },
}

impl ApprovalDecision {
    /// Returns a denial with a reason for the model.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// A part of the program with decisions about tool calls, for example a closure.
#[async_trait]
pub trait ApprovalHandler: Send + Sync {
    /// Decides about a call. The call is denied after a panic, or after
    /// [`AgentRules::approval_timeout`](crate::agent::AgentRules::approval_timeout).
    async fn decide(&self, request: ApprovalRequest) -> ApprovalDecision;
}

#[async_trait]
impl<F, A> ApprovalHandler for F
where
    F: Fn(ApprovalRequest) -> A + Send + Sync,
    A: Future<Output = ApprovalDecision> + Send,
{
    async fn decide(&self, request: ApprovalRequest) -> ApprovalDecision {
        self(request).await
    }
}
