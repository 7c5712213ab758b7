//! Requests that a server refuses because of one of their parts.

use super::*;
use crate::event::OmittedPart;
use crate::message::{BlobRef, MediaPart, Message, RawJson, ReasoningPart};
use crate::refusal::{PartRefusal, RefusedPart, RefusedPartKind};

fn picture(name: &str) -> Part {
    Part::Image(MediaPart {
        blob: BlobRef { hash: name.to_owned(), bytes: 9 },
        media_type: "image/png".to_owned(),
        name: Some(name.to_owned()),
        width: Some(8),
        height: Some(8),
    })
}

fn refused(refusal: PartRefusal) -> ModelCallFailure {
    let refusal = Some(Box::new(refusal));
    ModelCallFailure {
        refusal,
        ..ModelCallFailure::new(ErrorCode::InvalidRequest, "no [such] part\nplease", false)
    }
}

fn of_kind(kind: RefusedPartKind) -> PartRefusal {
    PartRefusal { kind: Some(kind), ..PartRefusal::default() }
}

fn of_part(part: RefusedPart) -> PartRefusal {
    PartRefusal { part: Some(part), ..PartRefusal::default() }
}

fn say(stage: &mut Stage, parts: Vec<Part>) -> Vec<RunEffect> {
    stage.queue.push(QueuedMessage::new("q", stage.now, parts));
    stage.feed(RunLoopInput::Wake)
}

/// Everything the model is shown, as one text; pictures by their names.
fn shown(stage: &Stage) -> String {
    fn of(part: &Part, words: &mut Vec<String>) {
        match part {
            Part::Text(text) => words.push(text.text.clone()),
            Part::Image(media) | Part::File(media) => words.push(format!("<{}>", media.blob.hash)),
            Part::Reasoning(_) => words.push("<reasoning>".to_owned()),
            Part::ToolResult(result) => result.content.iter().for_each(|part| of(part, words)),
            Part::ToolCall(_) | Part::Opaque(_) => {}
        }
    }
    let mut words = Vec::new();
    let messages = request_messages(stage.run.history().view());
    messages.iter().flat_map(|message| &message.parts).for_each(|part| of(part, &mut words));
    words.join("|")
}

fn omissions(stage: &Stage) -> Vec<(String, bool)> {
    let omissions = stage.run.history().omissions().iter();
    omissions.map(|omission| (omission.id.to_string(), omission.active)).collect()
}

#[test]
fn a_refused_picture_is_left_out_and_the_conversation_goes_on() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![Part::text("look"), picture("cat.png")]);
    let effects = stage.fail(refused(of_kind(RefusedPartKind::Image)));
    assert!(calls_model(&effects), "the step is made again");
    let note = "[Left out: cat.png (image/png). The model's server refused it: no such part please]";
    assert_eq!(shown(&stage), format!("look|{note}"));
    assert_eq!(ended(&stage.answer(vec![Part::text("I see no cat.")])), Some(RunEnd::Stop));
    stage.send("never mind");
    assert!(!shown(&stage).contains("<cat.png>"), "and it stays so");
    stage.answer(vec![Part::text("ok")]);

    let (id, _) = omissions(&stage).remove(0);
    let history = stage.run.history();
    assert!(history.check_undo(&id.as_str().into()).is_ok());
    let before = history.view_hash();
    stage.feed(RunLoopInput::Record(vec![EventBody::ViewRestored { edit_id: id.as_str().into() }]));
    assert!(shown(&stage).starts_with("look|<cat.png>|"), "{}", shown(&stage));
    assert_ne!(stage.run.history().view_hash(), before);
    let again = History::fold(&stage.log).unwrap();
    assert_eq!(again, *stage.run.history(), "a restart sees the same");
}

#[test]
fn the_part_that_the_error_names_is_left_out() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![picture("good"), picture("bad"), picture("fine")]);
    stage.fail(refused(of_part(RefusedPart::Blob("bad".to_owned()))));
    let view = shown(&stage);
    assert!(view.contains("<good>") && view.contains("<fine>") && !view.contains("<bad>"), "{view}");
}

#[test]
fn of_too_many_pictures_the_newest_stay() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![picture("a"), picture("b"), picture("c")]);
    stage.fail(refused(PartRefusal { most: Some(2), ..of_kind(RefusedPartKind::Image) }));
    assert!(shown(&stage).ends_with("<b>|<c>"), "{}", shown(&stage));
    stage.fail(refused(PartRefusal { takes_none: true, ..of_kind(RefusedPartKind::Image) }));
    assert!(!shown(&stage).contains('<'), "{}", shown(&stage));
}

