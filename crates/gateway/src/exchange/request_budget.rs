//! The room of a request in its model's window: budgets, plans, and the remaining output limit. All decisions
//! here are made on plain values; only a learned window is written to the upstream.

use std::sync::Arc;

use http::HeaderMap;
use longhaul_core::budget::Budget;
use longhaul_core::history::History;
use longhaul_core::meter::MeterReading;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, SummaryRejection};
use longhaul_core::{meter, plan};
use longhaul_providers::connect::Kind;
use longhaul_providers::{LimitSource, anthropic};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};
use longhaul_wire::overflow::ReportedOverflow;

use super::PreparationReport;
use super::log::ConversationLog;
use super::prepare::OutboundRequest;
use super::summary_writers::PRUNING_AGENT;
use super::targeted_request::TargetedRequest;
use crate::headers;
use crate::window::KnownWindow;

/// The fraction of a window (one in so many) that stays free, because some servers count a little differently each
/// time.
const ROOM_MARGIN_SHARE: u64 = 100;

/// The smallest remaining fraction of the window (one in so many) for which a shorter answer is worth a request.
const LEAST_ANSWER_SHARE: u64 = 8;

/// The window of a request's model and the policy for the request.
#[derive(Clone)]
pub(super) struct RequestBudget {
    pub(super) request: Arc<TargetedRequest>,
    pub(super) window: KnownWindow,
    pub(super) policy: CompactionPolicy,
    /// The output limit that a refusal has left for the answer, in tokens.
    pub(super) max_output_tokens: Option<u64>,
    /// `false` while another upstream may have room for the whole newest message.
    pub(super) may_cut_newest: bool,
}

impl RequestBudget {
    /// Returns the window with its source. An assumed window comes with the key for its declaration.
    pub(super) fn window_said(&self) -> String {
        let KnownWindow { tokens, .. } = self.window;
        match self.window.is_known() {
            true => format!("{tokens} ({})", self.window.said()),
            false => {
                let key = self.request.target.server.upstream.window_key;
                format!("{tokens} (assumed; state it with `{key}: N` in longhaul.yml)")
            }
        }
    }

    /// Adds the report to the headers of an answer.
    pub(super) fn describe(&self, report: &PreparationReport, headers: &mut HeaderMap) {
        headers::set_header(headers, "x-longhaul-action", report.action.as_str());
        headers::set_header(headers, "x-longhaul-upstream", &self.request.target.server.upstream.name);
        headers::set_header(headers, "x-longhaul-window", &self.window_said());
        if let Some(recall) = self.request.tools().recall_said(report) {
            headers::set_header(headers, "x-longhaul-recall", &recall);
        }
        self.say_deferred(headers);
        if report.before > 0 {
            headers::set_header(headers, "x-longhaul-tokens-before", &report.before.to_string());
            headers::set_header(headers, "x-longhaul-tokens-after", &report.after.to_string());
        }
        if !report.why.is_empty() {
            let why: String = report.why.chars().take(300).collect();
            headers::set_header(headers, "x-longhaul-reason", &why);
        }
    }

    /// Adds the number of the client's deferred tools to the headers of an answer or a count.
    pub(super) fn say_deferred(&self, headers: &mut HeaderMap) {
        if let Some(deferral) = &self.request.proxied.deferral {
            let said = format!("{} of {}", deferral.deferred().len(), deferral.total());
            headers::set_header(headers, "x-longhaul-deferred-tools", &said);
        }
    }

    /// Returns the threshold of the policy, in tokens.
    pub(super) fn threshold_tokens(&self) -> u64 {
        self.policy.trigger.map_or(self.window.tokens, |trigger| self.token_budget().trigger(trigger))
    }

    /// Learns from a rejected summary whether its writer can be a pruning agent.
    pub(super) fn note_rejection(&self, rejected: &SummaryRejection) {
        let inner = &self.request.proxied.inner;
        if self.policy.strategy.name() == PRUNING_AGENT && rejected.is_other_form() {
            let writer = self.request.writer();
            tracing::warn!(writer, "no pruning agent: `adaptive` stands in for it for an hour");
            inner.json_support.add(writer, (inner.parts.now)());
        }
    }

