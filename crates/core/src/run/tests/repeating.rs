//! Answers that repeat one passage without end.

use super::*;
use crate::event::{NoteReason, PartialAnswerReason, RunEnd};
use crate::repetition::Repetition;

fn repeat(stage: &mut Stage) -> Vec<RunEffect> {
    stage.feed(RunLoopInput::ModelRepeated {
        repetition: Repetition { passage_bytes: 12, times: 341 },
        partial: vec![Part::text("and so forth ".repeat(341))],
        usage: None,
    })
}

fn calls_model(effects: &[RunEffect]) -> bool {
    effects.iter().any(|effect| matches!(effect, RunEffect::CallModel { .. }))
}

#[test]
fn the_model_is_warned_once_and_then_the_run_ends() {
    let mut stage = Stage::new(|_| {});
    assert!(calls_model(&stage.send("go")));
    assert!(calls_model(&repeat(&mut stage)), "the next step follows the warning");
    let view = stage.run.history().view();
    let shown: Vec<String> = view.iter().map(|item| item.message.text()).collect();
    assert!(
        shown.last().is_some_and(|note| note.contains("repeated the same passage 341 times")),
        "{shown:?}"
    );
    assert!(!shown.iter().any(|text| text.contains("and so forth and so forth")), "{shown:?}");
    assert!(stage.log.iter().any(|event| matches!(
        &event.body,
        EventBody::AssistantAdded { message, cut: Some(PartialAnswerReason::Lost), .. }
            if message.text().starts_with("and so forth")
    )));
    let effects = repeat(&mut stage);
    assert!(effects.contains(&RunEffect::RunEnded(RunEnd::LoopDetected)), "{effects:?}");
    let notes = stage
        .log
        .iter()
        .filter(|event| matches!(event.body, EventBody::NoteAdded { why: NoteReason::Loop, .. }));
    assert_eq!(notes.count(), 1);
}

#[test]
fn a_run_that_is_being_cancelled_ends_as_cancelled() {
    let mut stage = Stage::new(|_| {});
    stage.send("go");
    stage.feed(RunLoopInput::Cancel);
    assert!(repeat(&mut stage).contains(&RunEffect::RunEnded(RunEnd::Cancelled)));
}

#[test]
fn the_next_run_is_warned_anew() {
    let mut stage = Stage::new(|_| {});
    stage.send("go");
    repeat(&mut stage);
    stage.answer(vec![Part::text("done")]);
    stage.send("and on");
    assert!(calls_model(&repeat(&mut stage)));
}
