//! An agent's answer in the form of a model's answer: the steps become one text, and the tools are hidden.

use std::pin::pin;

use futures_util::StreamExt;
use longhaul::session::Session;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, Event, EventBody, RunEnd};
use longhaul_core::ids::{RunId, SessionId};
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part, ReasoningPart};
use longhaul_core::usage::Usage;
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};
use longhaul_wire::response_writer::ModelEvent;
use longhaul_wire::server_error::NO_CREDIT_LEFT;
use tokio::sync::mpsc;

use super::conversation_index::{ConversationPrefix, TurnPosition};
use super::report::AgentAnswerReport;
use crate::app::AppState;
use crate::extract::IdempotencyKey;
use crate::problem::ApiProblem;
use crate::routes::gateway::fault_of;
use crate::ui_protocol::{
    FinishedRun, UiAnswerSubscription, UiApprovalDecision, UiApprovalRequest, UiEditState, UiStreamEnd,
    UiStreamEvent, UiTextKind, UiTurnRequest, acts,
};

/// The number of examined events at the end of the log.
const TAIL: usize = 500;

/// The separator between the texts of two steps.
const GAP: &str = "\n\n";

/// The refusal of a tool call in need of an approval.
const NOBODY: &str = "No person can be asked here, so the call was not run.";

/// An event for the client.
pub(super) enum AgentAnswerEvent {
    /// The answer begins. The string names the answered message.
    Begins(String),
    /// A notice for people about the conversation, for a comment in a stream.
    Notice(&'static str),
    /// The view of the conversation was edited; with the edits so far.
    Edited(AgentAnswerReport),
    Event(ModelEvent),
    /// The answer is complete.
    Finished(ModelAnswer, AgentAnswerReport),
    Failed(GatewayError),
}

/// The identity of a turn: everything before it, and the user's message.
pub(super) struct TurnFingerprint {
    pub(super) before: ConversationPrefix,
    pub(super) user: String,
}

/// A task for following an answer to its end, even if the client has left.
pub(super) struct AgentAnswerTask {
    pub(super) app: AppState,
    pub(super) session: Session,
    pub(super) turned: Option<TurnFingerprint>,
    pub(super) told: mpsc::Sender<AgentAnswerEvent>,
}

#[derive(Default)]
struct AnswerAccumulator {
    message: String,
    text: String,
    reasoning: String,
    is_new_step: bool,
    edits: AgentAnswerReport,
    is_compacting: bool,
}

impl AgentAnswerTask {
    pub(super) async fn run_to_end(self, mut turn: UiAnswerSubscription) {
        let mut said = AnswerAccumulator::default();
        let last = loop {
            match self.forward_events(turn, &mut said).await {
                UiStreamEnd::Asks(asked) => match self.deny(asked).await {
                    Ok(next) => turn = next,
                    Err(problem) => break AgentAnswerEvent::Failed(fault_of(&problem)),
                },
                UiStreamEnd::Complete(run) => {
                    break match self.answer(&run, &said).await {
                        Ok((answer, report)) => AgentAnswerEvent::Finished(answer, report),
                        Err(problem) => AgentAnswerEvent::Failed(fault_of(&problem)),
                    };
                }
                UiStreamEnd::Failed { code, message } => {
                    break AgentAnswerEvent::Failed(failed(code, message));
                }
                UiStreamEnd::Waits { message } => {
                    break AgentAnswerEvent::Failed(fault_of(&ApiProblem::conflict(message)));
                }
            }
        };
        self.send(last).await;
    }

    /// Follows one stretch of the answer, up to its end or to a request for approval.
    async fn forward_events(&self, turn: UiAnswerSubscription, said: &mut AnswerAccumulator) -> UiStreamEnd {
        let mut heard = pin!(acts(turn));
        while let Some(acts) = heard.next().await {
            for act in acts {
                match act {
                    // A stretch after a denied approval begins again, and must not begin a second answer.
                    UiStreamEvent::Begins { name } if said.message.is_empty() => {
                        let name = name.unwrap_or_default();
                        // The name of an answer is `a-` and the id of its message.
                        said.message = name.strip_prefix("a-").unwrap_or(&name).to_owned();
                        self.send(AgentAnswerEvent::Begins(said.message.clone())).await;
                    }
                    // A step that goes on after a decision continues its text, so it needs no gap.
                    UiStreamEvent::StepBegins { again: false, .. } => said.is_new_step = true,
                    UiStreamEvent::Says { voice, text, .. } => {
                        self.send(AgentAnswerEvent::Event(said.says(voice, text))).await
                    }
                    UiStreamEvent::Edit { kind, state, .. } => {
                        for told in said.edited(kind, state) {
                            self.send(told).await;
                        }
                    }
                    UiStreamEvent::Ends(end) => return end,
                    _ => {}
                }
            }
        }
        UiStreamEnd::Failed { code: ErrorCode::Interrupted, message: "The session has ended.".to_owned() }
    }

