//! The server's own count of a request, if it comes in time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::run::RunLoopInput;
use longhaul_providers::ModelRequest;
use tokio::time::Instant;

use super::SessionDriver;
use super::model::ModelCallTask;

/// The longest wait for the server's count before the call is sent with an estimate.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time for which a server that gave no count is not asked again.
const REST: Duration = Duration::from_secs(120);

/// The time since which a server that gave no count is not asked for one.
#[derive(Clone, Debug, Default)]
pub(super) struct CountBackoff(Arc<Mutex<Option<Instant>>>);

impl CountBackoff {
    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|since| since.elapsed() >= REST)
    }

    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl SessionDriver {
    pub(super) fn count(&mut self, tools: bool) {
        let resting = self.counting_rests.clone();
        // The length of the answer does not count as input, so any value does.
        let request = self.next_request(tools, 1);
        self.spawn_call(|call| async move {
            if !resting.is_over() {
                return RunLoopInput::Counted(None);
            }
            RunLoopInput::Counted(call.count(request, &resting).await)
        });
    }
}

impl ModelCallTask {
    /// Returns the server's count; `None` if none comes in time, and the estimate must do.
    async fn count(&self, mut request: ModelRequest, resting: &CountBackoff) -> Option<u64> {
        let counted = async {
            self.fill(&mut request).await?;
            self.provider.count(&request).await
        };
        let counted = tokio::select! {
            () = self.stop.cancelled() => return None,
            counted = tokio::time::timeout(PATIENCE, counted) => counted,
        };
        match counted {
            Ok(Ok(tokens)) => tokens,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the server did not count the request; estimates have to do for a while");
                resting.begin();
                None
            }
            Err(_) => {
                tracing::warn!(
                    "the server took too long to count the request; estimates have to do for a while"
                );
                resting.begin();
                None
            }
        }
    }
}
