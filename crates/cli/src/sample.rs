//! The fixtures of several tests.

use longhaul_core::event::{EditKind, EditReason, ViewEdit};

/// Returns an edit without a change.
pub(crate) fn edit() -> ViewEdit {
    ViewEdit {
        id: "e1".into(),
        base_view_hash: String::new(),
        ops: Vec::new(),
        kind: EditKind::Compaction,
        strategy: "truncation".to_owned(),
        reason: EditReason::Requested,
        trigger_tokens: 0,
        original_tokens: 9,
        compressed_tokens: 4,
        original_bound: 9,
        compressed_bound: 4,
        original_messages: 5,
        compressed_messages: 2,
        why: String::new(),
        usage: None,
        summary: None,
    }
}