#[test]
fn what_was_learned_from_the_error_needs_no_omission() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![picture("a")]);
    let remedied = PartRefusal { is_remedied: true, ..of_kind(RefusedPartKind::Image) };
    assert!(calls_model(&stage.fail(refused(remedied))));
    assert_eq!(omissions(&stage), []);
}

#[test]
fn guesses_that_do_not_help_are_taken_back() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![picture("a"), picture("b")]);
    let calls = stage.answer(vec![call("read")]);
    stage.end_tool(&running(&calls)[0], "42 lines");
    let before = shown(&stage);
    assert!(calls_model(&stage.fail(refused(PartRefusal::default()))));
    assert!(shown(&stage).contains("<a>") && !shown(&stage).contains("<b>"), "the newest picture first");
    assert!(calls_model(&stage.fail(refused(PartRefusal::default()))));
    assert!(!shown(&stage).contains('<') && shown(&stage).contains("42 lines"), "then all of them");
    assert!(calls_model(&stage.fail(refused(PartRefusal::default()))));
    assert!(
        shown(&stage).contains("<a>|<b>") && !shown(&stage).contains("42 lines"),
        "then the newest result"
    );
    let effects = stage.fail(refused(PartRefusal::default()));
    assert_eq!(ended(&effects), Some(RunEnd::Error));
    assert_eq!(shown(&stage), before, "none of them was to blame");
    assert!(omissions(&stage).iter().all(|(_, active)| !active));
}

#[test]
fn a_guess_that_helps_stays() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![picture("a"), picture("b")]);
    stage.fail(refused(PartRefusal::default()));
    stage.answer(vec![Part::text("fine")]);
    assert_eq!(omissions(&stage).len(), 1);
    assert!(omissions(&stage)[0].1);
}

/// A session after a step with two results that its server refuses without a name, one as long as the other is there.
fn with_two_bad_results(change: impl FnOnce(&mut RunSettings)) -> Stage {
    let mut stage = Stage::new(change);
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read"), call("read")]));
    stage.end_tool(&calls[0], "awful");
    stage.end_tool(&calls[1], "awful too");
    stage
}

/// Refuses requests without a name until the view has nothing awful. Returns the number of refusals.
fn refuse_until_harmless(stage: &mut Stage) -> usize {
    let mut refusals = 0;
    while shown(stage).contains("awful") || shown(stage).contains("<bad") {
        let effects = stage.fail(refused(PartRefusal::default()));
        refusals += 1;
        assert!(calls_model(&effects), "the session ended after {refusals} refusals: {}", shown(stage));
    }
    refusals
}

#[test]
fn two_bad_results_of_one_step_are_left_out_together() {
    let mut stage = with_two_bad_results(|settings| drop(settings.tools.remove("mcp__x__y")));
    assert_eq!(refuse_until_harmless(&mut stage), 2, "the newest result alone, then both");
    assert_eq!(ended(&stage.answer(vec![Part::text("I cannot read them.")])), Some(RunEnd::Stop));
    stage.send("and now?");
    assert!(!shown(&stage).contains("awful"), "nothing that was refused comes back: {}", shown(&stage));
    stage.fail(refused(PartRefusal::default()));
    assert!(!shown(&stage).contains("awful"), "not after another refusal either: {}", shown(&stage));

    let (id, is_active) = omissions(&stage).into_iter().rfind(|(_, active)| *active).unwrap();
    assert!(is_active && stage.run.history().check_undo(&id.as_str().into()).is_ok());
    stage.feed(RunLoopInput::Record(vec![EventBody::ViewRestored { edit_id: id.as_str().into() }]));
    assert!(shown(&stage).contains("awful|awful too"), "one undo puts both back: {}", shown(&stage));
}

#[test]
fn tools_of_other_programs_come_back_before_both_results_go() {
    let mut stage = with_two_bad_results(|_| ());
    assert_eq!(refuse_until_harmless(&mut stage), 3);
    assert!(!stage.run.history().omits_tool("mcp__x__y"), "the schema was not to blame");
}

#[test]
fn a_bad_picture_and_a_bad_result_of_one_step_are_left_out_together() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![Part::text("look"), picture("good")]);
    let calls = running(&stage.answer(vec![call("read"), call("read")]));
    for (call, part) in calls.iter().zip([picture("bad"), Part::text("awful")]) {
        let result = closing_result(call, ToolStatus::Completed, "");
        stage.feed(RunLoopInput::ToolEnded(ToolResult { content: vec![part], ..result }));
    }
    assert_eq!(refuse_until_harmless(&mut stage), 3, "{}", shown(&stage));
    assert!(shown(&stage).contains("<good>"), "an answer followed it: {}", shown(&stage));
    assert_eq!(ended(&stage.answer(vec![Part::text("ok")])), Some(RunEnd::Stop));
}

