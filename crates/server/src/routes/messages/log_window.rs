//! A window of a log, growing on either side as needed.

use std::collections::VecDeque;

use longhaul_core::event::Event;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{SharedStore, StoreError};

/// The first and the largest number of events per read.
const MIN_READ: usize = 64;
const MAX_READ: usize = 2_000;

/// The direction of a window's growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowDirection {
    /// Towards the beginning of the log.
    Older,
    /// Towards the end of the log.
    Newer,
}

/// The events at the positions after `after` up to `last`.
pub(super) struct LogWindow<'a> {
    store: &'a SharedStore,
    id: &'a SessionId,
    events: VecDeque<Event>,
    damaged: Vec<Seq>,
    after: Seq,
    last: Seq,
    /// The newest position when the window was created.
    end: Seq,
    /// The size of the next read towards the beginning.
    older_count: usize,
    /// The size of the next read towards the end.
    newer_count: usize,
}

impl<'a> LogWindow<'a> {
    /// Creates an empty window behind the position `at` of a log with the end `end`.
    pub(super) fn new(store: &'a SharedStore, id: &'a SessionId, at: Seq, end: Seq) -> Self {
        // A client may ask behind the end of the log.
        let at = at.min(end);
        Self {
            store,
            id,
            events: VecDeque::new(),
            damaged: Vec::new(),
            after: at,
            last: at,
            end,
            older_count: MIN_READ,
            newer_count: MIN_READ,
        }
    }

    /// Sets the size of the first read on one side to about `count` events.
    pub(super) fn reading_first(mut self, to: WindowDirection, count: usize) -> Self {
        *self.count(to) = count.clamp(MIN_READ, MAX_READ);
        self
    }

    fn count(&mut self, to: WindowDirection) -> &mut usize {
        match to {
            WindowDirection::Older => &mut self.older_count,
            WindowDirection::Newer => &mut self.newer_count,
        }
    }

    /// Returns the events, in order.
    pub(super) fn events(&self) -> &VecDeque<Event> {
        &self.events
    }

    /// Returns the positions of damaged events, in order.
    pub(super) fn damaged(&self) -> &[Seq] {
        &self.damaged
    }

    /// Returns the newest position in the window.
    pub(super) fn last(&self) -> Seq {
        self.last
    }

    /// Returns whether the log has more on the side.
    pub(super) fn can_grow(&self, to: WindowDirection) -> bool {
        match to {
            WindowDirection::Older => self.after > 0,
            WindowDirection::Newer => self.last < self.end,
        }
    }

    /// Reads more on one side. Each read is twice as large as the one before.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn grow(&mut self, to: WindowDirection) -> Result<(), StoreError> {
        let next = self.count(to);
        let count = *next as u64;
        // Doubling keeps the number of reads small, whatever the distance.
        *next = (*next * 2).min(MAX_READ);
        let (after, last) = match to {
            WindowDirection::Older => (self.after.saturating_sub(count), self.after),
            WindowDirection::Newer => (self.last, self.last.saturating_add(count).min(self.end)),
        };
        let positions = usize::try_from(last - after).unwrap_or(usize::MAX);
        let read = self.store.read_undamaged(self.id, after, positions).await?;
        self.damaged.extend(read.damaged);
        // A window grows on both sides, so the newest read may come first.
        self.damaged.sort_unstable();
        match to {
            WindowDirection::Older => {
                // Reversed, because each event goes before all others.
                read.events.into_iter().rev().for_each(|event| self.events.push_front(event));
                self.after = after;
            }
            WindowDirection::Newer => {
                self.events.extend(read.events);
                self.last = last;
            }
        }
        Ok(())
    }
}
