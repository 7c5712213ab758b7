//! Uploaded content of a session, not yet in a message.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use longhaul_core::ids::SessionId;
use longhaul_core::message::MediaPart;

/// The maximum number of remembered uploads of all sessions. The oldest is forgotten first and must be uploaded again.
const REMEMBERED: usize = 1_000;

/// The uploads of each session. A message may name an upload before the session's log does.
#[derive(Debug, Default)]
pub(crate) struct UploadRegistry(Mutex<VecDeque<(SessionId, MediaPart)>>);

impl UploadRegistry {
    pub(crate) fn add(&self, session: SessionId, media: MediaPart) {
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An upload made again may have another name or type, and the newest counts.
        uploads.retain(|(owner, old)| !(*owner == session && old.blob == media.blob));
        if uploads.len() == REMEMBERED
            && let Some((owner, _)) = uploads.pop_front()
        {
            tracing::info!(session = %owner, "an upload that no message names is forgotten: there are too many");
        }
        uploads.push_back((session, media));
    }

    pub(crate) fn find(&self, session: &SessionId, hash: &str) -> Option<MediaPart> {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_session = uploads.iter().filter(|(owner, _)| owner == session);
        of_session.find(|(_, media)| media.blob.hash == hash).map(|(_, media)| media.clone())
    }
}
