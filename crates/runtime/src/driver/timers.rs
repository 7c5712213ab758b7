//! The timers of the loop.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul_core::run::{RunLoopInput, RunTimer};
use tokio::task::AbortHandle;

use super::context::DriverContext;

/// The running timers, one per kind.
#[derive(Debug, Default)]
pub(super) struct RunTimers(BTreeMap<RunTimer, AbortHandle>);

impl RunTimers {
    /// Starts a timer. An earlier timer of the same kind ends.
    pub(super) fn start(&mut self, context: &mut DriverContext, timer: RunTimer, after_ms: u64) {
        let handle = context.spawn_input(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            RunLoopInput::TimerFired(timer)
        });
        if let Some(old) = self.0.insert(timer, handle) {
            old.abort();
        }
    }

    pub(super) fn stop(&mut self, timer: RunTimer) {
        if let Some(handle) = self.0.remove(&timer) {
            // A timer that has just fired has sent its input already. The loop ignores it in a phase that waits for
            // none.
            handle.abort();
        }
    }
}
