//! The position of a watcher among the announcements.

use std::sync::Arc;

pub use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;

use super::{EventBus, SharedEvent};

/// The announcements from a given moment on, in order. A receiver keeps the session open.
#[derive(Debug)]
pub struct EventReceiver {
    bus: Arc<EventBus>,
    news: watch::Receiver<()>,
    next: u64,
    _in_use: Arc<()>,
}

impl EventReceiver {
    pub(super) fn new(bus: Arc<EventBus>, news: watch::Receiver<()>, next: u64, in_use: Arc<()>) -> Self {
        Self { bus, news, next, _in_use: in_use }
    }

    /// Waits for the next announcement. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`RecvError::Lagged`] with the number of lost announcements, before the receiver continues behind the gap;
    /// [`RecvError::Closed`] when the session has stopped and all announcements were read.
    pub async fn recv(&mut self) -> Result<Arc<SharedEvent>, RecvError> {
        loop {
            match self.try_recv() {
                Ok(announcement) => return Ok(announcement),
                Err(TryRecvError::Lagged(missed)) => return Err(RecvError::Lagged(missed)),
                Err(TryRecvError::Closed) => return Err(RecvError::Closed),
                Err(TryRecvError::Empty) => {}
            }
            // This receiver holds the bus and so the sender: the wait cannot fail.
            let _ = self.news.changed().await;
        }
    }

    /// Returns the next announcement, if made already.
    ///
    /// # Errors
    /// The errors of [`EventReceiver::recv`], and [`TryRecvError::Empty`] if there is no announcement yet.
    pub fn try_recv(&mut self) -> Result<Arc<SharedEvent>, TryRecvError> {
        let state = self.bus.lock();
        match state.recent.get(self.next) {
            Ok(Some(announcement)) => {
                self.next += 1;
                Ok(announcement)
            }
            // The end is reported behind the last announcement, so that a slow watcher still reads all of them.
            Ok(None) if state.has_ended => Err(TryRecvError::Closed),
            Ok(None) => Err(TryRecvError::Empty),
            Err(missed) => {
                self.next += missed;
                Err(TryRecvError::Lagged(missed))
            }
        }
    }
}
