//! The preparation of a request: its conversation, its size, and a compaction if it is too long.

use std::sync::Arc;

use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::event::EditKind;
use longhaul_core::history::{History, SummaryWriterRecord, request_messages};
use longhaul_core::message::{Message, Part};
use longhaul_core::meter::{self, MeterReading};
use longhaul_core::plan::{self, CompactionPolicy, Plan, PlanTrigger};
use longhaul_core::run::PreCompactOutput;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_providers::LimitSource;
use tokio::sync::OwnedMutexGuard;

use super::answer_tail::AnswerTail;
use super::context_management::ContextManagement;
use super::conversation::{ConversationState, GatewayConversation, MidAnswerLog};
use super::fallback_summary::{FallbackSummary, MissingSummaryCause};
use super::json_support::PRUNING_AGENT;
use super::log::{ConversationLog, RequestSnapshot, RoleRewrites};
use super::recall::{RecallRounds, replay_tokens};
use super::summary::{PlannedEdit, SummaryFailure, SummaryFailureReason};
use super::{PreparationAction, PreparationReport, UpstreamAttempt, cache, render_ops, summary};
use crate::window::KnownWindow;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, HiddenCallReplay, RenderOp};

/// The maximum number of plans for one request. As in a run, another plan follows only if the first one did not help.
const MOST_PLANS: usize = 3;

/// The largest input with which an answer is restarted, in percent of the window. A larger one would cause the next
/// restart at once, so the answer's own beginning is left out instead.
const MAX_RESTART_PERCENT: u64 = 85;

/// Returns the trigger of the pruning agent: 80 % of the window for an estimate that includes room for an answer. That
/// room is 20 % of the rest and at least 1,000 tokens. Other strategies have their own triggers.
pub(super) fn trigger(strategy: &str, window: u64) -> Option<StrategyTrigger> {
    let tokens = (window * 3).div_ceil(4).min((window * 4).div_ceil(5).saturating_sub(1_000));
    (strategy == PRUNING_AGENT).then(|| StrategyTrigger::Tokens(tokens.max(window / 4)))
}

/// A request that is ready to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct OutboundRequest {
    /// The operations that build its items, if they differ from the client's.
    pub(super) steps: Option<Vec<RenderOp>>,
    pub(super) report: PreparationReport,
    /// The estimated input in tokens; 0 if nothing was counted.
    pub(super) input: u64,
    /// The estimate with the expected error.
    pub(super) bound: u64,
    /// The figures of the call for the log.
    pub(super) start: RequestSnapshot,
    /// The number of the client's items in it.
    pub(super) items: usize,
    /// The conversation in neutral form, for an upstream of another dialect.
    pub(super) said: Option<NeutralConversation>,
    /// The steps of the answer that the client is not shown.
    pub(super) rounds: RecallRounds,
    /// The steps of earlier answers that are completed again.
    pub(super) replays: Vec<HiddenCallReplay>,
    /// The log with the edits made in the middle of the answer.
    pub(super) mid_answer_log: Option<Arc<ConversationLog>>,
    /// The end of the answer that the request continues, if the whole answer has no room.
    pub(super) tail: Option<AnswerTail>,
    /// Set if the answer may rest on a part of the request. Its usage report is then no count of the request.
    pub(super) is_doubted: bool,
}

impl OutboundRequest {
    /// Returns the request with so many tokens of its answer appended.
    pub(super) fn with_more_input(self, tokens: u64) -> Self {
        Self { input: self.input + tokens, bound: self.bound + tokens, ..self }
    }

    /// Returns the part of an answer's step with which the request ends.
    pub(super) fn shown_of<'t>(&self, text: &'t str) -> &'t str {
        let from = self.tail.as_ref().map_or(0, |tail| tail.from);
        text.get(from..).unwrap_or(text)
    }

    /// Returns the operations that build the request's items, including the note before the end of a long answer.
    pub(super) fn render_ops(&self, items: usize) -> Option<Vec<RenderOp>> {
        let Some(tail) = &self.tail else { return self.steps.clone() };
        let mut ops = self.steps.clone().unwrap_or_else(|| vec![RenderOp::Keep(0..items)]);
        ops.push(RenderOp::Say(tail.note.clone()));
        Some(ops)
    }
}

