//! The preparation of a request: its conversation, its size, and a compaction if it is too long.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::EditKind;
use longhaul_core::history::{History, request_messages};
use longhaul_core::message::{Message, Part};
use longhaul_core::meter::{self, MeterReading};
use longhaul_core::plan::{self, Plan, PlanTrigger};
use longhaul_providers::LimitSource;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::answer_tail::AnswerTail;
use super::context_management::ContextManagement;
use super::conversation::{ConversationState, GatewayConversation, MidAnswerLog};
use super::log::{ConversationLog, RequestSnapshot, RoleRewrites};
use super::recall::{RecallRounds, replay_tokens};
use super::summary::SummaryFailureReason;
use super::summary_writers::PRUNING_AGENT;
use super::targeted_request::TargetedRequest;
use super::view_editor::{EditDecision, ViewEditor};
use super::{PreparationAction, PreparationReport, render_ops};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, HiddenCallReplay, RenderOp};

/// The largest input with which an answer is restarted, in percent of the window. A larger one would cause the next
/// restart at once, so the answer's own beginning is left out instead.
const MAX_RESTART_PERCENT: u64 = 85;

/// Returns the trigger of the pruning agent: 80 % of the window for an estimate that includes room for an answer. That
/// room is 20 % of the rest and at least 1,000 tokens. Other strategies have their own triggers.
pub(super) fn pruning_agent_trigger(strategy: &str, window: u64) -> Option<StrategyTrigger> {
    // The condition is the estimate plus 20 % of the rest against 80 % of the window, solved for the estimate.
    let tokens = (window * 3).div_ceil(4).min((window * 4).div_ceil(5).saturating_sub(1_000));
    // A small window must not make the trigger fall to nothing.
    (strategy == PRUNING_AGENT).then(|| StrategyTrigger::Tokens(tokens.max(window / 4)))
}

/// A request ready to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct OutboundRequest {
    /// The operations for building items different from the client's.
    pub(super) steps: Option<Vec<RenderOp>>,
    pub(super) report: PreparationReport,
    /// The estimated input in tokens; 0 if nothing was counted.
    pub(super) input: u64,
    /// The estimate with the expected error.
    pub(super) bound: u64,
    /// The largest input of the conversation that its model has accepted, in tokens; 0 if none is known.
    pub(super) accepted: u64,
    /// The figures of the call for the log.
    pub(super) start: RequestSnapshot,
    /// The number of the client's items in the request.
    pub(super) items: usize,
    /// The conversation in neutral form, for an upstream of another dialect.
    pub(super) said: Option<NeutralConversation>,
    /// The answer's steps hidden from the client.
    pub(super) rounds: RecallRounds,
    /// The steps of earlier answers that are completed again.
    pub(super) replays: Vec<HiddenCallReplay>,
    /// The log with the edits made in the middle of the answer.
    pub(super) mid_answer_log: Option<Arc<ConversationLog>>,
    /// The end of the continued answer, if the whole answer has no room.
    pub(super) tail: Option<AnswerTail>,
    /// Set if the answer may rest on a part of the request. Its usage report is then no count of the request.
    pub(super) is_doubted: bool,
}

impl OutboundRequest {
    /// Returns the request with so many tokens of its answer appended.
    pub(super) fn with_more_input(self, tokens: u64) -> Self {
        Self { input: self.input + tokens, bound: self.bound + tokens, ..self }
    }

