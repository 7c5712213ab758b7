//! What is done beside the requests: a summary is tried again that an extract stands for, once the request that found it due
//! is over.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::plan::{Occasion, Plan, SummaryDraft};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::conversation::{Conversation, State, chain};
use super::log::Log;
use super::remembered::MAX_KEYS;
use super::stopgap::{self, Cause};
use super::summary::Failed;
use super::totals::Totals;
use super::{Route, omitted, summary};
use crate::wire::Fault;

/// Tasks at the same time, at most.
const MOST_TASKS: usize = 64;

/// The gateway's own tasks; they end with it.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Returns whether it was begun: not if there are too many.
    fn begin(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let has_room = tasks.len() < MOST_TASKS;
        if has_room {
            tasks.spawn(task);
        }
        has_room
    }

    /// Waits until there are none.
    pub(crate) async fn settle(&self) {
        let next = || {
            poll_fn(|context| self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_join_next(context))
        };
        while next().await.is_some() {}
    }

    /// Ends them.
    pub(crate) async fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        self.settle().await;
    }
}

/// How far a summary of a conversation is that is written beside its requests.
#[derive(Default)]
pub(super) enum Trial {
    #[default]
    None,
    Running,
    Over(Tried),
}

/// What became of it.
pub(super) struct Tried {
    /// What it has cost, which no request was told yet.
    totals: Arc<Totals>,
    /// Why it was made, or what was in its way.
    pub(super) outcome: Result<String, Cause>,
    /// When it was over, in seconds since 1970.
    pub(super) at: u64,
}

/// The right to write it, which ends however its task does.
struct Permit(Arc<Conversation>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut trial = self.0.trial();
        if matches!(*trial, Trial::Running) {
            *trial = Trial::None;
        }
    }
}

impl Permit {
    /// `None` if somebody has it.
    fn of(conversation: &Arc<Conversation>) -> Option<Self> {
        let mut trial = conversation.trial();
        let is_free = matches!(*trial, Trial::None);
        is_free.then(|| {
            *trial = Trial::Running;
            Self(Arc::clone(conversation))
        })
    }
}

impl Route {
    /// What became of a summary that was tried beside earlier requests. This request is told what it has cost.
    pub(super) fn take_tried(&self, state: &mut State) -> Option<Tried> {
        let mut trial = self.conversation.as_ref()?.trial();
        let Trial::Over(tried) = &mut *trial else { return None };
        self.totals.absorb(&tried.totals);
        if let Err(cause) = tried.outcome {
            state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, tried.at));
        }
        match std::mem::take(&mut *trial) {
            Trial::Over(tried) => Some(tried),
            Trial::None | Trial::Running => None,
        }
    }

    /// Takes the summary that an extract stands for where somebody has it; else has it tried as soon as this request is over.
    /// The view fits as it is: nobody waits. `tried`: what was tried beside earlier requests.
    ///
    /// # Errors
    /// [`Fault`] if the items cannot be read.
    pub(super) async fn try_beside(
        &self,
        state: &mut State,
        fixed: u64,
        tried: Option<&Tried>,
    ) -> Result<(), Fault> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let Some(permit) = Permit::of(conversation) else { return Ok(()) };
        self.remember(state, fixed).await?;
        if !self.is_due(&state.log, &Occasion::Routine) {
            return Ok(());
        }
        if tried.is_some_and(|tried| tried.outcome.is_ok()) {
            // It was written and is of no use.
            self.put_off(state, Cause::Rejected).await;
            return Ok(());
        }
        match self.work(|| self.without_stopgaps(&state.log, fixed)).await {
            Some((whole, draft)) => self.begin_trial(permit, state.log.clone(), whole, draft),
            None => self.put_off(state, Cause::Away).await,
        }
        Ok(())
    }

    /// The log as it was before extracts stood for summaries, and what is to be written; `None` if there is nothing to be
    /// summarised any more.
    pub(super) fn without_stopgaps(&self, log: &Log, fixed: u64) -> Option<(Log, SummaryDraft)> {
        let whole = log.without_stopgaps()?;
        match self.plan(&whole.history, fixed, &Occasion::Routine) {
            Plan::Summarise(draft) => Some((whole, *draft)),
            _ => None,
        }
    }

    fn begin_trial(&self, permit: Permit, standing: Log, whole: Log, draft: SummaryDraft) {
        // Most local servers have room for one request: that of the client goes first. It is over when its route is gone.
        let (over, is_over) = oneshot::channel();
        if self.over.set(over).is_err() {
            return;
        }
        let route = self.beside();
        self.passage.inner.tasks.begin(async move {
            // Nobody sends anything.
            let _gone = is_over.await;
            route.trial(permit, standing, whole, draft).await;
        });
    }

    /// The same route for what has its own bill.
    fn beside(&self) -> Self {
        Self {
            passage: Arc::clone(&self.passage),
            target: Arc::clone(&self.target),
            limits: self.limits,
            window: self.window,
            policy: self.policy.clone(),
            conversation: self.conversation.clone(),
            totals: Arc::default(),
            most_output: None,
            omissions: omitted::Omissions::default(),
            no_tool: std::sync::OnceLock::new(),
            over: std::sync::OnceLock::new(),
        }
    }

    /// Has the summary written, and the memo know it: a later request finds it there.
    async fn trial(&self, permit: Permit, mut standing: Log, mut whole: Log, draft: SummaryDraft) {
        let turn = self.turn().await;
        if self.is_settled_elsewhere().await {
            return;
        }
        let written = summary::write(self, &whole, draft).await;
        let at = (self.passage.inner.parts.now)();
        let outcome = match written {
            Ok(edit) => {
                let why = format!("{}; an extract stood in its place until now", edit.why);
                let before = standing.portable().map(|(_, item)| item);
                whole.commit(edit, None);
                self.keep(&whole, before).await;
                Ok(why)
            }
            Err(Failed { why, .. }) => {
                standing.pending().for_each(|stopgap| *stopgap = stopgap.failed(why.cause, at));
                self.keep(&standing, None).await;
                Err(why.cause)
            }
        };
        drop(turn);
        *permit.0.trial() = Trial::Over(Tried { totals: Arc::clone(&self.totals), outcome, at });
    }

    /// Returns whether somebody else has got the summary, or has just tried in vain.
    async fn is_settled_elsewhere(&self) -> bool {
        let chain = self.work(|| chain(&self.names(usize::MAX))).await;
        let keys: Vec<_> = chain.iter().rev().take(MAX_KEYS).map(|name| self.memo_key(name)).collect();
        let now = (self.passage.inner.parts.now)();
        let found = self.passage.inner.parts.memo.find(&keys).await.ok().flatten();
        found.is_some_and(|found| {
            let edits = stopgap::from_memo(found.edits);
            !edits.iter().any(|(_, stopgap)| stopgap.is_some_and(|stopgap| stopgap.is_due(now)))
        })
    }
}
