//! Summaries written between the requests of a conversation, so that no request waits. Such a summary replaces
//! an extract or is written ahead of need. The writing begins after the request with the decision.
//!
//! `core::shortening::BackgroundSummaryState` decides. This file performs its effects: one half of them in the request,
//! the other in a task.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::history::SummaryWriterRecord;
use longhaul_core::meter::MeterReading;
use longhaul_core::plan::{self, Plan, PlanTrigger, SummaryDraft};
use longhaul_core::run::PreCompactOutput;
use longhaul_core::shortening::{
    BackgroundConditions, BackgroundSummaryEffect, BackgroundSummaryInput, BackgroundSummaryState,
    FittedViewFacts, MissingSummaryCause, SummaryPurpose, SummaryStart,
};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::conversation::{ConversationState, GatewayConversation};
use super::log::ConversationLog;
use super::prepare::RequestFitter;
use super::replicas::LoadGuard;
use super::request_budget::RequestBudget;
use super::summary;
use super::targeted_request::TargetedRequest;
use super::usage_totals::UsageTotals;
use super::view_editor::ViewEditor;
use longhaul_wire::edit::GatewayError;

/// The maximum number of concurrent tasks.
const MOST_TASKS: usize = 64;

/// The maximum number of remembered beginnings.
// A forgotten beginning costs at most a second summary of the same messages.
const MAX_BEGINNINGS: usize = 4_096;

/// The newest summary begun ahead of need, by the beginning of its conversation.
#[derive(Default)]
pub(crate) struct SummaryStarts(Mutex<BTreeMap<[u8; 32], SummaryStart>>);

impl SummaryStarts {
    /// Records a start for conversations with that beginning. Returns `false` if an earlier start makes it useless.
    pub(super) fn begin(&self, head: [u8; 32], start: SummaryStart) -> bool {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.get(&head).is_some_and(|newest| newest.precludes(start)) {
            return false;
        }
        if begun.len() >= MAX_BEGINNINGS {
            begun.retain(|_, newest| newest.is_recent(start.at));
        }
        if begun.len() >= MAX_BEGINNINGS {
            tracing::info!(
                starts = begun.len(),
                "the starts of background summaries are forgotten: there are too many"
            );
            // A forgotten start costs one more summary.
            begun.clear();
        }
        begun.insert(head, start);
        true
    }
}

/// The gateway's background tasks. All end with the gateway.
#[derive(Default)]
pub(crate) struct GatewayTasks(Mutex<JoinSet<()>>);

impl GatewayTasks {
    /// Starts a task unless too many are running. Returns whether the task was started.
    pub(super) fn begin(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished tasks stay in the set until they are joined.
        while tasks.try_join_next().is_some() {}
        let has_room = tasks.len() < MOST_TASKS;
        if has_room {
            // Without the request's span the lines of the task would not name the request.
            tasks.spawn(task.in_current_span());
        }
        has_room
    }

    /// Waits until no task is running.
    pub(crate) async fn settle(&self) {
        while self.has_joined_next().await {}
    }

    /// Waits for the end of the next task. Returns `false` if no task is running.
    async fn has_joined_next(&self) -> bool {
        // The lock is held for each poll only: a running task may start another one.
        let next =
            poll_fn(|context| self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_join_next(context));
        next.await.is_some()
    }

    /// Stops all tasks.
    pub(crate) async fn stop(&self) {
        // Nothing is lost: a summary that was cut off is due again with the next request (decision 0035).
        let count = {
            let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.abort_all();
            tasks.len()
        };
        tracing::debug!(tasks = count, "background summaries are cut off: the gateway ends");
        // An aborted task ends only at its next wait, so the end is waited for.
        self.settle().await;
    }
}

/// A conversation's background summary: the state of its decisions, and the outcome until a request collects it.
#[derive(Default)]
pub(super) struct BackgroundSummary {
    state: BackgroundSummaryState,
    finished: Option<FinishedSummary>,
}