    /// Returns the part of an answer's step at the end of the request.
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

fn no_room_for_rest() -> GatewayError {
    GatewayError::new(GatewayErrorKind::ContextOverflow, "nothing can be left out to go on")
}

pub(super) fn neutral_conversation(log: &ConversationLog) -> NeutralConversation {
    NeutralConversation {
        system: log.system.iter().filter_map(Part::as_text).map(str::to_owned).collect(),
        messages: request_messages(&render_ops::neutral_view(log)),
        role_rewrites: log.role_rewrites,
    }
}

/// Returns the reason of a request that edits from before it shorten, with the reason of the newest edit.
// Not every such edit was made for an earlier request: a summary is written ahead of need, and room is made in the middle
// of an answer. The first shortened request of a conversation can find either.
fn earlier_reason(history: &History) -> String {
    let newest = history.edits().iter().rev().find(|state| state.active);
    let why = newest.map(|state| state.edit.why.as_str()).filter(|why| !why.is_empty());
    let made = "an edit made before this request applies";
    why.map_or_else(|| made.to_owned(), |why| format!("{made}: {why}"))
}

/// A fitter of one request to its model's window.
pub(super) struct RequestFitter {
    pub(super) request: Arc<TargetedRequest>,
    pub(super) editor: ViewEditor,
    /// Dropped with the attempt: background work that waits for the end of the request starts then.
    pub(super) over: OnceLock<oneshot::Sender<()>>,
    /// Set once the upstream has begun an answer.
    pub(super) is_answered: Arc<AtomicBool>,
}

impl RequestFitter {
    /// Finds the conversation of the request, and makes the request fit.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or cannot fit.
    pub(super) async fn prepare(&mut self) -> Result<OutboundRequest, GatewayError> {
        if !self.editor.budget.policy.enabled {
            // Without compaction nothing is counted or removed, but a translation needs the items.
            let said = if self.request.needs_translation() {
                Some(self.request.work(|| self.request.reader().said_alone()).await?)
            } else {
                None
            };
            let steps = self.request.work(|| self.request.reader().cleaned()).await;
            return Ok(OutboundRequest { said, steps, ..OutboundRequest::default() });
        }
        let mut state = self.join().await?;
        self.fit(&mut state, &PlanTrigger::Routine).await
    }

    /// Compacts the conversation at its client's request.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or nothing can be left out.
    pub(super) async fn compacted(&mut self) -> Result<OutboundRequest, GatewayError> {
        let mut state = self.join().await?;
        self.fit(&mut state, &PlanTrigger::Requested { instructions: None }).await
    }

    /// Returns the input tokens of the request before sending, and whether the view is shortened. The call
    /// shortens nothing.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read.
    pub(super) async fn count(&mut self) -> Result<(u64, bool), GatewayError> {
        let state = self.join().await?;
        let fixed =
            self.request.tools().fixed_tokens(&state) + replay_tokens(&self.editor.memo.replays_in(&state));
        let is_shortened = state.log.history.edits().iter().any(|edit| edit.active);
        Ok((meter::read(&state.log.history, fixed).total, is_shortened))
    }

    /// Finds the conversation of the request and adds its new items. The returned guard excludes other requests.
    pub(super) async fn join(&mut self) -> Result<OwnedMutexGuard<ConversationState>, GatewayError> {
        let conversation = self.editor.memo.find_conversation().await?;
        let mut state = conversation.locked().await;
        // Another request has extended the conversation between the look-up and the lock.
        if state.log.items > self.request.proxied.envelope.items.len() {
            tracing::debug!(
                items = self.request.proxied.envelope.items.len(),
                known_items = state.log.items,
                "another request has extended the conversation: this one gets a copy of its own"
            );
            // The common conversation is free at once for the request that has extended it.
            drop(state);
            return self.start_own_conversation().await;
        }
        let new_bytes = self.request.reader().new_bytes(&state);
        let took =
            self.request.work_on(new_bytes, || self.request.reader().append_new_items(&mut state)).await?;
        // The size changes with new items, and the cache of conversations has a limit in bytes.
        conversation.weigh(&state);
        self.request.proxied.inner.conversations.update_size(&conversation);
        self.editor.memo.conversation = Some(conversation);
        if took {
            tracing::debug!("edits that were made in the middle of an answer are stored");
            // The edits were made in the middle of an answer. Only now there is a prefix to store them under.
            self.editor.memo.keep(&state.log, None).await;
        }
        Ok(state)
    }

