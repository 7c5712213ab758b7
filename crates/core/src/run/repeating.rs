//! Answers that repeat one passage without end.

use super::loop_state::{AppendContinuation, LoopState, RunPhase, StepGuards};
use super::{RunEffect, calling};
use crate::event::{EventBody, NoteReason, RunEnd};
use crate::message::{Message, Part};
use crate::repetition::Repetition;
use crate::usage::Usage;

/// Handles an answer that was stopped because of its repetition. The model is warned once per run, and the next such
/// answer ends the run.
pub(super) fn repeated(
    state: &mut LoopState,
    repetition: Repetition,
    partial: Vec<Part>,
    usage: Option<Usage>,
    out: &mut Vec<RunEffect>,
) {
    let RunPhase::Calling { step, .. } = &state.phase else { return };
    let step = step.clone();
    if state.stop.is_some() {
        return calling::stopped(state, partial, usage, out);
    }
    // A model that reads the repetition repeats it again, so only people see the answer.
    let mut events = calling::lost(&state.session, &step, partial);
    events.push(EventBody::StepFinished {
        step_id: step.clone(),
        usage,
        estimated_input: state.session.estimated_input(),
        envelope: None,
    });
    let is_warned = state.session.history.open_run().is_some_and(|run| run.warned_of_loop);
    let then = if is_warned {
        AppendContinuation::Finish { end: RunEnd::LoopDetected, error: None }
    } else {
        let text = format!(
            "[Your last answer repeated the same passage {} times and was stopped. Take the next step of the task \
             now, or answer in a few words.]",
            repetition.times
        );
        let message = Message::user(format!("m{}", state.session.next_seq()), vec![Part::text(text)]);
        events.push(EventBody::NoteAdded { message, why: NoteReason::Loop });
        AppendContinuation::Boundary
    };
    state.step = StepGuards::default();
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step], then, out);
}
