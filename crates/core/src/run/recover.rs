//! The recovery after a crash: findings are stored, and a call that may have taken effect is never repeated in silence.

use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::session::SessionState;
use super::{ModelCallFailure, RunEffect, RunRecovery, calling, tools};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, PartialAnswerReason, RunEnd};
use crate::history::closing_result;
use crate::message::{ModelStopReason, Part, ToolStatus};

/// The most recoveries without a completed step before the session waits for a user.
// A completed step resets the count, so a long run may survive any number of restarts.
const MAX_RECOVERIES: u32 = 3;

/// Closes the work that a crash interrupted, and continues the run if the settings say so.
pub(super) fn recover(state: &mut LoopState, partial: Option<String>, out: &mut Vec<RunEffect>) {
    let Some(run) = state.session.history.open_run() else {
        out.push(RunEffect::Rested);
        return;
    };
    let attempts = state.session.history.recoveries() + 1;
    let mut events = vec![EventBody::Recovered { cause: what_was_open(&state.session), attempts }];
    let mut settles = Vec::new();
    if let Some(start) = run.calling.clone() {
        let step = start.step_id;
        if let Some(text) = partial.filter(|text| !text.trim().is_empty()) {
            events.push(calling::assistant(
                &state.session,
                &step,
                vec![Part::text(text)],
                ModelStopReason::Other,
                // The persisted text may end anywhere, so people see it and the model does not.
                Some(PartialAnswerReason::Lost),
            ));
        }
        let failure =
            ModelCallFailure::new(ErrorCode::Interrupted, "the process ended during the call", true);
        events.push(super::calling::step_failed(&step, &failure));
        settles.push(step);
    }
    // A session whose step kills the process would otherwise start it again without end.
    let continues = state.session.settings.recovery == RunRecovery::Continue && attempts <= MAX_RECOVERIES;
    events.extend(interrupted_calls(&state.session, continues));
    if !continues {
        events.extend(closing_of_run(&state.session, attempts));
    }
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), settles, AppendContinuation::Recovered, out);
}

/// Continues after the recovery is stored.
pub(super) fn after_recovery(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    if state.session.history.open_run().is_none() {
        out.push(RunEffect::RunEnded(RunEnd::Error));
        return state.idle(out);
    }
    state.start_run_timer(out);
    if !state.session.history.open_calls().is_empty() {
        // A call that was cut off is run then, and its tool says that the arguments are broken.
        return tools::start_tools(state, ModelStopReason::Other, out);
    }
    state.reach_step_boundary(out);
}

/// Returns the interrupted work in words.
fn what_was_open(session: &SessionState) -> String {
    let calling = session.history.open_run().is_some_and(|run| run.calling.is_some());
    let started = session.history.open_calls().iter().filter(|open| open.started).count();
    let waiting = session.history.open_calls().len() - started;
    match (calling, started, waiting) {
        (true, ..) => "the process ended while the model was answering".to_owned(),
        (_, 0, 0) => "the process ended between two steps".to_owned(),
        _ => format!("the process ended with {started} tools running and {waiting} not begun"),
    }
}

/// Returns results for interrupted calls. A call that had begun is never run again. One that had not begun may run
/// if the run continues.
fn interrupted_calls(session: &SessionState, continues: bool) -> Vec<EventBody> {
    let open = session.history.open_calls().iter().filter(|open| open.started || !continues);
    let results = open.map(|open| {
        let text = if open.started {
            "[Interrupted: the process ended while this call ran. Whether it took effect is unknown; check before repeating it.]"
        } else {
            "[Interrupted: the process ended before this call ran. It did not run.]"
        };
        let result = closing_result(&open.call.call_id, ToolStatus::Interrupted, text);
        EventBody::ToolFinished { result }
    });
    results.collect()
}

/// Returns the events that close a run after a crash.
fn closing_of_run(session: &SessionState, attempts: u32) -> Vec<EventBody> {
    let Some(run) = session.history.open_run() else { return Vec::new() };
    let error =
        ErrorInfo { code: ErrorCode::Interrupted, message: "the process ended during the run".to_owned() };
    let finished =
        EventBody::RunFinished { run_id: run.id.clone(), reason: RunEnd::Error, error: Some(error) };
    if session.settings.recovery == RunRecovery::Continue {
        let reason = format!(
            "the process ended {attempts} times without completing a step; send a message or resume to try again"
        );
        return vec![finished, EventBody::Parked { reason }];
    }
    vec![finished]
}
