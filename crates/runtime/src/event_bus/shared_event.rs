//! An announcement shared by all watchers.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::api_events::ApiEvent;

/// An announcement with the serialized form, written once for all remote watchers, not once for each.
#[derive(Debug)]
pub struct SharedEvent {
    announcement: ApiEvent,
    written: OnceLock<Bytes>,
}

impl SharedEvent {
    /// Creates an announcement without a serialized form.
    pub fn new(announcement: ApiEvent) -> Arc<Self> {
        Arc::new(Self { announcement, written: OnceLock::new() })
    }

    /// Returns the serialized form. The first caller writes the form for all callers.
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
