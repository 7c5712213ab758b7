//! How often a chat at a terminal is drawn, and how much it takes in between.

use std::sync::Arc;
use std::time::Duration;

use longhaul::event_bus::{EventReceiver, RecvError, SharedEvent};

use super::texts;
use crate::failure::{CommandError, Outcome};

/// How often elapsed times are shown anew.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// How long a terminal that is being resized is left alone.
pub(super) const SETTLE: Duration = Duration::from_millis(60);

/// Announcements taken together: a fast stream is not drawn word by word.
const BATCH: usize = 256;

/// What was announced, or how much of it was missed.
pub(super) enum SubscriptionItem {
    Told(Arc<SharedEvent>),
    Missed(u64),
}

/// What was received, and what else is there by now.
///
/// # Errors
/// The session has ended.
pub(super) fn collect_event_batch(
    received: Result<Arc<SharedEvent>, RecvError>,
    watch: &mut EventReceiver,
) -> Outcome<Vec<SubscriptionItem>> {
    let more = std::iter::from_fn(|| watch.try_recv().ok().map(Ok));
    let all = std::iter::once(received).chain(more).take(BATCH);
    let heard = all.map(|one| match one {
        Ok(told) => Ok(SubscriptionItem::Told(told)),
        Err(RecvError::Lagged(missed)) => Ok(SubscriptionItem::Missed(missed)),
        Err(RecvError::Closed) => Err(CommandError::new(texts::SESSION_ENDED)),
    });
    heard.collect()
}
