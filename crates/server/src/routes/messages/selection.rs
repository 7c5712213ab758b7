//! The selection of a page's messages, with no more of the log read than needed.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use longhaul_core::event::{Event, EventBody, ViewEdit, ViewOperation};
use longhaul_core::ids::{EditId, Millis, Seq, SessionId};
use longhaul_core::message::Part;
use longhaul_store::{SharedStore, StoreError, ViewChangeKind};

use super::fragment::{LogFragment, LogFragmentEdit, LogFragmentEntry};
use super::log_window::{LogWindow, WindowDirection};
use super::{MessagePage, MessagePageEntry, MessagePageRange, show_entry, show_run_end, show_summary};

/// The approximate number of events for each message: the step, the start of a tool, the usage.
const EVENTS_OF_A_MESSAGE: usize = 3;

/// The number of later edits per read, in the search for edits of the page's messages.
const EDITS: usize = 32;

/// An item of a page.
enum PageItem<'f, 'e> {
    Entry(&'f LogFragmentEntry<'e>),
    Summary(&'f LogFragmentEdit<'e>, &'e [Part]),
}

/// The undone edits after a position.
#[derive(Default)]
struct UndoneEdits {
    edits: HashMap<EditId, Seq>,
    after: Option<Seq>,
}

impl UndoneEdits {
    async fn look_up(&mut self, store: &SharedStore, id: &SessionId, after: Seq) -> Result<(), StoreError> {
        for event in store.view_changes(id, ViewChangeKind::Restored, after, usize::MAX).await? {
            if let EventBody::ViewRestored { edit_id } = event.body {
                self.edits.insert(edit_id, event.seq);
            }
        }
        self.after = Some(after);
        Ok(())
    }

    fn covers(&self, after: Seq) -> bool {
        self.after.is_some_and(|known| known <= after)
    }

    /// Returns whether an edit is active.
    fn leaves(&self, seq: Seq, edit: &ViewEdit) -> bool {
        // Only an undo behind the edit can be its own.
        self.edits.get(&edit.id).is_none_or(|undone| *undone < seq)
    }
}

/// Reads a page of a session whose log ends at `end`. The amount read depends on the page, not on the log: the page
/// with its neighbours, the undos, and later edits until each message is taken by one.
///
/// # Errors
/// The store's.
pub(super) async fn read_page(
    store: &SharedStore,
    id: &SessionId,
    end: Seq,
    range: MessagePageRange,
    is_running: bool,
) -> Result<MessagePage, StoreError> {
    let (at, walk) = match (range.after, range.before) {
        (_, Some(before)) => (before, WindowDirection::Older),
        (after, None) => (after.unwrap_or(0), WindowDirection::Newer),
    };
    let count = range.limit.saturating_add(1).saturating_mul(EVENTS_OF_A_MESSAGE);
    let mut window = LogWindow::new(store, id, at, end).reading_first(walk, count);
    let mut undone = UndoneEdits::default();
    loop {
        // Folded again after each read, since older events can change what the newer ones mean.
        let fragment = LogFragment::fold(window.events(), !window.can_grow(WindowDirection::Older));
        let oldest_edit = fragment.edits().first().map(|edit| edit.seq);
        if let Some(oldest) = oldest_edit.filter(|oldest| !undone.covers(*oldest)) {
            // Undos come later in the log than their edits, so they are looked up apart from the window.
            undone.look_up(store, id, oldest).await?;
        }
        let choice = choose(&fragment, &undone, range, walk);
        if let Some(side) = choice.missing(&fragment, &window, walk) {
            window.grow(side).await?;
            continue;
        }
        let PageSelection { items, has_more, .. } = choice;
        let first = items.first().map_or(end, |(seq, _)| *seq);
        // Later edits may have taken messages of the page, and may have been undone since.
        if !undone.covers(first) {
            undone.look_up(store, id, first).await?;
        }
        let mut page = MessagePage { has_more, ..MessagePage::default() };
        page.messages = items
            .into_iter()
            .map(|(seq, item)| match item {
                PageItem::Entry(entry) => show_entry(entry, &fragment, is_running),
                PageItem::Summary(edit, parts) => show_summary(seq, edit.edit, parts),
            })
            .collect();
        let edits = fragment.edits().iter().map(|edit| (edit.seq, edit.at, edit.edit));
        edits.for_each(|(seq, at, edit)| page.note_edit(&undone, seq, at, edit));
        page.note_later_edits(store, id, window.last(), &undone).await?;
        page.note_surroundings(&window);
        page.note_events(&window, range, walk);
        return Ok(page);
    }
}

/// The items of a page, as far as known from the fragment.
struct PageSelection<'f, 'e> {
    items: Vec<(Seq, PageItem<'f, 'e>)>,
    has_more: bool,
    /// Set if an item, or the one after the page, is a result whose call was not read.
    is_doubtful: bool,
}

fn choose<'f, 'e>(
    fragment: &'f LogFragment<'e>,
    undone: &UndoneEdits,
    range: MessagePageRange,
    walk: WindowDirection,
) -> PageSelection<'f, 'e> {
    // A paused answer is shown as a whole at its end.
    let entries = fragment.entries().iter().filter(|entry| !fragment.is_continued(entry));
    let mut items: Vec<(Seq, PageItem<'f, 'e>)> =
        entries.map(|entry| (entry.seq, PageItem::Entry(entry))).collect();
    let active = fragment.edits().iter().filter(|edit| undone.leaves(edit.seq, edit.edit));
    items.extend(active.flat_map(|edit| {
        let edited: &'e ViewEdit = edit.edit;
        edited.ops.iter().filter_map(move |op| match op {
            ViewOperation::Replace { parts, summary: true, .. } => {
                Some((edit.seq, PageItem::Summary(edit, parts)))
            }
            _ => None,
        })
    }));
    // Summaries stand where their edit was made, among the messages.
    items.sort_by_key(|(seq, _)| *seq);
    items.retain(|(seq, _)| {
        range.after.is_none_or(|after| *seq > after) && range.before.is_none_or(|before| *seq < before)
    });
    // One item more than the page tells whether there are others.
    let one_more = range.limit.saturating_add(1);
    match walk {
        WindowDirection::Older => drop(items.drain(..items.len().saturating_sub(one_more))),
        WindowDirection::Newer => items.truncate(one_more),
    }
    let is_doubtful =
        items.iter().any(|(_, item)| matches!(item, PageItem::Entry(entry) if entry.kind.is_none()));
    let has_more = items.len() > range.limit;
    match walk {
        WindowDirection::Older if has_more => drop(items.remove(0)),
        _ => items.truncate(range.limit),
    }
    PageSelection { items, has_more, is_doubtful }
}

impl PageSelection<'_, '_> {
    /// Returns the side of the log with more events needed for the page.
    fn missing(
        &self,
        fragment: &LogFragment<'_>,
        window: &LogWindow<'_>,
        walk: WindowDirection,
    ) -> Option<WindowDirection> {
        // The page is not full yet, or the item behind it is not known yet.
        if !self.has_more && window.can_grow(walk) {
            return Some(walk);
        }
        let doubtful = self.is_doubtful.then_some(WindowDirection::Older);
        let missing = self.items.iter().filter_map(|(_, item)| match item {
            PageItem::Entry(entry) => fragment.missing(entry),
            PageItem::Summary(..) => None,
        });
        // The usage of a step is stored right behind its message.
        let behind =
            self.items.last().filter(|(last, _)| window.last() <= *last).map(|_| WindowDirection::Newer);
        doubtful.into_iter().chain(missing).chain(behind).find(|side| window.can_grow(*side))
    }
}

impl MessagePage {
    /// Marks the messages that an edit took and no older edit did.
    fn note_edit(&mut self, undone: &UndoneEdits, seq: Seq, at: Millis, edit: &ViewEdit) {
        if !undone.leaves(seq, edit) {
            return;
        }
        // An edit can only take what was said before it.
        for shown in self.messages.iter_mut().filter(|shown| shown.can_be_taken() && shown.seq < seq) {
            if edit.ops.iter().any(|op| op.range().contains(shown.seq)) {
                shown.taken_at = Some(at);
            }
        }
    }