/// A conversation in neutral form.
#[derive(Clone, Debug, Default)]
pub(super) struct NeutralConversation {
    /// The system prompts among the items.
    pub(super) system: Vec<String>,
    pub(super) messages: Vec<Message>,
    pub(super) role_rewrites: RoleRewrites,
}

/// The edit for a request, and the PreCompact hook's answer.
struct EditDecision {
    made: Option<PlannedEdit>,
    hook_answer: Option<PreCompactOutput>,
}

/// Returns the policy with a strategy that needs no summary, at the same trigger.
fn without_summaries(policy: CompactionPolicy) -> CompactionPolicy {
    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
    CompactionPolicy { strategy: Arc::new(TruncationStrategy::default()), trigger: Some(trigger), ..policy }
}

impl UpstreamAttempt {
    /// Returns the budget of this request.
    pub(super) fn budget(&self) -> Budget {
        let asked = self.exchange.envelope.max_output.filter(|limit| *limit < u64::MAX && *limit > 0);
        Budget::new(self.window.tokens, asked.or(self.limits.max_output))
    }

    /// Returns the budget of a summary, which does not depend on the client's output limit.
    pub(super) fn summary_budget(&self) -> Budget {
        Budget::new(self.window.tokens, self.limits.max_output)
    }

    /// Finds the conversation of the request, and makes the request fit.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or cannot fit.
    pub(super) async fn prepare(&mut self) -> Result<OutboundRequest, GatewayError> {
        if !self.policy.enabled {
            // Without compaction nothing is counted or removed, but a translation needs the items.
            let said =
                if self.needs_translation() { Some(self.work(|| self.said_alone()).await?) } else { None };
            let steps = self.work(|| self.cleaned()).await;
            return Ok(OutboundRequest { said, steps, ..OutboundRequest::default() });
        }
        let mut state = self.join().await?;
        self.fit(&mut state, &PlanTrigger::Routine).await
    }

    /// Compacts the conversation because its client asks for it.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or nothing can be left out.
    pub(super) async fn compacted(&mut self) -> Result<OutboundRequest, GatewayError> {
        let mut state = self.join().await?;
        self.fit(&mut state, &PlanTrigger::Requested { instructions: None }).await
    }

    /// Returns the client's items without the gateway's notices; `None` if no item has one.
    fn cleaned(&self) -> Option<Vec<RenderOp>> {
        let envelope = &self.exchange.envelope;
        render_ops::clean(None, &render_ops::items_with_notices(envelope), envelope)
    }

    fn said_alone(&self) -> Result<NeutralConversation, GatewayError> {
        let mut state = self.new_state();
        self.append_new_items(&mut state)?;
        Ok(said(&state.log))
    }

    /// Returns the input tokens of the request as it would be sent, and whether its view is shortened. The call
    /// shortens nothing.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read.
    pub(super) async fn count(&mut self) -> Result<(u64, bool), GatewayError> {
        let state = self.join().await?;
        let fixed = self.fixed_tokens(&state) + replay_tokens(&self.replays_in(&state));
        let is_shortened = state.log.history.edits().iter().any(|edit| edit.active);
        Ok((meter::read(&state.log.history, fixed).total, is_shortened))
    }

    /// Finds the conversation of the request and adds its new items. The returned guard excludes other requests.
    async fn join(&mut self) -> Result<OwnedMutexGuard<ConversationState>, GatewayError> {
        let conversation = self.find_conversation().await?;
        let mut state = conversation.locked().await;
        if state.log.items > self.exchange.envelope.items.len() {
            drop(state);
            return self.start_own_conversation().await;
        }
        let new_bytes = self.new_bytes(&state);
        let took = self.work_on(new_bytes, || self.append_new_items(&mut state)).await?;
        conversation.weigh(&state);
        self.exchange.inner.conversations.update_size(&conversation);
        self.conversation = Some(conversation);
        if took {
            self.keep(&state.log, None).await;
        }
        Ok(state)
    }

