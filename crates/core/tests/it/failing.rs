//! A summariser that fails again and again is left alone for a while, and never waited for twice over the same.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{CompactionOutcome, PreCompactOutput, RunEffect, RunLoopInput, RunSettings};
use longhaul_core::strategy;

use crate::stage::{BAD, HookAnswer, Stage, Summariser, settings};

/// Strategies that have a model write.
const WRITING: [&str; 4] = ["reactive-overflow", "proactive-threshold", "summarization", "pruning-agent"];

fn with(name: &str) -> RunSettings {
    settings(8_000, 400, CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name")))
}

fn chat(settings: RunSettings, summariser: Summariser) -> Stage {
    let mut stage = Stage::chat(settings, |at| format!("answer {at}{}", " word".repeat(500)));
    stage.summariser = summariser;
    stage
}

fn talk(stage: &mut Stage, turns: usize) {
    for turn in 0..turns {
        assert_eq!(stage.say(&format!("question {turn}{}", " why".repeat(200))), RunEnd::Stop);
    }
}

fn talk_until(stage: &mut Stage, done: impl Fn(&Stage) -> bool) {
    for _ in 0..300 {
        if done(stage) {
            return;
        }
        talk(stage, 1);
    }
    panic!("it never comes to that");
}

fn failures(stage: &Stage) -> Vec<String> {
    let failed = stage.log.iter().filter_map(|event| match &event.body {
        EventBody::CompactionFailed { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    failed.collect()
}

#[test]
fn a_summariser_that_always_fails_is_asked_seldom() {
    for name in WRITING {
        for how in BAD.into_iter().filter(|how| *how != Summariser::Rubbish) {
            let mut stage = chat(with(name), how);
            talk(&mut stage, 120);
            let (asked, edits) = (failures(&stage).len(), stage.edits().len());
            assert!(edits >= 16, "{name} {how:?}: {edits} edits are too few to tell");
            assert!((3..=7).contains(&asked), "{name} {how:?}: asked {asked} times for {edits} edits");
            assert!(failures(&stage)[2].ends_with("3 times in a row, and the next compactions do without"));
            assert!(!failures(&stage)[1].contains("in a row"), "{name}: {}", failures(&stage)[1]);
            assert_eq!(stage.refold().summaries_rest(), stage.run.history().summaries_rest());
        }
    }
}

#[test]
fn one_that_is_well_again_is_asked_as_before() {
    for name in WRITING.into_iter().filter(|name| *name != "pruning-agent") {
        let mut stage = chat(with(name), Summariser::Fails);
        talk_until(&mut stage, |stage| failures(stage).len() == 3);
        stage.summariser = Summariser::Good;
        let (asked, edits) = (stage.summaries, stage.edits().len());
        talk_until(&mut stage, |stage| stage.summaries > asked);
        assert_eq!(stage.edits().len() - edits, 8, "{name}: seven did without");
        assert!(!stage.run.history().summaries_rest(), "{name}");
        assert!(stage.edits().last().is_some_and(|edit| edit.usage.is_some()), "{name}: a model wrote it");
        // Now a failure is the first again.
        stage.summariser = Summariser::Fails;
        talk_until(&mut stage, |stage| failures(stage).len() == 4);
        assert!(!stage.run.history().summaries_rest(), "{name}");
    }
}

#[test]
fn who_asks_for_a_compaction_gets_a_try() {
    let mut stage = chat(with("reactive-overflow"), Summariser::Fails);
    talk_until(&mut stage, |stage| failures(stage).len() == 3);
    talk(&mut stage, 3);
    stage.summariser = Summariser::Good;
    let asked = stage.summaries;
    stage.input(RunLoopInput::Compact { instructions: None });
    assert_eq!(stage.summaries, asked + 1);
    assert!(!stage.run.history().summaries_rest());
}

/// Nobody waits for a summary that is written ahead. That it failed is stored with what came instead, and counts.
#[test]
fn what_fails_ahead_is_told_and_counts() {
    for how in [Summariser::Nothing, Summariser::Calls, Summariser::Fails] {
        let mut stage = Stage::chat(with("adaptive"), |at| format!("answer {at}{}", " word".repeat(200)));
        stage.summariser = how;
        for turn in 0..500 {
            assert_eq!(stage.say(&format!("question {turn}")), RunEnd::Stop);
        }
        let (told, edits) = (failures(&stage), stage.edits().len());
        assert!(edits >= 16, "{how:?}: {edits} edits are too few to tell");
        assert!((3..=7).contains(&told.len()), "{how:?}: {told:?}");
        assert!(stage.summaries <= 2 * (told.len() + 1), "{how:?}: asked {} times", stage.summaries);
        assert!(stage.edits().iter().all(|edit| edit.usage.is_none()), "{how:?}: no model wrote any");
    }
}

/// What a hook says and cannot be used costs nobody a summary.
#[test]
fn a_hook_that_errs_leaves_the_summary_to_the_model() {
    let answer = |summary: Option<String>, instructions: Option<String>| PreCompactOutput {
        custom_summary: summary,
        custom_instructions: instructions,
        ..PreCompactOutput::default()
    };
    for says in [
        answer(Some(" [SUMMARY] ".to_owned()), None),
        answer(Some("far too long ".repeat(40_000)), None),
        answer(None, Some("far too much to mind ".repeat(40_000))),
    ] {
        let mut settings = with("reactive-overflow");
        settings.pre_compact_ms = Some(1_000);
        let mut stage = chat(settings, Summariser::Good);
        stage.hook = Some(HookAnswer::Says(says));
        talk_until(&mut stage, |stage| !stage.edits().is_empty());
        let why = stage.edits()[0].why.clone();
        assert!(stage.summaries == 1 && why.contains("a summary by the model"), "{why}");
        assert!(why.contains("not used: "), "{why}");
        assert!(failures(&stage).is_empty());
    }
}

#[test]
fn instructions_that_leave_no_room_are_refused() {
    let mut stage = chat(with("reactive-overflow"), Summariser::Good);
    talk(&mut stage, 4);
    let instructions = Some("mind the paths ".repeat(1_000));
    let effects = stage.run.handle(RunLoopInput::Compact { instructions });
    let [RunEffect::CompactionDone(CompactionOutcome::Refused(why))] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert!(
        why.starts_with("the instructions have about ") && why.ends_with("the most for this window"),
        "{why}"
    );
    assert!(stage.run.is_idle());
    stage.input(RunLoopInput::Compact { instructions: Some("mind the paths".to_owned()) });
    assert_eq!(stage.edits().len(), 1);
    assert_eq!(stage.error().map(|(code, _)| code), None::<ErrorCode>);
}