#[test]
fn bad_results_of_earlier_steps_go_at_last() {
    let mut stage = Stage::new(|settings| drop(settings.tools.remove("mcp__x__y")));
    for output in ["awful", "awful too"] {
        stage.send("go");
        let calls = running(&stage.answer(vec![call("read")]));
        stage.end_tool(&calls[0], output);
        stage.answer(vec![Part::text("read")]);
    }
    stage.send("the server has become strict");
    assert_eq!(refuse_until_harmless(&mut stage), 2);
    assert_eq!(ended(&stage.answer(vec![Part::text("ok")])), Some(RunEnd::Stop));
}

#[test]
fn combined_guesses_end_with_the_tries_of_the_step() {
    let mut stage = with_two_bad_results(|_| ());
    let before = shown(&stage);
    for _ in 0..3 {
        assert!(calls_model(&stage.fail(refused(PartRefusal::default()))));
    }
    assert_eq!(ended(&stage.fail(refused(PartRefusal::default()))), Some(RunEnd::Error));
    assert_eq!(shown(&stage), before, "nothing is left out in vain");
}

#[test]
fn an_error_without_suspects_ends_the_run() {
    let mut stage = Stage::new(|settings| drop(settings.tools.remove("mcp__x__y")));
    stage.send("hello");
    assert_eq!(ended(&stage.fail(refused(PartRefusal::default()))), Some(RunEnd::Error));
    assert_eq!(omissions(&stage), []);
}

#[test]
fn a_result_that_a_filter_refuses_is_left_out() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read"), call("read")]));
    stage.end_tool(&calls[0], "harmless");
    stage.end_tool(&calls[1], "awful");
    let filtered =
        ModelCallFailure { code: ErrorCode::Refused, ..refused(of_kind(RefusedPartKind::Content)) };
    assert!(calls_model(&stage.fail(filtered.clone())));
    assert!(shown(&stage).contains("harmless") && !shown(&stage).contains("awful"));
    assert!(calls_model(&stage.fail(filtered)));
    assert!(!shown(&stage).contains("harmless"), "then all results of the step");
}

#[test]
fn an_older_result_is_left_out_once_the_newest_did_not_help() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    for text in ["awful", "newest"] {
        let calls = running(&stage.answer(vec![call("read")]));
        stage.end_tool(&calls[0], text);
    }
    assert!(calls_model(&stage.fail(withheld())));
    assert!(shown(&stage).contains("awful") && !shown(&stage).contains("newest"));
    assert!(calls_model(&stage.fail(withheld())));
    assert!(!shown(&stage).contains("awful"), "{}", shown(&stage));
    assert_eq!(ended(&stage.answer(vec![Part::text("ok")])), Some(RunEnd::Stop));
}

#[test]
fn a_message_that_a_filter_refuses_ends_its_run_only() {
    let mut stage = Stage::new(|_| ());
    stage.send("hello");
    stage.answer(vec![Part::text("hi")]);
    stage.send("something awful");
    let effects = stage.fail(refused(of_kind(RefusedPartKind::Content)));
    assert_eq!(ended(&effects), Some(RunEnd::Error));
    assert!(!shown(&stage).contains("something awful"), "{}", shown(&stage));
    stage.send("never mind");
    assert_eq!(ended(&stage.answer(vec![Part::text("ok")])), Some(RunEnd::Stop));
}

/// The end of an answer that a filter has withheld, as the decoders of the wires tell it.
fn withheld() -> ModelCallFailure {
    ModelCallFailure { code: ErrorCode::Refused, ..refused(of_kind(RefusedPartKind::Content)) }
}

#[test]
fn a_result_after_which_an_answer_is_withheld_is_left_out() {
    let thoughts = Part::Reasoning(ReasoningPart {
        text: "Hm".to_owned(),
        native: Some(RawJson("{\"s\":\"signed\"}".to_owned())),
    });
    let empty = ModelAnswer {
        parts: vec![thoughts.clone()],
        finish: ModelStopReason::ContentFilter,
        usage: None,
        envelope: None,
    };
    for end in [
        RunLoopInput::ModelAnswered(ModelAnswer { parts: Vec::new(), ..empty.clone() }),
        RunLoopInput::ModelFailed { failure: withheld(), partial: Vec::new() },
        RunLoopInput::ModelFailed { failure: withheld(), partial: vec![thoughts] },
    ] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        let calls = running(&stage.answer(vec![call("read")]));
        stage.end_tool(&calls[0], "awful");
        assert!(calls_model(&stage.feed(end.clone())), "{end:?}");
        assert!(!shown(&stage).contains("awful"), "{}", shown(&stage));
        assert_eq!(ended(&stage.answer(vec![Part::text("I cannot read it.")])), Some(RunEnd::Stop));
        assert_eq!(omissions(&stage).len(), 1);
    }
}