    /// Creates a separate conversation for the request, because another request has extended the common one.
    async fn start_own_conversation(&mut self) -> Result<OwnedMutexGuard<ConversationState>, GatewayError> {
        let known = self.work(|| self.known()).await?;
        let conversation = Arc::new(GatewayConversation::new(known, self.new_state()));
        let mut state = conversation.locked().await;
        self.work(|| self.append_new_items(&mut state)).await?;
        self.conversation = Some(conversation);
        Ok(state)
    }

    /// Makes room after a refusal; `None` if nothing got smaller. `is_said`: the server named the limit itself.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot fit.
    pub(super) async fn make_room(
        &mut self,
        refused: &OutboundRequest,
        used: Option<u64>,
        limit: Option<u64>,
        is_said: bool,
    ) -> Result<Option<OutboundRequest>, GatewayError> {
        let (before, was_said) = ((self.window, self.policy.trigger), self.has_said_window());
        let made = self.room_made(refused, used, limit, is_said).await;
        let is_of_use = matches!(made, Ok(Some(_)));
        // A suspected window never replaces a declared one, and is dropped if acting on it did not help.
        if !is_said && (!is_of_use || self.limits.source == LimitSource::Declared) {
            (self.window, self.policy.trigger) = before;
        }
        if !is_said && !was_said && !is_of_use {
            self.target.suspect_no_more();
        }
        made
    }

    async fn room_made(
        &mut self,
        refused: &OutboundRequest,
        used: Option<u64>,
        limit: Option<u64>,
        is_said: bool,
    ) -> Result<Option<OutboundRequest>, GatewayError> {
        if let Some(limit) = limit {
            self.heed_limit(limit, is_said);
            let has_own = self.exchange.overrides.trigger.is_some()
                || self.compaction_setup.policy.trigger.is_some()
                || self.context_management().and_then(ContextManagement::trigger).is_some();
            if !has_own {
                self.policy.trigger = trigger(self.strategy_name(), self.window.tokens);
            }
        }
        let Some(conversation) = self.conversation.clone() else { return Ok(None) };
        let mut state = conversation.locked().await;
        if state.log.items != refused.items {
            drop(state);
            state = self.start_own_conversation().await?;
        }
        let before = (!is_said).then(|| state.log.clone());
        state.log.refused(&refused.start, used, limit);
        match self.fit(&mut state, &PlanTrigger::Overflow).await {
            // A suspicion is acted on only if that brings the request below the suspected window.
            Ok(made) if !is_said && made.input >= self.window.tokens => {
                before.into_iter().for_each(|log| state.log = log);
                Ok(None)
            }
            Ok(made) => Ok((made.steps != refused.steps).then_some(made)),
            Err(fault) => {
                // The refusal was only suspected, so it must not stay in the log.
                before.into_iter().for_each(|log| state.log = log);
                Err(fault)
            }
        }
    }

    /// Returns whether a person declares the window, or a refusal has named it.
    pub(super) fn has_said_window(&self) -> bool {
        let is_learned = self.window.source == LimitSource::Learned && !self.target.is_suspected();
        self.limits.source == LimitSource::Declared || is_learned
    }

    /// Applies a new limit. A declared window, or one named by a refusal, changes only if the server says so. A
    /// suspected limit then holds for this request alone.
    pub(super) fn heed_limit(&mut self, limit: u64, is_said: bool) {
        if is_said || !self.has_said_window() {
            match is_said {
                true => self.target.learn_window(limit),
                false => self.target.suspect_window(limit),
            }
            self.window = self.target.window(&self.limits);
        } else if limit < self.window.tokens {
            self.window = KnownWindow { tokens: limit, source: LimitSource::Learned };
        }
    }

