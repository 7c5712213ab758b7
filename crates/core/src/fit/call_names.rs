//! Unique call ids in a conversation. Some servers number the calls of each answer from zero.

use std::collections::BTreeMap;

use crate::ids::CallId;
use crate::message::{Message, Part, ToolResult};

/// The unique ids of calls in a history, with the ids in the given messages.
#[derive(Default)]
pub(super) struct CallNames {
    /// The given id of each call, by the id in the history.
    given: BTreeMap<CallId, CallId>,
    /// The calls without a result so far, by their ids in the history, the oldest first.
    open: Vec<CallId>,
}

impl CallNames {
    /// Returns an answer whose calls have unique ids.
    pub(super) fn rename_calls(&mut self, mut answer: Message) -> Message {
        for part in &mut answer.parts {
            if let Part::ToolCall(call) = part {
                let unique = CallId::new(format!("call-{}", self.given.len()));
                self.given.insert(unique.clone(), std::mem::replace(&mut call.call_id, unique.clone()));
                self.open.push(unique);
            }
        }
        answer
    }

    /// Returns a result with the call's unique id; `None` if no open call has the result's id.
    pub(super) fn rename_result(&mut self, result: ToolResult) -> Option<ToolResult> {
        // The newest open call is meant: an older one with the same id may have stayed without a result.
        let at = self.open.iter().rposition(|open| self.given.get(open) == Some(&result.call_id))?;
        let call_id = self.open.remove(at);
        Some(ToolResult { call_id, ..result })
    }

    /// Returns a message of the history with the given ids.
    pub(super) fn restored(&self, mut message: Message) -> Message {
        for part in &mut message.parts {
            let id = match part {
                Part::ToolCall(call) => &mut call.call_id,
                Part::ToolResult(result) => &mut result.call_id,
                _ => continue,
            };
            if let Some(given) = self.given.get(id) {
                id.clone_from(given);
            }
        }
        message
    }
}
