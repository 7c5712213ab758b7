//! Overflows and compactions.

use super::*;

const SUMMARY: &str = "Goal: go on with the turns, reading what each of them asks for";

fn overflow(used: Option<u64>) -> ModelCallFailure {
    ModelCallFailure {
        used_tokens: used,
        limit_tokens: used.map(|_| 6_000),
        ..ModelCallFailure::new(ErrorCode::ContextOverflow, "too long", false)
    }
}

fn prune_nothing(settings: &mut RunSettings) {
    settings.policy.prune.protected_tools = vec!["read".to_owned()];
}

/// A session of `turns` turns with an output of about 500 tokens each.
fn long(stage: &mut Stage, turns: usize) {
    for turn in 0..turns {
        stage.send(&format!("turn {turn}"));
        let effects = stage.answer(vec![call("read")]);
        stage.end_tool(&running(&effects)[0], &format!("{turn} ").repeat(250));
        stage.answer(vec![Part::text("so it is")]);
        assert!(stage.run.is_idle());
    }
}

fn summary(effects: &[RunEffect]) -> bool {
    summary_task(effects).is_some()
}

fn summary_task(effects: &[RunEffect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        RunEffect::Summarise { task, .. } => Some(*task),
        _ => None,
    })
}

fn text_answer(text: &str) -> ModelAnswer {
    ModelAnswer { parts: vec![Part::text(text)], finish: ModelStopReason::Stop, usage: None, envelope: None }
}

/// The summariser's answer to its newest request.
fn summarised(stage: &Stage, answer: Result<ModelAnswer, ModelCallFailure>) -> RunLoopInput {
    let task = match (&stage.run.state.phase, &stage.run.compactor.background.candidate) {
        (RunPhase::Summarising { task, .. }, _) => *task,
        (_, Some(candidate)) => candidate.task,
        other => panic!("nobody is asked: {other:?}"),
    };
    RunLoopInput::Summarised { task, answer }
}

impl Stage {
    fn summarise(&mut self, text: &str) -> Vec<RunEffect> {
        let input = summarised(self, Ok(text_answer(text)));
        self.feed(input)
    }
}

#[test]
fn an_overflow_is_edited_away_until_nothing_is_left_to_go() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 6);
    stage.send("and now");
    let effects = stage.fail(overflow(None));
    assert!(summary(&effects), "{effects:?}");
    assert_eq!(stage.run.status(), RunStatus::Compacting);
    assert!(calls_model(&stage.summarise(SUMMARY)));
    assert_eq!(stage.run.history().compactions(), 1);
    let mut effects = stage.fail(overflow(Some(7_000)));
    let mut retries = 1;
    while ended(&effects).is_none() {
        effects = if summary(&effects) { stage.summarise(SUMMARY) } else { effects };
        assert!(calls_model(&effects), "{effects:?}");
        retries += 1;
        assert!(retries <= 5, "a server that refuses everything is not asked for ever");
        effects = stage.fail(overflow(None));
    }
    assert_eq!(ended(&effects), Some(RunEnd::Error), "what must stay is refused");
    assert_eq!(stage.run.budget().window, 6_000, "the limit is learned");
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
}

#[test]
fn a_request_for_a_summary_that_is_too_long_is_repeated_once_with_less() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 6);
    stage.send("and now");
    assert!(summary(&stage.fail(overflow(None))));
    let refused = summarised(&stage, Err(overflow(None)));
    let again = stage.feed(refused);
    assert!(summary(&again), "{again:?}");
    assert!(!stage.kinds().contains(&"view-edited".to_owned()), "no extract yet");
    let refused = summarised(&stage, Err(overflow(None)));
    assert!(calls_model(&stage.feed(refused)), "an extract takes its place");
    assert_eq!(stage.run.history().compactions(), 1);
    assert!(stage.kinds().contains(&"compaction-failed".to_owned()), "{:?}", stage.kinds());
}

#[test]
fn an_answer_to_a_cut_request_is_kept_for_people_only() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 5);
    stage.send("q9");
    stage.feed(RunLoopInput::ModelBegan);
    let partial = vec![Part::text("made of half the conversation"), call("read")];
    let effects = stage.feed(RunLoopInput::ModelFailed { failure: overflow(Some(7_500)), partial });
    assert!(summary(&effects), "{effects:?}");
    assert!(calls_model(&stage.summarise(SUMMARY)));
    assert!(stage.kinds().contains(&"view-edited".to_owned()), "{:?}", stage.kinds());
    let lost = stage.log.iter().rev().find_map(|event| match &event.body {
        EventBody::AssistantAdded { message, cut: Some(PartialAnswerReason::Lost), .. } => {
            Some(message.parts.clone())
        }
        _ => None,
    });
    assert_eq!(lost, Some(vec![Part::text("made of half the conversation")]));
    assert!(!stage.run.history().view().iter().any(|item| item.message.text().contains("half")));
}

