//! The view in units, which an edit keeps or drops whole.

use std::ops::Range;

use super::{ViewItem, ViewItemKind};
use crate::ids::LogRange;
use crate::message::Role;

/// A group of view items that stays or goes together: one message, or a step with all its results.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ViewUnit {
    /// The group's items, as indices into the view.
    pub items: Range<usize>,
    /// The log positions that the group stands for.
    pub range: LogRange,
    /// The group's tokens by the history's counter.
    pub tokens: u64,
    /// The kind of the group's messages.
    pub kind: ViewUnitKind,
    /// The turn to which the group belongs: 0 before the first typed message, then 1, 2 …
    pub turn: usize,
    /// `true` if an undo brought the group back, so that automatic compaction does not touch it.
    pub pinned: bool,
}

/// The kind of a group of view items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewUnitKind {
    /// A typed message.
    Typed,
    /// A note of the runtime.
    Note,
    /// A summary of compacted messages, or a note on removed messages.
    Compacted,
    /// An assistant message and the tool results.
    Step,
}

/// Groups a view into units. The view can be cut at every boundary between units.
pub fn units(view: &[ViewItem], pinned: &[LogRange]) -> Vec<ViewUnit> {
    let mut units: Vec<ViewUnit> = Vec::new();
    let mut turn = 0;
    for (at, item) in view.iter().enumerate() {
        if let (Role::Tool, Some(last)) = (item.message.role, units.last_mut()) {
            last.items.end = at + 1;
            last.range.to = last.range.to.max(item.range.to);
            // Results stand in call order, so a later item can have an earlier position.
            last.range.from = last.range.from.min(item.range.from);
            last.tokens += item.tokens;
            continue;
        }
        let kind = match item.kind {
            ViewItemKind::Typed => ViewUnitKind::Typed,
            ViewItemKind::Note => ViewUnitKind::Note,
            ViewItemKind::Summary(_) | ViewItemKind::Removed(_) => ViewUnitKind::Compacted,
            ViewItemKind::Assistant | ViewItemKind::Result { .. } => ViewUnitKind::Step,
        };
        turn += usize::from(kind == ViewUnitKind::Typed);
        units.push(ViewUnit {
            items: at..at + 1,
            range: item.range,
            tokens: item.tokens,
            kind,
            turn,
            pinned: false,
        });
    }
    for unit in &mut units {
        unit.pinned = pinned.iter().any(|range| range.overlaps(&unit.range));
    }
    units
}
