//! The open questions about calls.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use longhaul_core::ids::ApprovalId;
use longhaul_core::message::ToolCall;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Instrument as _;

use super::context::DriverContext;
use super::{DriverMessage, SessionCommand};
use crate::api_events::call_arguments;
use crate::hooks::{ApprovalDecision, ApprovalRequest};

/// The open questions. This map is their one list: of two answers, the first removes the entry and counts.
#[derive(Debug, Default)]
pub(super) struct PendingApprovals(BTreeMap<ApprovalId, AbortHandle>);

impl PendingApprovals {
    /// Asks the program's own handler about an announced question. The answer is no if the handler does
    /// not answer in time.
    pub(super) fn ask(&mut self, context: &mut DriverContext, approval_id: ApprovalId, call: &ToolCall) {
        let inbox = context.shared.inbox.clone();
        let timeout = context.agent.rules.approval_timeout;
        // The request is made here, because the task cannot borrow the context.
        let deciding = ask_handler(context, &approval_id, call);
        let id = approval_id.clone();
        let asking = async move {
            let time_is_up = async {
                match timeout {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let decision = tokio::select! {
                decision = deciding => decision,
                () = time_is_up => {
                    tracing::info!(approval = id.as_str(), ?timeout, "a question about a call timed out; the call is denied");
                    ApprovalDecision::deny("no answer came in time")
                }
            };
            let (allowed, reason) = match decision {
                ApprovalDecision::Allow => (true, None),
                ApprovalDecision::Deny { reason } => (false, Some(reason)),
            };
            // The decision takes the way of a person's answer, so that the first of the two counts and the second is
            // ignored.
            let (reply, _) = oneshot::channel();
            let decide = SessionCommand::Decide { approval_id: id, allowed, reason, reply };
            let _ = inbox.send(DriverMessage::Command(decide));
        };
        let handle = context.tasks.spawn(asking.in_current_span());
        self.0.insert(approval_id, handle);
    }

    /// Closes an answered question; returns whether the question was open.
    pub(super) fn close(&mut self, approval_id: &ApprovalId) -> bool {
        let Some(handle) = self.0.remove(approval_id) else { return false };
        handle.abort();
        true
    }

    /// Withdraws every question: an answer to a question of the ended run must not reach the next run.
    pub(super) fn withdraw_all(&mut self) {
        for handle in std::mem::take(&mut self.0).into_values() {
            handle.abort();
        }
    }
}

/// Returns the decision of the program's handler; the future never ends if there is no handler.
fn ask_handler(
    context: &DriverContext,
    approval_id: &ApprovalId,
    call: &ToolCall,
) -> impl Future<Output = ApprovalDecision> + Send + 'static {
    let handler = context.agent.hooks.approval_handler().cloned();
    let request = ApprovalRequest {
        session_id: context.session_id().clone(),
        approval_id: approval_id.clone(),
        call_id: call.call_id.clone(),
        tool_name: call.name.clone(),
        arguments: call_arguments(call),
        arguments_text: call.arguments.clone(),
    };
    async move {
        // Without a handler only people and the time limit decide.
        let Some(handler) = handler else { return std::future::pending().await };
        // The handler is code of the host. A panic would end this task, and the call would wait for an answer for
        // ever.
        let deciding = AssertUnwindSafe(async { handler.decide(request).await }).catch_unwind();
        deciding.await.unwrap_or_else(|_| {
            tracing::error!("the approval handler panicked; the call is denied");
            ApprovalDecision::deny("the approval handler failed")
        })
    }
}
