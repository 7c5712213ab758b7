//! The effect that asks a hook about a compaction.

use longhaul_core::run::{PreCompactInput, PreCompactOutput, RunLoopInput};

use super::SessionDriver;
use crate::async_strategy::{ReplacementRequest, with_replacement};
use crate::hooks::PreCompactRequest;

impl SessionDriver {
    pub(super) fn ask_pre_compact(&mut self, task: u64, ask: PreCompactInput) {
        let hooks = self.agent.hooks.clone();
        let inbox = self.shared.inbox.clone();
        let writer = hooks.async_strategy(&ask.strategy).and_then(|strategy| {
            let request = ReplacementRequest::new(&self.shared.session_id, &ask, self.run.history())?;
            Some((strategy, request))
        });
        let ask = PreCompactRequest::new(self.shared.session_id.clone(), ask);
        self.tasks.spawn(async move {
            let answer = hooks.pre_compact(ask).await.map(PreCompactOutput::from);
            let answer = match writer {
                Some((strategy, request)) => with_replacement(&*strategy, request, answer).await,
                None => answer,
            };
            let _ = inbox.send(RunLoopInput::PreCompactAnswered { task, answer }.into());
        });
    }
}
