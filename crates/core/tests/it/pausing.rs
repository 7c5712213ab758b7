//! Answers that would run into the end of the window: stopped in time, room made, gone on with. And tool results that
//! would overflow it.

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EventBody, PartialAnswerReason, RunEnd};
use longhaul_core::history::ViewItemKind;
use longhaul_core::ids::EditId;
use longhaul_core::message::{ModelOrigin, ModelStopReason, Part};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{
    MAX_PAUSES, ModelCallFailure, PreCompactOutput, Run, RunLoopInput, RunRecovery, RunSettings,
};
use longhaul_core::strategy;

use crate::stage::{Course, HookAnswer, Stage, Summariser, call, settings};

const WINDOW: u64 = 4_096;

fn with(name: &str) -> RunSettings {
    let policy = CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name"));
    let mut settings =
        settings(WINDOW, 200, CompactionPolicy { trigger: Some(StrategyTrigger::Overflow), ..policy });
    settings.model.prefill = true;
    settings
}

/// A text of which no part comes twice.
fn tale(words: usize) -> String {
    (0..words).map(|at| format!(" part{at}")).collect::<String>().trim_start().to_owned()
}

/// A chat that has filled about two thirds of the window; the next answer is that one.
fn stage(settings: RunSettings, answer: &str) -> Stage {
    let long = answer.to_owned();
    let mut stage = Stage::chat(settings, move |at| match at {
        0..6 => format!("{at}:{}", " word".repeat(370)),
        6 => long.clone(),
        _ => "and so it ends.".to_owned(),
    });
    for turn in 0..6 {
        assert_eq!(stage.say(&format!("question {turn}")), RunEnd::Stop);
    }
    assert_eq!(stage.edits(), [], "there is room for all of it");
    stage
}

/// What the model is shown of its newest answer.
fn newest(stage: &Stage) -> String {
    let item = stage.run.history().view().last().expect("a view");
    assert_eq!(item.kind, ViewItemKind::Assistant);
    item.message.text()
}

fn pauses(stage: &Stage) -> usize {
    let paused = |body: &EventBody| {
        matches!(body, EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Paused), .. })
    };
    stage.log.iter().filter(|event| paused(&event.body)).count()
}

fn failure(code: ErrorCode) -> ModelCallFailure {
    ModelCallFailure::new(code, "the line broke", false)
}

/// In every strategy: one answer, nothing of it twice, nothing missing, and it is known by one name.
#[test]
fn a_long_answer_is_paused_and_goes_on_where_it_was() {
    for name in strategy::NAMES {
        let whole = tale(1_000);
        let mut stage = stage(with(name), &whole);
        assert_eq!(stage.say("tell me all of it"), RunEnd::Stop, "{name}");
        assert!((1..=MAX_PAUSES as usize).contains(&pauses(&stage)), "{name}: {} pauses", pauses(&stage));
        assert_eq!(newest(&stage), whole, "{name}");
        assert_eq!(stage.prefills.len(), pauses(&stage), "{name}");
        for said in &stage.prefills {
            assert!(whole.starts_with(said.as_str()), "{name}: {said}");
        }
        assert_eq!(stage.edits().len(), pauses(&stage), "{name}: one compaction for each pause");
        assert!(stage.shown().contains("tell me all of it"), "{name}");
        let history = stage.run.history();
        let last = history.entries().last().expect("an answer");
        assert_eq!(history.whole(last).text(), whole, "{name}");
        assert_eq!(history.view().last().map(|item| item.message.id.clone()), Some(history.whole(last).id));
        assert_eq!(stage.say("thanks"), RunEnd::Stop, "{name}: the next request is valid");
    }
}

/// What is left of the window when an answer is paused is what was said: a tenth.
#[test]
fn an_answer_is_paused_at_nine_tenths_of_the_window() {
    let mut stage = stage(with("reactive-overflow"), &tale(1_000));
    let before = stage.run.meter().bound();
    stage.say("tell me all of it");
    let asked = stage.requests[6];
    let at = stage.pause_at[6].expect("the call may pause");
    assert!(asked > before && asked + at <= WINDOW * 9 / 10, "{asked} + {at}");
    assert!(asked + at > WINDOW * 9 / 10 - 60, "{asked} + {at}");
}