    async fn note_later_edits(
        &mut self,
        store: &SharedStore,
        id: &SessionId,
        mut after: Seq,
        undone: &UndoneEdits,
    ) -> Result<(), StoreError> {
        while self.messages.iter().any(MessagePageEntry::can_be_taken) {
            let edits = store.view_changes(id, ViewChangeKind::Edited, after, EDITS).await?;
            for Event { seq, at, body, .. } in &edits {
                if let EventBody::ViewEdited(edit) = body {
                    self.note_edit(undone, *seq, *at, edit);
                }
                after = *seq;
            }
            // Damaged edits are left out, so a short read is not necessarily the last one.
            if edits.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Records the facts of the events around the messages.
    fn note_surroundings(&mut self, window: &LogWindow<'_>) {
        let (Some(first), Some(last)) = (self.messages.first(), self.messages.last()) else { return };
        let (first, last) = (first.seq, last.seq);
        // One position more, because the usage of the last step is stored behind its message.
        let around = window.events().iter().filter(|event| (first..=last + 1).contains(&event.seq));
        around.for_each(|event| self.known.note(event));
    }

    /// Returns the positions that belong to the page. A page begins right behind the previous one, even if its first
    /// message is damaged, and the last page ends with the log. Each event thus belongs to one page.
    fn positions(&self, range: MessagePageRange, walk: WindowDirection) -> RangeInclusive<Seq> {
        let (first, last) = if self.has_more {
            (self.messages.first().map(|shown| shown.seq), self.messages.last().map(|shown| shown.seq))
        } else {
            (None, None)
        };
        match walk {
            WindowDirection::Newer => range.after.unwrap_or(0).saturating_add(1)..=last.unwrap_or(Seq::MAX),
            WindowDirection::Older => first.unwrap_or(1)..=range.before.unwrap_or(Seq::MAX).saturating_sub(1),
        }
    }

    /// Records the damaged events of the page, and the ends of runs that did not end with their answer.
    fn note_events(&mut self, window: &LogWindow<'_>, range: MessagePageRange, walk: WindowDirection) {
        let positions = self.positions(range, walk);
        let of_page = window.damaged().iter().copied().filter(|seq| positions.contains(seq));
        self.damaged = of_page.collect();
        let of_page = window.events().iter().filter(|event| positions.contains(&event.seq));
        self.run_ends = of_page.filter_map(show_run_end).collect();
    }
}
