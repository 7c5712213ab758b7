//! An announcement as all watchers share it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::announce::Announcement;

/// An announcement that was told, and what was written of it for those who read it from afar: once for all of
/// them, not once for each.
#[derive(Debug)]
pub struct Told {
    announcement: Announcement,
    written: OnceLock<Bytes>,
}

impl Told {
    /// An announcement of which nothing is written yet.
    pub fn new(announcement: Announcement) -> Arc<Self> {
        Arc::new(Self { announcement, written: OnceLock::new() })
    }

    /// What was written of it. The first who asks writes it, in the one form that all ask for.
    pub fn written(&self, write: impl FnOnce(&Announcement) -> Bytes) -> Bytes {
        self.written.get_or_init(|| write(&self.announcement)).clone()
    }
}

impl Deref for Told {
    type Target = Announcement;

    fn deref(&self) -> &Announcement {
        &self.announcement
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        self.announcement == other.announcement
    }
}