    /// Makes the request fit, and returns it.
    async fn fit(
        &self,
        state: &mut ConversationState,
        occasion: &PlanTrigger,
    ) -> Result<OutboundRequest, GatewayError> {
        if std::mem::take(&mut state.is_new) {
            let tokens = state.log.history.view_tokens().saturating_add(self.fixed_tokens(state));
            self.recover(state, tokens).await;
        }
        self.target.learn_tokenizer(&state.log.history);
        let is_routine = *occasion == PlanTrigger::Routine;
        let tried = if is_routine { self.take_tried(state) } else { None };
        let was_pending = state.log.is_pending();
        let replayed = replay_tokens(&self.replays_in(state));
        let fixed = self.fixed_tokens(state) + replayed;
        let before = meter::unedited(&state.log.history, self.fixed_tokens(state));
        let cleared = if is_routine { self.clear_as_asked(state, fixed).await } else { None };
        let now = meter::read(&state.log.history, fixed);
        let plan_bytes = if self.is_roomy(&now, occasion) { 0 } else { self.exchange.envelope.bytes.len() };
        let plan = self.work_on(plan_bytes, || self.plan(&state.log.history, fixed, occasion)).await;
        let (mut done, mut lets_go) = (None, false);
        let is_written = tried.as_ref().is_some_and(|tried| tried.outcome.is_ok());
        if !matches!(plan, Plan::Fits) {
            let is_asked = self.waits_for_summary(occasion) && matches!(plan, Plan::Summarise(_));
            let _turn = if is_asked { Some(self.turn().await) } else { None };
            let ready = state.pending_summary_reason.take();
            let was_written_ahead = self.remember(state, fixed).await?.then_some(ready).flatten();
            done = match self.shorten(state, fixed, occasion).await {
                // Recalled content can be recalled again, so its replays are dropped first.
                Err(fault) if fault.kind == GatewayErrorKind::DoesNotFit && replayed > 0 => {
                    lets_go = true;
                    self.shorten(state, fixed - replayed, occasion).await?
                }
                done => done?,
            };
            done = done.or(was_written_ahead.map(|why| (EditKind::Compaction, why)));
        }
        done = done.or(cleared);
        if done.is_none() && is_written {
            self.try_beside(state, fixed, tried.as_ref()).await?;
        } else if self.is_due(&state.log, occasion) && (done.is_none() || !self.waits_for_summary(occasion)) {
            self.try_beside(state, fixed, None).await?;
        } else if is_routine {
            self.look_ahead(state, fixed, &now).await;
        }
        if done.is_none() && was_pending && !state.log.is_pending() {
            done = tried.and_then(|tried| Some((EditKind::Compaction, tried.outcome.ok()?)));
        }
        // The tool `recall` and the replays appear only after an edit, and count, too.
        let fixed = self.fixed_tokens(state);
        let mut replays = self.replays_in(state);
        let replayed = replay_tokens(&replays);
        let fits = || matches!(self.plan(&state.log.history, fixed + replayed, occasion), Plan::Fits);
        if lets_go && !self.work(fits).await {
            replays.clear();
        }
        let fixed = fixed + replay_tokens(&replays);
        let end = || {
            let after = meter::read(&state.log.history, fixed);
            OutboundRequest { replays, ..self.prepared(state, fixed, (before, after), done) }
        };
        let end_bytes = if self.is_unchanged(state) { 0 } else { self.exchange.envelope.bytes.len() };
        Ok(self.work_on(end_bytes, end).await)
    }

    /// Returns whether a request waits for the summary that it needs. A client's own request for a compaction does.
    pub(super) fn waits_for_summary(&self, occasion: &PlanTrigger) -> bool {
        self.exchange.inner.config.waits_for_summaries || matches!(occasion, PlanTrigger::Requested { .. })
    }

    /// Returns whether an extract is to be replaced by a summary now.
    pub(super) fn is_due(&self, log: &ConversationLog, occasion: &PlanTrigger) -> bool {
        *occasion == PlanTrigger::Routine && log.is_due((self.exchange.inner.parts.now)())
    }

