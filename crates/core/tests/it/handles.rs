//! Nothing is out of the model's reach: whatever the view does not show, a handle in the view leads to.

use longhaul_core::history::{History, LogEntryKind, ViewItemKind};
use longhaul_core::ids::{LogHandle, LogRange, Seq};
use longhaul_core::message::{Message, Part};

/// Checks every message of the log.
pub(crate) fn check(history: &History) {
    let named = named_ranges(history);
    let mut whole: Vec<Seq> = Vec::new();
    for item in history.view() {
        let is_one = item.range.from == item.range.to || item.kind == ViewItemKind::Assistant;
        let original = is_one
            && !matches!(
                item.kind,
                ViewItemKind::Summary(_)
                    | ViewItemKind::Removed(_)
                    | ViewItemKind::Result { cleared: Some(_), .. }
            );
        // An answer in several pieces is shown as one.
        whole.extend((item.range.from..=item.range.to).filter(|_| original));
    }
    whole.sort_unstable();
    for entry in history.entries() {
        // An answer that was cut off, or that said nothing, is shown to people only.
        let is_cut = matches!(entry.kind, LogEntryKind::Assistant(Some(cut)) if cut != longhaul_core::event::PartialAnswerReason::Paused);
        let hidden = is_cut || is_silent(&entry.message);
        let reached =
            whole.binary_search(&entry.seq).is_ok() || named.iter().any(|range| range.contains(entry.seq));
        assert!(hidden || reached, "no handle leads to {}: {named:?}", entry.seq);
    }
}

fn is_silent(message: &Message) -> bool {
    message.parts.iter().all(|part| match part {
        Part::Text(text) => text.text.is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_none(),
        _ => false,
    })
}

/// Handles in the first lines of placeholders, notes and summaries.
fn named_ranges(history: &History) -> Vec<LogRange> {
    let mut ranges = Vec::new();
    for item in history.view() {
        let text: String = match (&item.kind, item.message.parts.first()) {
            (ViewItemKind::Summary(_) | ViewItemKind::Removed(_), Some(Part::Text(text))) => {
                text.text.clone()
            }
            (ViewItemKind::Result { cleared: Some(_), .. }, Some(Part::ToolResult(result))) => {
                result.content.iter().filter_map(Part::as_text).collect()
            }
            _ => continue,
        };
        let head = text.lines().next().unwrap_or_default();
        for word in head.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':' || c == '-')) {
            ranges.extend(word.parse::<LogHandle>().ok().map(|handle| handle.0));
        }
    }
    ranges
}
