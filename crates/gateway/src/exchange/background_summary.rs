//! Summaries written between the requests of a conversation, so that no request waits. Such a summary replaces
//! an extract or is written ahead of need. The writing begins after the request with the decision.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::history::SummaryWriterRecord;
use longhaul_core::meter::MeterReading;
use longhaul_core::plan::{self, Plan, PlanTrigger, SummaryDraft};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::conversation::{ConversationState, GatewayConversation};
use super::fallback_summary::MissingSummaryCause;
use super::log::ConversationLog;
use super::prepare::RequestFitter;
use super::replicas::LoadGuard;
use super::request_budget::RequestBudget;
use super::summary::{self, SummaryFailure};
use super::targeted_request::TargetedRequest;
use super::usage_totals::UsageTotals;
use super::view_editor::ViewEditor;
use longhaul_wire::edit::GatewayError;

/// The maximum number of concurrent tasks.
const MOST_TASKS: usize = 64;

/// The minimum share of the window for a summary ahead of need, in percent.
const AHEAD_PERCENT: u64 = 65;

/// The minimum share of the trigger, in percent, for a summary ahead of need with little savings.
const URGENT_PERCENT: u64 = 85;

/// The minimum savings of a summary ahead of need, as a fraction of the usable window (one in so many).
const LEAST_SAVED_SHARE: u64 = 2;

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        // An aborted task ends only at its next wait, so the end is waited for.
        self.settle().await;
    }
}

/// The state of a conversation's background summary.
#[derive(Default)]
pub(super) enum BackgroundSummary {
    #[default]
    None,
    Running,
    Over(FinishedSummary),
}

/// The outcome of a background summary.
pub(super) struct FinishedSummary {
    /// The cost, not reported by any request yet.
    totals: Arc<UsageTotals>,
    /// The reason of the finished edit, or the cause of the failure.
    pub(super) outcome: Result<String, MissingSummaryCause>,
    /// The time of the end, in seconds since 1970.
    pub(super) at: u64,
    /// Set if the summary was begun ahead of need.
    is_ahead: bool,
}

/// The task of writing a summary.
struct SummaryAssignment {
    /// The log at the time when the summary was found due.
    standing: ConversationLog,
    /// The log without the replaced extracts.
    whole: ConversationLog,
    draft: SummaryDraft,
    /// The fixed tokens of the request after which the summary is written ahead of need; `None` if the summary replaces
    /// an extract.
    ahead_of: Option<u64>,
}

/// The right to write a conversation's summary. The right ends with the task in any case.
struct SummaryPermit(Arc<GatewayConversation>);

impl Drop for SummaryPermit {
    fn drop(&mut self) {
        let mut trial = self.0.trial();
        // A task that was cut off or gave up would leave "running" behind, and no other could ever begin.
        if matches!(*trial, BackgroundSummary::Running) {
            *trial = BackgroundSummary::None;
        }
    }
}

impl SummaryPermit {
    /// Claims the right; `None` if a task has the right.
    fn of(conversation: &Arc<GatewayConversation>) -> Option<Self> {
        let mut trial = conversation.trial();
        // An outcome that no request has taken yet must not be overwritten.
        let is_free = matches!(*trial, BackgroundSummary::None);
        is_free.then(|| {
            *trial = BackgroundSummary::Running;
            Self(Arc::clone(conversation))
        })
    }
}