#[test]
fn elsewhere_nothing_changes() {
    let unable = |settings: &mut RunSettings| settings.model.prefill = false;
    let off = |settings: &mut RunSettings| settings.policy.enabled = false;
    let short = |settings: &mut RunSettings| settings.model.max_output = Some(600);
    let changes: [&dyn Fn(&mut RunSettings); 3] = [&unable, &off, &short];
    for change in changes {
        let mut settings = with("reactive-overflow");
        change(&mut settings);
        let mut stage = stage(settings, "a short one");
        assert_eq!(stage.say("tell me all of it"), RunEnd::Stop);
        assert_eq!(stage.pause_at, [None; 7], "nothing to pause for");
    }
}

/// A first message fills the window with its answer: there is nothing to leave out.
#[test]
fn an_answer_is_not_paused_in_vain() {
    let mut settings = with("reactive-overflow");
    settings.model.max_output = Some(8_000);
    let mut stage = Stage::chat(settings, |_| tale(3_000));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Length);
    assert_eq!((stage.pause_at.as_slice(), pauses(&stage)), (&[None][..], 0));
    assert_eq!(stage.error(), None, "the length is all there is to say");
    assert!(stage.run.meter().total > WINDOW * 9 / 10, "it went on to the real limit");
}

#[test]
fn nothing_more_to_say_is_no_error() {
    for (more, whole) in [("", "the answer"), ("\n", "the answer\n"), (".\n\n", "the answer.\n\n")] {
        let mut stage = paused_once(with("reactive-overflow"));
        let parts = if more.is_empty() { Vec::new() } else { vec![Part::text(more)] };
        stage.courses.push_back(Some(Course::Says(parts, ModelStopReason::Stop)));
        assert_eq!(stage.say("tell me all of it"), RunEnd::Stop, "{more:?}");
        assert_eq!(newest(&stage), format!("{PIECE}{}", &whole["the answer".len()..]));
        assert_eq!(stage.calls.len(), 8, "{more:?}: it is not asked again");
        assert_eq!(stage.say("thanks"), RunEnd::Stop);
    }
}

const PIECE: &str = "Once upon a time there was";

/// The next message is answered with a piece; the courses after it are the test's.
fn paused_once(settings: RunSettings) -> Stage {
    let mut stage = stage(settings, PIECE);
    stage.courses.push_back(Some(Course::Pauses(PIECE.to_owned())));
    stage
}

#[test]
fn what_was_said_stays_when_the_rest_fails() {
    let mut stage = paused_once(with("reactive-overflow"));
    let lost = vec![Part::text(" a king")];
    stage.courses.push_back(Some(Course::Fails(failure(ErrorCode::Network), lost)));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Error);
    assert_eq!(stage.error().map(|(code, _)| code), Some(ErrorCode::Network));
    assert_eq!(newest(&stage), PIECE, "what did not count is shown to people only");
    let last = stage.run.history().entries().last().expect("an answer");
    assert_eq!(stage.run.history().whole(last).text(), format!("{PIECE} a king"));
    // Asked to, it goes on.
    stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
    stage.input(RunLoopInput::Resume);
    assert_eq!(newest(&stage), format!("{PIECE} a queen."));
    assert_eq!(stage.prefills, [PIECE, PIECE]);
}

/// A server that takes no beginning of an answer has not failed: the answer is cut short where it was paused.
#[test]
fn a_server_that_cannot_go_on_leaves_what_was_said() {
    let mut stage = paused_once(with("reactive-overflow"));
    let refusal = ModelCallFailure::new(ErrorCode::InvalidRequest, "no prefill here", false);
    stage.courses.push_back(Some(Course::Fails(refusal, Vec::new())));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Length);
    assert_eq!(newest(&stage), PIECE);
    let (code, message) = stage.error().expect("why it is short");
    assert_eq!(code, ErrorCode::InvalidRequest);
    assert_eq!(message, "the answer could not go on where it was paused: no prefill here");
    assert_eq!(stage.say("thanks"), RunEnd::Stop);
}