/// The outcome of a background summary.
struct FinishedSummary {
    /// The cost, not reported by any request yet.
    totals: Arc<UsageTotals>,
    /// The reason of the finished edit; `None` after a failure.
    why: Option<String>,
    /// The time of the end, in seconds since 1970.
    at: u64,
}

/// The task of writing a summary.
struct SummaryAssignment {
    purpose: SummaryPurpose,
    /// The log at the time when the summary was found due.
    standing: ConversationLog,
    /// The log without the replaced extracts.
    whole: ConversationLog,
    draft: SummaryDraft,
    /// The fixed tokens of the request after which the summary is written.
    fixed: u64,
}

/// The right to work on a conversation's background summary. The right ends with its holder in any case.
struct SummaryPermit {
    conversation: Arc<GatewayConversation>,
    is_open: bool,
}

impl Drop for SummaryPermit {
    fn drop(&mut self) {
        // A request or task that was cut off would leave its stage behind, and no other summary could ever begin.
        if self.is_open {
            self.conversation.background_summary().state.handle(BackgroundSummaryInput::CutOff);
        }
    }
}

impl SummaryPermit {
    /// Returns the right with the first effects; `None` if a fitted request starts nothing.
    fn begin(
        conversation: &Arc<GatewayConversation>,
        facts: FittedViewFacts,
    ) -> Option<(Self, Vec<BackgroundSummaryEffect>)> {
        let input = BackgroundSummaryInput::RequestFitted(facts);
        let effects = conversation.background_summary().state.handle(input);
        let permit = || Self { conversation: Arc::clone(conversation), is_open: true };
        (!effects.is_empty()).then(|| (permit(), effects))
    }

    fn handle(&mut self, input: BackgroundSummaryInput) -> Vec<BackgroundSummaryEffect> {
        let mut summary = self.conversation.background_summary();
        let effects = summary.state.handle(input);
        // Another request may work on the next summary as soon as this one is over.
        self.is_open = summary.state.is_working();
        effects
    }

    /// Leaves the outcome to the next request of the conversation.
    fn finish(&mut self, finished: FinishedSummary) {
        self.conversation.background_summary().finished = Some(finished);
        self.handle(BackgroundSummaryInput::Stored);
    }
}

