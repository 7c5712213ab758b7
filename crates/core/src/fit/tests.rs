use super::*;
use crate::ids::CallId;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::strategy::{AdaptiveStrategy, MiddleRemovalStrategy, SummarizationStrategy, TruncationStrategy};

fn user(at: usize, text: &str) -> Message {
    Message::user(format!("u{at}"), vec![Part::text(text)])
}

fn answer(at: usize, parts: Vec<Part>) -> Message {
    Message { id: format!("a{at}").into(), role: Role::Assistant, parts, origin: None }
}

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
        provider_id: None,
        native: None,
    })
}

fn result(id: &str, text: &str) -> Message {
    let content = vec![Part::text(text)];
    let result =
        ToolResult { call_id: CallId::from(id), status: ToolStatus::Completed, content, truncated: None };
    Message {
        id: format!("result-{id}").into(),
        role: Role::Tool,
        parts: vec![Part::ToolResult(result)],
        origin: None,
    }
}

/// A conversation of `turns` turns, each with a tool call of about 700 tokens.
fn conversation(turns: usize) -> Vec<Message> {
    let turn = |at: usize| {
        let id = format!("c{at}");
        let output = format!("line {at}: nothing that matters\n").repeat(70);
        [
            user(at, &format!("Question {at}: what is in file {at}?")),
            answer(2 * at, vec![call(&id)]),
            result(&id, &output),
            answer(2 * at + 1, vec![Part::text(format!("Answer {at}."))]),
        ]
    };
    (0..turns).flat_map(turn).chain([user(turns, "And now?")]).collect()
}

fn calls_and_results(messages: &[Message]) -> (Vec<CallId>, Vec<CallId>) {
    let calls = messages.iter().flat_map(Message::tool_calls).map(|call| call.call_id.clone()).collect();
    let results = messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result.call_id.clone()),
        _ => None,
    });
    (calls, results.collect())
}

#[test]
fn messages_that_fit_stay_as_they_are() {
    let messages = conversation(3);
    let fitted = fit(&messages, &Window::tokens(32_000)).unwrap();
    assert_eq!(fitted.messages, messages);
    assert!(fitted.left_out.is_empty() && fitted.shortened.is_empty());
    assert!(fitted.tokens > 1_000, "{}", fitted.tokens);
}

#[test]
fn every_strategy_makes_a_long_conversation_fit() {
    let messages = conversation(60);
    let window = Window::tokens(16_000).fixed_tokens(1_000);
    let strategies: [Arc<dyn CompactionStrategy>; 4] = [
        Arc::new(AdaptiveStrategy::default()),
        Arc::new(TruncationStrategy::default()),
        Arc::new(MiddleRemovalStrategy::default()),
        Arc::new(SummarizationStrategy::default()),
    ];
    for strategy in strategies {
        let name = strategy.name().to_owned();
        let fitted = fit_with(&messages, &window, strategy).unwrap();
        assert!(fitted.tokens <= 12_000, "{name}: {}", fitted.tokens);
        assert_eq!(fitted.messages.last(), messages.last(), "{name}");
        let (calls, results) = calls_and_results(&fitted.messages);
        assert_eq!(calls, results, "{name}: every call has its result");
        let gone = fitted.left_out.len() + fitted.shortened.len();
        assert!(gone > 0, "{name}");
        let kept = (0..messages.len())
            .filter(|at| !fitted.left_out.contains(at))
            .filter(|at| !fitted.shortened.contains(at));
        for at in kept {
            assert!(
                fitted.messages.contains(&messages[at]),
                "{name}: message {at} is neither kept nor named"
            );
        }
    }
}

