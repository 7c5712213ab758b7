use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use longhaul_core::message::{
    ModelAnswer, ModelStopReason, Part, RawJson, Role, ToolCall, ToolResult, ToolStatus,
};
use longhaul_core::usage::Usage;
use proptest::prelude::*;
use std::time::Duration;

use super::*;
use crate::{ModelEvent, SharedProvider};

type Events = Vec<Result<ModelEvent, ProviderError>>;

fn ask(text: &str) -> ModelRequest {
    ModelRequest { messages: vec![Message::user("u", vec![Part::text(text)])], ..ModelRequest::default() }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a scripted call without pace does not wait")
}

fn run(model: &ScriptedProvider, request: ModelRequest) -> Result<Events, ProviderError> {
    now(model.call(request)).map(|stream| now(stream.collect()))
}

fn answer(model: &ScriptedProvider, request: ModelRequest) -> ModelAnswer {
    match run(model, request).unwrap().pop() {
        Some(Ok(ModelEvent::Finished(answer))) => answer,
        other => panic!("not finished: {other:?}"),
    }
}

fn text_of(events: &Events) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            Ok(ModelEvent::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn an_answer_streams_in_order() {
    let turn =
        ScriptedAnswer::reasoning("Hm, let me see.").then("Let me look.").call("read", r#"{"path": "a.md"}"#);
    let model = ScriptedProvider::new(ModelScript::turns([turn]));
    let events: Vec<ModelEvent> =
        run(&model, ask("hello")).unwrap().into_iter().map(Result::unwrap).collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event {
            ModelEvent::Reasoning(_) => "reasoning",
            ModelEvent::Text(_) => "text",
            ModelEvent::ToolInput { .. } => "tool",
            ModelEvent::PartDone(_) => "done",
            ModelEvent::Usage(_) => "usage",
            ModelEvent::Finished(_) => "finished",
            _ => "other",
        })
        .collect();
    let mut order = kinds.clone();
    order.dedup();
    assert_eq!(order, ["reasoning", "done", "text", "done", "tool", "done", "usage", "finished"]);
    assert!(kinds.iter().filter(|kind| **kind == "text").count() > 2, "small deltas");
    let Some(ModelEvent::Finished(answer)) = events.last() else { panic!() };
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
    let call = ToolCall {
        call_id: "call_0_0".into(),
        name: "read".into(),
        arguments: r#"{"path": "a.md"}"#.into(),
        provider_id: Some("call_0_0".into()),
        native: None,
    };
    assert_eq!(answer.parts[2], Part::ToolCall(call));
    assert_eq!(answer.usage.as_ref().unwrap().input_tokens, model.count_input(&ask("hello")));
}

#[test]
fn a_broken_request_is_refused_and_logged() {
    let model = ScriptedProvider::new(ModelScript::turns(["never said"]));
    let error = run(&model, ModelRequest::default()).unwrap_err();
    assert_eq!((error.code, error.status, error.retryable), (ErrorCode::InvalidRequest, Some(400), false));
    assert_eq!(error.message, validation::RequestViolation::NoMessages.to_string());
    assert_eq!(model.invalid_requests(), 1);
    assert_eq!(model.turns_used(), 0);
    assert_eq!(model.log()[0].outcome, ScriptedCallOutcome::Refused(ErrorCode::InvalidRequest));
}

#[test]
fn the_window_is_enforced() {
    let model = ScriptedProvider::new(ModelScript::always("ok")).window(100);
    let input = model.count_input(&ask(&"word ".repeat(200)));
    let error = run(&model, ask(&"word ".repeat(200))).unwrap_err();
    assert_eq!(
        (error.code, error.used_tokens, error.limit_tokens),
        (ErrorCode::ContextOverflow, Some(input), Some(100))
    );
    assert!(error.message.contains("maximum context length is 100 tokens"));
    assert!(error.message.contains(&input.to_string()));
    let reserve = ModelRequest { max_output_tokens: Some(99), ..ask("hi") };
    let error = run(&model, reserve.clone()).unwrap_err();
    assert!(error.message.contains("99 in the completion"), "{}", error.message);
    let lenient = ScriptedProvider::new(ModelScript::always("ok")).window(100).without_output_reserve();
    assert_eq!(answer(&lenient, reserve).finish, ModelStopReason::Stop);
}

#[test]
fn generation_stops_at_the_end_of_the_window_and_at_the_limit() {
    let long = "one two three four ".repeat(100);
    let model = ScriptedProvider::new(ModelScript::always(long.as_str())).window(60);
    let cut = answer(&model, ask("go"));
    assert_eq!(cut.finish, ModelStopReason::Length);
    assert!(cut.usage.unwrap().total_tokens() <= 60);
    let limited = ModelRequest { max_output_tokens: Some(10), ..ask("go") };
    let cut = answer(&model, limited);
    assert_eq!(cut.finish, ModelStopReason::Length);
    let Part::Text(text) = &cut.parts[0] else { panic!() };
    assert!(long.starts_with(&text.text) && !text.text.is_empty());
    assert!(cut.usage.unwrap().output_tokens <= 10);
}

#[test]
fn the_bias_scales_what_is_reported() {
    let request = ask(&"some words to count ".repeat(50));
    let plain = ScriptedProvider::new(ModelScript::always("x"));
    let biased = ScriptedProvider::new(ModelScript::always("x")).count(ScriptedTokenCounter::biased(1.5));
    let (plain, biased) = (plain.count_input(&request), biased.count_input(&request));
    assert_eq!(biased, (plain * 3).div_ceil(2));
}

#[test]
fn faults_before_the_stream() {
    let wait = Some(Duration::from_secs(7));
    let turns = [
        ScriptedAnswer::text("a").fail(ScriptedFault::Status { status: 429, retry_after: wait }),
        ScriptedAnswer::text("b").fail(ScriptedFault::status(503)),
        ScriptedAnswer::text("c").fail(ScriptedFault::Overflow { used: Some(9), limit: Some(8) }),
        ScriptedAnswer::text("d").fail(ScriptedFault::status(401)),
    ];
    let model = ScriptedProvider::new(ModelScript::turns(turns));
    let errors: Vec<ProviderError> = (0..5).map(|_| run(&model, ask("x")).unwrap_err()).collect();
    let codes: Vec<ErrorCode> = errors.iter().map(|error| error.code).collect();
    let expected = [
        ErrorCode::RateLimitExceeded,
        ErrorCode::ThirdParty,
        ErrorCode::ContextOverflow,
        ErrorCode::Auth,
        ErrorCode::ThirdParty,
    ];
    assert_eq!(codes, expected);
    assert_eq!(errors[0].retry_after, wait);
    assert_eq!((errors[2].used_tokens, errors[2].limit_tokens), (Some(9), Some(8)));
    assert_eq!(errors[4].message, "the script has no turn 4");
}

#[test]
fn a_failed_attempt_does_not_use_up_its_turn() {
    let model = ScriptedProvider::new(ModelScript::turns(["first", "second"]))
        .fail_at(0, ScriptedFault::status(500))
        .fail_at(2, ScriptedFault::Truncated { after: 1 });
    assert_eq!(run(&model, ask("x")).unwrap_err().status, Some(500));
    assert_eq!(text_of(&run(&model, ask("x")).unwrap()), "first");
    let cut = run(&model, ask("x")).unwrap();
    assert_eq!(cut.last().unwrap().as_ref().unwrap_err().code, ErrorCode::TruncatedStream);
    assert_eq!(text_of(&run(&model, ask("x")).unwrap()), "second");
    assert_eq!(model.turns_used(), 2);
}

#[test]
fn special_endings() {
    let call = || ScriptedAnswer::text("ok").call("write", r#"{"path":"a","text":"b"}"#);
    let model = ScriptedProvider::new(ModelScript::turns([
        call().fail(ScriptedFault::CutArguments),
        call().fail(ScriptedFault::Empty),
        call().fail(ScriptedFault::Length { tokens: 1 }),
        call().usage(ScriptedUsage::Missing),
        call().usage(ScriptedUsage::Exactly(Usage { input_tokens: 1, ..Usage::default() })),
        ScriptedAnswer::text("no").finish(ModelStopReason::ContentFilter),
    ]));
    let cut = answer(&model, ask("x"));
    assert_eq!(cut.finish, ModelStopReason::Length);
    let Part::ToolCall(partial) = &cut.parts[1] else { panic!() };
    assert_eq!(partial.arguments, r#"{"path":"a""#);
    let empty = answer(&model, ask("x"));
    assert_eq!((empty.parts.len(), empty.finish), (0, ModelStopReason::Stop));
    assert_eq!(answer(&model, ask("x")).finish, ModelStopReason::Length);
    assert_eq!(answer(&model, ask("x")).usage, None);
    assert_eq!(answer(&model, ask("x")).usage.unwrap().input_tokens, 1);
    assert_eq!(answer(&model, ask("x")).finish, ModelStopReason::ContentFilter);
}

#[test]
fn a_stalled_stream_can_be_dropped() {
    let model = ScriptedProvider::new(ModelScript::always(
        ScriptedAnswer::text("one two three").fail(ScriptedFault::Stall { after: 2 }),
    ));
    let mut stream = now(model.call(ask("x"))).unwrap();
    assert!(now(stream.next()).unwrap().is_ok());
    assert!(now(stream.next()).unwrap().is_ok());
    assert!(stream.next().now_or_never().is_none());
    assert_eq!(model.log()[0].outcome, ScriptedCallOutcome::Open);
    drop(stream);
    assert_eq!(model.log()[0].outcome, ScriptedCallOutcome::Dropped);
}

#[test]
fn a_slow_answer_waits_before_each_event() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let model = ScriptedProvider::new(ModelScript::always(
        ScriptedAnswer::text("a b c").pace(Duration::from_millis(4)),
    ));
    let started = std::time::Instant::now();
    let events: Events = runtime.block_on(async { model.call(ask("x")).await.unwrap().collect().await });
    assert!(started.elapsed() >= Duration::from_millis(4 * events.len() as u64));
}

#[test]
fn summary_requests_are_answered_apart() {
    let summarise = || ModelRequest {
        system: "Summarise the conversation.".into(),
        ..ask("Fix the parser\nthen run the tests")
    };
    let model = ScriptedProvider::new(ModelScript::turns(["main"])).keep_requests();
    let good = answer(&model, summarise());
    let Part::Text(text) = &good.parts[0] else { panic!() };
    assert!(text.text.contains("Fix the parser"), "{}", text.text);
    assert_eq!((model.turns_used(), model.log()[0].kind), (0, ScriptedCallKind::Summary));
    assert_eq!(model.log()[0].request.as_ref().unwrap().system, "Summarise the conversation.");
    let with = |how| answer(&ScriptedProvider::new(ModelScript::always("main")).summaries(how), summarise());
    assert_eq!(with(ScriptedSummaries::Empty).parts, []);
    assert_eq!(with(ScriptedSummaries::CallsTools).finish, ModelStopReason::ToolCalls);
    let Part::Text(longer) = &with(ScriptedSummaries::Longer).parts[0] else { panic!() };
    assert!(longer.text.len() > 2 * "Fix the parser\nthen run the tests".len());
    let closure = ScriptedProvider::new(ModelScript::closure(|_, index| {
        (index > 0).then(|| ScriptedAnswer::text("mine"))
    }));
    assert!(text_of(&run(&closure, summarise()).unwrap()).contains("Goal:"));
    assert_eq!(text_of(&run(&closure, summarise()).unwrap()), "mine");
}

#[test]
fn the_order_of_the_core_is_recognised_with_and_without_tools() {
    let order = format!("{}: write a summary.", longhaul_core::plan::ORDER_START);
    let mut riding = ask("Fix the parser");
    riding.messages[0].parts.extend([Part::text("\n\n"), Part::text(order.clone())]);
    riding.max_output_tokens = Some(30);
    riding.tools = vec![tool()];
    let flattened = ask(&format!("{order}\n\nThe conversation, as data:\n\n<user>\nFix the parser\n"));
    let model = ScriptedProvider::new(ModelScript::turns(["main"]));
    for request in [riding, flattened] {
        assert!(is_summary_request(&request));
        let answer = answer(&model, request);
        assert_eq!(answer.finish, ModelStopReason::Stop);
        let Part::Text(text) = &answer.parts[0] else { panic!() };
        assert!(
            text.text.contains("Fix the parser") && !text.text.contains(longhaul_core::plan::ORDER_START),
            "{}",
            text.text
        );
    }
    assert!(!is_summary_request(&ask("Please summarise this file.")));
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: "read".into(),
        description: String::new(),
        parameters: RawJson("{}".into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

#[test]
fn what_the_model_cannot_take_is_refused() {
    let model = ScriptedProvider::new(ModelScript::always("x")).without_tools();
    let error = run(&model, ModelRequest { tools: vec![tool()], ..ask("x") }).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert_eq!(model.invalid_requests(), 0);
    assert!(!now(model.limits()).tools.may());
    let shared: SharedProvider = Arc::new(model);
    assert_eq!(shared.origin().provider, "scripted");
}

#[test]
fn asking_for_more_than_the_model_writes_is_no_overflow() {
    let model = ScriptedProvider::new(ModelScript::always("x")).max_output(100);
    let error = run(&model, ModelRequest { max_output_tokens: Some(101), ..ask("x") }).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert_eq!(longhaul_wire::overflow::recognise(error.status, error.body.as_deref().unwrap()), None);
    assert!(run(&model, ModelRequest { max_output_tokens: Some(100), ..ask("x") }).is_ok());
}

#[test]
fn overflow_errors_are_recognised_as_real_ones_are() {
    for error in [overflow(Some(900), Some(800), None), overflow(Some(700), Some(800), Some(200))] {
        let found = longhaul_wire::overflow::recognise(error.status, error.body.as_deref().unwrap()).unwrap();
        assert_eq!(
            (found.used_tokens, found.limit_tokens),
            (error.used_tokens, error.limit_tokens),
            "{}",
            error.message
        );
    }
    let silent = overflow(None, None, None);
    let found = longhaul_wire::overflow::recognise(silent.status, silent.body.as_deref().unwrap()).unwrap();
    assert_eq!((found.used_tokens, found.limit_tokens), (None, None));
}

#[test]
fn equal_requests_have_equal_hashes() {
    let model = ScriptedProvider::new(ModelScript::always("x"));
    for text in ["a", "a", "b"] {
        run(&model, ask(text)).unwrap();
    }
    let log = model.log();
    assert_eq!(log[0].hash, log[1].hash);
    assert_ne!(log[0].hash, log[2].hash);
}

#[test]
fn a_tool_conversation_is_played_through() {
    let model =
        ScriptedProvider::new(ModelScript::turns([ScriptedAnswer::calling("read", "{}"), "done".into()]));
    let mut request = ask("read it");
    let first = answer(&model, request.clone());
    request.messages.push(Message {
        id: "a".into(),
        role: Role::Assistant,
        parts: first.parts,
        origin: Some(model.origin()),
    });
    assert_eq!(run(&model, request.clone()).unwrap_err().code, ErrorCode::InvalidRequest);
    let result = ToolResult {
        call_id: "call_0_0".into(),
        status: ToolStatus::Completed,
        content: vec![Part::text("text")],
        truncated: None,
    };
    request.messages.push(Message {
        id: "t".into(),
        role: Role::Tool,
        parts: vec![Part::ToolResult(result)],
        origin: None,
    });
    assert_eq!(answer(&model, request).parts, [Part::text("done")]);
}

fn any_fault() -> impl Strategy<Value = Option<ScriptedFault>> {
    let after = 0usize..40;
    prop_oneof![
        Just(None),
        Just(Some(ScriptedFault::Empty)),
        Just(Some(ScriptedFault::CutArguments)),
        (0u64..40).prop_map(|tokens| Some(ScriptedFault::Length { tokens })),
        after.clone().prop_map(|after| Some(ScriptedFault::Truncated { after })),
        after.clone().prop_map(|after| Some(ScriptedFault::Disconnect { after })),
        after.clone().prop_map(|after| Some(ScriptedFault::Garbage { after })),
        after.clone().prop_map(|after| Some(ScriptedFault::Stall { after })),
        after.prop_map(|after| Some(ScriptedFault::InBand {
            after,
            code: ErrorCode::ThirdParty,
            message: "overloaded".into()
        })),
        Just(Some(ScriptedFault::status(500))),
    ]
}

fn any_answer() -> impl Strategy<Value = ScriptedAnswer> {
    let say = prop_oneof![
        "[a-zé ]{0,60}".prop_map(ScriptedPart::Text),
        "[a-z ]{0,40}".prop_map(ScriptedPart::Reasoning),
        "[a-z]{0,30}".prop_map(|text| ScriptedPart::Call {
            name: "run".into(),
            arguments: format!("{{\"a\":\"{text}\"}}"),
            id: None
        }),
    ];
    (prop::collection::vec(say, 0..5), any_fault()).prop_map(|(say, fault)| ScriptedAnswer {
        say,
        fault,
        ..ScriptedAnswer::default()
    })
}

/// Terminal outcomes: an error, or the closing event.
fn terminals(events: &Events) -> usize {
    events.iter().filter(|event| matches!(event, Err(_) | Ok(ModelEvent::Finished(_)))).count()
}

proptest! {
    #[test]
    fn every_call_has_exactly_one_terminal_outcome(answer in any_answer(), window in 20u64..80) {
        let stalls = matches!(answer.fault, Some(ScriptedFault::Stall { .. }));
        let model = ScriptedProvider::new(ModelScript::always(answer)).window(window);
        match now(model.call(ask("go on"))) {
            Err(error) => prop_assert_eq!(model.log()[0].outcome, ScriptedCallOutcome::Refused(error.code)),
            Ok(mut stream) => {
                let mut events = Events::new();
                while let Some(Some(event)) = stream.next().now_or_never() {
                    events.push(event);
                }
                prop_assert_eq!(terminals(&events), usize::from(!stalls));
                prop_assert!(stalls || matches!(events.last(), Some(Err(_) | Ok(ModelEvent::Finished(_)))));
                drop(stream);
                let outcome = model.log()[0].outcome;
                prop_assert_eq!(outcome == ScriptedCallOutcome::Dropped, stalls);
            }
        }
    }

    #[test]
    fn deltas_add_up_to_the_parts(answer in any_answer(), window in 20u64..80) {
        let model = ScriptedProvider::new(ModelScript::always(answer)).window(window);
        let Ok(events) = now(model.call(ask("go on"))).map(|mut stream| {
            let mut events = Events::new();
            while let Some(Some(event)) = stream.next().now_or_never() { events.push(event); }
            events
        }) else { return Ok(()) };
        if let Some(Ok(ModelEvent::Finished(answer))) = events.last() {
            let text: String = answer.parts.iter().filter_map(Part::as_text).collect();
            prop_assert_eq!(text_of(&events), text);
            let usage = answer.usage.as_ref().unwrap();
            prop_assert!(usage.total_tokens() <= window);
            let done = events.iter().filter(|event| matches!(event, Ok(ModelEvent::PartDone(_)))).count();
            let open_call = usize::from(answer.parts.len() > done);
            prop_assert!(open_call == 0 || (answer.finish == ModelStopReason::Length && matches!(answer.parts.last(), Some(Part::ToolCall(_)))));
        }
    }

    #[test]
    fn equal_scripts_give_equal_events(answer in any_answer()) {
        prop_assume!(!matches!(answer.fault, Some(ScriptedFault::Stall { .. })));
        let play = || run(&ScriptedProvider::new(ModelScript::always(answer.clone())), ask("x"));
        prop_assert_eq!(play(), play());
    }
}
