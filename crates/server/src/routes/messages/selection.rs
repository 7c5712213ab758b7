//! The messages of a page, by as much of the log as they need.

use std::collections::HashMap;

use longhaul_core::event::{Event, EventBody, ViewEdit, ViewOperation};
use longhaul_core::ids::{EditId, Millis, Seq, SessionId};
use longhaul_core::message::Part;
use longhaul_store::{SharedStore, StoreError, ViewChangeKind};

use super::fragment::{LogFragment, LogFragmentEdit, LogFragmentEntry};
use super::log_window::{LogWindow, WindowDirection};
use super::{MessagePage, MessagePageEntry, MessagePageRange, show_entry, show_summary};

/// Events for each message of a page, about: the step, the start of a tool, the usage.
const EVENTS_OF_A_MESSAGE: usize = 3;

/// Later edits that are read at a time to find those that took a page's messages.
const EDITS: usize = 32;

/// What a page is made of.
enum PageItem<'f, 'e> {
    Entry(&'f LogFragmentEntry<'e>),
    Summary(&'f LogFragmentEdit<'e>, &'e [Part]),
}

/// Undos of edits, as far as they were looked up: those after a position.
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

    /// Returns whether an edit applies.
    fn leaves(&self, seq: Seq, edit: &ViewEdit) -> bool {
        self.edits.get(&edit.id).is_none_or(|undone| *undone < seq)
    }
}

/// Reads a page of a session whose log ends at `end`. How much of the log is read follows from the page, not from the
/// log: the page and what stands beside it, later edits until each message of the page is taken by one, and undos.
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
        let fragment = LogFragment::fold(window.events(), !window.can_grow(WindowDirection::Older));
        let oldest_edit = fragment.edits().first().map(|edit| edit.seq);
        if let Some(oldest) = oldest_edit.filter(|oldest| !undone.covers(*oldest)) {
            undone.look_up(store, id, oldest).await?;
        }
        let choice = choose(&fragment, &undone, range, walk);
        if let Some(side) = choice.missing(&fragment, &window, walk) {
            window.grow(side).await?;
            continue;
        }
        let PageSelection { items, has_more, .. } = choice;
        let first = items.first().map_or(end, |(seq, _)| *seq);
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
        page.note_damaged(&window, range, walk);
        return Ok(page);
    }
}

/// The items of a page, as far as a stretch of the log shows them.
struct PageSelection<'f, 'e> {
    items: Vec<(Seq, PageItem<'f, 'e>)>,
    has_more: bool,
    /// Whether one of them, or the one more, is a result whose call was not read.
    is_doubtful: bool,
}

fn choose<'f, 'e>(
    fragment: &'f LogFragment<'e>,
    undone: &UndoneEdits,
    range: MessagePageRange,
    walk: WindowDirection,
) -> PageSelection<'f, 'e> {
    // An answer that was paused is shown as a whole, where it ends.
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
    items.sort_by_key(|(seq, _)| *seq);
    items.retain(|(seq, _)| {
        range.after.is_none_or(|after| *seq > after) && range.before.is_none_or(|before| *seq < before)
    });
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
    /// The side on which more of the log must be read before the page can be shown.
    fn missing(
        &self,
        fragment: &LogFragment<'_>,
        window: &LogWindow<'_>,
        walk: WindowDirection,
    ) -> Option<WindowDirection> {
        if !self.has_more && window.can_grow(walk) {
            return Some(walk);
        }
        let doubtful = self.is_doubtful.then_some(WindowDirection::Older);
        let missing = self.items.iter().filter_map(|(_, item)| match item {
            PageItem::Entry(entry) => fragment.missing(entry),
            PageItem::Summary(..) => None,
        });
        // A step's usage is stored right behind its message.
        let behind =
            self.items.last().filter(|(last, _)| window.last() <= *last).map(|_| WindowDirection::Newer);
        doubtful.into_iter().chain(missing).chain(behind).find(|side| window.can_grow(*side))
    }
}

impl MessagePage {
    /// Notes which messages an edit took that no older one did.
    fn note_edit(&mut self, undone: &UndoneEdits, seq: Seq, at: Millis, edit: &ViewEdit) {
        if !undone.leaves(seq, edit) {
            return;
        }
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
            // Fewer than were asked for need not be the last: damaged ones are left out.
            if edits.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Notes what the events around the messages say.
    fn note_surroundings(&mut self, window: &LogWindow<'_>) {
        let (Some(first), Some(last)) = (self.messages.first(), self.messages.last()) else { return };
        let (first, last) = (first.seq, last.seq);
        let around = window.events().iter().filter(|event| (first..=last + 1).contains(&event.seq));
        around.for_each(|event| self.known.note(event));
    }

    /// Notes which events of the page are damaged. A page begins behind the one before it, also where its own first message
    /// is damaged, and the last page ends where the log ends: each damaged event belongs to one page.
    fn note_damaged(&mut self, window: &LogWindow<'_>, range: MessagePageRange, walk: WindowDirection) {
        let seq_of =
            |shown: Option<&MessagePageEntry>| shown.filter(|_| self.has_more).map(|shown| shown.seq);
        let (from, to) = match walk {
            WindowDirection::Newer => {
                (range.after.unwrap_or(0).saturating_add(1), seq_of(self.messages.last()).unwrap_or(Seq::MAX))
            }
            WindowDirection::Older => (
                seq_of(self.messages.first()).unwrap_or(1),
                range.before.unwrap_or(Seq::MAX).saturating_sub(1),
            ),
        };
        let of_page = window.damaged().iter().copied().filter(|seq| (from..=to).contains(seq));
        self.damaged = of_page.collect();
    }
}
