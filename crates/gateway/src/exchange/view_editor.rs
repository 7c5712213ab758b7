//! The edits of a conversation's view: the choice of an edit, its summary or extract, and its commit.

use std::sync::Arc;

use longhaul_core::event::{EditKind, ViewEdit};
use longhaul_core::history::SummaryWriterRecord;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, SummaryDraft};
use longhaul_core::run::PreCompactOutput;
use longhaul_core::shortening::{
    self, EditChoice, EditChoiceEffect, EditChoiceInput, EditSource, FallbackSummary, MissingSummaryCause,
    PlanKind, StoredEditFacts, StoredEditUse,
};
use longhaul_core::strategy::TruncationStrategy;
use longhaul_store::prefix_cache::PrefixCacheKey;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};

use super::conversation::{ConversationState, chain};
use super::journal::JournalStore;
use super::log::ConversationLog;
use super::memo_lookup::{ConversationMemo, MAX_KEYS};
use super::recall::HiddenSteps;
use super::request_budget::RequestBudget;
use super::summary::{self, PlannedEdit, SummaryFailure, SummaryFailureReason};
use super::targeted_request::TargetedRequest;
use super::usage_totals::UsageTotals;

/// The edit for a request, and the PreCompact hook's answer.
pub(super) struct EditDecision {
    pub(super) made: Option<PlannedEdit>,
    pub(super) hook_answer: Option<PreCompactOutput>,
}

/// An editor of one conversation's view for one request.
#[derive(Clone)]
pub(super) struct ViewEditor {
    pub(super) request: Arc<TargetedRequest>,
    pub(super) budget: RequestBudget,
    pub(super) memo: ConversationMemo,
    /// The usage of all calls for the answer and for summaries.
    pub(super) totals: Arc<UsageTotals>,
}

/// Returns the policy with a strategy without summaries, at the same trigger.
fn without_summaries(policy: CompactionPolicy) -> CompactionPolicy {
    // The other strategy's trigger would let messages be dropped earlier or later than configured.
    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
    CompactionPolicy { strategy: Arc::new(TruncationStrategy::default()), trigger: Some(trigger), ..policy }
}

