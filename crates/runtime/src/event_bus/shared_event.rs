//! An announcement as all watchers share it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::api_events::ApiEvent;

/// An announcement that was told, and what was written of it for those who read it from afar: once for all of
/// them, not once for each.
#[derive(Debug)]
pub struct SharedEvent {
    announcement: ApiEvent,
    written: OnceLock<Bytes>,
}

impl SharedEvent {
    /// An announcement of which nothing is written yet.
    pub fn new(announcement: ApiEvent) -> Arc<Self> {
        Arc::new(Self { announcement, written: OnceLock::new() })
    }

    /// What was written of it. The first who asks writes it, in the one form that all ask for.
    pub fn written(&self, write: impl FnOnce(&ApiEvent) -> Bytes) -> Bytes {
        self.written.get_or_init(|| write(&self.announcement)).clone()
    }
}

impl Deref for SharedEvent {
    type Target = ApiEvent;

    fn deref(&self) -> &ApiEvent {
        &self.announcement
    }
}

impl PartialEq for SharedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.announcement == other.announcement
    }
}
