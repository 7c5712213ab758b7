use proptest::prelude::{ProptestConfig, prop, proptest};
use serde_json::{Value, json};

use super::super::*;

fn text(at: usize, words: usize) -> String {
    format!("text {at} of something ").repeat(words)
}

/// A conversation in OpenAI's format, with two parallel calls in each turn and fields that nobody here knows.
fn openai(turns: usize) -> Vec<Value> {
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let turn = |at: usize| {
        [
            json!({"role": "user", "name": "ada", "content": [{"type": "text", "text": text(at, 5), "x": at}]}),
            json!({"role": "assistant", "content": null, "x": at, "tool_calls": [call("call_0"), call("call_1")]}),
            json!({"role": "tool", "tool_call_id": "call_1", "content": text(at, 100), "x": at}),
            json!({"role": "tool", "tool_call_id": "call_0", "x": at, "content": [
                {"type": "text", "text": text(at, 100), "x": at},
            ]}),
            json!({"role": "assistant", "content": text(at, 5), "reasoning_content": "Hm.", "x": at}),
        ]
    };
    let system = json!({"role": "system", "content": "Never touch `secrets.env`."});
    let last = json!({"role": "user", "content": "And now?"});
    [system].into_iter().chain((0..turns).flat_map(turn)).chain([last]).collect()
}

/// A conversation in Anthropic's format: one message has both results, and a text behind them.
fn anthropic(turns: usize) -> Vec<Value> {
    let turn = |at: usize| {
        let (one, two) = (format!("toolu_{at}a"), format!("toolu_{at}b"));
        [
            json!({"role": "user", "content": text(at, 5)}),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "tool_use", "id": one, "name": "read", "input": {"path": at}},
                {"type": "tool_use", "id": two, "name": "read", "input": {}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": one, "content": text(at, 100), "is_error": true},
                {"type": "tool_result", "tool_use_id": two, "content": [{"type": "text", "text": text(at, 100)}],
                    "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Go on.", "x": at},
            ]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": text(at, 5)}]}),
        ]
    };
    (0..turns).flat_map(turn).chain([json!({"role": "user", "content": "And now?"})]).collect()
}

/// The calls and results of messages, each answer's sorted: `call a`, `result a`.
fn pairs(messages: &[Value]) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in messages {
        let ids = message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["id"]);
        calls.extend(ids.map(Value::to_string));
        results.extend(message.get("tool_call_id").map(Value::to_string));
        for block in message["content"].as_array().into_iter().flatten() {
            calls.extend(block.get("id").map(Value::to_string));
            results.extend(block.get("tool_use_id").map(Value::to_string));
        }
    }
    calls.sort();
    results.sort();
    (calls, results)
}

/// Checks what must hold of any messages that were fitted, and returns how many were kept as they were.
fn check(given: &[Value], fitted: &FittedMessages<Value>, usable_tokens: u64) -> usize {
    assert!(fitted.tokens <= usable_tokens, "{} tokens", fitted.tokens);
    let (calls, results) = pairs(&fitted.messages);
    assert_eq!(calls, results, "every call has its result");
    let kept = (0..given.len()).filter(|at| !fitted.left_out.contains(at) && !fitted.shortened.contains(at));
    let kept: Vec<&Value> = kept.map(|at| &given[at]).collect();
    let mut rest = fitted.messages.iter();
    for message in &kept {
        assert!(rest.any(|sent| sent == *message), "{message} is neither kept in order nor named");
    }
    assert_eq!(fitted.messages.last(), given.last());
    kept.len()
}

#[test]
fn openai_messages_that_fit_stay_as_they_are() {
    let given = openai(2);
    let fitted = fit_openai(&given, &Window::tokens(32_000)).unwrap();
    assert_eq!(fitted.messages, given);
    assert!(fitted.left_out.is_empty() && fitted.shortened.is_empty() && fitted.tokens > 1_000);
}

#[test]
fn anthropic_messages_that_fit_stay_as_they_are() {
    let given = anthropic(2);
    let fitted = fit_anthropic(&given, &Window::tokens(32_000)).unwrap();
    assert_eq!(fitted.messages, given);
    assert!(fitted.left_out.is_empty() && fitted.shortened.is_empty() && fitted.tokens > 1_000);
}

#[test]
fn a_result_in_the_openai_format_keeps_its_other_fields() {
    let given = openai(30);
    let fitted = fit_openai(&given, &Window::tokens(16_000)).unwrap();
    assert!(check(&given, &fitted, 12_000) > 40);
    assert_eq!(fitted.messages[0], given[0], "instructions stay");
    let at = fitted.shortened[0];
    let sent =
        fitted.messages.iter().find(|sent| sent["x"] == given[at]["x"] && sent["role"] == "tool").unwrap();
    assert_eq!((&sent["tool_call_id"], &sent["x"]), (&given[at]["tool_call_id"], &given[at]["x"]));
    assert!(sent["content"].to_string().len() < given[at]["content"].to_string().len() / 4, "{sent}");
}

#[test]
fn results_of_an_anthropic_message_may_stay_in_part() {
    let given = anthropic(30);
    let fitted = fit_anthropic(&given, &Window::tokens(16_000)).unwrap();
    assert!(check(&given, &fitted, 12_000) > 40);
    let at = fitted.shortened[0];
    let id = &given[at]["content"][1]["tool_use_id"];
    let sent = fitted.messages.iter().find(|sent| sent["content"][1]["tool_use_id"] == *id).unwrap();
    assert_eq!(sent["content"][0]["is_error"], true);
    assert_eq!(sent["content"][1]["cache_control"], given[at]["content"][1]["cache_control"]);
    assert_eq!(sent["content"][2], given[at]["content"][2]);
    assert!(sent["content"][0]["content"].to_string().len() < 400, "{sent}");
    assert_eq!(sent["content"][1]["content"][0]["type"], "text");
}