    /// Creates a separate conversation for the request, because another request has extended the common one.
    async fn start_own_conversation(&mut self) -> Result<OwnedMutexGuard<ConversationState>, GatewayError> {
        let known = self.request.work(|| self.request.reader().known()).await?;
        // Not put into the index: the common conversation stays the one that later requests find.
        let conversation = Arc::new(GatewayConversation::new(known, self.request.reader().new_state()));
        let mut state = conversation.locked().await;
        self.request.work(|| self.request.reader().append_new_items(&mut state)).await?;
        self.editor.memo.conversation = Some(conversation);
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
        // Kept, so that a wrong suspicion can be taken back.
        let (before, was_said) = (
            (self.editor.budget.window, self.editor.budget.policy.trigger),
            self.editor.budget.has_said_window(),
        );
        // A suspicion and a refusal without figures may be wrong, so no message of the user is cut for them.
        let cuts = self.editor.budget.policy.cuts_user_messages;
        self.editor.budget.policy.cuts_user_messages &= is_said && (used.is_some() || limit.is_some());
        // Boxed: the future is large, and few requests are refused for their length.
        let made = Box::pin(self.room_made(refused, used, limit, is_said)).await;
        self.editor.budget.policy.cuts_user_messages = cuts;
        let is_of_use = matches!(made, Ok(Some(_)));
        tracing::info!(
            estimated = refused.input,
            used,
            limit,
            is_said,
            is_shortened = is_of_use,
            "a request was too long for the upstream"
        );
        // A suspected window never replaces a declared one, and is dropped if acting on it did not help.
        if !is_said && (!is_of_use || self.request.limits.source == LimitSource::Declared) {
            (self.editor.budget.window, self.editor.budget.policy.trigger) = before;
        }
        if !is_said && !was_said && !is_of_use {
            self.request.target.suspect_no_more();
        }
        made
    }

    /// Applies the limit of a refusal and fits the request to it; `None` if nothing got smaller.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot fit.
    async fn room_made(
        &mut self,
        refused: &OutboundRequest,
        used: Option<u64>,
        limit: Option<u64>,
        is_said: bool,
    ) -> Result<Option<OutboundRequest>, GatewayError> {
        if let Some(limit) = limit {
            self.editor.budget.apply_limit(limit, is_said);
            // A trigger that a person or client has set stays, whatever the window turns out to be.
            let has_own = self.request.proxied.overrides.trigger.is_some()
                || self.request.compaction_setup.policy.trigger.is_some()
                || self.request.context_management().and_then(ContextManagement::trigger).is_some();
            if !has_own {
                self.editor.budget.policy.trigger =
                    pruning_agent_trigger(self.request.strategy_name(), self.editor.budget.window.tokens);
            }
        }
        let Some(conversation) = self.editor.memo.conversation.clone() else { return Ok(None) };
        let mut state = conversation.locked().await;
        // Another request has extended the conversation since this one was refused.
        if state.log.items != refused.items {
            drop(state);
            state = self.start_own_conversation().await?;
        }
        let before = (!is_said).then(|| state.log.clone());
        // The refusal goes into the log first, because it corrects the counts of the plan that follows.
        state.log.refused(&refused.start, used, limit);
        match self.fit(&mut state, &PlanTrigger::Overflow).await {
            // A suspicion is acted on only if that brings the request below the suspected window.
            Ok(made) if !is_said && made.input >= self.editor.budget.window.tokens => {
                before.into_iter().for_each(|log| state.log = log);
                Ok(None)
            }
            // The same operations would give the same request, which would be refused again.
            Ok(made) => Ok((made.steps != refused.steps).then_some(made)),
            Err(fault) => {
                // The refusal was only suspected, so it must not stay in the log.
                before.into_iter().for_each(|log| state.log = log);
                Err(fault)
            }
        }
    }

