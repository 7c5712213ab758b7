//! The agent that answers in a session, as the log and the settings name it.

use std::sync::{Arc, PoisonError};

use longhaul_core::ids::SessionId;

use super::SharedSessionState;
use crate::agent::Agent;
use crate::session::SessionError;

/// The answering agent of a session.
#[derive(Clone)]
pub(crate) struct AgentBinding {
    pub(crate) agent: Arc<Agent>,
    /// The reason why the session's own agent is missing: the usual agent then only keeps the session readable.
    pub(crate) missing: Option<String>,
}

impl AgentBinding {
    /// Tells the operator of a missing agent.
    pub(crate) fn warn(&self, session: &SessionId) {
        if let Some(why) = &self.missing {
            tracing::warn!(%session, "{why}: the session can be read, and be given another agent");
        }
    }

    /// Checks that the session's agent can answer.
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
        self.binding.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
