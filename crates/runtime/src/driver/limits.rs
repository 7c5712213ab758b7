//! What the server says of its model, asked again as runs begin: a server may have been started anew with another
//! window.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::run::Input;
use longhaul_providers::Limits;
use tokio::time::Instant;

use super::{Driver, Message};
use crate::agent::Agent;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(5);

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(3);

impl Driver {
    /// Asks, as a run begins and beside it: no call waits for the answer, the one after it knows.
    pub(super) fn look_at_server(&mut self, input: &Input) {
        let begins = matches!(input, Input::Wake | Input::Resume) && self.run.is_idle();
        if begins {
            self.take_learned();
        }
        if !begins || self.asked_at.is_some_and(|asked| asked.elapsed() < FRESH) {
            return;
        }
        self.asked_at = Some(Instant::now());
        let (provider, inbox) = (Arc::clone(&self.agent.provider), self.shared.inbox.clone());
        self.tasks.spawn(async move {
            if let Ok(limits) = tokio::time::timeout(PATIENCE, provider.limits()).await {
                let _ = inbox.send(Message::Limits(limits));
            }
        });
    }

    /// What was learned of the window since: by another session, or by the gateway in front of the same server.
    fn take_learned(&mut self) {
        let settings = self.usual.as_ref().unwrap_or(self.run.settings());
        if settings.model.remembered_window != self.agent.remembered_window() {
            self.seat(Arc::clone(&self.agent));
        }
    }

    /// A server that says nothing any more takes nothing back.
    pub(super) fn take_limits(&mut self, said: Limits) {
        let limits = said.or(self.agent.limits);
        if limits == self.agent.limits {
            return;
        }
        tracing::info!(?limits, "the model has other limits now");
        self.seat(Arc::new(Agent { limits, ..Agent::clone(&self.agent) }));
    }
}