/// A server that fails at the rest, before or after its first word, is asked as often as for any call; then the answer is
/// as long as it is.
#[test]
fn a_server_that_refuses_the_rest_leaves_what_was_said() {
    for lost in ["", " a king"] {
        let mut stage = paused_once(with("reactive-overflow"));
        let ill = ModelCallFailure::new(ErrorCode::ThirdParty, "the server says 501", false);
        let parts = if lost.is_empty() { Vec::new() } else { vec![Part::text(lost)] };
        stage.courses.push_back(Some(Course::Fails(ill, parts)));
        let calls = stage.calls.len();
        assert_eq!(stage.say("tell me all of it"), RunEnd::Length, "{lost:?}");
        assert_eq!(stage.calls.len() - calls, 2, "{lost:?}");
        assert_eq!(newest(&stage), PIECE);
        let message = "the answer could not go on where it was paused: the server says 501".to_owned();
        assert_eq!(stage.error(), Some((ErrorCode::ThirdParty, message)));
        assert!(!stage.refold().refused_to_go_on(), "one failure says nothing of the next answer");
        // Asked to, it goes on.
        stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
        stage.input(RunLoopInput::Resume);
        assert_eq!(newest(&stage), format!("{PIECE} a queen."));
    }
}

/// The rest is asked for as often as any answer, and what came of it counts.
#[test]
fn a_server_that_fails_at_the_rest_is_asked_again() {
    let ill = || ModelCallFailure::new(ErrorCode::ThirdParty, "the server says 500", true);
    for (lost, failures, end, said) in [
        ("", 1, RunEnd::Stop, format!("{PIECE} a queen.")),
        ("", 2, RunEnd::Error, PIECE.to_owned()),
        (" a king and", 1, RunEnd::Stop, format!("{PIECE} a king and a queen.")),
        (" a king and", 2, RunEnd::Error, format!("{PIECE} a king and")),
    ] {
        let mut stage = paused_once(with("reactive-overflow"));
        let parts = || if lost.is_empty() { Vec::new() } else { vec![Part::text(lost)] };
        for _ in 0..failures {
            stage.courses.push_back(Some(Course::Fails(ill(), parts())));
        }
        stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
        let calls = stage.calls.len();
        assert_eq!(stage.say("tell me all of it"), end, "{lost:?}, {failures} failures");
        assert_eq!(stage.calls.len() - calls, 1 + failures + usize::from(end == RunEnd::Stop), "{lost:?}");
        assert_eq!(newest(&stage), said, "{lost:?}, {failures} failures");
        assert_eq!(stage.run.history().pauses(), stage.refold().pauses());
    }
}

/// That it cannot is remembered: nothing is stopped for it again.
#[test]
fn a_server_that_could_not_go_on_is_not_asked_to_again() {
    let mut stage = paused_once(with("reactive-overflow"));
    let refusal = ModelCallFailure::new(ErrorCode::InvalidRequest, "no prefill here", false);
    stage.courses.push_back(Some(Course::Fails(refusal, Vec::new())));
    stage.say("tell me all of it");
    let asked = stage.pause_at.len();
    for turn in 0..6 {
        stage.say(&format!("more, {turn}"));
    }
    assert!(stage.pause_at[asked..].iter().all(Option::is_none), "{:?}", stage.pause_at);
    assert!(stage.refold().refused_to_go_on());
}

/// The limit that the provider is told lies beyond the pause; where it counts more than we do, it comes first.
#[test]
fn a_limit_of_ours_is_a_pause() {
    let mut stage = stage(with("reactive-overflow"), PIECE);
    stage.courses.push_back(Some(Course::Says(vec![Part::text(PIECE)], ModelStopReason::Length)));
    stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Stop);
    assert_eq!(newest(&stage), format!("{PIECE} a queen."));
    assert_eq!(pauses(&stage), 1);
}

#[test]
fn what_a_server_says_again_stands_once() {
    let piece = tale(60);
    let mut stage = stage(with("reactive-overflow"), &piece);
    stage.courses.push_back(Some(Course::Pauses(piece.clone())));
    let again = format!("{piece} and a queen.");
    stage.courses.push_back(Some(Course::Says(vec![Part::text(again.clone())], ModelStopReason::Stop)));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Stop);
    assert_eq!(newest(&stage), again);
}