    /// Sends an event to the client. A client gets nothing after leaving, and a client that does not read
    /// cannot delay the shutdown.
    async fn send(&self, told: AgentAnswerEvent) {
        tokio::select! {
            // Events go out first as long as the client takes them, even during a shutdown.
            biased;
            // An error means that the client has left. The answer is followed to its end all the same.
            _ = self.told.send(told) => {}
            () = self.app.closing().cancelled() => {}
        }
    }

    async fn deny(&self, asked: Vec<UiApprovalRequest>) -> Result<UiAnswerSubscription, ApiProblem> {
        // Clients of a model API have no way to answer an approval request.
        let denied = asked.into_iter().map(|request| UiApprovalDecision {
            approval: request.approval,
            allowed: false,
            reason: Some(NOBODY.to_owned()),
        });
        let decisions = denied.collect();
        UiAnswerSubscription::take(
            &self.app,
            self.session.id().as_str(),
            None,
            IdempotencyKey(None),
            UiTurnRequest::Decide(decisions),
        )
        .await
    }

    /// Returns the complete answer with its report, and records the turn in the index.
    async fn answer(
        &self,
        run: &FinishedRun,
        said: &AnswerAccumulator,
    ) -> Result<(ModelAnswer, AgentAnswerReport), ApiProblem> {
        let mut events = self.app.runtime().store().tail(self.session.id(), TAIL).await?;
        // A short tail is the whole log.
        if events.len() == TAIL && run_start(&events, &run.run_id).is_none() {
            events = self.app.runtime().log(self.session.id()).await?;
        }
        let start = run_start(&events, &run.run_id).unwrap_or_default();
        let report = AgentAnswerReport::of_run(events.iter().skip(start));
        if let Some(TurnFingerprint { before, user }) = &self.turned {
            let taken = events.iter().rev().find(|event| is_taken(event, &said.message));
            if let Some(taken) = taken {
                let session = self.session.id().as_str().to_owned();
                let prefix = before.after(user, &said.text);
                self.app.conversations().note(prefix, TurnPosition { session, taken: taken.seq });
            }
        }
        let reasoning = (!said.reasoning.is_empty())
            .then(|| Part::Reasoning(ReasoningPart { text: said.reasoning.clone(), native: None }));
        let text = (!said.text.is_empty()).then(|| Part::text(said.text.as_str()));
        // Model APIs have no reasons for a run that was cancelled or reached a limit. `length` says at least that
        // the answer is not whole.
        let finish = if run.end == RunEnd::Stop { ModelStopReason::Stop } else { ModelStopReason::Length };
        let parts = reasoning.into_iter().chain(text).collect();
        let usage = Some(usage(run.usage.as_ref(), &events));
        Ok((ModelAnswer { parts, finish, usage, envelope: None }, report))
    }
}

impl AnswerAccumulator {
    fn says(&mut self, voice: UiTextKind, text: String) -> ModelEvent {
        if voice == UiTextKind::Reasoning {
            self.reasoning.push_str(&text);
            return ModelEvent::Reasoning(text);
        }
        // Without a gap the texts of two steps would run into each other.
        let is_after = std::mem::take(&mut self.is_new_step) && !self.text.is_empty();
        let text = if is_after { format!("{GAP}{text}") } else { text };
        self.text.push_str(&text);
        ModelEvent::Text(text)
    }

