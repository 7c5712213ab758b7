use bytes::Bytes;
use longhaul_core::ids::CallId;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, Part, RawJson, ReasoningPart, Role, ToolCall, ToolResult, ToolSpec,
    ToolStatus,
};
use proptest::prelude::*;

use super::*;
use crate::ModelRequest;

fn user(text: &str) -> Message {
    Message::user("m", vec![Part::text(text)])
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { id: "m".into(), role: Role::Assistant, parts, origin: None }
}

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".into(),
        arguments: "{}".into(),
        provider_id: None,
        native: None,
    })
}

fn broken_call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        provider_id: None,
        native: None,
    })
}

fn result(id: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: CallId::from(id),
        status: ToolStatus::Completed,
        content: vec![Part::text("ok")],
        truncated: None,
    })
}

fn tool(parts: Vec<Part>) -> Message {
    Message { id: "m".into(), role: Role::Tool, parts, origin: None }
}

fn image() -> Part {
    Part::Image(MediaPart {
        blob: BlobRef { hash: "aa".into(), bytes: 1 },
        media_type: "image/png".into(),
        name: None,
        width: None,
        height: None,
    })
}

fn spec(name: &str, parameters: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: RawJson(parameters.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages, ..ModelRequest::default() }
}

fn verdict(messages: Vec<Message>) -> Result<(), RequestViolation> {
    check(&request(messages))
}

#[test]
fn good_conversations_pass() {
    assert_eq!(verdict(vec![user("hi")]), Ok(()));
    assert_eq!(verdict(vec![user("hi"), assistant(vec![Part::text("ho")]), user("again")]), Ok(()));
    let calls = || assistant(vec![Part::text("let me look"), call("a"), call("b")]);
    assert_eq!(verdict(vec![user("hi"), calls(), tool(vec![result("a")]), tool(vec![result("b")])]), Ok(()));
    assert_eq!(
        verdict(vec![user("hi"), calls(), tool(vec![result("a"), result("b")]), user("and?")]),
        Ok(())
    );
    let next = assistant(vec![call("a")]);
    assert_eq!(
        verdict(vec![
            user("hi"),
            calls(),
            tool(vec![result("a"), result("b")]),
            next,
            tool(vec![result("a")])
        ]),
        Ok(())
    );
    let redacted = Part::Reasoning(ReasoningPart { text: String::new(), native: Some(RawJson("{}".into())) });
    assert_eq!(verdict(vec![user("hi"), assistant(vec![redacted]), user("go on")]), Ok(()));
}

#[test]
fn each_bad_shape_is_named() {
    let cases: Vec<(Vec<Message>, RequestViolation)> = vec![
        (vec![], RequestViolation::NoMessages),
        (vec![assistant(vec![Part::text("x")])], RequestViolation::FirstNotUser(Role::Assistant)),
        (vec![tool(vec![result("a")])], RequestViolation::FirstNotUser(Role::Tool)),
        (vec![user("a"), user("b")], RequestViolation::NotMerged { index: 1, role: Role::User }),
        (
            vec![user("a"), assistant(vec![Part::text("x")]), assistant(vec![Part::text("y")]), user("b")],
            RequestViolation::NotMerged { index: 2, role: Role::Assistant },
        ),
        (vec![user("a"), assistant(vec![Part::text("x")])], RequestViolation::LastNotInput { index: 1 }),
        (vec![user(" \n")], RequestViolation::Empty { index: 0 }),
        (vec![user("a"), assistant(vec![]), user("b")], RequestViolation::Empty { index: 1 }),
        (
            vec![Message::user("m", vec![Part::text("x"), call("a")])],
            RequestViolation::WrongPart { index: 0, role: Role::User, part: "tool-call" },
        ),
        (
            vec![Message::user("m", vec![Part::Reasoning(ReasoningPart { text: "x".into(), native: None })])],
            RequestViolation::WrongPart { index: 0, role: Role::User, part: "reasoning" },
        ),
        (
            vec![Message::user("m", vec![result("a")])],
            RequestViolation::WrongPart { index: 0, role: Role::User, part: "tool-result" },
        ),
        (
            vec![user("a"), assistant(vec![call("a")]), tool(vec![Part::text("x")])],
            RequestViolation::WrongPart { index: 2, role: Role::Tool, part: "text" },
        ),
        (
            vec![user("a"), assistant(vec![call("a"), call("a")])],
            RequestViolation::DuplicateCall { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![broken_call("a", "", "{}")])],
            RequestViolation::NamelessCall { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![broken_call("a", "x", "{\"p\":")])],
            RequestViolation::Arguments { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![broken_call("a", "x", "[1]")])],
            RequestViolation::Arguments { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![call("a")])],
            RequestViolation::Unanswered { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![call("a")]), user("b")],
            RequestViolation::Unanswered { index: 1, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![call("a"), call("b")]), tool(vec![result("a")]), user("b")],
            RequestViolation::Unanswered { index: 1, call: "b".into() },
        ),
        (vec![user("a"), tool(vec![result("a")])], RequestViolation::Unasked { index: 1, call: "a".into() }),
        (
            vec![user("a"), assistant(vec![call("a")]), tool(vec![result("a"), result("a")])],
            RequestViolation::Unasked { index: 2, call: "a".into() },
        ),
        (
            vec![user("a"), assistant(vec![call("a"), call("b")]), tool(vec![result("b"), result("a")])],
            RequestViolation::OutOfOrder { index: 2, expected: "a".into(), found: "b".into() },
        ),
        (
            vec![Message::user("m", vec![image()])],
            RequestViolation::MissingMedia { index: 0, hash: "aa".into() },
        ),
    ];
    for (messages, expected) in cases {
        let found = verdict(messages.clone());
        assert_eq!(found, Err(expected), "{messages:?}");
    }
}

