//! The rate at which a chat at a terminal is drawn, and the number of events that it takes between two
//! frames.

use std::sync::Arc;
use std::time::Duration;

use longhaul::event_bus::{EventReceiver, RecvError, SharedEvent};

use super::texts;
use crate::failure::{CommandError, Outcome};

/// The interval for new elapsed times.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// The time that a terminal is left alone while it is being resized.
pub(super) const SETTLE: Duration = Duration::from_millis(60);

/// The maximum number of announcements taken together: a fast stream is not drawn word by word.
const BATCH: usize = 256;

/// An announcement, or the number of missed ones.
pub(super) enum SubscriptionItem {
    Told(Arc<SharedEvent>),
    Missed(u64),
}

/// Returns the received item together with all items that wait already.
///
/// # Errors
/// The session has ended.
pub(super) fn collect_event_batch(
    received: Result<Arc<SharedEvent>, RecvError>,
    watch: &mut EventReceiver,
) -> Outcome<Vec<SubscriptionItem>> {
    // An error here means that nothing waits; a closed channel is reported at the next wait.
    let more = std::iter::from_fn(|| watch.try_recv().ok().map(Ok));
    let all = std::iter::once(received).chain(more).take(BATCH);
    let heard = all.map(|one| match one {
        Ok(told) => Ok(SubscriptionItem::Told(told)),
        Err(RecvError::Lagged(missed)) => Ok(SubscriptionItem::Missed(missed)),
        Err(RecvError::Closed) => Err(CommandError::new(texts::SESSION_ENDED)),
    });
    heard.collect()
}
