//! The continuation of a broken answer in another stream of the same upstream.

use std::time::Duration;

use longhaul_core::attempt::{BrokenAnswer, BrokenAnswerAction, RetryPolicy};
use tokio::time::{Instant, sleep};

use super::super::request_log::whole_ms;
use super::notices::StreamComment;
use super::reading::seen_in;
use super::restart::{AbandonedStream, ResumedStream, StreamContinuation, request_continuation};
use super::{AnswerFlow, EventProcessor, FlowPhase};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, StreamPosition};

/// The comment for a client about the pause of its stream.
const BROKEN: &str = "the upstream broke off its answer; it is asked to go on";

impl AnswerFlow {
    /// Handles a broken stream. The answer continues in another stream if no text would be repeated; otherwise it has
    /// failed.
    pub(super) fn handle_broken_stream(&mut self, fault: GatewayError) {
        match self.after_break() {
            BrokenAnswerAction::GiveUp => self.break_off(fault),
            BrokenAnswerAction::Continue | BrokenAnswerAction::AskAgain => self.reconnect(fault),
        }
    }

    /// Returns the action for a stream broken at this point.
    fn after_break(&self) -> BrokenAnswerAction {
        let (Some(route), EventProcessor::Joins(_)) = (&self.attempt, &self.reader) else {
            return BrokenAnswerAction::GiveUp;
        };
        let seen = self.reader.seen();
        // A call or a second choice cannot be continued, and the client has begun to read it.
        let is_text_alone = !seen.has_other && seen.calls.is_empty() && !self.has_hidden();
        if !route.request.may_reconnect() || self.is_between || seen.finish.is_some() || !is_text_alone {
            return BrokenAnswerAction::GiveUp;
        }
        let has_text = !self.step_text().trim_end().is_empty();
        let broken = BrokenAnswer {
            broke_before: self.broken_streams,
            ends_in_text: has_text && self.within == StreamPosition::Text,
            can_continue: true,
            can_take_back: !has_text && seen.reasoning.is_empty(),
        };
        broken.next(route.request.exchange.inner.config.retry.stream_attempts)
    }

    /// Returns the error of an event that ends the answer for a temporary reason, if the answer can continue.
    pub(super) fn passing_error(&self, raw: &[u8]) -> Option<GatewayError> {
        let error = seen_in(self.wire, raw).error?;
        let fault = self.attempt.as_ref()?.request.said_error(&error);
        let may_pass = matches!(
            fault.kind,
            GatewayErrorKind::Upstream
                | GatewayErrorKind::RateLimit
                | GatewayErrorKind::Timeout
                | GatewayErrorKind::Unreachable
        );
        // An error about the request itself would come back with the next stream.
        Some(fault).filter(|_| may_pass && self.after_break() != BrokenAnswerAction::GiveUp)
    }

    /// Leaves the broken stream, and asks the upstream to continue after a wait.
    fn reconnect(&mut self, fault: GatewayError) {
        let newest = self.reader.seen().usage.clone();
        // The next stream continues from the text, so the abandoned one is billed and its text stored first.
        let Some(left) = self.leave_for_next("", newest) else { return self.break_off(fault) };
        self.broken_streams += 1;
        let retry = left.attempt.request.exchange.inner.config.retry;
        tracing::warn!(
            upstream = left.attempt.request.target.server.upstream.name,
            broken_streams = self.broken_streams,
            "an answer broke off and is asked to go on: {}",
            fault.message
        );
        self.out.push_back(BROKEN.comment().into());
        let attempt = self.broken_streams;
        self.phase = FlowPhase::Waiting(Box::pin(resume(left, retry, attempt, fault.retry_after)));
        self.broke_by = Some(fault);
    }
}

/// Asks the upstream to continue, repeatedly during an outage, until the patience of `retry` ends.
async fn resume(
    left: AbandonedStream,
    retry: RetryPolicy,
    mut attempt: u32,
    mut asked: Option<Duration>,
) -> ResumedStream {
    let AbandonedStream { attempt: route, prepared, text, new_tokens, written_tokens, .. } = left;
    let prepared = prepared.with_more_input(new_tokens);
    let begun = Instant::now();
    loop {
        let asked_ms = asked.and_then(|asked| u64::try_from(asked.as_millis()).ok());
        let wait_ms = retry.delay_ms(attempt, asked_ms);
        tracing::debug!(
            upstream = route.request.target.server.upstream.name,
            attempt,
            wait_ms,
            asked_ms,
            waited_ms = whole_ms(begun.elapsed()),
            "an upstream is given time before it is asked to go on"
        );
        // A request at once would meet the same failure.
        sleep(Duration::from_millis(wait_ms)).await;
        let body = request_continuation(&route, &prepared, prepared.shown_of(&text), written_tokens).await;
        let is_patient = retry.patience_ms.is_none_or(|ms| begun.elapsed() < Duration::from_millis(ms));
        match &body {
            Err(fault) if is_outage(fault) && is_patient => {
                asked = fault.retry_after;
                attempt += 1;
            }
            _ => {
                return ResumedStream {
                    attempt: route,
                    prepared,
                    body,
                    then: StreamContinuation::AfterBreak,
                };
            }
        }
    }
}

/// Returns whether the upstream is unreachable or too busy only for now.
fn is_outage(fault: &GatewayError) -> bool {
    let is_kind = matches!(
        fault.kind,
        GatewayErrorKind::Unreachable | GatewayErrorKind::RateLimit | GatewayErrorKind::Upstream
    );
    is_kind && (fault.status.is_server_error() || fault.status == http::StatusCode::TOO_MANY_REQUESTS)
}
