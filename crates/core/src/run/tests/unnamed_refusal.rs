//! Refusals that name neither a part nor a limit: the sizes of requests tell whether the length is the reason.

use super::*;

/// A refusal in words that no table knows.
fn unnamed(request_number: u32) -> ModelCallFailure {
    let message = format!("kérés elutasítva (kérésazonosító {request_number})");
    ModelCallFailure {
        refusal: Some(Box::default()),
        ..ModelCallFailure::new(ErrorCode::InvalidRequest, message, false)
    }
}

/// A refusal without any reason.
fn bare() -> ModelCallFailure {
    ModelCallFailure { gives_no_reason: true, ..unnamed(0) }
}

fn without_foreign_tools(settings: &mut RunSettings) {
    settings.policy.prune.protected_tools = vec!["read".to_owned()];
    settings.tools.remove("mcp__x__y");
}

/// About 500 tokens that do not repeat themselves.
fn output(number: usize) -> String {
    (0..150).map(|line| format!("{number}.{line} ")).collect()
}

/// Turns with a tool output each, all of which the server accepts.
fn accepted_turns(stage: &mut Stage, turns: usize) {
    for turn in 0..turns {
        stage.send(&format!("turn {turn}"));
        let calls = running(&stage.answer(vec![call("read")]));
        stage.end_tool(&calls[0], &output(turn));
        stage.answer(vec![Part::text("so it is")]);
    }
}

/// Lets every request for a summary fail, so that an extract takes its place. Returns the effects behind it.
fn summarise(stage: &mut Stage, mut effects: Vec<RunEffect>) -> Vec<RunEffect> {
    let task_in = |effects: &[RunEffect]| {
        effects.iter().find_map(|effect| match effect {
            RunEffect::Summarise { task, .. } => Some(*task),
            _ => None,
        })
    };
    while let Some(task) = task_in(&effects) {
        let failure = ModelCallFailure::new(ErrorCode::InvalidRequest, "no summary", false);
        effects = stage.feed(RunLoopInput::Summarised { task, answer: Err(failure) });
    }
    effects
}

fn active_omissions(stage: &Stage) -> usize {
    stage.run.history().omissions().iter().filter(|omission| omission.active).count()
}

fn shows(stage: &Stage, text: &str) -> bool {
    let messages = request_messages(stage.run.history().view());
    messages.iter().flat_map(|message| &message.parts).any(|part| match part {
        Part::ToolResult(result) => text_of(result).contains(text),
        part => part.as_text().is_some_and(|shown| shown.contains(text)),
    })
}

#[test]
fn the_second_refusal_in_the_same_words_is_taken_for_an_overflow() {
    let mut stage = Stage::new(without_foreign_tools);
    accepted_turns(&mut stage, 6);
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read")]));
    stage.end_tool(&calls[0], &output(7));
    assert!(calls_model(&stage.fail(unnamed(17))));
    assert!(!shows(&stage, &output(7)), "the first time a bad part is the likelier reason");

    let calls = running(&stage.answer(vec![call("read")]));
    stage.end_tool(&calls[0], &output(8));
    let effects = stage.fail(unnamed(18));
    assert!(calls_model(&summarise(&mut stage, effects)), "the step is made again");
    assert_eq!(stage.run.history().compactions(), 1, "{:?}", stage.kinds());
    assert!(shows(&stage, &output(8)), "no second result is left out");
    assert_eq!(active_omissions(&stage), 1);
    assert_eq!(ended(&stage.answer(vec![Part::text("done")])), Some(RunEnd::Stop));
}

#[test]
fn a_refusal_that_a_part_does_not_explain_is_taken_for_an_overflow() {
    let mut stage = Stage::new(without_foreign_tools);
    accepted_turns(&mut stage, 4);
    stage.queue("q", &"a long question ".repeat(500));
    stage.feed(RunLoopInput::Wake);
    assert!(calls_model(&stage.fail(unnamed(1))));
    assert_eq!(active_omissions(&stage), 1, "the newest result goes first");
    let effects = stage.fail(unnamed(2));
    assert!(calls_model(&summarise(&mut stage, effects)));
    assert_eq!(active_omissions(&stage), 0, "the guess did not help, so it is taken back");
    let is_smaller = stage.kinds().contains(&"view-edited".to_owned());
    assert!(is_smaller && stage.kinds().contains(&"view-restored".to_owned()), "{:?}", stage.kinds());
}

#[test]
fn a_conversation_without_suspects_is_made_smaller_if_it_has_grown() {
    let mut stage = Stage::new(without_foreign_tools);
    for turn in 0..6 {
        stage.send(&format!("turn {turn}"));
        stage.answer(vec![Part::text(output(turn))]);
    }
    stage.queue("q", &"a long question ".repeat(100));
    stage.feed(RunLoopInput::Wake);
    let effects = stage.fail(unnamed(1));
    assert!(calls_model(&summarise(&mut stage, effects)), "{:?}", stage.kinds());
    assert!(stage.kinds().contains(&"view-edited".to_owned()), "{:?}", stage.kinds());
}

#[test]
fn a_request_that_has_hardly_grown_is_not_too_long() {
    let mut stage = Stage::new(without_foreign_tools);
    accepted_turns(&mut stage, 6);
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read")]));
    stage.end_tool(&calls[0], "short");
    for attempt in 0..3 {
        let effects = stage.fail(unnamed(attempt));
        if ended(&effects).is_some() {
            break;
        }
        assert!(calls_model(&effects));
    }
    assert!(!stage.kinds().contains(&"view-edited".to_owned()), "{:?}", stage.kinds());
}

#[test]
fn nothing_is_taken_for_too_long_before_the_server_has_accepted_a_request() {
    let mut stage = Stage::new(without_foreign_tools);
    stage.queue("q", &"a long question ".repeat(500));
    stage.feed(RunLoopInput::Wake);
    assert_eq!(ended(&stage.fail(unnamed(1))), Some(RunEnd::Error));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::InvalidRequest))));
}

#[test]
fn a_refusal_without_a_reason_is_repeated_once_before_a_part_is_left_out() {
    let mut stage = Stage::new(without_foreign_tools);
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read")]));
    stage.end_tool(&calls[0], "42 lines");
    let effects = stage.fail(bare());
    assert!(!calls_model(&effects) && stage.run.waiting().is_some(), "{effects:?}");
    assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    assert!(shows(&stage, "42 lines") && active_omissions(&stage) == 0, "the request is unchanged");
    assert!(calls_model(&stage.fail(bare())), "the second refusal is believed");
    assert_eq!(active_omissions(&stage), 1);
    assert_eq!(ended(&stage.answer(vec![Part::text("done")])), Some(RunEnd::Stop));

    let mut stage = Stage::new(without_foreign_tools);
    stage.send("go");
    stage.fail(bare());
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    assert_eq!(ended(&stage.fail(bare())), Some(RunEnd::Error), "no part is there to suspect");
    let mut stage = Stage::new(without_foreign_tools);
    stage.send("go");
    let empty = ModelCallFailure { code: ErrorCode::ContextOverflow, refusal: None, ..bare() };
    stage.fail(empty);
    assert!(stage.run.waiting().is_some(), "an empty refusal may also mean a length");
    let mut stage = Stage::new(|settings| {
        without_foreign_tools(settings);
        settings.retry.patience_ms = Some(0);
    });
    stage.send("go");
    assert_eq!(ended(&stage.fail(bare())), Some(RunEnd::Error), "`retry.patience: 0` waits for nothing");
}