#[test]
fn results_are_left_out_once_each_and_then_the_run_ends() {
    let mut stage = with_two_bad_results(|_| ());
    assert!(calls_model(&stage.fail(withheld())));
    assert!(calls_model(&stage.fail(withheld())));
    assert_eq!(ended(&stage.fail(withheld())), Some(RunEnd::Error), "nothing new is left to suspect");
    assert_eq!(omissions(&stage).len(), 2);
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::Refused))));
}

#[test]
fn the_pictures_of_a_question_go_before_the_question() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, vec![Part::text("look"), picture("cat.png")]);
    assert!(calls_model(&stage.fail(withheld())));
    assert!(shown(&stage).starts_with("look|[Left out: cat.png"), "{}", shown(&stage));
    assert_eq!(ended(&stage.fail(withheld())), Some(RunEnd::Error));
    assert!(!shown(&stage).contains("look"), "{}", shown(&stage));
    stage.send("never mind");
    assert_eq!(ended(&stage.answer(vec![Part::text("ok")])), Some(RunEnd::Stop));
}

#[test]
fn the_text_before_the_end_of_a_withheld_answer_is_kept() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let partial = vec![Part::text("Once upon")];
    let effects = stage.feed(RunLoopInput::ModelFailed { failure: withheld(), partial });
    assert_eq!(ended(&effects), Some(RunEnd::Error));
    let kept = stage.log.iter().any(|event| {
        matches!(&event.body, EventBody::AssistantAdded { message, cut: Some(PartialAnswerReason::Lost), .. }
            if message.text() == "Once upon")
    });
    assert!(kept && omissions(&stage).is_empty(), "{:?}", stage.kinds());
}

#[test]
fn reasoning_of_other_models_goes_first() {
    let reasoning = |item: &str| {
        Part::Reasoning(ReasoningPart {
            text: String::new(),
            native: Some(RawJson(format!("{{\"s\":\"{item}\"}}"))),
        })
    };
    let mut stage = Stage::new(|_| ());
    stage.send("a");
    stage.answer(vec![reasoning("old"), Part::text("x")]);
    let mut settings = RunSettings::clone(stage.run.settings());
    settings.model.origin.model = "other".to_owned();
    stage.run.configure(Arc::new(settings));
    stage.send("b");
    stage.answer(vec![reasoning("new"), Part::text("y")]);
    stage.send("c");
    stage.fail(refused(of_kind(RefusedPartKind::Reasoning)));
    assert_eq!(shown(&stage), "a|x|b|<reasoning>|y|c");
    stage.fail(refused(of_kind(RefusedPartKind::Reasoning)));
    assert_eq!(shown(&stage), "a|x|b|y|c");

    stage.answer(vec![reasoning("signed"), Part::text("z")]);
    stage.send("d");
    stage.fail(refused(of_part(RefusedPart::Reasoning("signed".to_owned()))));
    assert!(!shown(&stage).contains("<reasoning>"));
}

/// A call in the form of Gemini, which signs calls.
fn signed_call(signature: &str) -> Part {
    let Part::ToolCall(unsigned) = call("read") else { panic!("a call") };
    let native =
        format!(r#"{{"functionCall":{{"name":"read","args":{{}}}},"thoughtSignature":"{signature}"}}"#);
    Part::ToolCall(ToolCall { native: Some(RawJson(native)), ..unsigned })
}

/// Returns, for each call that the model is shown, whether the call has its provider's item.
fn signed_calls(stage: &Stage) -> Vec<bool> {
    let messages = request_messages(stage.run.history().view());
    messages.iter().flat_map(Message::tool_calls).map(|call| call.native.is_some()).collect()
}

#[test]
fn of_a_call_whose_signature_is_refused_only_the_signature_is_left_out() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    for signature in ["one", "two"] {
        let calls = running(&stage.answer(vec![signed_call(signature)]));
        stage.end_tool(&calls[0], "42 lines");
    }
    assert!(calls_model(&stage.fail(refused(of_part(RefusedPart::Reasoning("two".to_owned()))))));
    assert_eq!(signed_calls(&stage), [true, false], "the one that the error names");
    assert!(calls_model(&stage.fail(refused(of_kind(RefusedPartKind::Reasoning)))));
    assert_eq!(signed_calls(&stage), [false, false], "then all");
    assert_eq!(shown(&stage), "go|42 lines|42 lines", "the calls and their results stay");
    assert_eq!(ended(&stage.answer(vec![Part::text("done")])), Some(RunEnd::Stop));

    for (id, active) in omissions(&stage) {
        assert!(active, "{id}");
        stage.feed(RunLoopInput::Record(vec![EventBody::ViewRestored { edit_id: id.as_str().into() }]));
    }
    assert_eq!(signed_calls(&stage), [true, true], "an undo puts the signatures back");
    assert_eq!(History::fold(&stage.log).unwrap(), *stage.run.history(), "a restart sees the same");
}