    /// Makes the request fit, and returns it.
    async fn fit(
        &self,
        state: &mut ConversationState,
        trigger: &PlanTrigger,
    ) -> Result<OutboundRequest, GatewayError> {
        // Once for each conversation in memory: after that the journal in memory is newer than the stored one.
        if std::mem::take(&mut state.is_new) {
            let tokens =
                state.log.history.view_tokens().saturating_add(self.request.tools().fixed_tokens(state));
            // The journal comes before the first count: its edits and reports change the count.
            self.editor.journal().recover(state, tokens).await;
        }
        self.request.target.learn_tokenizer(&state.log.history);
        let is_routine = *trigger == PlanTrigger::Routine;
        // Taken before the plan: a background summary that is done by now can serve this request.
        let collected = if is_routine { self.collect_summary(state) } else { None };
        let was_pending = state.log.is_pending();
        let replayed = replay_tokens(&self.editor.memo.replays_in(state));
        let fixed = self.request.tools().fixed_tokens(state) + replayed;
        let before = meter::unedited(&state.log.history, self.request.tools().fixed_tokens(state));
        // The client's own wishes come first, so that the plan counts what they leave.
        let cleared = if is_routine { self.editor.clear_as_asked(state, fixed).await } else { None };
        let now = meter::read(&state.log.history, fixed);
        // A short request needs no plan, so its work stays on the async thread.
        let plan_bytes = if self.editor.budget.is_roomy(&now, trigger) {
            0
        } else {
            self.request.proxied.envelope.bytes.len()
        };
        let plan = self
            .request
            .work_on(plan_bytes, || self.editor.budget.plan(&state.log.history, fixed, trigger))
            .await;
        tracing::debug!(
            tokens = now.total,
            bound = now.bound(),
            fixed,
            replayed,
            window = self.editor.budget.window.tokens,
            fits = matches!(plan, Plan::Fits),
            "the tokens of a request were counted"
        );
        let (done, lets_go) = match plan {
            Plan::Fits => (None, false),
            plan => self.edit_view(state, (fixed, replayed), trigger, &plan).await?,
        };
        let mut done = done.or(cleared);
        if is_routine {
            // Boxed, because it is large and most requests start no summary.
            Box::pin(self.start_summary(state, fixed, &now, (done.is_some(), collected.is_some()))).await?;
        }
        if done.is_none() && was_pending && !state.log.is_pending() {
            done = collected.map(|why| (EditKind::Compaction, why));
        }
        // The tool `recall` and the replays appear only after an edit, and count, too.
        let fixed = self.request.tools().fixed_tokens(state);
        let mut replays = self.editor.memo.replays_in(state);
        let replayed = replay_tokens(&replays);
        if lets_go
            && !self
                .request
                .work(|| self.editor.budget.fits(&state.log.history, fixed + replayed, trigger))
                .await
        {
            // The view was made to fit without the replays, and recalled content can be recalled again.
            tracing::debug!(
                replays = replays.len(),
                tokens = replay_tokens(&replays),
                "hidden calls of earlier answers have no room and are left out"
            );
            replays.clear();
        }
        let fixed = fixed + replay_tokens(&replays);
        // An unchanged request needs no operations, so its work stays on the async thread.
        let end_bytes = if self.is_unchanged(state) { 0 } else { self.request.proxied.envelope.bytes.len() };
        let prepared = self.request.work_on(end_bytes, || {
            let after = meter::read(&state.log.history, fixed);
            OutboundRequest { replays, ..self.prepared(state, fixed, (before, after), done) }
        });
        Ok(prepared.await)
    }

