//! The server's own count of a request, if in time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::run::RunLoopInput;
use longhaul_providers::ModelRequest;
use tokio::time::Instant;

use super::context::DriverContext;
use super::model::{ModelCallTask, ModelCalls, next_request, spawn_call};

/// The longest wait for the server's count before the call is sent with an estimate.
// An estimate is at hand, so a call never waits long for a better count (decision 0012).
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause between questions to a server that gave no count.
// A server that is busy with another prompt would cost each call the full wait (decision 0012).
const REST: Duration = Duration::from_secs(120);

/// The start of the pause after a missing count of the server.
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

impl ModelCalls {
    /// Starts a count of the next request; the count is the loop's next input.
    pub(super) fn start_count(&mut self, context: &mut DriverContext, tools: bool) {
        let backoff = self.count_backoff.clone();
        // The length of the answer does not count as input, so any value does.
        let request = next_request(context, tools, 1);
        let call = self.new_call(context);
        spawn_call(context, async move {
            if !backoff.is_over() {
                tracing::debug!("the server is not asked for a count for a while; the estimate is used");
                return RunLoopInput::Counted(None);
            }
            RunLoopInput::Counted(call.count(request, &backoff).await)
        });
    }
}

impl ModelCallTask {
    /// Returns the server's count; `None` if none comes in time, and the estimate must do.
    async fn count(&self, mut request: ModelRequest, backoff: &CountBackoff) -> Option<u64> {
        let counted = async {
            // Media are input, too, so the request is counted with them.
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
                tracing::warn!(%error, "the model's server did not count the request: its tokens are estimated for a while");
                backoff.begin();
                None
            }
            Err(_) => {
                tracing::warn!(
                    "the model's server took too long to count the request: its tokens are estimated for a while"
                );
                backoff.begin();
                None
            }
        }
    }
}
