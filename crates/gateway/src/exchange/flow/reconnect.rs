//! A broken stream: the answer goes on in another one if no text would be repeated.

use std::time::Duration;

use longhaul_core::attempt::BrokenAnswerAction;
use longhaul_core::exchange::{ExchangeEffect, ExchangeInput, StreamBreak};

use super::super::request_log::whole_ms;
use super::continuation::StreamContinuation;
use super::notices::StreamComment;
use super::reading::seen_in;
use super::{AnswerFlow, EventProcessor};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, StreamPosition};

/// The comment for a client about the pause of its stream.
const BROKEN: &str = "the upstream broke off its answer; it is asked to go on";

impl AnswerFlow {
    /// Returns the facts about a stream that breaks at this point.
    fn stream_break(&self, asked: Option<Duration>) -> StreamBreak {
        let seen = self.reader.seen();
        let can_join = match (&self.attempt, &self.reader) {
            (Some(attempt), EventProcessor::Joins(_)) => attempt.request.may_reconnect(),
            _ => false,
        };
        // A call or a second choice cannot be continued, and the client has begun to read it.
        let is_text_alone = !seen.has_other && seen.calls.is_empty() && !self.has_hidden();
        let has_text = !self.step_text().trim_end().is_empty();
        StreamBreak {
            is_joinable: can_join && !self.is_between && seen.finish.is_none() && is_text_alone,
            ends_in_text: has_text && self.within == StreamPosition::Text,
            is_blank: !has_text && seen.reasoning.is_empty(),
            asked_ms: asked.map(whole_ms),
            now_ms: self.now_ms(),
        }
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
        Some(fault).filter(|_| may_pass && self.may_go_on_after_break())
    }

    fn may_go_on_after_break(&self) -> bool {
        self.exchange.action_after_break(self.stream_break(None)) != BrokenAnswerAction::GiveUp
    }

    /// Handles a broken stream: the answer goes on in another one after a wait, or has failed.
    pub(super) fn handle_broken_stream(&mut self, fault: GatewayError) {
        let broken = self.stream_break(fault.retry_after);
        let effects = self.exchange.handle(ExchangeInput::StreamBroke(broken));
        if effects.contains(&ExchangeEffect::BreakOff) {
            return self.break_off(fault);
        }
        let newest = self.reader.seen().usage.clone();
        // The next stream continues from the text, so the abandoned one is billed and its text stored first.
        let Some(left) = self.leave_for_next("", newest, StreamContinuation::AfterBreak) else {
            return self.break_off(fault);
        };
        tracing::warn!(
            upstream = left.attempt.request.target.server.upstream.name,
            broken_streams = self.exchange.broken_streams(),
            "an answer broke off and is asked to go on: {}",
            fault.message
        );
        self.out.push_back(BROKEN.comment().into());
        self.wait_for_rest(left, effects);
        self.broke_by = Some(fault);
    }
}
