//! The effect of asking a hook about a compaction.

use longhaul_core::run::{PreCompactInput, PreCompactOutput, RunLoopInput};

use super::context::DriverContext;
use crate::async_strategy::{ReplacementRequest, with_replacement};
use crate::hooks::PreCompactRequest;

/// Asks the hook `preCompact` and the program's own strategy; the answer is the loop's next input.
pub(super) fn ask_pre_compact(context: &mut DriverContext, task: u64, ask: PreCompactInput) {
    let hooks = context.agent.hooks.clone();
    // The request is made before the task starts, because the task cannot borrow the history.
    let writer = hooks.async_strategy(&ask.strategy).and_then(|strategy| {
        let request = ReplacementRequest::new(context.session_id(), &ask, context.run.history())?;
        Some((strategy, request))
    });
    let ask = PreCompactRequest::new(context.session_id().clone(), ask);
    context.spawn_input(async move {
        let answer = hooks.pre_compact(ask).await.map(PreCompactOutput::from);
        let answer = match writer {
            Some((strategy, request)) => with_replacement(&*strategy, request, answer).await,
            None => answer,
        };
        if let Some(answer) = &answer {
            tracing::info!(
                task,
                cancel = answer.cancel,
                has_summary = answer.custom_summary.is_some(),
                has_instructions = answer.custom_instructions.is_some(),
                "a hook decided about a compaction"
            );
        }
        RunLoopInput::PreCompactAnswered { task, answer }
    });
}