impl RequestFitter {
    /// Collects the outcome of a background summary, and adds the cost to the request. Returns the reason of a summary
    /// for a waiting extract.
    pub(super) fn collect_summary(&self, state: &mut ConversationState) -> Option<String> {
        let mut summary = self.editor.memo.conversation.as_ref()?.background_summary();
        let input = BackgroundSummaryInput::RequestCame { has_extract: state.log.is_pending() };
        let effects = summary.state.handle(input);
        if effects.is_empty() {
            return None;
        }
        let FinishedSummary { totals, why, at } = summary.finished.take()?;
        let mut for_extract = None;
        for effect in effects {
            match effect {
                BackgroundSummaryEffect::ChargeRequest => {
                    let cost = totals.cost();
                    tracing::info!(
                        is_written = why.is_some(),
                        calls = cost.calls,
                        input_tokens = cost.input_tokens,
                        output_tokens = cost.output_tokens,
                        "a summary was written since the last request, which pays for it now"
                    );
                    self.editor.totals.absorb(&totals);
                }
                BackgroundSummaryEffect::NoteFailure(cause) => {
                    state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, at));
                }
                BackgroundSummaryEffect::KeepForFullView => state.pending_summary_reason = why.clone(),
                BackgroundSummaryEffect::OfferForExtract => for_extract = why.clone(),
                _ => {}
            }
        }
        for_extract
    }

    /// Starts a background summary if one is due after this request, because the view fits and no request needs to wait.
    ///
    /// # Errors
    /// [`GatewayError`] if the items cannot be read.
    pub(super) async fn start_summary(
        &self,
        state: &mut ConversationState,
        fixed: u64,
        now: &MeterReading,
        (is_edited, has_collected_summary): (bool, bool),
    ) -> Result<(), GatewayError> {
        let Some(conversation) = &self.editor.memo.conversation else { return Ok(()) };
        let facts = FittedViewFacts {
            is_edited,
            waits: self.editor.waits_for_summary(&PlanTrigger::Routine),
            is_extract_due: self.editor.is_due(&state.log),
            has_collected_summary,
            may_start_ahead: self.may_start_ahead(state, fixed, now),
        };
        let Some((mut permit, effects)) = SummaryPermit::begin(conversation, facts) else { return Ok(()) };
        let mut effects = VecDeque::from(effects);
        let mut assignment = None;
        while let Some(effect) = effects.pop_front() {
            let input = match effect {
                BackgroundSummaryEffect::AdoptStoredEdits => {
                    self.editor.remember(state, fixed).await?;
                    let is_extract_due = self.editor.is_due(&state.log);
                    BackgroundSummaryInput::StoredEditsAdopted { is_extract_due }
                }
                BackgroundSummaryEffect::PutOff(cause) => {
                    self.editor.put_off(state, cause).await;
                    continue;
                }
                BackgroundSummaryEffect::MakeDraft(purpose) => {
                    assignment = self.draft_summary(purpose, state, fixed, now).await;
                    BackgroundSummaryInput::Drafted(assignment.is_some())
                }
                BackgroundSummaryEffect::LookUpOthers(_) => {
                    let is_settled = self.has_summary_elsewhere(state).await;
                    BackgroundSummaryInput::OthersLookedUp { is_settled }
                }
                BackgroundSummaryEffect::StartTask(_) => {
                    if let Some(assignment) = assignment {
                        self.begin_task(permit, assignment);
                    }
                    return Ok(());
                }
                _ => continue,
            };
            effects.extend(permit.handle(input));
        }
        Ok(())
    }

    /// Returns whether a summary ahead of need may begin.
    fn may_start_ahead(&self, state: &ConversationState, fixed: u64, now: &MeterReading) -> bool {
        let conditions = || BackgroundConditions {
            has_summary: state.pending_summary_reason.is_some(),
            has_extract: state.log.is_pending(),
            writer_rests: self.editor.writer_rests(),
            is_forbidden: self.editor.is_cancelled_by_hook(state, fixed, &PlanTrigger::Routine),
        };
        // Most requests are far from a full window, so the size is looked at first.
        plan::is_near_early_summary(now.bound(), &self.editor.budget.summary_budget())
            && conditions().allow_start()
    }

    /// Returns the task of a summary; `None` if there is nothing to summarise, or if it is not worth a call yet.
    async fn draft_summary(
        &self,
        purpose: SummaryPurpose,
        state: &ConversationState,
        fixed: u64,
        now: &MeterReading,
    ) -> Option<SummaryAssignment> {
        let budget = &self.editor.budget;
        let (whole, draft) = match purpose {
            SummaryPurpose::ReplaceExtract => {
                let unedited = self.request.work(|| budget.without_stopgaps(&state.log, fixed)).await;
                let (whole, mut draft) = unedited?;
                if let Some(answer) = self.editor.memo.hook_answer() {
                    answer.apply(&mut draft, &whole.history, &budget.summary_budget());
                }
                (whole, draft)
            }
            SummaryPurpose::AheadOfNeed => {
                let early = || {
                    let own = budget.summary_budget();
                    plan::plan_early_in_background(&state.log.history, fixed, &own, &budget.policy)
                };
                let draft = self.request.work(early).await;
                let (tokens, window) = (now.bound(), budget.window.tokens);
                if draft.is_none() {
                    tracing::debug!(tokens, window, "a summary ahead of need would save too little yet");
                }
                (state.log.clone(), *draft?)
            }
        };
        Some(SummaryAssignment { purpose, standing: state.log.clone(), whole, draft, fixed })
    }

    /// Returns whether a summary ahead of need was written or begun elsewhere for the same view. Otherwise it is
    /// recorded as begun.
    async fn has_summary_elsewhere(&self, state: &ConversationState) -> bool {
        let edits = state.log.history.edits().len();
        if self.editor.memo.has_summary_ahead(edits).await {
            return true;
        }
        let inner = &self.request.proxied.inner;
        let start = SummaryStart { edits, at: (inner.parts.now)() };
        !inner.begun.begin(self.editor.memo.beginning(), start)
    }

    /// Begins a summary after the end of this request. One attempt begins at most one.
    fn begin_task(&self, permit: SummaryPermit, assignment: SummaryAssignment) {
        // Most local servers process one request at a time, so the client's request goes first. Dropping its attempt is
        // the signal.
        let (over, is_over) = oneshot::channel();
        if self.over.set(over).is_err() {
            return;
        }
        tracing::info!(
            purpose = ?assignment.purpose,
            window = self.editor.budget.window.tokens,
            saves = assignment.draft.savings_tokens(),
            "a summary is begun after this request"
        );
        // Its own totals, because the cost is reported by a later request.
        let editor = ViewEditor { totals: Arc::default(), ..self.editor.clone() };
        let writer = BackgroundWriter {
            // A replica that writes a summary is busy, and other conversations should pass it over.
            _load: LoadGuard::new(&self.request.target.server.in_flight),
            request: Arc::clone(&self.request),
            editor,
            is_answered: Arc::clone(&self.is_answered),
        };
        let is_begun = self.request.proxied.inner.tasks.begin(async move {
            // The channel only closes; nothing is ever sent.
            let _gone = is_over.await;
            Box::pin(writer.write_in_background(permit, assignment)).await;
        });
        // The permit was dropped with the task, which lets a later request begin.
        if !is_begun {
            // A later request of the conversation finds the summary due again.
            tracing::debug!(max_tasks = MOST_TASKS, "no summary is begun: too many are being written");
        }
    }
}