    /// Makes the view fit, and returns the kind and reason of the edit. If a summary is needed, it also covers the
    /// ranges of waiting extracts.
    async fn shorten(
        &self,
        state: &mut ConversationState,
        fixed: u64,
        occasion: &PlanTrigger,
    ) -> Result<Option<(EditKind, String)>, GatewayError> {
        let mut failed = None;
        let waits = self.waits_for_summary(occasion);
        if waits && *occasion == PlanTrigger::Routine && state.log.is_pending() {
            let needs_one = || matches!(self.plan(&state.log.history, fixed, occasion), Plan::Summarise(_));
            if self.work(needs_one).await {
                match self.summarise_again(state, fixed).await {
                    Ok(Some(done)) => return Ok(Some(done)),
                    Ok(None) => {}
                    Err(why) => failed = Some(why),
                }
            }
        }
        if self.is_cancelled_by_hook(state, fixed, occasion) {
            return Ok(None);
        }
        let failed = failed.or((!waits).then(SummaryFailureReason::not_yet_asked));
        let EditDecision { made, hook_answer } =
            self.choose_edit(&state.log, fixed, occasion, failed).await?;
        self.keep_hook_answer(hook_answer, made.is_some());
        let Some(mut made) = made else { return Ok(None) };
        if !waits && made.missing_summary_cause.is_some() {
            // The extract stays if the writer has failed repeatedly, or if more room will be needed soon.
            let rests = self.writer_rests();
            if rests {
                self.note_writer(SummaryWriterRecord::record_skipped_compaction);
            }
            if rests || !state.pace.is_worth_a_summary(state.log.items) {
                made.missing_summary_cause = None;
            }
        }
        let done = (made.edit.kind, made.edit.why.clone());
        self.commit(state, made).await;
        Ok(Some(done))
    }

