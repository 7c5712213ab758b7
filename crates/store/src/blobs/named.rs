//! Collects the blobs named by a stored event.

use std::collections::HashSet;

use longhaul_core::event::{EventBody, ViewOperation};
use longhaul_core::message::{BlobRef, Part, ToolResult};

/// Returns the hashes of all blobs named by an event, each once, in the order of appearance.
#[doc(hidden)]
pub fn blob_hashes(event: &EventBody) -> Vec<String> {
    blob_refs(event).into_iter().map(|blob| blob.hash.clone()).collect()
}

/// Returns all blobs named by an event, each once, in the order of appearance.
#[doc(hidden)]
pub fn blob_refs(event: &EventBody) -> Vec<&BlobRef> {
    let mut named = Vec::new();
    collect(event, &mut named);
    let mut seen = HashSet::new();
    named.retain(|blob| seen.insert(blob.hash.as_str()));
    named
}

fn collect<'e>(event: &'e EventBody, named: &mut Vec<&'e BlobRef>) {
    // Every kind is listed, so that a new kind does not compile until its author has looked for its blobs.
    match event {
        EventBody::MessagesTaken { message, .. }
        | EventBody::NoteAdded { message, .. }
        | EventBody::AssistantAdded { message, .. } => of_parts(&message.parts, named),
        EventBody::ToolFinished { result } => of_result(result, named),
        EventBody::ViewEdited(edit) => {
            for op in &edit.ops {
                if let ViewOperation::Replace { parts, .. } = op {
                    of_parts(parts, named);
                }
            }
        }
        EventBody::SessionStarted { .. }
        | EventBody::RunStarted { .. }
        | EventBody::InputCounted { .. }
        | EventBody::StepStarted(_)
        | EventBody::StepFinished { .. }
        | EventBody::StepFailed { .. }
        | EventBody::ToolStarted { .. }
        | EventBody::ApprovalRequested { .. }
        | EventBody::ApprovalResolved { .. }
        | EventBody::ViewRestored { .. }
        | EventBody::PartsOmitted { .. }
        | EventBody::RangeReleased { .. }
        | EventBody::CompactionFailed { .. }
        | EventBody::ModelSwitched { .. }
        | EventBody::RunFinished { .. }
        | EventBody::Recovered { .. }
        | EventBody::Parked { .. }
        | EventBody::TitleSet { .. }
        | EventBody::OrderPinned { .. }
        | EventBody::OrderEdited { .. }
        | EventBody::OrderRemoved { .. } => {}
    }
}

pub(super) fn of_parts<'e>(parts: &'e [Part], named: &mut Vec<&'e BlobRef>) {
    for part in parts {
        match part {
            Part::Image(media) | Part::File(media) => named.push(&media.blob),
            Part::ToolResult(result) => of_result(result, named),
            Part::Text(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::Opaque(_) => {}
        }
    }
}

fn of_result<'e>(result: &'e ToolResult, named: &mut Vec<&'e BlobRef>) {
    of_parts(&result.content, named);
    named.extend(result.truncated.as_ref().map(|truncation| &truncation.blob));
}
