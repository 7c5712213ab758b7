//! Tools run by the server itself. The API later refuses a call without a result, together with the conversation.

use std::collections::BTreeSet;

use longhaul_core::message::{Part, RawJson};

use crate::ModelRequest;
use crate::raw_json::RawObject;

/// The types of blocks with results.
const CALLS: &[&str] = &["server_tool_use", "mcp_tool_use"];

/// The ids of the server's calls with a related block in the request: a result, or a call of ours from inside the
/// server's call.
#[derive(Debug, Default)]
pub(super) struct AnsweredServerCalls(BTreeSet<String>);

impl AnsweredServerCalls {
    pub(super) fn of(request: &ModelRequest) -> Self {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        Self(parts.filter_map(belongs_to).collect())
    }

    /// Reports whether the part may be sent.
    pub(super) fn allows(&self, part: &Part) -> bool {
        match part {
            Part::Opaque(block) if CALLS.contains(&block.kind.as_str()) => {
                id(&block.native, "id").is_some_and(|id| self.0.contains(&id))
            }
            _ => true,
        }
    }
}

fn belongs_to(part: &Part) -> Option<String> {
    match part {
        Part::Opaque(block) => id(&block.native, "tool_use_id"),
        // Anthropic's code execution can call our tools. Such a call names the execution as its `caller`.
        Part::ToolCall(call) => {
            RawObject::parse(call.native.as_ref()?.as_str())?.object("caller")?.text("tool_id")
        }
        _ => None,
    }
}

fn id(block: &RawJson, key: &str) -> Option<String> {
    RawObject::parse(block.as_str())?.text(key)
}