impl RequestFitter {
    /// Takes the outcome of a background summary, and adds the cost to the request.
    pub(super) fn take_tried(&self, state: &mut ConversationState) -> Option<FinishedSummary> {
        let mut trial = self.editor.memo.conversation.as_ref()?.trial();
        let BackgroundSummary::Over(tried) = &mut *trial else { return None };
        let cost = tried.totals.cost();
        tracing::info!(
            is_ahead = tried.is_ahead,
            is_written = tried.outcome.is_ok(),
            calls = cost.calls,
            input_tokens = cost.input_tokens,
            output_tokens = cost.output_tokens,
            "a summary was written since the last request, which pays for it now"
        );
        // No request waited for the summary, so its cost goes to the next one that asks.
        self.editor.totals.absorb(&tried.totals);
        if let Err(cause) = tried.outcome {
            // The failure is noted at the extracts, so that they are not due again at once.
            state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, tried.at));
        }
        let tried = match std::mem::take(&mut *trial) {
            BackgroundSummary::Over(tried) => tried,
            BackgroundSummary::None | BackgroundSummary::Running => return None,
        };
        if tried.is_ahead && !state.log.is_pending() {
            // The summary is applied when the view is full.
            state.pending_summary_reason = tried.outcome.ok();
            return None;
        }
        Some(tried)
    }

    /// Adopts the summary for an extract if another request has one. Otherwise the summary is written after
    /// this request, because the view fits and nobody needs to wait. `tried` is the outcome of the last
    /// background summary.
    ///
    /// # Errors
    /// [`GatewayError`] if the items cannot be read.
    pub(super) async fn try_beside(
        &self,
        state: &mut ConversationState,
        fixed: u64,
        tried: Option<&FinishedSummary>,
    ) -> Result<(), GatewayError> {
        let Some(conversation) = &self.editor.memo.conversation else { return Ok(()) };
        let Some(permit) = SummaryPermit::of(conversation) else { return Ok(()) };
        // Another request, or another process, may have written the summary meanwhile.
        self.editor.remember(state, fixed).await?;
        if !self.editor.is_due(&state.log, &PlanTrigger::Routine) {
            return Ok(());
        }
        if tried.is_some_and(|tried| tried.outcome.is_ok()) {
            // The summary was written but did not improve the view, so writing the same one again would be a waste.
            self.editor.put_off(state, MissingSummaryCause::Rejected).await;
            return Ok(());
        }
        match self.request.work(|| self.editor.budget.without_stopgaps(&state.log, fixed)).await {
            Some((whole, mut draft)) => {
                if let Some(answer) = self.editor.memo.hook_answer() {
                    answer.apply(&mut draft, &whole.history, &self.editor.budget.summary_budget());
                }
                let standing = state.log.clone();
                self.begin_trial(permit, SummaryAssignment { standing, whole, draft, ahead_of: None });
            }
            None => self.editor.put_off(state, MissingSummaryCause::Away).await,
        }
        Ok(())
    }

    /// Starts a summary ahead of need if the view is nearly full. Once for each edit of the view: after a failure the
    /// summary is tried again when an extract has taken its place.
    pub(super) async fn look_ahead(&self, state: &mut ConversationState, fixed: u64, now: &MeterReading) {
        let edits = state.log.history.edits().len();
        let bound = now.bound();
        let is_near = bound >= self.editor.budget.window.tokens / 100 * AHEAD_PERCENT;
        let waits = self.editor.waits_for_summary(&PlanTrigger::Routine);
        let is_idle =
            !state.log.is_pending() && state.pending_summary_reason.is_none() && !self.editor.writer_rests();
        let is_cancelled = self.editor.is_cancelled_by_hook(state, fixed, &PlanTrigger::Routine);
        if waits || !is_near || !is_idle || is_cancelled {
            return;
        }
        let Some(permit) = self.editor.memo.conversation.as_ref().and_then(SummaryPermit::of) else { return };
        let draft = self.request.work(|| self.editor.budget.draft_ahead(&state.log, fixed, now)).await;
        let Some(draft) = draft else {
            tracing::debug!(
                tokens = bound,
                window = self.editor.budget.window.tokens,
                "a summary ahead of need would save too little yet"
            );
            return;
        };
        if self.editor.memo.has_summary_ahead(edits).await {
            return;
        }
        let now = (self.request.proxied.inner.parts.now)();
        // Some clients change the end of their history each time, and each request would begin a summary of its
        // own.
        if !self.request.proxied.inner.begun.begin(self.editor.memo.beginning(), edits, now) {
            return;
        }
        tracing::info!(
            tokens = bound,
            window = self.editor.budget.window.tokens,
            saves = draft.savings_tokens(),
            "a summary is begun ahead of need"
        );
        let (standing, whole) = (state.log.clone(), state.log.clone());
        self.begin_trial(permit, SummaryAssignment { standing, whole, draft, ahead_of: Some(fixed) });
    }

    /// Begins a summary after the end of this request. One attempt begins at most one.
    fn begin_trial(&self, permit: SummaryPermit, assignment: SummaryAssignment) {
        // Most local servers process one request at a time, so the client's request goes first. Dropping its attempt is
        // the signal.
        let (over, is_over) = oneshot::channel();
        if self.over.set(over).is_err() {
            return;
        }
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
        if !is_begun {
            // A later request of the conversation finds the summary due again.
            tracing::debug!(max_tasks = MOST_TASKS, "no summary is begun: too many are being written");
        }
    }
}

