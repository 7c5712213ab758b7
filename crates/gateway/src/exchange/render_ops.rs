//! The mapping from a view of the conversation to the items of a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_core::event::ViewOperation;
use longhaul_core::history::{History, ViewItem, ViewItemKind};
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, Part};

use super::log::ConversationLog;
use longhaul_wire::edit::{RenderOp, RequestEnvelope, SegmentEdit, ephemeral};

/// Returns the operations that turn the client's items into the view; `None` if the view is unedited.
pub(super) fn steps(log: &ConversationLog, items: usize) -> Option<Vec<RenderOp>> {
    let history = &log.history;
    if !history.edits().iter().any(|state| state.active) {
        return None;
    }
    let shown: BTreeMap<Seq, &ViewItem> =
        // Results and messages are found by their last position, because a paused answer covers several.
        history.view().iter().filter(|item| !is_ours(item)).map(|item| (item.range.to, item)).collect();
    let in_place = changed_in_place(history);
    let mut fates: BTreeMap<usize, Vec<(usize, SegmentEdit)>> = BTreeMap::new();
    for placed in &log.placed {
        let fate = match segment_edit(history, (&shown, &in_place), placed.seq) {
            SegmentEdit::Show(text) => SegmentEdit::Show(log.quoted(text)),
            other => other,
        };
        for (item, piece) in &placed.pieces {
            fates.entry(*item).or_default().push((*piece, fate.clone()));
        }
    }
    let mut says: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for item in history.view().iter().filter(|item| is_ours(item)) {
        // A summary stands where the first replaced item stood, so the client's order stays.
        let first = log.placed.iter().find(|placed| placed.seq >= item.range.from);
        let place = first.and_then(|placed| placed.pieces.first()).map_or(items, |place| place.0);
        says.entry(place).or_default().push(log.quoted(item.message.text()));
    }
    Some(line_up(items, &fates, &mut says))
}

/// Returns the operations up to and including an item.
pub(super) fn up_to(steps: Vec<RenderOp>, last: usize) -> Vec<RenderOp> {
    let mut beginning = Vec::new();
    for step in steps {
        match step {
            RenderOp::Keep(range) if range.end > last + 1 => {
                if range.start <= last {
                    beginning.push(RenderOp::Keep(range.start..last + 1));
                }
                return beginning;
            }
            RenderOp::Rewrite { item, .. } | RenderOp::Change { item, .. } if item > last => {
                return beginning;
            }
            step => beginning.push(step),
        }
    }
    beginning
}

/// Returns one of the client's items without the gateway's notices; `None` if the item has none.
pub(super) fn without_notices(envelope: &RequestEnvelope, index: usize) -> Option<String> {
    let item = Some(envelope.item(index)).filter(|item| ephemeral::may_have_notices(item));
    item.and_then(ephemeral::item_without_notices)
}

/// Returns the indices of the client's items with notices of the gateway.
pub(super) fn items_with_notices(envelope: &RequestEnvelope) -> Vec<usize> {
    // One search over all items replaces the parse of each.
    if !ephemeral::may_have_notices(envelope.text(&envelope.items_at)) {
        return Vec::new();
    }
    (0..envelope.items.len()).filter(|index| without_notices(envelope, *index).is_some()).collect()
}

/// Returns the operations with the notices removed from all kept items.
pub(super) fn clean(
    steps: Option<Vec<RenderOp>>,
    noticed: &[usize],
    envelope: &RequestEnvelope,
) -> Option<Vec<RenderOp>> {
    if noticed.is_empty() {
        return steps;
    }
    let mut cleaned = Vec::new();
    for step in steps.unwrap_or_else(|| vec![RenderOp::Keep(0..envelope.items.len())]) {
        let RenderOp::Keep(range) = step else {
            cleaned.push(step);
            continue;
        };
        for item in range {
            match noticed.contains(&item).then(|| without_notices(envelope, item)).flatten() {
                Some(text) => cleaned.push(RenderOp::Rewrite { item, text }),
                None => keep(&mut cleaned, item),
            }
        }
    }
    Some(cleaned)
}

fn is_ours(item: &ViewItem) -> bool {
    matches!(item.kind, ViewItemKind::Summary(_) | ViewItemKind::Removed(_))
}