#[test]
fn an_overflow_without_anything_to_leave_out_is_an_error() {
    let mut stage = Stage::new(|_| ());
    stage.send("alone");
    stage.fail(overflow(Some(7_000)));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
    let mut stage = Stage::new(|settings| settings.policy.enabled = false);
    long(&mut stage, 6);
    stage.send("and now");
    stage.fail(overflow(Some(7_000)));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))), "switched off");
}

#[test]
fn a_wrong_limit_does_not_end_a_session() {
    let mut stage = Stage::new(|settings| {
        settings.model.window = None;
        settings.policy.cuts_user_messages = false;
    });
    let text = "word ".repeat(400);
    stage.send(&text);
    let wrong = ModelCallFailure { limit_tokens: Some(520), ..overflow(None) };
    stage.fail(wrong.clone());
    let said = stage.log.iter().rev().find_map(|event| match &event.body {
        EventBody::RunFinished { error, .. } => error.as_ref().map(|error| error.message.clone()),
        _ => None,
    });
    assert!(said.is_some_and(|said| said.starts_with("the provider refused the request: too long; ")));
    assert_eq!(stage.run.budget().window, 520);
    assert!(calls_model(&stage.send("again")), "each run may ask once");
    stage.fail(wrong);
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
    assert!(calls_model(&stage.send("and again")));
    let usage = Some(Usage { input_tokens: 900, output_tokens: 5, ..Usage::default() });
    let parts = vec![Part::text("yes")];
    stage.feed(RunLoopInput::ModelAnswered(ModelAnswer {
        parts,
        finish: ModelStopReason::Stop,
        usage,
        envelope: None,
    }));
    assert_eq!(stage.run.budget().window, crate::budget::ASSUMED_WINDOW, "that was more than the limit");
}

#[test]
fn a_refused_message_is_cut_and_the_next_is_tried_whole() {
    let mut stage = Stage::new(|settings| settings.model.window = None);
    let text = "word ".repeat(400);
    stage.send(&text);
    let shown = |stage: &Stage| stage.run.history().view().last().map(|item| item.message.text());
    stage.fail(ModelCallFailure { limit_tokens: Some(520), ..overflow(None) });
    assert!(shown(&stage).is_some_and(|shown| shown.contains(crate::truncate::MARKER)));
    let parts = vec![Part::text("what I saw of it")];
    stage.feed(RunLoopInput::ModelAnswered(ModelAnswer {
        parts,
        finish: ModelStopReason::Stop,
        usage: None,
        envelope: None,
    }));
    assert_eq!(stage.end().map(|end| end.0), Some(RunEnd::Stop));
    assert!(calls_model(&stage.send(&text)), "the limit may have been wrong");
    assert_eq!(shown(&stage), Some(text));
}

#[test]
fn a_window_is_remembered_until_a_call_is_larger() {
    let remembered = |window| {
        move |settings: &mut RunSettings| {
            settings.model.window = window;
            settings.model.remembered_window = Some(40_000);
        }
    };
    assert_eq!(Stage::new(remembered(Some(8_000))).run.budget().window, 8_000);
    let mut stage = Stage::new(remembered(None));
    assert_eq!(stage.run.budget().window, 40_000, "more than what is assumed");
    stage.send(&"word ".repeat(20_000));
    let usage = Some(Usage { input_tokens: 41_000, output_tokens: 5, ..Usage::default() });
    let parts = vec![Part::text("yes")];
    stage.feed(RunLoopInput::ModelAnswered(ModelAnswer {
        parts,
        finish: ModelStopReason::Stop,
        usage,
        envelope: None,
    }));
    assert_eq!(stage.run.budget().window, crate::budget::ASSUMED_WINDOW);
}

#[test]
fn an_answer_of_hundreds_of_calls_is_an_error() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let usage = Some(Usage { input_tokens: 60, output_tokens: 900, ..Usage::default() });
    let parts = vec![call("read"); 257];
    stage.feed(RunLoopInput::ModelAnswered(ModelAnswer {
        parts,
        finish: ModelStopReason::ToolCalls,
        usage,
        envelope: None,
    }));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ThirdParty))));
    assert!(stage.run.history().open_calls().is_empty());
    assert_eq!(stage.run.history().cumulative_usage().output_tokens, 900, "it was paid for");
}