impl RequestBudget {
    /// Returns the draft of a summary ahead of need; `None` if the summary is not worth a call yet. An early
    /// summary saves little, and the view is full again after a few steps.
    fn draft_ahead(&self, log: &ConversationLog, fixed: u64, now: &MeterReading) -> Option<SummaryDraft> {
        let from = self.window.tokens / 100 * AHEAD_PERCENT;
        let budget = self.summary_budget();
        let draft = plan::ahead_from(&log.history, fixed, &budget, &self.policy, from)?;
        let line = plan::line(&log.history, fixed, &budget, &self.policy).tokens;
        let is_urgent = now.bound() >= line / 100 * URGENT_PERCENT;
        (is_urgent || draft.savings_tokens() >= budget.usable / LEAST_SAVED_SHARE).then_some(*draft)
    }

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
    async fn write_in_background(&self, permit: SummaryPermit, assignment: SummaryAssignment) {
        let SummaryAssignment { mut standing, mut whole, mut draft, ahead_of } = assignment;
        let is_ahead = ahead_of.is_some();
        // One summary at a time is written for conversations with one beginning (decision 0035).
        let turn = self.editor.memo.turn().await;
        if !self.is_answered.load(Ordering::Relaxed) {
            // The upstream has not answered this client, so a request for a summary would probably fail, too.
            tracing::debug!("no summary is begun: the upstream has not answered the request before it");
            return;
        }
        if !is_ahead && self.editor.memo.is_settled_elsewhere().await {
            tracing::debug!("no summary is begun: another request has stored one, or has just failed");
            return;
        }
        if let Some(fixed) = ahead_of {
            let plan = Plan::Summarise(Box::new(draft.clone()));
            // The hook is asked only for a summary that is written now.
            let answer = self.editor.ask_pre_compact(&whole, &plan, fixed, &PlanTrigger::Routine).await;
            if answer.as_ref().is_some_and(|answer| answer.cancel) {
                self.editor.memo.keep_hook_answer(answer, false);
                return;
            }
            if let Some(answer) = answer {
                answer.apply(&mut draft, &whole.history, &self.editor.budget.summary_budget());
            }
        }
        let written = summary::write(&self.editor, &whole, draft).await;
        match &written {
            Ok(_) => self.editor.note_writer(SummaryWriterRecord::record_summary),
            // Only a rejected summary speaks against its writer. A failure to reach the writer does not.
            Err(SummaryFailure { why, .. }) if why.cause == MissingSummaryCause::Rejected => {
                self.editor.note_writer(SummaryWriterRecord::failed)
            }
            Err(_) => {}
        }
        let at = (self.request.proxied.inner.parts.now)();
        let outcome = match written {
            Ok(edit) => {
                let why = match is_ahead {
                    true => format!("{}; it was written ahead", edit.why),
                    false => format!("{}; an extract stood in its place until now", edit.why),
                };
                let before = standing.portable().map(|(_, item)| item);
                whole.commit(edit, None);
                if is_ahead {
                    self.editor.memo.keep_ahead(&whole).await;
                } else {
                    self.editor.memo.keep(&whole, before).await;
                    // A request may hold the state while it waits for this turn. Keeping both would be a deadlock.
                    drop(turn);
                    // Requests did not wait, so an extract may have been committed meanwhile. It would be found first.
                    let newest = permit.0.state.lock().await.log.portable().map(|(_, item)| item);
                    if let Some(newest) = newest.filter(|newest| Some(*newest) > before) {
                        self.editor.memo.keep_later(&whole, &permit.0, newest).await;
                    }
                }
                Ok(why)
            }
            Err(SummaryFailure { why, .. }) => {
                standing.pending().for_each(|stopgap| *stopgap = stopgap.failed(why.cause, at));
                self.editor.memo.keep(&standing, None).await;
                Err(why.cause)
            }
        };
        *permit.0.trial() = BackgroundSummary::Over(FinishedSummary {
            totals: Arc::clone(&self.editor.totals),
            outcome,
            at,
            is_ahead,
        });
    }
}
