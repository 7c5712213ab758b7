//! The transaction of an answer together with the following events.
//!
//! Each transaction is flushed to the disk and writes every touched page as a whole. The events after an answer (the
//! end of the run, the start of a tool) are known as soon as the queue has been read, so the answer waits for them. The
//! loop continues from the answer as if the answer were stored. Nothing is announced, shown or done before the write.

use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::ids::Seq;
use longhaul_core::run::{AppendId, RunEffect, RunLoopInput};
use longhaul_store::{LogAppend, StoreError};

use super::{SessionDriver, is_choice};
use crate::api_events::ApiEvent;

/// An event known to the loop, with the announcements to watchers.
pub(super) struct FoldedEvent {
    pub(super) event: Event,
    pub(super) announcements: Vec<ApiEvent>,
}

/// An append known to the loop and not yet to the store.
pub(super) struct DeferredAppend {
    append: LogAppend,
    folded: Vec<FoldedEvent>,
}

/// Returns whether an effect may come before a deferred append is written, because nothing outside the session changes.
pub(super) fn may_precede(effect: &RunEffect) -> bool {
    matches!(effect, RunEffect::Append { .. } | RunEffect::ReadQueue | RunEffect::StopTimer { .. })
}

/// Returns whether an append is an answer, and nothing else.
fn is_answer(append: &LogAppend) -> bool {
    // An append that takes queued messages can meet a conflict, so its success cannot be assumed in advance.
    append.takes.is_empty() && !append.events.is_empty() && append.events.iter().all(is_answer_event)
}

fn is_answer_event(event: &EventBody) -> bool {
    matches!(event, EventBody::AssistantAdded { .. } | EventBody::StepFinished { .. })
}

impl SessionDriver {
    pub(super) async fn append(&mut self, id: AppendId, append: LogAppend) -> Result<(), StoreError> {
        // Only the store knows whether queued messages can be taken, and the answer must not fail with them.
        if !append.takes.is_empty() {
            self.write_deferred().await?;
        }
        match self.deferred.take() {
            None if is_answer(&append) => {
                self.defer(id, append);
                Ok(())
            }
            None => self.write(id, append).await,
            Some(deferred) => self.write_both(deferred, id, append).await,
        }
    }

    /// Writes the deferred append, if there is one, and announces the events.
    pub(super) async fn write_deferred(&mut self) -> Result<(), StoreError> {
        if let Some(DeferredAppend { append, folded }) = self.deferred.take() {
            self.context.shared.store.append(&self.context.lease, append).await?;
            self.context.release_stored_run();
            self.publish_folded_events(folded);
        }
        Ok(())
    }

    /// Folds an answer with the numbers of the later write.
    fn defer(&mut self, id: AppendId, append: LogAppend) {
        // The lease makes this driver the only writer of the log, so the next positions are known before the write.
        let first: Seq = self.context.run.history().last_seq() + 1;
        let events = (first..).zip(&append.events);
        let events =
            events.map(|(seq, body)| Event { seq, at: append.at, format: FORMAT, body: body.clone() });
        self.context.hold_stored_run();
        let folded = self.fold(id, events.collect());
        self.deferred = Some(DeferredAppend { append, folded });
    }

    async fn write(&mut self, id: AppendId, append: LogAppend) -> Result<(), StoreError> {
        match self.context.shared.store.append(&self.context.lease, append).await {
            Ok(events) => {
                let choices = events.iter().filter(|event| is_choice(&event.body)).count();
                self.committed(id, events);
                self.activate_switched_agent(choices).await?;
            }
            // A queued message was edited or removed after the loop had read the queue. The loop reads it again.
            Err(StoreError::Conflict(reason)) => {
                tracing::debug!(reason, "the queue changed since it was read; it is read again");
                self.step_run(RunLoopInput::QueueChanged { id });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes a deferred append with the following append: both or none.
    async fn write_both(
        &mut self,
        deferred: DeferredAppend,
        id: AppendId,
        next: LogAppend,
    ) -> Result<(), StoreError> {
        let DeferredAppend { append: mut both, folded } = deferred;
        let answer_events = both.events.len();
        both.events.extend(next.events);
        both.settles.extend(next.settles);
        // Neither part takes queued messages, so the store has no conflict to report.
        let mut events = self.context.shared.store.append(&self.context.lease, both).await?;
        // The loop has folded the answer's events already, so only the events behind them are committed.
        self.context.release_stored_run();
        let next_events = events.split_off(answer_events.min(events.len()));
        // Watchers get announcements in the order of the log: the answer before the events that follow from it.
        self.publish_folded_events(folded);
        let choices = next_events.iter().filter(|event| is_choice(&event.body)).count();
        self.committed(id, next_events);
        self.activate_switched_agent(choices).await
    }
}