    /// Returns whether the request fits the window if the answer gets less room than usual.
    pub(super) fn fits_the_window(&self, log: &ConversationLog, fixed: u64) -> bool {
        meter::read(&log.history, fixed).bound() < self.window.tokens
    }

    /// Returns the budget of this request.
    pub(super) fn token_budget(&self) -> Budget {
        let asked = self.request.proxied.envelope.max_output.filter(|limit| *limit < u64::MAX && *limit > 0);
        Budget::new(self.window.tokens, asked.or(self.request.limits.max_output))
    }

    /// Returns the budget of a summary, which does not depend on the client's output limit.
    pub(super) fn summary_budget(&self) -> Budget {
        Budget::new(self.window.tokens, self.request.limits.max_output)
    }

    /// Returns whether a person declares the window, or a refusal has named it.
    pub(super) fn has_said_window(&self) -> bool {
        let is_learned = self.window.source == LimitSource::Learned && !self.request.target.is_suspected();
        self.request.limits.source == LimitSource::Declared || is_learned
    }

    /// Applies a new limit. A declared window, or one named by a refusal, changes only if the server says so. A
    /// suspected limit then holds for this request alone.
    pub(super) fn apply_limit(&mut self, limit: u64, is_said: bool) {
        if is_said || !self.has_said_window() {
            match is_said {
                true => self.request.target.learn_window(limit),
                false => self.request.target.suspect_window(limit),
            }
            self.window = self.request.target.window(&self.request.limits);
            tracing::info!(
                upstream = self.request.target.server.upstream.name,
                limit,
                is_said,
                window = self.window.tokens,
                "a window was learned from a response"
            );
        } else if limit < self.window.tokens {
            tracing::info!(
                upstream = self.request.target.server.upstream.name,
                limit,
                window = self.window.tokens,
                source = self.window.said(),
                "a suspected limit holds for this request only: the window is known"
            );
            self.window = KnownWindow { tokens: limit, source: LimitSource::Learned };
        }
    }

    /// Returns whether the request is so short that no plan is needed.
    pub(super) fn is_roomy(&self, before: &MeterReading, trigger: &PlanTrigger) -> bool {
        let budget = self.token_budget();
        // No built-in strategy acts below a third of the usable window, so this bound is safe without a trigger.
        let threshold = self.policy.trigger.map_or(budget.usable / 3, |trigger| budget.trigger(trigger));
        *trigger == PlanTrigger::Routine && before.bound() < threshold
    }

    /// Returns the plan of the policy for a history.
    pub(super) fn plan(&self, history: &History, fixed: u64, trigger: &PlanTrigger) -> Plan {
        self.plan_by(&self.policy, history, fixed, trigger)
    }