/// Where system prompt and question leave no room for the rest, stopping the stream would win nothing.
#[test]
fn an_answer_is_not_paused_where_what_stays_leaves_no_room() {
    let mut settings = with("reactive-overflow");
    settings.fixed.tokens = 2_300;
    let mut stage = Stage::chat(settings, |at| if at == 0 { " word".repeat(600) } else { tale(1_000) });
    assert_eq!(stage.say("question"), RunEnd::Stop);
    assert_eq!(stage.say("tell me all of it"), RunEnd::Length);
    assert_eq!(pauses(&stage), 0);
}

#[test]
fn a_refusal_for_length_makes_more_room_and_keeps_the_answer() {
    let mut stage = paused_once(with("reactive-overflow"));
    stage.summariser = Summariser::Fails;
    stage.courses.push_back(Some(Course::Fails(failure(ErrorCode::ContextOverflow), Vec::new())));
    stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Stop);
    assert_eq!(newest(&stage), format!("{PIECE} a queen."));
    assert_eq!(stage.prefills, [PIECE, PIECE]);
    assert!(stage.shown().contains("tell me all of it"));
}

/// Of an answer that goes on nothing is left out, even if that is all there is.
#[test]
fn what_was_said_never_makes_way() {
    let said = tale(900);
    let mut stage = Stage::chat(with("truncation"), |at| format!("{at}:{}", " word".repeat(10)));
    stage.say("question");
    stage.courses.push_back(Some(Course::Pauses(said.clone())));
    stage.courses.push_back(Some(Course::Fails(failure(ErrorCode::ContextOverflow), Vec::new())));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Error);
    assert_eq!(stage.error().map(|(code, _)| code), Some(ErrorCode::ContextOverflow));
    assert_eq!(newest(&stage), said);
}

#[test]
fn a_cancel_keeps_all_that_came() {
    let mut stage = paused_once(with("reactive-overflow"));
    stage.courses.push_back(Some(Course::Cancelled(vec![Part::text(" a king who")])));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Cancelled);
    assert_eq!(newest(&stage), format!("{PIECE} a king who"));
    assert_eq!(stage.say("shorter, please"), RunEnd::Stop);

    let whole = tale(1_000);
    let mut stage = self::stage(with("reactive-overflow"), &whole);
    stage.cancels_summary = true;
    assert_eq!(stage.say("tell me all of it"), RunEnd::Cancelled);
    assert_eq!((pauses(&stage), stage.summaries, stage.edits().len()), (1, 1, 0));
    assert!(whole.starts_with(&newest(&stage)) && newest(&stage).len() > 3_000);
    stage.cancels_summary = false;
    stage.input(RunLoopInput::Resume);
    assert_eq!(newest(&stage), whole, "somebody wants the rest, and room is made for it");
    assert_eq!(stage.edits().len(), 1);
}

/// A cancel and a pause cross.
#[test]
fn a_pause_after_a_cancel_is_a_cancel() {
    let mut stage = stage(with("reactive-overflow"), PIECE);
    stage.courses.push_back(Some(Course::CancelledAsItPauses(PIECE.to_owned())));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Cancelled);
    assert_eq!((newest(&stage), pauses(&stage), stage.edits().len()), (PIECE.to_owned(), 0, 0));
}

#[test]
fn a_crash_loses_nothing_that_was_stored() {
    for recovery in [RunRecovery::Rest, RunRecovery::Continue] {
        let mut stage = paused_once(RunSettings { recovery, ..with("reactive-overflow") });
        stage.courses.push_back(Some(Course::Dies(Some(" a king".to_owned()))));
        stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
        let end = stage.say("tell me all of it");
        if recovery == RunRecovery::Rest {
            assert_eq!((end, newest(&stage).as_str()), (RunEnd::Error, PIECE));
            stage.input(RunLoopInput::Resume);
        }
        assert_eq!(newest(&stage), format!("{PIECE} a queen."), "{recovery:?}");
        let folded = Run::new(stage.run.settings().clone(), stage.refold());
        assert!(folded.history() == stage.run.history(), "{recovery:?}");
    }
}

