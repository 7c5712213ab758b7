//! The callers in wait for the end of a run.

use longhaul_core::history::LogEntryKind;
use longhaul_core::ids::Seq;
use longhaul_core::run::Run;
use tokio::sync::oneshot;

use crate::session::{CancelPoint, RunOutcome};

/// A cancel whose sender waits until the current run has ended.
pub(super) struct PendingCancel {
    pub(super) met: CancelPoint,
    /// The newest position of the log when the cancel arrived.
    pub(super) since: Seq,
    pub(super) reply: oneshot::Sender<CancelPoint>,
}

impl PendingCancel {
    /// Returns the work stopped by the cancel, after the end of the run. The model may have been called without an
    /// answer yet.
    fn final_point(&self, run: &Run) -> CancelPoint {
        let has_answer = run
            .history()
            .entries()
            .iter()
            .rev()
            .take_while(|entry| entry.seq > self.since)
            .any(|entry| matches!(entry.kind, LogEntryKind::Assistant(_)));
        match self.met {
            CancelPoint::PartialAssistant if !has_answer => CancelPoint::BetweenCalls,
            met => met,
        }
    }
}

/// The callers in wait for the end of a run, and the outcome of the last run.
#[derive(Default)]
pub(super) struct RunWaiters {
    pub(super) waiting: Vec<oneshot::Sender<RunOutcome>>,
    /// The cancels in wait for the end of the current run.
    pub(super) cancels: Vec<PendingCancel>,
    /// True if a run has ended since the last answer.
    pub(super) has_ended: bool,
    pub(super) last_end: RunOutcome,
}

impl RunWaiters {
    /// Answers the callers whose run has ended.
    ///
    /// A queued message may begin the next run within the same input. The status then never shows a rest, and a cancel
    /// would wait for the next run, too.
    pub(super) fn answer(&mut self, run: &Run) {
        if std::mem::take(&mut self.has_ended) || run.is_idle() {
            for cancel in self.cancels.drain(..) {
                let point = cancel.final_point(run);
                // The caller may have stopped waiting. The cancel has worked all the same.
                let _ = cancel.reply.send(point);
            }
        }
        if run.is_idle() {
            for reply in self.waiting.drain(..) {
                let _ = reply.send(self.last_end.clone());
            }
        }
    }
}
