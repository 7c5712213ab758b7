//! The requests to end the process: Ctrl-C, or a polite `kill`.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::watchdog;

/// The maximum time between SIGTERM and the end of the process, whatever runs.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Waits for interruptions.
pub(crate) struct InterruptSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl InterruptSignals {
    /// Starts listening. From now on these signals do not end the process by themselves.
    ///
    /// # Errors
    /// The errors of the system.
    pub(crate) fn listen() -> io::Result<Self> {
        // Several parts of a command listen, but one watchdog is enough.
        static IS_WATCHED: OnceLock<()> = OnceLock::new();
        if IS_WATCHED.set(()).is_ok() {
            // The watchdog runs beside the async runtime, so it ends the process even if the runtime hangs.
            watchdog::start(ENDS_WITHIN)?;
        }
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => tracing::debug!("SIGINT"),
            _ = self.terminate.recv() => tracing::debug!("SIGTERM"),
            // A closed terminal ends a command like Ctrl-C, so that its session is closed properly.
            _ = self.hang_up.recv() => tracing::debug!("SIGHUP"),
        }
    }
}
