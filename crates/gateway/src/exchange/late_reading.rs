//! Forwarding before reading. The first request of a conversation is sent on unchanged if certain to fit. The
//! gateway reads the request while the upstream works, and the client does not wait for the count.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::message::ModelStopReason;
use longhaul_providers::LimitSource;
use longhaul_wire::edit::PartialResponse;
use longhaul_wire::edit::ephemeral::may_have_notices;
use memchr::memmem;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::Instrument;

use super::attempts::AttemptOutcome;
use super::conversation::GatewayConversation;
use super::prepare::OutboundRequest;
use super::request_budget::RequestBudget;
use super::targeted_request::TargetedRequest;
use super::upstream_response::UpstreamResponse;
use super::{PreparationReport, ProxiedRequest, UpstreamAttempt};
use crate::upstream::UpstreamTarget;

/// The smallest request to forward unread, in bytes. Reading a smaller one takes a small fraction of a
/// millisecond.
// The bound is that of decision 0053.
const MIN_BYTES: usize = 4 << 10;

/// The least number of bytes per token in a request of text and JSON, on average over a whole request. The
/// number only decides whether the request is far below the trigger. The bytes alone show whether the request
/// fits.
const BYTES_PER_TOKEN: u64 = 3;

/// The reading starts so long after the request was sent, or earlier if its result is needed. On a small machine the
/// upstream would otherwise wait for the core.
const HEAD_START: Duration = Duration::from_millis(20);

/// The JSON strings that show media in a request. A picture behind a short address has thousands of tokens.
const MEDIA: [&[u8]; 7] = [
    b"\"image\"",
    b"\"image_url\"",
    b"\"input_image\"",
    b"\"document\"",
    b"\"file\"",
    b"\"input_file\"",
    b"\"input_audio\"",
];

/// A reading of a request after its sending. Dropping the value stops the reading.
pub(super) struct LateReading {
    needed: Arc<Notify>,
    task: JoinHandle<Option<ReadRequest>>,
}

/// The conversation of a request, and the request as it would have been sent.
pub(super) struct ReadRequest {
    pub(super) conversation: Arc<GatewayConversation>,
    pub(super) outbound: OutboundRequest,
}

impl OutboundRequest {
    /// Returns the client's request unchanged, with nothing known.
    pub(super) fn unread() -> Self {
        let why = "far below the trigger by its length, and counted after it was sent".to_owned();
        Self { report: PreparationReport { why, ..PreparationReport::default() }, ..Self::default() }
    }
}

impl LateReading {
    pub(super) fn start(exchange: Arc<ProxiedRequest>, target: Arc<UpstreamTarget>) -> Self {
        let needed = Arc::<Notify>::default();
        let is_needed = Arc::clone(&needed);
        let read = async move {
            tokio::select! {
                () = sleep(HEAD_START) => {}
                () = is_needed.notified() => {}
            }
            // The totals are separate: the reading makes no call, and its attempt must not change the bill.
            let mut attempt = UpstreamAttempt::find(exchange, target, Arc::default()).await;
            let prepared = attempt.fitter.prepare().await;
            let outbound = prepared
                .inspect_err(|fault| {
                    tracing::debug!("a request that was sent cannot be read: {}", fault.message)
                })
                .ok()?;
            let conversation = attempt.memo().conversation.clone()?;
            // A known conversation may have edits. They were not sent, so the usage is no count of the edited view.
            let is_other = outbound.steps.is_some() || !outbound.replays.is_empty();
            let is_doubted = outbound.is_doubted || is_other;
            tracing::debug!(
                tokens = outbound.input,
                bound = outbound.bound,
                items = outbound.items,
                is_doubted,
                "a request was read after it was sent"
            );
            Some(ReadRequest { conversation, outbound: OutboundRequest { is_doubted, ..outbound } })
        };
        // Without the request's span the lines of the task would not name the request.
        Self { needed, task: tokio::spawn(read.in_current_span()) }
    }

    pub(super) async fn finish(mut self) -> Option<ReadRequest> {
        self.needed.notify_one();
        // The task is borrowed, because a type with `Drop` cannot be taken apart.
        (&mut self.task).await.ok().flatten()
    }
}

impl Drop for LateReading {
    fn drop(&mut self) {
        // A client that has left needs no reading, and the work would take a core.
        self.task.abort();
    }
}

impl RequestBudget {
    /// Returns whether the request may be sent before it is read: it is the client's own request without any change, it
    /// fits whatever its content is, and no strategy would act on it.
    pub(super) fn may_send_unread(&self) -> bool {
        let (exchange, envelope) = (&self.request.proxied, &self.request.proxied.envelope);
        let bytes = envelope.bytes.len();
        let is_plain = exchange.is_new
            && self.policy.enabled
            && !self.request.needs_translation()
            && exchange.deferral.is_none()
            && self.request.context_management().is_none()
            && !self.request.reader().has_recall();
        // Where the window is only assumed, or learned from a refusal, the count is needed to see a silent truncation.
        let is_stated = self.request.limits.window.is_some()
            && matches!(
                self.window.source,
                LimitSource::Declared | LimitSource::Server | LimitSource::Catalogue
            );
        is_plain
            && is_stated
            && bytes >= MIN_BYTES
            && self.fits_by_bytes(bytes as u64)
            && !has_media(&envelope.bytes)
            && !may_have_notices(envelope.text(&envelope.items_at))
    }

    /// Returns whether the request fits and is far from the trigger, by its length.
    fn fits_by_bytes(&self, bytes: u64) -> bool {
        let budget = self.token_budget();
        let asked = self.request.asked_output().unwrap_or(0);
        // A tokenizer makes at most one token of a byte.
        let fits = bytes <= budget.usable && bytes.saturating_add(asked) <= budget.window;
        // The same lines as for a request that was counted: see `is_roomy` and `must_collect`.
        let line = self.policy.trigger.map_or(budget.usable / 3, |trigger| budget.trigger(trigger) / 2);
        fits && bytes / BYTES_PER_TOKEN < line
    }
}

impl TargetedRequest {
    /// Returns whether the outcome needs no knowledge of the conversation: an answer that cannot be a sign of anything.
    pub(super) fn is_plain_answer(&self, received: &AttemptOutcome) -> bool {
        let AttemptOutcome::Native(response, _) = received else { return false };
        match response {
            UpstreamResponse::Stream(opening) => {
                let seen = &opening.beginning;
                opening.status.is_success() && seen.error.is_none() && seen.finish.is_none()
            }
            UpstreamResponse::Whole(whole) => {
                whole.status.is_success() && whole.seen.as_ref().is_some_and(|seen| self.is_credible(seen))
            }
        }
    }

    /// Returns whether a complete answer shows that the upstream has read the whole request.
    fn is_credible(&self, seen: &PartialResponse) -> bool {
        // A report below a sixth of the bytes may be a truncation and is judged by the count (decision 0053).
        let least = self.proxied.envelope.bytes.len() as u64 / (2 * BYTES_PER_TOKEN);
        let has_read = seen.usage.as_ref().is_some_and(|usage| usage.input_tokens >= least);
        // Whether an answer that stopped for its length goes on depends on the conversation.
        has_read && seen.error.is_none() && !seen.is_empty() && seen.finish != Some(ModelStopReason::Length)
    }
}

/// Returns whether a request may show pictures, files or sound. Their tokens do not follow from their bytes.
fn has_media(request: &[u8]) -> bool {
    MEDIA.into_iter().any(|word| memmem::find(request, word).is_some())
}