impl RequestBudget {
    /// Returns the log without the extracts, and the draft of the summary; `None` if there is nothing to summarise any
    /// more.
    pub(super) fn without_stopgaps(
        &self,
        log: &ConversationLog,
        fixed: u64,
    ) -> Option<(ConversationLog, SummaryDraft)> {
        let whole = log.without_stopgaps()?;
        match self.plan(&whole.history, fixed, &PlanTrigger::Routine) {
            Plan::Summarise(draft) => Some((whole, *draft)),
            _ => None,
        }
    }
}

/// A writer of one conversation's summary after a request.
struct BackgroundWriter {
    request: Arc<TargetedRequest>,
    /// The editor of the request, with separate usage totals.
    editor: ViewEditor,
    is_answered: Arc<AtomicBool>,
    /// Counts the summary as a request in flight at the upstream.
    _load: LoadGuard,
}

impl BackgroundWriter {
    /// Writes the summary and stores the result in the memo for a later request.
    async fn write_in_background(&self, mut permit: SummaryPermit, mut assignment: SummaryAssignment) {
        // One summary at a time is written for conversations with one beginning (decision 0035).
        let mut turn = Some(self.editor.memo.turn().await);
        let is_answered = self.is_answered.load(Ordering::Relaxed);
        let mut effects = VecDeque::from(permit.handle(BackgroundSummaryInput::TurnCame { is_answered }));
        let (mut cancellation, mut finished) = (None, None);
        while let Some(effect) = effects.pop_front() {
            let input = match effect {
                BackgroundSummaryEffect::LookUpOthers(_) => {
                    let is_settled = self.editor.memo.is_settled_elsewhere().await;
                    BackgroundSummaryInput::OthersLookedUp { is_settled }
                }
                BackgroundSummaryEffect::AskHook => {
                    cancellation = self.ask_hook(&mut assignment).await;
                    BackgroundSummaryInput::HookAnswered { is_cancelled: cancellation.is_some() }
                }
                BackgroundSummaryEffect::KeepCancellation => {
                    self.editor.memo.keep_hook_answer(cancellation.take(), false);
                    continue;
                }
                BackgroundSummaryEffect::Write => {
                    let written = self.write(&mut assignment).await;
                    let at = (self.request.proxied.inner.parts.now)();
                    let (totals, why) = (Arc::clone(&self.editor.totals), written.as_ref().ok().cloned());
                    finished = Some(FinishedSummary { totals, why, at });
                    BackgroundSummaryInput::Written(written.map(|_| ()))
                }
                BackgroundSummaryEffect::RecordWriter { is_summary } => {
                    self.editor.note_writer(match is_summary {
                        true => SummaryWriterRecord::record_summary,
                        false => SummaryWriterRecord::failed,
                    });
                    continue;
                }
                BackgroundSummaryEffect::Store(purpose) => {
                    self.store(purpose, &assignment, &permit, &mut turn).await;
                    continue;
                }
                BackgroundSummaryEffect::StoreFailure(cause) => {
                    let at = finished.as_ref().map_or(0, |finished| finished.at);
                    assignment.standing.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, at));
                    self.editor.memo.keep(&assignment.standing, None).await;
                    continue;
                }
                _ => continue,
            };
            effects.extend(permit.handle(input));
        }
        match finished {
            Some(finished) => permit.finish(finished),
            None => tracing::debug!(
                is_answered,
                purpose = ?assignment.purpose,
                "no summary is written: the request had no answer, a hook forbids it, or another request has one"
            ),
        }
    }

    /// Asks the hook about a summary that is written now. Returns the answer if it cancels the summary.
    async fn ask_hook(&self, assignment: &mut SummaryAssignment) -> Option<PreCompactOutput> {
        let SummaryAssignment { whole, draft, fixed, .. } = assignment;
        let plan = Plan::Summarise(Box::new(draft.clone()));
        let answer = self.editor.ask_pre_compact(whole, &plan, *fixed, &PlanTrigger::Routine).await?;
        if answer.cancel {
            return Some(answer);
        }
        answer.apply(draft, &whole.history, &self.editor.budget.summary_budget());
        None
    }

    /// Writes the summary into the log without extracts. Returns the reason of the edit.
    async fn write(&self, assignment: &mut SummaryAssignment) -> Result<String, MissingSummaryCause> {
        let SummaryAssignment { purpose, whole, draft, .. } = assignment;
        let written = summary::write(&self.editor, whole, draft.clone()).await;
        let edit = written.map_err(|failed| failed.why.cause)?;
        let why = match purpose {
            SummaryPurpose::AheadOfNeed => format!("{}; it was written ahead", edit.why),
            SummaryPurpose::ReplaceExtract => {
                format!("{}; an extract stood in its place until now", edit.why)
            }
        };
        whole.commit(edit, None);
        Ok(why)
    }

    /// Stores the summary for later requests of the conversation.
    async fn store(
        &self,
        purpose: SummaryPurpose,
        assignment: &SummaryAssignment,
        permit: &SummaryPermit,
        turn: &mut Option<OwnedMutexGuard<()>>,
    ) {
        let SummaryAssignment { standing, whole, .. } = assignment;
        if purpose == SummaryPurpose::AheadOfNeed {
            return self.editor.memo.keep_ahead(whole).await;
        }
        let before = standing.portable().map(|(_, item)| item);
        self.editor.memo.keep(whole, before).await;
        // A request may hold the state while it waits for this turn. Keeping both would be a deadlock.
        drop(turn.take());
        // Requests did not wait, so an extract may have been committed meanwhile. It would be found first.
        let newest = permit.conversation.state.lock().await.log.portable().map(|(_, item)| item);
        if let Some(newest) = newest.filter(|newest| Some(*newest) > before) {
            self.editor.memo.keep_later(whole, &permit.conversation, newest).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_beginning_makes_room_for_others() {
        let begun = SummaryStarts::default();
        let first = SummaryStart { edits: 0, at: 1_000 };
        assert!(begun.begin([7; 32], first) && !begun.begin([7; 32], first) && begun.begin([8; 32], first));
        (0..10_000_u32).for_each(|at| {
            let mut other = [0; 32];
            other[..4].copy_from_slice(&at.to_le_bytes());
            begun.begin(other, SummaryStart { edits: 0, at: 6 });
        });
        assert!(begun.0.lock().unwrap().len() <= MAX_BEGINNINGS);
    }
}
