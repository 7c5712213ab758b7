//! The maintenance of the store, once an hour and after a session was deleted. The work deletes expired
//! sessions, and blobs without a reference from a session.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use longhaul_core::ids::Millis;
use longhaul_store::{BlobError, BlobSweepReport, SharedUpkeep, StoreError};
use tokio::sync::Notify;

use crate::app::AppState;

/// The delay after the start and after a deletion, for the common handling of simultaneous deletions.
const SOON: Duration = Duration::from_secs(2);

/// The average interval of maintenance.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The minimum pause after a run, as a multiple of its duration, so that maintenance takes at most a tenth of the time.
const REST: u32 = 9;

/// The number of sessions per query.
const AT_ONCE: usize = 100;

/// The configuration of maintenance.
#[derive(Clone)]
pub struct MaintenanceConfig {
    /// The store to maintain.
    pub upkeep: SharedUpkeep,
    /// The retention of sessions after their last event; `None`: for ever.
    pub sessions: Option<Duration>,
}

impl fmt::Debug for MaintenanceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaintenanceConfig").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// A signal of possible work for maintenance.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceTrigger(Notify);

impl MaintenanceTrigger {
    pub(crate) fn note(&self) {
        // `notify_one` keeps the signal if no task waits, so that a deletion during a run is not lost.
        self.0.notify_one();
    }
}

/// The outcome of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MaintenanceReport {
    sessions: u64,
    blobs: BlobSweepReport,
}

#[derive(Debug, thiserror::Error)]
enum MaintenanceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

/// Runs maintenance until the server ends.
pub(crate) async fn keep_up(app: &AppState) {
    let Some(keeping) = &app.config().keeping else { return std::future::pending().await };
    let mut wait = SOON;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // The pause gathers the deletions of a person who cleans up.
            () = app.deletions().0.notified() => tokio::time::sleep(SOON).await,
        }
        let begun = Instant::now();
        match once(app, keeping, SystemTime::now()).await {
            Ok(None) => tracing::debug!("another node does the maintenance"),
            Ok(Some(kept)) => log_report(&kept, keeping),
            // The next run finds the same again, so an error needs no retry of its own.
            Err(error) => {
                tracing::warn!(
                    %error,
                    "maintenance failed: nothing was deleted that is still needed; the rest is deleted at the next try"
                )
            }
        }
        // On a large store a run takes long, and the pause grows with it.
        let pause = begun.elapsed().saturating_mul(REST);
        tracing::debug!(
            elapsed_ms = begun.elapsed().as_millis() as u64,
            ?pause,
            "a maintenance run has ended"
        );
        tokio::time::sleep(pause).await;
        wait = EVERY.mul_f64(jitter());
    }
}

fn log_report(kept: &MaintenanceReport, keeping: &MaintenanceConfig) {
    let MaintenanceReport { sessions, blobs } = kept;
    if *sessions > 0 {
        let kept = keeping.sessions.unwrap_or_default();
        tracing::info!(
            "{sessions} sessions are deleted in which nothing was said for {kept:?} (server.keepSessions)"
        );
    }
    if *blobs != BlobSweepReport::default() {
        let BlobSweepReport { set_aside, brought_back, removed, removed_bytes } = blobs;
        tracing::info!(
            "blobs: {removed} unused ones removed ({removed_bytes} bytes), {set_aside} set aside, {brought_back} brought \
             back"
        );
    }
}

/// Runs maintenance once, at the time `now`. `None`: another node has the turn.
async fn once(
    app: &AppState,
    keeping: &MaintenanceConfig,
    now: SystemTime,
) -> Result<Option<MaintenanceReport>, MaintenanceError> {
    // The lock only saves work: two nodes at once do no harm.
    let Some(_turn) = keeping.upkeep.turn().await? else { return Ok(None) };
    let counters = &app.config().counters;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let sessions = match keeping.sessions {
        Some(kept) => {
            let before = since.saturating_sub(kept).as_millis();
            expire(&keeping.upkeep, u64::try_from(before).unwrap_or(u64::MAX)).await?
        }
        None => 0,
    };
    counters.expired(sessions);
    // Read after the sessions were deleted, so that their blobs count as unnamed in the same run.
    let named = keeping.upkeep.named_blobs().await?;
    let blobs = app.runtime().blobs().sweep_unnamed(&named, now).await?;
    counters.swept(&blobs);
    Ok(Some(MaintenanceReport { sessions, blobs }))
}

/// Deletes sessions at rest without an event since `before`, and returns their number.
async fn expire(upkeep: &SharedUpkeep, before: Millis) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        let resting = upkeep.at_rest_before(before, AT_ONCE).await?;
        let known = deleted;
        for id in &resting {
            // The session may have got a message since the query, so the delete checks again.
            if upkeep.delete_at_rest(id, before).await? {
                deleted += 1;
                tracing::debug!(session = %id, "deleted: its last event is older than sessions are kept");
            }
        }
        // Without the second condition, sessions that cannot be deleted would be queried for ever.
        if resting.len() < AT_ONCE || deleted == known {
            return Ok(deleted);
        }
    }
}

/// Returns a factor between 0.75 and 1.25, so that nodes with a common start do not stay in step.
fn jitter() -> f64 {
    let mut byte = [128_u8];
    // Without random bytes the nodes stay in step, and one of them gets the turn.
    let _ = getrandom::fill(&mut byte);
    0.75 + f64::from(byte[0]) / 512.0
}

#[cfg(test)]
mod tests;