#[test]
fn tools_and_limits_are_checked() {
    let with = |tools| ModelRequest { tools, ..request(vec![user("a")]) };
    assert_eq!(check(&with(vec![spec("a", "{}"), spec("b", "{\"type\":\"object\"}")])), Ok(()));
    assert_eq!(
        check(&with(vec![spec("a", "{}"), spec("a", "{}")])),
        Err(RequestViolation::ToolName { index: 1, name: "a".into() })
    );
    assert_eq!(
        check(&with(vec![spec("a", "true")])),
        Err(RequestViolation::ToolParameters { index: 0, name: "a".into() })
    );
    let none = ModelRequest { max_output_tokens: Some(0), ..request(vec![user("a")]) };
    assert_eq!(check(&none), Err(RequestViolation::NoOutput));
}

#[test]
fn media_with_bytes_and_prefill_pass() {
    let mut seen = request(vec![Message::user("m", vec![image()])]);
    seen.media.insert("aa".into(), Bytes::from_static(b"x"));
    assert_eq!(check(&seen), Ok(()));
    let prefill = request(vec![user("a"), assistant(vec![Part::text("The answer")])]);
    assert_eq!(check_prefill(&prefill), Ok(()));
}

/// A step of a conversation: the number of the model's calls, and `true` for a person's message afterwards.
fn conversation(steps: &[(usize, bool)]) -> Vec<Message> {
    let mut messages = vec![user("begin")];
    for (step, (calls, person)) in steps.iter().enumerate() {
        let ids: Vec<String> = (0..*calls).map(|n| format!("{step}-{n}")).collect();
        let mut parts = vec![Part::text("thinking aloud")];
        parts.extend(ids.iter().map(|id| call(id)));
        messages.push(assistant(parts));
        messages.extend(ids.iter().map(|id| tool(vec![result(id)])));
        if *person || *calls == 0 {
            messages.push(user("next"));
        }
    }
    messages
}

proptest! {
    #[test]
    fn any_wellformed_conversation_passes(steps in prop::collection::vec((0usize..4, any::<bool>()), 0..8)) {
        prop_assert_eq!(verdict(conversation(&steps)), Ok(()));
    }

    #[test]
    fn losing_or_doubling_one_message_is_noticed(
        steps in prop::collection::vec((0usize..4, any::<bool>()), 1..8),
        at in any::<prop::sample::Index>(),
        double in any::<bool>(),
    ) {
        let mut messages = conversation(&steps);
        let at = at.index(messages.len());
        let bound = messages[at].role == Role::Tool || messages[at].tool_calls().next().is_some();
        if double {
            let copy = messages[at].clone();
            messages.insert(at, copy);
            prop_assert!(verdict(messages).is_err());
        } else if bound {
            messages.remove(at);
            prop_assert!(verdict(messages).is_err());
        }
    }
}