#[test]
fn an_extract_stands_for_what_is_left_out() {
    // More turns than have room without the outputs of their tools.
    let mut messages = conversation(200);
    messages[0] = user(0, "Never touch the file `secrets.env`.");
    let fitted = fit(&messages, &Window::tokens(8_000)).unwrap();
    assert!(fitted.left_out.contains(&0));
    let text: String = fitted.messages.iter().map(Message::text).collect();
    assert!(text.contains("Never touch the file `secrets.env`."), "{text:.600}");
    assert!(!text.contains("recall"), "there is no such tool");
}

#[test]
fn fitted_messages_can_be_fitted_again() {
    let window = Window::tokens(8_000);
    let mut messages = fit(&conversation(60), &window).unwrap().messages;
    for at in 100..160 {
        messages.push(answer(at, vec![Part::text("It is so. ".repeat(40))]));
        messages.push(user(at, &format!("Question {at}? {}", "Say more. ".repeat(40))));
        let fitted = fit(&messages, &window).unwrap();
        assert!(fitted.tokens <= 6_000, "{at}: {}", fitted.tokens);
        messages = fitted.messages;
    }
}

#[test]
fn a_result_without_its_call_is_left_out() {
    let messages = [user(0, "Hi"), result("lost", "something"), user(1, "And?")];
    let fitted = fit(&messages, &Window::tokens(8_000)).unwrap();
    assert_eq!(fitted.left_out, [1]);
    assert_eq!(fitted.messages, [messages[0].clone(), messages[2].clone()]);
}

#[test]
fn a_newest_message_beyond_the_window_is_shortened() {
    let messages = [user(0, &"A line of a long text.\n".repeat(4_000))];
    let fitted = fit(&messages, &Window::tokens(8_000)).unwrap();
    assert_eq!((fitted.left_out.as_slice(), fitted.shortened.as_slice()), (&[][..], &[0][..]));
    assert!(fitted.tokens <= 6_000, "{}", fitted.tokens);
}

#[test]
fn what_cannot_fit_is_an_error() {
    let window = Window::tokens(8_000).fixed_tokens(7_900);
    let misfit = fit(&[user(0, "Hi")], &window).unwrap_err();
    assert_eq!((misfit.fixed_tokens, misfit.window_tokens), (7_900, 8_000));
}

#[test]
fn the_counter_of_the_window_counts() {
    let messages = conversation(3);
    let by = |counter| fit(&messages, &Window::tokens(32_000).counter(counter)).unwrap().tokens;
    assert_ne!(by(MessageTokenCounter::characters()), by(MessageTokenCounter::default()));
}

#[test]
fn the_newest_results_stay_that_have_room() {
    // 40 results of about 700 tokens: 28,000 tokens, of which the window has 12,000.
    let messages = conversation(40);
    let fitted = fit(&messages, &Window::tokens(16_000)).unwrap();
    assert!((9_500..=10_800).contains(&fitted.tokens), "0.9 of 12,000 tokens are used: {}", fitted.tokens);
    let results: Vec<usize> = (0..messages.len()).filter(|at| messages[*at].role == Role::Tool).collect();
    let whole: Vec<usize> = results
        .iter()
        .copied()
        .filter(|at| !fitted.left_out.contains(at) && !fitted.shortened.contains(at))
        .collect();
    assert!(whole.len() > 5, "{whole:?}");
    assert_eq!(whole, results[results.len() - whole.len()..], "the newest stay");
}

#[test]
fn calls_may_have_the_same_id_in_each_turn() {
    let turn = |at: usize| {
        let output = format!("line {at}: nothing that matters\n").repeat(70);
        [user(at, "Read it."), answer(at, vec![call("call_0")]), result("call_0", &output)]
    };
    let messages: Vec<Message> = (0..40).flat_map(turn).chain([user(40, "And now?")]).collect();
    let fitted = fit(&messages, &Window::tokens(16_000)).unwrap();
    let (calls, results) = calls_and_results(&fitted.messages);
    assert_eq!(calls, results);
    assert!(calls.len() > 5 && calls.iter().all(|id| id.as_str() == "call_0"), "{calls:?}");
}

mod json;