    /// Returns the client's events for an edit of the conversation's view. Like the gateway, only a compaction has
    /// notices.
    fn edited(&mut self, kind: EditKind, state: UiEditState) -> Vec<AgentAnswerEvent> {
        let is_compaction = kind == EditKind::Compaction;
        match state {
            UiEditState::Running => {
                self.is_compacting = true;
                vec![AgentAnswerEvent::Notice(COMPACTING)]
            }
            UiEditState::Done { original_tokens, compressed_tokens } => {
                self.edits.add_edit(kind, original_tokens, compressed_tokens);
                let mut told = vec![AgentAnswerEvent::Edited(self.edits)];
                if is_compaction {
                    // A compaction that was ready, such as a summary written ahead, is not announced.
                    let is_announced = std::mem::take(&mut self.is_compacting);
                    told.extend((!is_announced).then_some(AgentAnswerEvent::Notice(COMPACTING)));
                    told.push(AgentAnswerEvent::Notice(CONTINUING));
                }
                told
            }
            UiEditState::Failed | UiEditState::Cancelled => {
                self.is_compacting = false;
                Vec::new()
            }
        }
    }
}

/// Returns the index of the event with which a run begins; `None` if `events` begin later.
fn run_start(events: &[Event], run: &RunId) -> Option<usize> {
    events.iter().rposition(|event| matches!(&event.body, EventBody::RunStarted { run_id } if run_id == run))
}

fn is_taken(event: &Event, message: &str) -> bool {
    match &event.body {
        EventBody::MessagesTaken { taken, .. } => taken.iter().any(|id| id.as_str() == message),
        _ => false,
    }
}

/// Returns the usage by the clients' measure: the input of the last model call, and the output of all calls.
fn usage(of_run: Option<&Usage>, events: &[Event]) -> Usage {
    let newest = events.iter().rev().find_map(|event| match &event.body {
        EventBody::StepFinished { usage: Some(usage), .. } => Some(usage),
        _ => None,
    });
    let of_run = of_run.cloned().unwrap_or_default();
    Usage {
        // Clients take the input for the size of the context. The sum over all steps would exceed the window.
        input_tokens: newest.map_or(of_run.input_tokens, |usage| usage.input_tokens),
        cache_read_tokens: newest.map_or(0, |usage| usage.cache_read_tokens),
        cache_write_tokens: newest.map_or(0, |usage| usage.cache_write_tokens),
        output_tokens: of_run.output_tokens,
        reasoning_tokens: of_run.reasoning_tokens,
        raw: None,
    }
}

/// Returns the error of a failed run for the client.
fn failed(code: ErrorCode, message: String) -> GatewayError {
    let kind = match code {
        ErrorCode::RateLimitExceeded => GatewayErrorKind::RateLimit,
        ErrorCode::Timeout => GatewayErrorKind::Timeout,
        ErrorCode::ContextOverflow => GatewayErrorKind::ContextOverflow,
        // The code alone does not tell a payment that is due from a wrong key.
        ErrorCode::Auth if message.starts_with(NO_CREDIT_LEFT) => GatewayErrorKind::Billing,
        ErrorCode::Auth => GatewayErrorKind::Auth,
        ErrorCode::InvalidRequest | ErrorCode::Refused => GatewayErrorKind::Invalid,
        ErrorCode::Network => GatewayErrorKind::Unreachable,
        ErrorCode::NotFound => GatewayErrorKind::NotFound,
        ErrorCode::Interrupted | ErrorCode::Storage => GatewayErrorKind::Internal,
        _ => GatewayErrorKind::Upstream,
    };
    GatewayError::new(kind, message)
}

/// Returns the position of the intake of a session's newest message.
///
/// # Errors
/// The store's.
pub(super) async fn newest_taken(app: &AppState, id: &SessionId) -> Result<Option<u64>, ApiProblem> {
    // Most sessions are found in a short tail, so a long log need not be read.
    let tail = app.runtime().store().tail(id, TAIL).await?;
    match newest_taken_of(&tail) {
        Some(seq) => Ok(Some(seq)),
        // A short tail is the whole log.
        None if tail.len() < TAIL => Ok(None),
        None => Ok(newest_taken_of(&app.runtime().log(id).await?)),
    }
}

fn newest_taken_of(events: &[Event]) -> Option<u64> {
    let mut newest_first = events.iter().rev();
    newest_first.find(|event| matches!(event.body, EventBody::MessagesTaken { .. })).map(|event| event.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: UiEditState = UiEditState::Done { original_tokens: 90, compressed_tokens: 40 };

    fn notices(told: &[AgentAnswerEvent]) -> Vec<&'static str> {
        let notice = |event: &AgentAnswerEvent| match event {
            AgentAnswerEvent::Notice(notice) => Some(*notice),
            _ => None,
        };
        told.iter().filter_map(notice).collect()
    }

    #[test]
    fn a_compaction_is_told_and_a_prune_is_not() {
        let mut said = AnswerAccumulator::default();
        assert_eq!(notices(&said.edited(EditKind::Compaction, UiEditState::Running)), [COMPACTING]);
        assert_eq!(notices(&said.edited(EditKind::Compaction, DONE)), [CONTINUING]);
        let ready = notices(&said.edited(EditKind::Compaction, DONE));
        assert_eq!(ready, [COMPACTING, CONTINUING], "it was ready");
        assert_eq!(notices(&said.edited(EditKind::Prune, DONE)), [""; 0]);
        said.edited(EditKind::Compaction, UiEditState::Running);
        assert_eq!(notices(&said.edited(EditKind::Compaction, UiEditState::Failed)), [""; 0]);
        assert_eq!(notices(&said.edited(EditKind::Compaction, DONE)), [COMPACTING, CONTINUING]);
    }
}