#[test]
fn an_extract_is_a_message_of_the_user() {
    let given = openai(300);
    let fitted = fit_openai(&given, &Window::tokens(8_000)).unwrap();
    check(&given, &fitted, 6_000);
    assert_eq!(fitted.messages[0], given[0], "instructions stay first");
    assert_eq!(fitted.messages[1]["role"], "user");
    assert!(fitted.messages[1]["content"].as_str().unwrap().starts_with(MARK), "{}", fitted.messages[1]);
    let again = fit_openai(&fitted.messages, &Window::tokens(8_000)).unwrap();
    assert_eq!(again.messages, fitted.messages);
}

#[test]
fn instructions_keep_their_place() {
    let mut given = openai(4);
    given.insert(11, json!({"role": "developer", "content": "From now on in French."}));
    let fitted = fit_openai(&given, &Window::tokens(6_000)).unwrap();
    assert!(!fitted.left_out.contains(&11) && !fitted.shortened.is_empty());
    let at = fitted.messages.iter().position(|sent| sent["role"] == "developer").unwrap();
    assert_eq!(fitted.messages[at + 1], given[12]);
}

#[test]
fn a_long_text_is_shown_beside_its_picture() {
    let picture =
        json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}});
    let long = "A line of a long text.\n".repeat(4_000);
    let given = [json!({"role": "user", "content": [{"type": "text", "text": long}, picture]})];
    let fitted = fit_openai(&given, &Window::tokens(8_000)).unwrap();
    assert_eq!(fitted.shortened, [0]);
    let content = fitted.messages[0]["content"].as_array().unwrap();
    assert!(content[0]["text"].as_str().unwrap().len() < long.len() / 2);
    assert_eq!(content.last(), Some(&picture));
}

#[test]
fn results_keep_their_order_within_a_message() {
    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
    }
    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
    }
    let given = [
        json!({"role": "user", "content": "Do both."}),
        json!({"role": "assistant", "content": [call("one"), call("two")]}),
        json!({"role": "user", "content": [result("two"), result("one")]}),
    ];
    let fitted = fit_anthropic(&given, &Window::tokens(8_000)).unwrap();
    assert_eq!(fitted.messages, given);
    assert_eq!(fitted.shortened, [0; 0]);
}

#[test]
fn results_without_their_calls_are_left_out() {
    let lost = json!({"type": "tool_result", "tool_use_id": "lost", "content": "x"});
    let said = json!({"type": "text", "text": "Hi"});
    let given =
        [json!({"role": "user", "content": [lost]}), json!({"role": "user", "content": [lost, said]})];
    let fitted = fit_anthropic(&given, &Window::tokens(8_000)).unwrap();
    assert_eq!(fitted.messages, [json!({"role": "user", "content": [said]})]);
    assert_eq!((fitted.left_out, fitted.shortened), (vec![0], vec![1]));
}

/// A step of a conversation: how many calls an answer has, and the words of its results or of a question.
fn step() -> impl proptest::strategy::Strategy<Value = (usize, usize)> {
    (0..4_usize, 1..400_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_openai_messages_fit(steps in prop::collection::vec(step(), 1..40), window in 6_000..20_000_u64) {
        let mut given = vec![json!({"role": "user", "content": "Begin."})];
        for (at, (calls, words)) in steps.into_iter().enumerate() {
            if calls == 0 {
                given.push(json!({"role": "user", "content": text(at, words)}));
                continue;
            }
            let call = |n| json!({"id": format!("c{n}"), "type": "function", "function": {"name": "f", "arguments": ""}});
            given.push(json!({"role": "assistant", "tool_calls": (0..calls).map(call).collect::<Vec<_>>()}));
            given.extend((0..calls).map(|n| json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": text(at, words)})));
        }
        given.push(json!({"role": "user", "content": "And now?"}));
        let fitted = fit_openai(&given, &Window::tokens(window)).unwrap();
        check(&given, &fitted, window);
    }

    #[test]
    fn any_anthropic_messages_fit(steps in prop::collection::vec(step(), 1..40), window in 6_000..20_000_u64) {
        let mut given = vec![json!({"role": "user", "content": "Begin."})];
        for (at, (calls, words)) in steps.into_iter().enumerate() {
            if calls == 0 {
                given.push(json!({"role": "user", "content": [{"type": "text", "text": text(at, words)}]}));
                continue;
            }
            let call = |n| json!({"type": "tool_use", "id": format!("{at}-{n}"), "name": "f", "input": {}});
            let result = |n| json!({"type": "tool_result", "tool_use_id": format!("{at}-{n}"), "content": text(at, words)});
            given.push(json!({"role": "assistant", "content": (0..calls).map(call).collect::<Vec<_>>()}));
            given.push(json!({"role": "user", "content": (0..calls).map(result).collect::<Vec<_>>()}));
        }
        given.push(json!({"role": "user", "content": "And now?"}));
        let fitted = fit_anthropic(&given, &Window::tokens(window)).unwrap();
        check(&given, &fitted, window);
    }
}