    /// Adopts stored edits and makes the view fit. Returns the kind and the reason of a new edit, and whether only the
    /// view without its `replayed` tokens was made to fit.
    ///
    /// # Errors
    /// [`GatewayError`] if the items cannot be read, or the view cannot fit.
    async fn edit_view(
        &self,
        state: &mut ConversationState,
        (fixed, replayed): (u64, u64),
        trigger: &PlanTrigger,
        plan: &Plan,
    ) -> Result<(Option<(EditKind, String)>, bool), GatewayError> {
        // Only one request of a conversation may pay for a summary. The others wait for its result.
        let is_asked = self.editor.waits_for_summary(trigger) && matches!(plan, Plan::Summarise(_));
        let _turn = if is_asked { Some(self.editor.memo.turn().await) } else { None };
        let ready = state.pending_summary_reason.take();
        // Another process may have stored an edit meanwhile, so stored edits are adopted before new ones are made.
        let was_written_ahead = self.editor.remember(state, fixed).await?.then_some(ready).flatten();
        let (done, lets_go) = match self.editor.shorten(state, fixed, trigger).await {
            // Recalled content can be recalled again, so its replays are dropped first.
            Err(fault) if fault.kind == GatewayErrorKind::DoesNotFit && replayed > 0 => {
                (self.editor.shorten(state, fixed - replayed, trigger).await?, true)
            }
            done => (done?, false),
        };
        Ok((done.or(was_written_ahead.map(|why| (EditKind::Compaction, why))), lets_go))
    }

    /// Returns whether the upstream gets exactly the client's request.
    fn is_unchanged(&self, state: &ConversationState) -> bool {
        !self.request.needs_translation()
            && state.log.history.edits().is_empty()
            && state.items_with_notices.is_empty()
    }