#[test]
fn calls_beside_reasoning_that_is_left_out_lose_their_items() {
    // OpenAI refuses a call by its id if the reasoning before it is missing.
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let reasoning = Part::Reasoning(ReasoningPart {
        text: String::new(),
        native: Some(RawJson(r#"{"id":"rs_1"}"#.to_owned())),
    });
    let Part::ToolCall(unsigned) = call("read") else { panic!("a call") };
    let native = Some(RawJson(r#"{"id":"fc_1","type":"function_call"}"#.to_owned()));
    let calls = running(&stage.answer(vec![reasoning, Part::ToolCall(ToolCall { native, ..unsigned })]));
    stage.end_tool(&calls[0], "42 lines");
    stage.fail(refused(of_kind(RefusedPartKind::Reasoning)));
    assert_eq!((shown(&stage).as_str(), signed_calls(&stage)), ("go|42 lines", vec![false]));
}

#[test]
fn a_tool_whose_schema_is_refused_is_not_offered() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let tokens = stage.run.settings().fixed.tokens_of(stage.run.history());
    let named = of_part(RefusedPart::Tool("mcp__x__y".to_owned()));
    assert!(calls_model(&stage.fail(refused(named.clone()))));
    let history = stage.run.history();
    assert!(history.omits_tool("mcp__x__y") && !history.omits_tool("read"));
    assert_eq!(stage.run.settings().fixed.tokens_of(history), tokens - 30, "the meter knows");
    let [omission] = history.omissions() else { panic!("one") };
    assert_eq!(omission.parts, [OmittedPart::Tool { name: "mcp__x__y".to_owned() }]);
    assert_eq!(ended(&stage.fail(refused(named))), Some(RunEnd::Error), "it is not there any more");
}

#[test]
fn a_step_is_made_again_three_times_at_most() {
    let mut stage = Stage::new(|_| ());
    say(&mut stage, (0..9).map(|n| picture(&n.to_string())).collect());
    let name = |n: u32| refused(of_part(RefusedPart::Blob(n.to_string())));
    for n in 0..3 {
        assert!(calls_model(&stage.fail(name(n))));
    }
    assert_eq!(ended(&stage.fail(name(3))), Some(RunEnd::Error));
    assert_eq!(omissions(&stage).iter().filter(|(_, active)| *active).count(), 3, "they were named");
}

#[test]
fn a_compaction_frees_a_session_whose_newest_results_are_refused() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read"), call("read")]));
    stage.end_tool(&calls[0], "awful");
    stage.end_tool(&calls[1], "awful too");
    // The server refuses every repetition, so even the guess that leaves out both is taken back.
    while stage.run.history().last_end().is_none() {
        stage.fail(refused(PartRefusal::default()));
    }
    assert!(shown(&stage).contains("awful|awful too"), "{}", shown(&stage));
    let effects = stage.feed(RunLoopInput::Compact { instructions: None });
    assert!(effects.iter().any(|effect| matches!(effect, RunEffect::CompactionDone(_))), "{effects:?}");
    assert!(!shown(&stage).contains("|awful") && shown(&stage).contains("refused it"), "{}", shown(&stage));
    let id = omissions(&stage).last().unwrap().clone();
    assert!(id.1, "it can be undone by its name");
    let before = omissions(&stage).len();
    stage.feed(RunLoopInput::Compact { instructions: None });
    assert_eq!(omissions(&stage).len(), before, "a second time there is nothing to leave out");
    stage.send("and now?");
    assert_eq!(ended(&stage.answer(vec![Part::text("fine")])), Some(RunEnd::Stop));
}

#[test]
fn a_compaction_after_another_error_leaves_nothing_out() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let calls = running(&stage.answer(vec![call("read")]));
    stage.end_tool(&calls[0], "42 lines");
    stage.fail(ModelCallFailure::new(ErrorCode::Auth, "no key", false));
    stage.feed(RunLoopInput::Compact { instructions: None });
    assert_eq!(omissions(&stage), []);
}
