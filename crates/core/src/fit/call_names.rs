//! Call ids that are unique in a conversation: some servers number the calls of each answer from zero.

use std::collections::BTreeMap;

use crate::ids::CallId;
use crate::message::{Message, Part, ToolResult};

/// The ids that calls have in a history, and those that they were given with.
#[derive(Default)]
pub(super) struct CallNames {
    given: BTreeMap<CallId, CallId>,
    /// Calls without a result so far, by their ids in the history, the oldest first.
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

    /// Returns a result under the id of the newest open call that was given with its id; `None` if there is no such call.
    pub(super) fn rename_result(&mut self, result: ToolResult) -> Option<ToolResult> {
        let at = self.open.iter().rposition(|open| self.given.get(open) == Some(&result.call_id))?;
        let call_id = self.open.remove(at);
        Some(ToolResult { call_id, ..result })
    }

    /// Returns a message of the history with the ids that were given.
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