#[test]
fn a_time_out_asks_for_a_last_word_instead_of_the_rest() {
    let mut stage = paused_once(with("reactive-overflow"));
    stage.courses.push_back(Some(Course::TimesOut(vec![Part::text(" a king")])));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Timeout);
    assert!(stage.shown().contains(&format!("{PIECE} a king")));
    assert_eq!(newest(&stage), "and so it ends.");
    assert_eq!(stage.pause_at.last(), Some(&None), "the last word is not paused");
}

#[test]
fn after_three_pauses_it_goes_on_to_the_real_limit() {
    let mut settings = with("reactive-overflow");
    settings.model.max_output = Some(100_000);
    let mut stage = stage(settings, PIECE);
    stage.courses = (0..MAX_PAUSES).map(|at| Some(Course::Pauses(format!(" piece {at}")))).collect();
    stage.courses.push_back(Some(Course::Says(vec![Part::text(" and more")], ModelStopReason::Length)));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Length);
    assert_eq!((pauses(&stage), stage.pause_at.last()), (3, Some(&None)));
    let (code, message) = stage.error().expect("a code");
    assert_eq!(code, ErrorCode::MaxCompactions);
    assert!(message.contains("3 times"), "{message}");
    assert_eq!(newest(&stage), " piece 0 piece 1 piece 2 and more");
}

/// The limit of an answer is that of all its pieces.
#[test]
fn the_models_own_limit_counts_what_was_said() {
    let mut settings = with("reactive-overflow");
    settings.model.max_output = Some(1_700);
    let whole = tale(2_000);
    let mut stage = stage(settings, &whole);
    assert_eq!(stage.say("tell me all of it"), RunEnd::Length);
    assert_eq!((pauses(&stage), stage.error()), (1, None));
    let said = longhaul_core::estimate::text_tokens(&newest(&stage));
    assert!((1_600..=1_720).contains(&said), "{said}");
    assert!(whole.starts_with(&newest(&stage)));
}

#[test]
fn a_hook_may_keep_room_from_being_made_and_the_answer_goes_on() {
    let mut settings = with("reactive-overflow");
    settings.pre_compact_ms = Some(1_000);
    let whole = tale(650);
    let mut stage = stage(settings, &whole);
    stage.hook = Some(HookAnswer::Says(PreCompactOutput { cancel: true, ..PreCompactOutput::default() }));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Stop);
    assert_eq!((newest(&stage), stage.edits().len()), (whole, 0));
    assert_eq!(
        (pauses(&stage), stage.pause_at.last()),
        (1, Some(&None)),
        "it is not paused again for nothing"
    );
}

/// Reasoning of an answer that said nothing else is for people, whether it has a proof or not.
#[test]
fn reasoning_of_a_cancelled_answer_is_kept_and_not_sent() {
    for native in [None, Some(longhaul_core::message::RawJson("{}".to_owned()))] {
        let mut stage = stage(with("reactive-overflow"), "never said");
        let thought = longhaul_core::message::ReasoningPart { text: "let me see".to_owned(), native };
        stage.courses.push_back(Some(Course::Cancelled(vec![Part::Reasoning(thought.clone())])));
        let before = stage.run.history().view().len();
        assert_eq!(stage.say("think"), RunEnd::Cancelled);
        let kept = stage
            .run
            .history()
            .entries()
            .iter()
            .any(|entry| entry.message.parts.contains(&Part::Reasoning(thought.clone())));
        assert!(kept, "{thought:?}");
        assert_eq!(stage.run.history().view().len(), before + 1, "the model is shown the question alone");
    }
}

#[test]
fn another_model_that_cannot_go_on_is_not_asked_to() {
    let mut stage = paused_once(with("reactive-overflow"));
    stage.courses.push_back(Some(Course::Fails(failure(ErrorCode::Network), Vec::new())));
    assert_eq!(stage.say("tell me all of it"), RunEnd::Error);
    let mut other = with("reactive-overflow");
    other.model.prefill = false;
    stage.run.configure(other.into());
    let calls = stage.calls.len();
    stage.input(RunLoopInput::Resume);
    assert_eq!(stage.calls.len(), calls, "the answer is as long as it is");
    assert_eq!(stage.say("go on, then"), RunEnd::Stop);
    assert!(stage.shown().contains(PIECE));
}