impl ViewEditor {
    /// Returns the store of the conversation's journal.
    pub(super) fn journal(&self) -> JournalStore<'_> {
        JournalStore { request: &self.request, memo: &self.memo, budget: &self.budget }
    }

    /// Returns the answer's steps hidden from the client.
    pub(super) fn hidden_steps(&self) -> HiddenSteps<'_> {
        HiddenSteps { request: &self.request, editor: self }
    }

    /// Returns whether the writer of summaries is left alone for now.
    pub(super) fn writer_rests(&self) -> bool {
        self.request.proxied.inner.writers.rests(&self.request.writer())
    }

    /// Updates the record of the writer of summaries.
    pub(super) fn note_writer(&self, change: impl FnOnce(&mut SummaryWriterRecord)) {
        self.request.proxied.inner.writers.note(&self.request.writer(), change);
    }

    /// Adopts the memo's edits if the view gets shorter than with the own edits: those in force for an earlier request,
    /// or a summary written ahead of need. Returns whether edits were adopted.
    pub(super) async fn remember(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<bool, GatewayError> {
        let chain = self.request.work(|| chain(&self.memo.names(usize::MAX))).await;
        // The longest prefix comes first, because its edits leave out the most.
        let prefixes = || chain.iter().rev().take(MAX_KEYS);
        let keys: Vec<PrefixCacheKey> = prefixes().map(|name| self.memo.memo_key(name)).collect();
        let ahead: Vec<PrefixCacheKey> = prefixes().map(|name| self.memo.ahead_key(name)).collect();
        let takes_in_force = match self.memo.found(&keys, chain.len()).await? {
            Some(found) => self.adopt(state, found, fixed).await,
            None => false,
        };
        // Edits in force come first: a summary written ahead was made on top of them.
        let Some(found) = self.memo.found(&ahead, chain.len()).await? else { return Ok(takes_in_force) };
        // The place of the old edits is read first: their entry in the memo is replaced, too.
        let before = state.log.portable().map(|(_, item)| item);
        let takes_ahead = self.adopt(state, found, fixed).await;
        if takes_ahead {
            // The summary is in force from now on.
            self.memo.keep(&state.log, before).await;
        }
        Ok(takes_in_force || takes_ahead)
    }

    /// Adopts a log with other edits if they are to take the place of the own ones. Returns whether the log was adopted.
    async fn adopt(&self, state: &mut ConversationState, mut found: ConversationLog, fixed: u64) -> bool {
        let facts = StoredEditFacts {
            stored_tokens: found.history.view_tokens(),
            own_tokens: state.log.history.view_tokens(),
            has_own_edits: !state.log.history.edits().is_empty(),
            brings_summary: state.log.is_pending() && !found.is_pending(),
        };
        let takes = match facts.judge() {
            StoredEditUse::Adopt => true,
            StoredEditUse::AdoptIfFits => {
                self.request.work(|| self.budget.fits(&found.history, fixed, &PlanTrigger::Routine)).await
            }
            StoredEditUse::KeepOwn => false,
        };
        tracing::debug!(
            tokens_stored = facts.stored_tokens,
            tokens_own = facts.own_tokens,
            is_adopted = takes,
            "edits for an earlier request were found"
        );
        if takes {
            state.log = found;
        } else if facts.has_same_extract() {
            state.log.pending().zip(found.pending()).for_each(|(own, other)| own.merge_state(other));
        }
        takes
    }

    /// Returns whether a request waits for a needed summary. A client's own request for a compaction does.
    pub(super) fn waits_for_summary(&self, trigger: &PlanTrigger) -> bool {
        let waits = self.request.proxied.inner.config.waits_for_summaries;
        shortening::may_wait_for_summary(waits, self.writer_rests(), trigger)
    }

    /// Returns whether an extract is to be replaced by a summary now.
    pub(super) fn is_due(&self, log: &ConversationLog) -> bool {
        log.is_due((self.request.proxied.inner.parts.now)())
    }

    /// Makes the view fit, and returns the kind and reason of the edit. If a summary is needed, it also covers the
    /// ranges of waiting extracts.
    pub(super) async fn shorten(
        &self,
        state: &mut ConversationState,
        fixed: u64,
        trigger: &PlanTrigger,
    ) -> Result<Option<(EditKind, String)>, GatewayError> {
        let mut failed = None;
        let waits = self.waits_for_summary(trigger);
        if shortening::may_replace_extract(waits, state.log.is_pending(), trigger) {
            let needs_one =
                || matches!(self.budget.plan(&state.log.history, fixed, trigger), Plan::Summarise(_));
            if self.request.work(needs_one).await {
                match self.replace_extract(state, fixed).await {
                    Ok(Some(done)) => return Ok(Some(done)),
                    Ok(None) => {}
                    // A second attempt for the same request would fail as the first did, so the plan below goes
                    // without a summary.
                    Err(why) => failed = Some(why),
                }
            }
        }
        if self.is_cancelled_by_hook(state, fixed, trigger) {
            return Ok(None);
        }
        let failed = failed.or((!waits).then(SummaryFailureReason::not_yet_asked));
        let EditDecision { made, hook_answer } = self.choose_edit(&state.log, fixed, trigger, failed).await?;
        self.memo.keep_hook_answer(hook_answer, made.is_some());
        let Some(mut made) = made else { return Ok(None) };
        if !waits && made.missing_summary_cause.is_some() {
            let rests = self.writer_rests();
            if rests {
                self.note_writer(SummaryWriterRecord::record_skipped_compaction);
            }
            if !state.pace.wants_summary(rests, state.log.items) {
                tracing::debug!(
                    rests,
                    items = state.log.items,
                    "the extract stays, and no summary replaces it"
                );
                made.missing_summary_cause = None;
            }
        }
        let done = (made.edit.kind, made.edit.why.clone());
        self.commit(state, made).await;
        Ok(Some(done))
    }

    /// Replaces an extract by a summary, which includes everything newer. `None` if nothing is left to summarise.
    ///
    /// # Errors
    /// The reason why there is no summary; the view is unchanged.
    async fn replace_extract(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<Option<(EditKind, String)>, SummaryFailureReason> {
        // The summary covers the original messages, because an extract holds only a part of them.
        let unedited = self.request.work(|| self.budget.without_stopgaps(&state.log, fixed)).await;
        let Some((mut whole, draft)) = unedited else {
            // The next attempt must wait, or each request would look for something to summarise again.
            self.put_off(state, MissingSummaryCause::Away).await;
            return Ok(None);
        };
        let edit = match self.write_summary(&whole, draft).await {
            Ok(edit) => edit,
            Err(SummaryFailure { why, .. }) => {
                // Put off with a growing pause, so that a writer that fails is not asked by every request.
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
        self.memo.keep(&state.log, before).await;
        Ok(Some(done))
    }

    /// Records another failed attempt at the summary for an extract.
    pub(super) async fn put_off(&self, state: &mut ConversationState, cause: MissingSummaryCause) {
        let now = (self.request.proxied.inner.parts.now)();
        tracing::debug!(cause = cause.as_str(), "the summary for an extract is put off");
        state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, now));
        self.memo.keep(&state.log, None).await;
    }

    /// Commits an edit to the log and to the memo for later requests.
    pub(super) async fn commit(&self, state: &mut ConversationState, made: PlannedEdit) {
        self.decide(&mut state.log, made);
        self.memo.keep(&state.log, None).await;
    }

    /// Commits an edit to a log.
    pub(super) fn decide(&self, log: &mut ConversationLog, made: PlannedEdit) {
        let PlannedEdit { edit, missing_summary_cause: stopgap } = made;
        let now = (self.request.proxied.inner.parts.now)();
        tracing::info!(
            strategy = edit.strategy,
            before = edit.original_tokens,
            after = edit.compressed_tokens,
            why = edit.why,
            "a conversation was shortened"
        );
        log.commit(edit, stopgap.map(|cause| FallbackSummary::new(cause, now)));
    }

    /// Returns the edit for fitting the request; `None` if the request fits already. With `failed`, the reason
    /// against a summary now, no writer is asked. The effects of an `EditChoice` are performed here.
    ///
    /// # Errors
    /// [`GatewayError`] if no edit makes the request fit.
    pub(super) async fn choose_edit(
        &self,
        log: &ConversationLog,
        fixed: u64,
        trigger: &PlanTrigger,
        failed: Option<SummaryFailureReason>,
    ) -> Result<EditDecision, GatewayError> {
        let mut choice = EditChoice::new(trigger.clone(), failed.is_none());
        let mut next = choice.handle(EditChoiceInput::Begin);
        let (mut hook_answer, mut has_given_summary) = (None::<PreCompactOutput>, false);
        // What the newest effects have made: a plan, the draft of a failed summary, an edit.
        let (mut plan, mut unwritten, mut made) = (Plan::Fits, None, None);
        while let Some(effect) = next {
            let input = match effect {
                EditChoiceEffect::MakePlan { with_summaries } => {
                    let own = &self.budget.policy;
                    // A copy, because the other strategy is for this request only.
                    let policy = if with_summaries { own.clone() } else { without_summaries(own.clone()) };
                    let planned = || self.budget.plan_by(&policy, &log.history, fixed, trigger);
                    plan = self.request.work(planned).await;
                    // Checked before the hook is asked, because the next upstream may shorten nothing.
                    self.budget.check_newest(&log.history, &plan)?;
                    EditChoiceInput::Planned(PlanKind::of(&plan))
                }
                EditChoiceEffect::AskHook => {
                    hook_answer = self.ask_pre_compact(log, &plan, fixed, trigger).await;
                    if let (Plan::Summarise(draft), Some(answer)) = (&mut plan, &hook_answer)
                        && !answer.cancel
                    {
                        let budget = self.budget.summary_budget();
                        has_given_summary = answer.apply(draft, &log.history, &budget);
                    }
                    EditChoiceInput::HookAnswered {
                        is_cancelled: hook_answer.as_ref().is_some_and(|answer| answer.cancel),
                        gives_summary: has_given_summary,
                        fits_the_window: self.budget.fits_the_window(log, fixed),
                    }
                }
                EditChoiceEffect::WriteSummary => {
                    let Plan::Summarise(draft) = std::mem::replace(&mut plan, Plan::Fits) else { break };
                    let written = match has_given_summary {
                        true => summary::write(self, log, *draft).await,
                        false => self.write_summary(log, *draft).await,
                    };
                    let is_written = written.is_ok();
                    match written {
                        Ok(edit) => made = Some(PlannedEdit::as_wanted(edit)),
                        Err(failure) => unwritten = Some(failure),
                    }
                    EditChoiceInput::SummaryWritten(is_written)
                }
                EditChoiceEffect::MakeExtract => {
                    // Without an attempt the plan still has the draft.
                    if let Plan::Summarise(draft) = std::mem::replace(&mut plan, Plan::Fits) {
                        let why = failed.clone().unwrap_or_else(SummaryFailureReason::not_yet_asked);
                        unwritten = Some(SummaryFailure { why, draft: *draft });
                    }
                    let Some(failure) = unwritten.take() else { break };
                    made = self.request.work(|| PlannedEdit::extract(log, &failure)).await;
                    EditChoiceInput::ExtractMade(made.is_some())
                }
                EditChoiceEffect::Commit(EditSource::Plan) => {
                    let Plan::Edit(edit) = plan else { break };
                    return Ok(EditDecision { made: Some(PlannedEdit::as_wanted(*edit)), hook_answer });
                }
                EditChoiceEffect::Commit(EditSource::Summary | EditSource::Extract) => {
                    return Ok(EditDecision { made, hook_answer });
                }
                EditChoiceEffect::RefuseForHook => {
                    let why = hook_answer.unwrap_or_default().cancellation();
                    return Err(GatewayError::new(GatewayErrorKind::Forbidden, why));
                }
                EditChoiceEffect::RefuseForSize => {
                    let Plan::DoesNotFit(misfit) = plan else { break };
                    return Err(GatewayError::new(GatewayErrorKind::DoesNotFit, misfit.to_string()));
                }
                // The view stays as it is: it fits, or the hook wants it so.
                _ => break,
            };
            next = choice.handle(input);
        }
        Ok(EditDecision { made: None, hook_answer })
    }

    /// Writes a summary for which the request waits, and adds the outcome to the writer's record.
    async fn write_summary(
        &self,
        log: &ConversationLog,
        draft: SummaryDraft,
    ) -> Result<ViewEdit, SummaryFailure> {
        let written = summary::write(self, log, draft).await;
        match &written {
            Ok(_) => self.note_writer(SummaryWriterRecord::record_summary),
            Err(failed) if failed.why.cause.counts_against_writer() => {
                self.note_writer(SummaryWriterRecord::failed);
            }
            Err(_) => {}
        }
        written
    }
}
