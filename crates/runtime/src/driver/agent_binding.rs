//! The agent that answers in a session, as the log and the settings name it.

use std::sync::{Arc, PoisonError};

use longhaul_core::event::{EventBody, ModelChoice};
use longhaul_core::ids::SessionId;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::RunLoopInput;
use longhaul_store::StoreError;

use super::{SessionDriver, SharedSessionState};
use crate::agent::{Agent, SummaryModel};
use crate::session::{SessionError, SwitchOutcome, folded, whole_log};

/// The agent that answers in a session.
#[derive(Clone)]
pub(crate) struct AgentBinding {
    pub(crate) agent: Arc<Agent>,
    /// The reason why the session's own agent is missing: the usual agent then only keeps the session readable.
    pub(crate) missing: Option<String>,
}

impl AgentBinding {
    /// Tells the operator of an agent that is not there.
    pub(crate) fn warn(&self, session: &SessionId) {
        if let Some(why) = &self.missing {
            tracing::warn!(%session, "{why}: the session can be read, and be given another agent");
        }
    }

    /// Checks that the session has an agent that can answer.
    ///
    /// # Errors
    /// [`SessionError::Conflict`].
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        match &self.missing {
            Some(why) => {
                Err(SessionError::Conflict(format!("{why}: give the session another agent or model")))
            }
            None => Ok(()),
        }
    }
}

impl SharedSessionState {
    pub(crate) fn agent_binding(&self) -> AgentBinding {
        self.seat.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SessionDriver {
    /// Binds an agent: the same one with other limits or settings, or another one.
    pub(super) fn set_agent(&mut self, agent: Arc<Agent>) {
        self.agent = Arc::clone(&agent);
        self.shared.seat.write().unwrap_or_else(PoisonError::into_inner).agent = agent;
        let settings = Arc::new(self.agent.settings());
        match &mut self.usual {
            // A compaction by another strategy is going on: the new settings take effect after it.
            Some(usual) => *usual = settings,
            None => self.run.configure(settings),
        }
    }

    /// Stores the switch as soon as no step is open.
    pub(super) async fn switch(
        &mut self,
        choice: ModelChoice,
        agent: Arc<Agent>,
    ) -> Result<SwitchOutcome, StoreError> {
        let to = agent.provider.origin();
        let history = self.run.history();
        // With a switch on its way, the choice in the history is not the one that the session is about to have.
        let is_there = self.coming.is_empty() && self.shared.agent_binding().missing.is_none();
        let model = history.model().unwrap_or(&self.run.settings().model.origin);
        if is_there && *history.choice() == choice && *model == to {
            return Ok(SwitchOutcome::Already);
        }
        self.coming.push_back(agent);
        let switched = EventBody::ModelSwitched { to, choice: Some(choice) };
        self.process_input(RunLoopInput::RecordSoon(vec![switched])).await?;
        Ok(if self.coming.is_empty() { SwitchOutcome::Now } else { SwitchOutcome::AtNextStep })
    }

    /// Applies other settings; the prices of the model stay.
    pub(super) fn set_policy(&mut self, policy: CompactionPolicy, summariser: Option<SummaryModel>) {
        let mut agent = Agent::clone(&self.agent);
        agent.rules.policy = CompactionPolicy { prices: agent.rules.policy.prices, ..policy };
        agent.rules.summariser = summariser;
        self.set_agent(Arc::new(agent));
    }

    /// Binds the agent of the newest of so many stored switches.
    pub(super) async fn activate_switched_agent(&mut self, switches: usize) -> Result<(), StoreError> {
        let taken = switches.min(self.coming.len());
        // Several switches may become durable in one append. Only the newest is in force.
        let Some(agent) = self.coming.drain(..taken).next_back() else { return Ok(()) };
        let agent = agent.calibrated().with_deferral_decided();
        self.shared.seat.write().unwrap_or_else(PoisonError::into_inner).missing = None;
        let (history, is_same) = (agent.new_history(), agent.reads_as(self.run.history()));
        // The age of the limits and the doubts belong to the earlier model's server.
        self.asked_at = None;
        self.doubted = false;
        self.doubts = 0;
        self.counts_are_partial = false;
        self.set_agent(agent);
        if is_same {
            return Ok(());
        }
        let log = whole_log(&self.shared.store, &self.shared.session_id).await?;
        match folded(&self.shared.session_id, history, log).await {
            // Another tokenizer counts the same log differently.
            Ok((history, _)) => self.work.extend(self.run.recount(history)),
            Err(error) => tracing::error!(session = %self.shared.session_id, %error, "not counted anew"),
        }
        Ok(())
    }
}