/// Returns the positions of the messages that active edits show in another form.
fn changed_in_place(history: &History) -> BTreeSet<Seq> {
    let active = history.edits().iter().filter(|state| state.active);
    let ops = active.flat_map(|state| &state.edit.ops);
    ops.filter_map(|op| match op {
        ViewOperation::Placeholder { seq, .. } => Some(*seq),
        _ => None,
    })
    .collect()
}

fn segment_edit(
    history: &History,
    (shown, in_place): (&BTreeMap<Seq, &ViewItem>, &BTreeSet<Seq>),
    seq: Seq,
) -> SegmentEdit {
    match shown.get(&seq) {
        // A document of the user, cut to its beginning and end.
        Some(ViewItem { kind: ViewItemKind::Typed, message, .. }) if in_place.contains(&seq) => {
            SegmentEdit::Show(message.text())
        }
        Some(ViewItem { kind: ViewItemKind::Result { cleared: Some(_), .. }, message, .. }) => {
            SegmentEdit::Show(said_by(message))
        }
        Some(_) => SegmentEdit::Keep,
        None => {
            // A message can be missing from the view without an edit. Only an edit may drop the client's item.
            let active = history.edits().iter().filter(|state| state.active);
            let is_gone = active.flat_map(|state| &state.edit.ops).any(|op| op.range().contains(seq));
            if is_gone { SegmentEdit::Drop } else { SegmentEdit::Keep }
        }
    }
}

/// Returns the text in place of a tool result.
fn said_by(message: &Message) -> String {
    let texts = message.parts.iter().flat_map(|part| match part {
        Part::ToolResult(result) => result.content.iter().filter_map(Part::as_text).collect(),
        _ => Vec::new(),
    });
    texts.collect()
}

fn line_up(
    items: usize,
    fates: &BTreeMap<usize, Vec<(usize, SegmentEdit)>>,
    says: &mut BTreeMap<usize, Vec<String>>,
) -> Vec<RenderOp> {
    let mut steps: Vec<RenderOp> = Vec::new();
    for item in 0..items {
        steps.extend(says.remove(&item).unwrap_or_default().into_iter().map(RenderOp::Say));
        let mut pieces = fates.get(&item).cloned().unwrap_or_default();
        // The log's order is that of messages. A client's item has its own order of pieces.
        pieces.sort_by_key(|(piece, _)| *piece);
        let kinds: BTreeSet<u8> = pieces.iter().map(|(_, fate)| kind(fate)).collect();
        match (kinds.len(), kinds.first()) {
            (0, _) | (1, Some(0)) => keep(&mut steps, item),
            (1, Some(1)) => {}
            _ => {
                let fates = pieces.into_iter().map(|(_, fate)| fate).collect();
                steps.push(RenderOp::Change { item, fates });
            }
        }
    }
    // A summary of everything stands behind the last item.
    steps.extend(says.remove(&items).unwrap_or_default().into_iter().map(RenderOp::Say));
    steps
}

fn kind(fate: &SegmentEdit) -> u8 {
    match fate {
        SegmentEdit::Keep => 0,
        SegmentEdit::Drop => 1,
        SegmentEdit::Show(_) => 2,
    }
}

fn keep(steps: &mut Vec<RenderOp>, item: usize) {
    match steps.last_mut() {
        Some(RenderOp::Keep(range)) if range.end == item => range.end = item + 1,
        _ => steps.push(RenderOp::Keep(item..item + 1)),
    }
}

/// Returns the view for a model of another dialect, with stable handles.
pub(super) fn neutral_view(log: &ConversationLog) -> Vec<ViewItem> {
    let mut view = log.history.view().to_vec();
    // Without `recall` no text of the gateway has a handle.
    if !log.history.has_recall() {
        return view;
    }
    let in_place = changed_in_place(&log.history);
    for item in &mut view {
        if !in_place.contains(&item.range.to) && !is_ours(item) {
            continue;
        }
        for part in &mut Arc::make_mut(&mut item.message).parts {
            let texts = match part {
                Part::ToolResult(result) => result.content.iter_mut().collect(),
                part => vec![part],
            };
            for part in texts {
                if let Some(text) = part.as_text().map(str::to_owned) {
                    *part = Part::text(log.quoted(text));
                }
            }
        }
    }
    view
}