/// Reasoning and native items of one model mean nothing to the next.
#[test]
fn another_model_that_can_goes_on_without_what_is_not_its_own() {
    let mut stage = paused_once(with("reactive-overflow"));
    stage.courses.push_back(Some(Course::Fails(failure(ErrorCode::Network), Vec::new())));
    stage.say("tell me all of it");
    let mut other = with("reactive-overflow");
    other.model.origin = ModelOrigin { model: "other".to_owned(), ..other.model.origin };
    let to = other.model.origin.clone();
    stage.run.configure(other.into());
    stage.input(RunLoopInput::Record(vec![EventBody::ModelSwitched { to: to.clone(), choice: None }]));
    stage.courses.push_back(Some(Course::Says(vec![Part::text(" a queen.")], ModelStopReason::Stop)));
    stage.input(RunLoopInput::Resume);
    assert_eq!(newest(&stage), format!("{PIECE} a queen."));
    let shown = stage.run.history().view().last().map(|item| item.message.origin.clone());
    assert_eq!(shown, Some(Some(to)));
}

/// What a provider reports of the last call is the whole answer's.
#[test]
fn the_meter_rests_on_the_last_report() {
    let mut stage = stage(with("reactive-overflow"), &tale(1_000));
    stage.say("tell me all of it");
    let anchor = stage.run.history().anchor().cloned().expect("a report");
    let reading = stage.run.meter();
    assert_eq!((reading.total, reading.estimated), (anchor.input + anchor.output, 0));
    assert_eq!(anchor.input, *stage.requests.last().expect("a request"));
}

/// An undo brings back what went, and the answer is one all the same.
#[test]
fn an_undo_leaves_the_answer_in_one_piece() {
    let whole = tale(1_000);
    let mut stage = stage(with("truncation"), &whole);
    stage.say("tell me all of it");
    let ids: Vec<EditId> = stage.edits().iter().rev().map(|edit| edit.id.clone()).collect();
    for edit_id in ids {
        stage.input(RunLoopInput::Record(vec![EventBody::ViewRestored { edit_id }]));
    }
    assert_eq!(newest(&stage), whole);
    assert!(stage.shown().contains("question 0"));
    assert_eq!(stage.shown().matches("part0 ").count(), 1);
    assert!(stage.refold() == *stage.run.history());
}

/// A tool result that would overflow the window: older messages make way, the result stays, the run goes on.
#[test]
fn a_tool_result_that_would_overflow_stays_and_older_messages_go() {
    for name in strategy::NAMES {
        let mut settings = with(name);
        settings.model.prefill = false;
        let mut stage = Stage::new(
            settings,
            Box::new(|at| match at {
                0..6 => vec![Part::text(format!("{at}:{}", " word".repeat(400)))],
                6 => vec![call("read", "{\"path\":\"big\"}")],
                _ => vec![Part::text("that was it.")],
            }),
        );
        stage.tool_output = Box::new(|_| format!("BEGIN{} END", " line".repeat(640)));
        for turn in 0..6 {
            assert_eq!(stage.say(&format!("question {turn}")), RunEnd::Stop, "{name}");
        }
        assert_eq!(stage.edits(), [], "{name}");
        assert_eq!(stage.say("read the big file"), RunEnd::Stop, "{name}");
        let compactions = stage.edits().into_iter().filter(|edit| edit.kind == EditKind::Compaction);
        assert_eq!(compactions.count(), 1, "{name}");
        let shown = stage.shown();
        assert!(shown.contains("BEGIN line") && shown.contains("line END"), "{name}: {shown}");
        assert_eq!(shown.matches(" line").count(), 640, "{name}: the result is whole");
        assert!(shown.contains("read the big file") && shown.ends_with("that was it."), "{name}");
        assert_eq!(stage.calls.len(), 8, "{name}: nothing was refused");
    }
}