    /// Checks that a plan keeps the newest message whole where another upstream may have room for it.
    ///
    /// # Errors
    /// [`GatewayError`] if the plan cuts the message.
    pub(super) fn check_newest(&self, history: &History, plan: &Plan) -> Result<(), GatewayError> {
        match plan {
            Plan::Edit(edit) if !self.may_cut_newest && plan::cuts_newest(history, edit) => {
                let message = format!(
                    "the newest message has no room as a whole in the window of {} tokens",
                    self.window.tokens
                );
                Err(GatewayError::new(GatewayErrorKind::DoesNotFit, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a history fits by the policy's plan.
    pub(super) fn fits(&self, history: &History, fixed: u64, trigger: &PlanTrigger) -> bool {
        matches!(self.plan(history, fixed, trigger), Plan::Fits)
    }

    /// Returns the plan of another policy for a history.
    pub(super) fn plan_by(
        &self,
        policy: &CompactionPolicy,
        history: &History,
        fixed: u64,
        trigger: &PlanTrigger,
    ) -> Plan {
        let uncut;
        let policy = match trigger {
            PlanTrigger::Routine | PlanTrigger::Overflow => policy,
            // A client keeps the items that it has asked for, and an answer in progress has begun with the whole question.
            _ => {
                uncut = CompactionPolicy { cuts_user_messages: false, ..policy.clone() };
                &uncut
            }
        };
        let (budget, own) = (self.token_budget(), self.summary_budget());
        let first = plan::plan_with(history, fixed, &budget, policy, trigger, None);
        if !matches!(first, Plan::Summarise(_)) || own.reserve <= budget.reserve {
            return first;
        }
        // A client that wants a short answer must not cause a shorter summary.
        match plan::plan_with(history, fixed, &own, policy, trigger, None) {
            longer @ Plan::Summarise(_) => longer,
            _ => first,
        }
    }

    /// Logs the request that an upstream gets in place of the client's, with the reason.
    pub(super) fn log_outbound(&self, prepared: &OutboundRequest) {
        tracing::info!(
            upstream = self.request.target.server.upstream.name,
            action = prepared.report.action.as_str(),
            tokens_before = prepared.report.before,
            tokens_after = prepared.report.after,
            window = self.window.tokens,
            why = prepared.report.why,
            "the upstream is asked"
        );
    }

    /// Returns the room of the window for an answer, if the window is known.
    pub(super) fn room(&self, prepared: &OutboundRequest) -> Option<u64> {
        let is_known = self.window.is_known() && prepared.input > 0;
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        self.max_output_tokens.or(Some(room).filter(|_| is_known))
    }

    /// Returns the output limit that replaces the client's, as a field with its value.
    pub(super) fn limit_said(&self, prepared: &OutboundRequest) -> Option<String> {
        let (asked, room) = self.request.asked_output().zip(self.room(prepared))?;
        let name = self.request.proxied.envelope.max_output_name().unwrap_or("max_tokens");
        (asked > room).then(|| format!("{name}={room}"))
    }

    /// Adds the changed output limit to the headers of an answer.
    pub(super) fn say_limit(&self, prepared: &OutboundRequest, headers: &mut HeaderMap) {
        if let Some(changed) = self.limit_said(prepared) {
            headers::set_header(headers, "x-longhaul-changed", &changed);
        }
    }

    /// Returns the output limit to send, in tokens. `left` is the rest of the client's own limit, `room` the rest of
    /// the window. The Messages API demands a limit, so without a client's limit the default must be capped by the
    /// room, too.
    pub(super) fn output_limit(&self, left: Option<u64>, room: Option<u64>) -> Option<u64> {
        // Anthropic alone refuses a request without an output limit, so the adapter sets one.
        let is_demanded = self.request.target.server.upstream.kind == Kind::Anthropic;
        let most = left.or(self.max_output_tokens).or_else(|| {
            let usual = self.request.target.most_output().unwrap_or(anthropic::MAX_TOKENS);
            room.filter(|room| is_demanded && *room < usual)
        })?;
        if let Some(room) = room.filter(|room| *room < most) {
            tracing::debug!(
                asked = most,
                room,
                window = self.window.tokens,
                "the output limit is capped at the room that is left in the window"
            );
        }
        Some(room.map_or(most, |room| most.min(room)))
    }

    /// Returns whether a shorter answer fits, so that nothing has to be left out. Applies if only input and output
    /// together exceed the window, once for a request.
    pub(super) fn asks_for_less(
        &mut self,
        overflow: &ReportedOverflow,
        asked: u64,
        prepared: &OutboundRequest,
        is_said: bool,
    ) -> bool {
        // A second refusal shows that the output limit is not the reason.
        if self.max_output_tokens.is_some() {
            return false;
        }
        let Some(limit) = overflow.limit_tokens else { return false };
        // A refusal without a figure applies to the gateway's own count.
        let counted = Some(prepared.bound).filter(|_| prepared.input > 0);
        let Some(used) = overflow.used_tokens.or(counted) else { return false };
        let Some(room) = shorter_answer(limit, used, asked) else { return false };
        tracing::info!(
            used,
            limit,
            asked,
            room,
            is_said,
            "a shorter answer is asked for, and nothing is left out"
        );
        self.max_output_tokens = Some(room);
        self.apply_limit(limit, is_said);
        true
    }
}

/// Returns the output limit with which a refused request fits the window; `None` if a shorter answer does not help or
/// would be too short. `limit`: the window, `used`: the input, `asked`: the refused output limit, all in tokens.
fn shorter_answer(limit: u64, used: u64, asked: u64) -> Option<u64> {
    let room = limit.saturating_sub(used).saturating_sub(limit / ROOM_MARGIN_SHARE);
    (room >= limit / LEAST_ANSWER_SHARE && asked > room).then_some(room)
}