    /// Writes the summary for an extract, including everything newer. `None` if there is nothing to summarise any more.
    ///
    /// # Errors
    /// The reason why there is no summary; the view is unchanged.
    async fn summarise_again(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<Option<(EditKind, String)>, SummaryFailureReason> {
        let plan = || self.without_stopgaps(&state.log, fixed);
        let Some((mut whole, draft)) = self.work(plan).await else {
            self.put_off(state, MissingSummaryCause::Away).await;
            return Ok(None);
        };
        let edit = match summary::write(self, &whole, draft).await {
            Ok(edit) => edit,
            Err(SummaryFailure { why, .. }) => {
                self.put_off(state, why.cause).await;
                return Err(why);
            }
        };
        let why = format!("{}; an extract stood in its place until now", edit.why);
        let done = (edit.kind, why);
        let before = state.log.portable().map(|(_, item)| item);
        tracing::info!(after = edit.compressed_tokens, "a summary stands where an extract stood");
        whole.commit(edit, None);
        state.log = whole;
        self.keep(&state.log, before).await;
        Ok(Some(done))
    }

    /// Records another failed attempt at the summary for an extract.
    pub(super) async fn put_off(&self, state: &mut ConversationState, cause: MissingSummaryCause) {
        let now = (self.exchange.inner.parts.now)();
        state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, now));
        self.keep(&state.log, None).await;
    }

    /// Returns whether the request is so short that no plan is needed.
    fn is_roomy(&self, before: &MeterReading, occasion: &PlanTrigger) -> bool {
        let budget = self.budget();
        // No built-in strategy acts below a third of the usable window, so this bound is safe without a trigger.
        let line = self.policy.trigger.map_or(budget.usable / 3, |trigger| budget.trigger(trigger));
        *occasion == PlanTrigger::Routine && before.bound() < line
    }

    /// Returns whether the upstream gets exactly the client's request.
    fn is_unchanged(&self, state: &ConversationState) -> bool {
        !self.needs_translation()
            && state.log.history.edits().is_empty()
            && state.items_with_notices.is_empty()
    }

    /// Waits until no other conversation with the same beginning is writing a summary, because that summary may serve
    /// this one, too.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.exchange.inner.single_flight.wait(self.beginning()).await
    }

    /// Returns the name of the conversation's beginning.
    pub(super) fn beginning(&self) -> [u8; 32] {
        let names = self.names(2);
        let first = names.first().copied().unwrap_or_default();
        cache::head(&self.scope(), &first, names.get(1))
    }

    fn prepared(
        &self,
        state: &ConversationState,
        fixed: u64,
        (before, after): (u64, MeterReading),
        done: Option<(EditKind, String)>,
    ) -> OutboundRequest {
        let history = &state.log.history;
        let (action, why) = match done {
            Some((EditKind::Prune, why)) => (PreparationAction::Pruned, why),
            Some((EditKind::Compaction, why)) => (PreparationAction::Compacted, why),
            None if history.edits().is_empty() => {
                (PreparationAction::None, self.why_not(history, fixed, after.bound()).unwrap_or_default())
            }
            None => (
                PreparationAction::Remembered,
                "decided for an earlier request of this conversation".to_owned(),
            ),
        };
        let report = PreparationReport {
            action,
            before,
            after: after.total,
            why,
            applied_edits: self.applied_edits(history),
        };
        // `state.noticed` may miss some: another request of the conversation had equal items without the notices.
        let noticed = match self.exchange.inner.config.notices_in_text {
            true => render_ops::items_with_notices(&self.exchange.envelope),
            false => state.items_with_notices.clone(),
        };
        let start = RequestSnapshot {
            view_hash: history.view_hash(),
            fixed_tokens: fixed,
            window: Some(self.window.tokens).filter(|_| self.limits.window.is_some()),
        };
        OutboundRequest {
            steps: render_ops::clean(
                render_ops::steps(&state.log, state.log.items),
                &noticed,
                &self.exchange.envelope,
            ),
            report,
            input: after.total,
            bound: after.bound(),
            start,
            items: state.log.items,
            said: self.needs_translation().then(|| said(&state.log)),
            rounds: RecallRounds::default(),
            replays: Vec::new(),
            mid_answer_log: None,
            tail: None,
            is_doubted: false,
        }
    }

    /// Returns the reason why nothing was left out of a request above the trigger.
    fn why_not(&self, history: &History, fixed: u64, bound: u64) -> Option<String> {
        let line = plan::line(history, fixed, &self.budget(), &self.policy).tokens;
        let cancelled = self.hook_answer().filter(|answer| answer.cancel);
        (bound >= line).then(|| match cancelled {
            Some(answer) => format!("not shortened: {}", answer.cancellation()),
            None => format!(
                "not shortened: the request has up to {bound} tokens and the trigger is at {line}, but what must stay \
                 (system prompt, tools, the newest message) does not get below it"
            ),
        })
    }

    pub(super) async fn commit(&self, state: &mut ConversationState, made: PlannedEdit) {
        self.decide(&mut state.log, made);
        self.keep(&state.log, None).await;
    }

    fn decide(&self, log: &mut ConversationLog, made: PlannedEdit) {
        let PlannedEdit { edit, missing_summary_cause: stopgap } = made;
        let now = (self.exchange.inner.parts.now)();
        tracing::info!(
            strategy = edit.strategy,
            before = edit.original_tokens,
            after = edit.compressed_tokens,
            why = edit.why,
            "a conversation was shortened"
        );
        log.commit(edit, stopgap.map(|cause| FallbackSummary::new(cause, now)));
    }

    pub(super) fn plan(&self, history: &History, fixed: u64, occasion: &PlanTrigger) -> Plan {
        self.plan_by(&self.policy, history, fixed, occasion)
    }

    fn plan_by(
        &self,
        policy: &CompactionPolicy,
        history: &History,
        fixed: u64,
        occasion: &PlanTrigger,
    ) -> Plan {
        let plan = |budget: &Budget| plan::plan_with(history, fixed, budget, policy, occasion, None);
        let (budget, own) = (self.budget(), self.summary_budget());
        let first = plan(&budget);
        if !matches!(first, Plan::Summarise(_)) || own.reserve <= budget.reserve {
            return first;
        }
        // A client that wants a short answer must not cause a shorter summary.
        match plan(&own) {
            longer @ Plan::Summarise(_) => longer,
            _ => first,
        }
    }

    /// Returns the edit that makes the request fit; `None` if it fits already. `failed`: the reason why no summary is
    /// written now, in which case no writer is asked.
    ///
    /// # Errors
    /// [`GatewayError`] if no edit makes the request fit.
    async fn choose_edit(
        &self,
        log: &ConversationLog,
        fixed: u64,
        occasion: &PlanTrigger,
        failed: Option<SummaryFailureReason>,
    ) -> Result<EditDecision, GatewayError> {
        let mut policy = self.policy.clone();
        let (mut hook_answer, mut is_asked) = (None, false);
        for _ in 0..MOST_PLANS {
            let plan = || self.plan_by(&policy, &log.history, fixed, occasion);
            let plan = self.work(plan).await;
            if !is_asked && !matches!(plan, Plan::Fits | Plan::DoesNotFit(_)) {
                is_asked = true;
                hook_answer = self.ask_pre_compact(log, &plan, fixed, occasion).await;
                if let Some(answer) = hook_answer.as_ref().filter(|answer| answer.cancel) {
                    if let PlanTrigger::Requested { .. } = occasion {
                        let why = answer.cancellation();
                        return Err(GatewayError::new(GatewayErrorKind::Forbidden, why));
                    }
                    if *occasion != PlanTrigger::Overflow && self.fits_the_window(log, fixed) {
                        return Ok(EditDecision { made: None, hook_answer });
                    }
                    // A hook may cancel a compaction, but not keep a request from fitting, so messages are dropped
                    // instead.
                    policy = without_summaries(policy);
                    continue;
                }
            }
            match plan {
                Plan::Fits => return Ok(EditDecision { made: None, hook_answer }),
                Plan::Edit(edit) => {
                    return Ok(EditDecision { made: Some(PlannedEdit::as_wanted(*edit)), hook_answer });
                }
                Plan::DoesNotFit(misfit) => {
                    return Err(GatewayError::new(GatewayErrorKind::DoesNotFit, misfit.to_string()));
                }
                Plan::Summarise(mut draft) => {
                    let budget = self.summary_budget();
                    let is_given = hook_answer
                        .as_ref()
                        .is_some_and(|answer| answer.apply(&mut draft, &log.history, &budget));
                    let failed = failed.clone().filter(|_| !is_given);
                    let written = match failed {
                        Some(why) => Err(SummaryFailure { why, draft: *draft }),
                        None => summary::write(self, log, *draft).await,
                    };
                    let extract = |failed: &SummaryFailure| PlannedEdit::extract(log, failed);
                    let made = match &written {
                        Ok(edit) => Some(PlannedEdit::as_wanted(edit.clone())),
                        Err(failed) => self.work(|| extract(failed)).await,
                    };
                    if made.is_some() {
                        return Ok(EditDecision { made, hook_answer });
                    }
                    // Neither the summary nor an extract fits.
                    policy = without_summaries(policy);
                }
            }
        }
        Ok(EditDecision { made: None, hook_answer })
    }

    /// Makes room for the rest of an answer. The conversation before the answer is shortened; if that is not enough,
    /// the answer's own beginning is left out. The edit applies to this answer and to later requests that contain it.
    /// The same question, asked again, is sent as before. `refusals`: the number of times that the upstream refused to
    /// continue for lack of room.
    ///
    /// # Errors
    /// [`GatewayError`] if no room can be made.
    pub(super) async fn make_room_for_rest(
        &self,
        old: &OutboundRequest,
        text: &str,
        refusals: u32,
    ) -> Result<OutboundRequest, GatewayError> {
        let (target, most) =
            (plan::pause_target(&self.budget()), self.window.tokens * MAX_RESTART_PERCENT / 100);
        let shortened = match refusals {
            0 => self.shorten_before_rest(old, text, None).await,
            _ => Err(no_room_for_rest()),
        };
        if let Ok(made) = &shortened
            && made.bound <= most
        {
            return shortened;
        }
        // A server that counts higher than the gateway leaves less room than estimated, so each refusal lowers the
        // target.
        let target = target * 7_u64.pow(refusals) / 10_u64.pow(refusals);
        let counter = (self.exchange.inner.parts.counter)(&self.target.origin());
        let room = target / 3;
        for share in [1, 2, 4, 8] {
            let Some(tail) = AnswerTail::cut(text, room / share, &counter) else { continue };
            if let Ok(made) = self.shorten_before_rest(old, text, Some(tail)).await
                && made.bound <= target
            {
                return Ok(made);
            }
        }
        shortened
    }

    /// Shortens the conversation before the rest of an answer. With `tail` only that end of the answer is shown.
    async fn shorten_before_rest(
        &self,
        old: &OutboundRequest,
        text: &str,
        tail: Option<AnswerTail>,
    ) -> Result<OutboundRequest, GatewayError> {
        let nothing = no_room_for_rest;
        let shown = match &tail {
            Some(tail) => format!("{}\n{}", tail.note, text.get(tail.from..).unwrap_or_default()),
            None => text.to_owned(),
        };
        let conversation = self.conversation.clone().ok_or_else(nothing)?;
        let mut state = self.state(&conversation, old.items).await.ok_or_else(nothing)?;
        let mut own = state.midway_of(old.mid_answer_log.as_deref());
        // A step that the client began, or that follows a recall, must be shown whole.
        if tail.is_some() && (own.log.ends_with_answer() || old.rounds.answered > 0) {
            return Err(nothing());
        }
        let fixed = self.fixed_tokens(&own) + replay_tokens(&old.replays);
        let pause = || {
            let paused = own.log.paused(&shown);
            (meter::unedited(&paused.history, fixed), paused)
        };
        let (before, paused) = self.work(pause).await;
        let failed = (!self.waits_for_summary(&PlanTrigger::Pause)).then(SummaryFailureReason::not_yet_asked);
        let EditDecision { made, .. } = self.choose_edit(&paused, fixed, &PlanTrigger::Pause, failed).await?;
        let done = made.as_ref().map(|made| (made.edit.kind, made.edit.why.clone()));
        if let Some(made) = made {
            self.decide(&mut own.log, made);
        }
        let mut replays = self.replays_in(&own);
        replays.retain(|replay| old.replays.contains(replay));
        let fixed = self.fixed_tokens(&own) + replay_tokens(&replays);
        let end = || {
            let after = meter::read(&own.log.paused(&shown).history, fixed);
            let prepared = self.prepared(&own, fixed, (before, after), done);
            OutboundRequest { replays, mid_answer_log: Some(Arc::new(own.log.clone())), ..prepared }
        };
        let made = OutboundRequest { tail, ..self.work(end).await };
        if made.steps == old.steps && made.tail == old.tail {
            return Err(nothing());
        }
        let log = made.mid_answer_log.clone();
        state.mid_answer_log = log.map(|log| MidAnswerLog { log, said: text.to_owned() });
        Ok(made)
    }

    /// Records the upstream's count of the input of a stream that was left.
    pub(super) async fn count_left(&self, left: &OutboundRequest, tokens: u64) {
        let Some(conversation) = &self.conversation else { return };
        if let Some(mut state) = self.state(conversation, left.items).await {
            state.log.count(tokens, &left.start);
        }
    }
}

fn no_room_for_rest() -> GatewayError {
    GatewayError::new(GatewayErrorKind::ContextOverflow, "nothing can be left out to go on")
}

fn said(log: &ConversationLog) -> NeutralConversation {
    NeutralConversation {
        system: log.system.iter().filter_map(Part::as_text).map(str::to_owned).collect(),
        messages: request_messages(&render_ops::told(log)),
        role_rewrites: log.role_rewrites,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_where_an_estimate_with_room_for_an_answer_is_eighty_percent() {
        for window in [4_096_u64, 8_192, 10_000, 32_000, 128_000, 200_000, 1_000_000] {
            let Some(StrategyTrigger::Tokens(line)) = trigger(PRUNING_AGENT, window) else {
                panic!("no trigger")
            };
            let is_full = |tokens: u64| {
                // In fifths, so that nothing is rounded.
                let buffer = (window - tokens).max(5_000);
                5 * tokens + buffer >= 4 * window
            };
            assert!(is_full(line) && !is_full(line - 1), "{line} of {window}");
        }
        assert_eq!(trigger("truncation", 8_000), None, "other strategies have their own");
    }
}