#[test]
fn a_bad_summary_is_replaced_by_an_extract() {
    let bad = [
        Ok(text_answer(" ")),
        Ok(ModelAnswer { parts: vec![call("read")], finish: ModelStopReason::ToolCalls, ..text_answer("") }),
        Ok(ModelAnswer { finish: ModelStopReason::Length, ..text_answer("cut") }),
        Ok(text_answer(&"long ".repeat(20_000))),
        Err(ModelCallFailure::new(ErrorCode::Timeout, "never", true)),
    ];
    for answer in bad {
        let mut stage = Stage::new(prune_nothing);
        long(&mut stage, 6);
        stage.send("and now");
        stage.fail(overflow(None));
        let is_answer = answer.is_ok();
        let input = summarised(&stage, answer.clone());
        let mut effects = stage.feed(input);
        if is_answer {
            assert!(summary(&effects), "it is asked once more: {effects:?}");
            let input = summarised(&stage, answer);
            effects = stage.feed(input);
        }
        assert!(calls_model(&effects));
        let check = stage.run.history().edits()[0].edit.summary.clone();
        assert_eq!(check.map_or(0, |check| check.reasons.len()), if is_answer { 2 } else { 0 });
        let kinds = stage.kinds();
        assert_eq!(kinds[kinds.len() - 3..], ["compaction-failed", "view-edited", "step-started"]);
        assert!(stage.run.history().edits()[0].edit.why.contains("extract"));
    }
}

#[test]
fn the_reason_of_an_extract_tells_the_cost_of_refused_summaries() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 6);
    stage.send("and now");
    stage.fail(overflow(None));
    for _ in 0..2 {
        let usage = Some(Usage { input_tokens: 1_200, output_tokens: 30, ..Usage::default() });
        let input = summarised(&stage, Ok(ModelAnswer { usage, ..text_answer(" ") }));
        stage.feed(input);
    }
    let edit = &stage.run.history().edits()[0].edit;
    let cost = "; summaries that were not used cost 2,400 input and 60 output tokens";
    assert!(edit.why.ends_with(cost), "{}", edit.why);
    assert_eq!(edit.usage, None, "the failure holds the tokens, and they count once");
}

#[test]
fn a_compaction_on_request() {
    let mut stage = Stage::new(|_| ());
    let nothing = RunEffect::CompactionDone(CompactionOutcome::NothingToDo);
    assert_eq!(stage.feed(RunLoopInput::Compact { instructions: None }), std::slice::from_ref(&nothing));
    stage.send("one");
    stage.answer(vec![Part::text("a short answer")]);
    assert_eq!(stage.feed(RunLoopInput::Compact { instructions: None }), [nothing], "nothing worth it");
    long(&mut stage, 5);
    let effects = stage.feed(RunLoopInput::Compact { instructions: Some("mind the paths".to_owned()) });
    assert!(format!("{effects:?}").contains("mind the paths"));
    let busy = stage.feed(RunLoopInput::Compact { instructions: None });
    assert!(matches!(busy[0], RunEffect::CompactionDone(CompactionOutcome::Refused(_))));
    assert_eq!(stage.send("meanwhile"), []);
    let effects = stage.summarise(SUMMARY);
    assert!(matches!(effects[1], RunEffect::CompactionDone(CompactionOutcome::Committed(_))), "{effects:?}");
    assert!(calls_model(&effects), "what came meanwhile is taken");
    assert_eq!(stage.run.state.step, StepGuards::default(), "the next step plans anew");
}

#[test]
fn cancelling_a_compaction_changes_nothing() {
    let mut stage = Stage::new(|_| ());
    long(&mut stage, 5);
    let hash = stage.run.history().view_hash();
    stage.feed(RunLoopInput::Compact { instructions: None });
    assert_eq!(stage.feed(RunLoopInput::Cancel), [RunEffect::StopModel]);
    let stopped = summarised(&stage, Err(ModelCallFailure::new(ErrorCode::Interrupted, "stopped", false)));
    let effects = stage.feed(stopped);
    assert!(matches!(effects[1], RunEffect::CompactionDone(CompactionOutcome::Refused(_))));
    assert!(stage.run.is_idle());
    assert_eq!(stage.run.history().view_hash(), hash);
}

#[test]
fn a_count_beyond_the_window_makes_room_before_the_call() {
    let mut stage = Stage::new(|settings| settings.counting = ServerCountPolicy::Always);
    for turn in 0..6 {
        stage.send(&format!("q{turn}"));
        stage.feed(RunLoopInput::Counted(Some(60)));
        stage.answer(vec![Part::text("word ".repeat(300))]);
    }
    let effects = stage.send("q6");
    assert!(counts(&effects));
    let effects = stage.feed(RunLoopInput::Counted(Some(7_000)));
    assert!(summary(&effects), "{effects:?}");
}