    /// Returns the request with its report. `before` and `after` are the tokens without and with edits, `done`
    /// is the kind and the reason of a new edit.
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
            None => (PreparationAction::Remembered, earlier_reason(history)),
        };
        let report = PreparationReport {
            action,
            before,
            after: after.total,
            why,
            applied_edits: self.request.applied_edits(history),
        };
        // `state.noticed` may miss some: another request of the conversation had equal items without the notices.
        let noticed = match self.request.proxied.inner.config.notices_in_text {
            true => render_ops::items_with_notices(&self.request.proxied.envelope),
            false => state.items_with_notices.clone(),
        };
        let start = RequestSnapshot {
            view_hash: history.view_hash(),
            fixed_tokens: fixed,
            window: Some(self.editor.budget.window.tokens).filter(|_| self.request.limits.window.is_some()),
        };
        OutboundRequest {
            steps: render_ops::clean(
                render_ops::steps(&state.log, state.log.items),
                &noticed,
                &self.request.proxied.envelope,
            ),
            report,
            input: after.total,
            bound: after.bound(),
            accepted: history.largest_accepted_input(),
            start,
            items: state.log.items,
            said: self.request.needs_translation().then(|| neutral_conversation(&state.log)),
            rounds: RecallRounds::default(),
            replays: Vec::new(),
            mid_answer_log: None,
            tail: None,
            is_doubted: false,
        }
    }

    /// Returns the reason why nothing was left out of a request above the trigger.
    fn why_not(&self, history: &History, fixed: u64, bound: u64) -> Option<String> {
        let line =
            plan::threshold(history, fixed, &self.editor.budget.token_budget(), &self.editor.budget.policy)
                .tokens;
        let cancelled = self.editor.memo.hook_answer().filter(|answer| answer.cancel);
        (bound >= line).then(|| match cancelled {
            Some(answer) => format!("not shortened: {}", answer.cancellation()),
            None => format!(
                "not shortened: the request has up to {bound} tokens and the trigger is at {line}, but what must stay \
                 (system prompt, tools, the newest message) does not get below it"
            ),
        })
    }

    /// Makes room for the rest of an answer. The conversation before the answer is shortened; if that is not
    /// enough, the answer's own beginning is left out. The edit applies to the answer and to later requests
    /// with the same answer. The same question, asked again, is sent as before. `refusals`: the number of times
    /// that the upstream refused to continue for lack of room.
    ///
    /// # Errors
    /// [`GatewayError`] if no room can be made.
    pub(super) async fn make_room_for_rest(
        &self,
        old: &OutboundRequest,
        text: &str,
        refusals: u32,
    ) -> Result<OutboundRequest, GatewayError> {
        let (target, most) = (
            plan::pause_target(&self.editor.budget.token_budget()),
            self.editor.budget.window.tokens * MAX_RESTART_PERCENT / 100,
        );
        // After a refusal the same view would be refused again, so only the answer itself can get shorter.
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
        let counter = (self.request.proxied.inner.parts.counter)(&self.request.target.origin());
        // A quarter of the window, because the target is three quarters of it (decision 0050).
        let room = target / 3;
        // The conversation before the answer may need more room than a third of the target leaves.
        for share in [1, 2, 4, 8] {
            let Some(tail) = AnswerTail::cut(text, room / share, &counter) else { continue };
            if let Ok(made) = self.shorten_before_rest(old, text, Some(tail)).await
                && made.bound <= target
            {
                tracing::info!(
                    tokens = made.input,
                    target,
                    tail_tokens = room / share,
                    refusals,
                    "an answer's own beginning is left out of the request for its rest"
                );
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
        let conversation = self.editor.memo.conversation.clone().ok_or_else(nothing)?;
        let mut state = self.editor.memo.state(&conversation, old.items).await.ok_or_else(nothing)?;
        // A copy, because the same question asked again must be sent as before.
        let mut own = state.midway_of(old.mid_answer_log.as_deref());
        // A step that the client began, or that follows a recall, must be shown whole.
        if tail.is_some() && (own.log.ends_with_answer() || old.rounds.answered > 0) {
            return Err(nothing());
        }
        let fixed = self.request.tools().fixed_tokens(&own) + replay_tokens(&old.replays);
        let paused = self.request.work(|| {
            let paused = own.log.paused(&shown);
            (meter::unedited(&paused.history, fixed), paused)
        });
        let (before, paused) = paused.await;
        // Without a wait no summary can be ready, so the plan is told that there is none.
        let failed =
            (!self.editor.waits_for_summary(&PlanTrigger::Pause)).then(SummaryFailureReason::not_yet_asked);
        let EditDecision { made, .. } =
            self.editor.choose_edit(&paused, fixed, &PlanTrigger::Pause, failed).await?;
        let done = made.as_ref().map(|made| (made.edit.kind, made.edit.why.clone()));
        if let Some(made) = made {
            self.editor.decide(&mut own.log, made);
        }
        let mut replays = self.editor.memo.replays_in(&own);
        // New replays would change the beginning of the request in the middle of an answer.
        replays.retain(|replay| old.replays.contains(replay));
        let fixed = self.request.tools().fixed_tokens(&own) + replay_tokens(&replays);
        let made = self.request.work(|| {
            let after = meter::read(&own.log.paused(&shown).history, fixed);
            let prepared = self.prepared(&own, fixed, (before, after), done);
            OutboundRequest { replays, tail, mid_answer_log: Some(Arc::new(own.log.clone())), ..prepared }
        });
        let made = made.await;
        // The same request would be refused or stopped again.
        if made.steps == old.steps && made.tail == old.tail {
            return Err(nothing());
        }
        // Kept beside the conversation's own log: the edit counts only for requests that contain this answer.
        let log = made.mid_answer_log.clone();
        state.mid_answer_log = log.map(|log| MidAnswerLog { log, said: text.to_owned() });
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_where_an_estimate_with_room_for_an_answer_is_eighty_percent() {
        for window in [4_096_u64, 8_192, 10_000, 32_000, 128_000, 200_000, 1_000_000] {
            let Some(StrategyTrigger::Tokens(line)) = pruning_agent_trigger(PRUNING_AGENT, window) else {
                panic!("no trigger")
            };
            let is_full = |tokens: u64| {
                // In fifths, so that nothing is rounded.
                let buffer = (window - tokens).max(5_000);
                5 * tokens + buffer >= 4 * window
            };
            assert!(is_full(line) && !is_full(line - 1), "{line} of {window}");
        }
        assert_eq!(pruning_agent_trigger("truncation", 8_000), None, "other strategies have their own");
    }
}
