//! How an answer ends whose model looks up too much, or has nothing else to say: the client can always go on from it.

use std::time::Duration;

use longhaul_core::message::ModelStopReason;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, list};
use crate::recall::{Had, conversation, had, injecting, look_up, sent, whole};
use crate::steps::{DIALECTS, check, results, step, tools};
use crate::upstream::*;

/// What the client is told where the model has said nothing.
const NO_ANSWER: &str = "(No answer: the model only looked up what was said earlier in this conversation.)";

/// How an upstream answers, and what the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A stream, passed on.
    Stream,
    /// A stream, collected.
    Collected,
    /// No stream at all.
    Whole,
}

const FORMS: [Form; 3] = [Form::Stream, Form::Collected, Form::Whole];

/// An upstream that answers each of its requests with the events of a script.
async fn upstream(
    dialect: Dialect,
    form: Form,
    script: impl Fn(usize, &Value) -> Vec<String> + Send + Sync + 'static,
) -> ScriptedUpstream {
    start_upstream(move |number, body| match form {
        Form::Whole => whole(dialect, script(number, body)),
        Form::Stream | Form::Collected => UpstreamAnswer::Events(script(number, body), Duration::ZERO),
    })
    .await
}

async fn answer(server: &ScriptedUpstream, dialect: Dialect, form: Form) -> Had {
    let stream = form == Form::Stream;
    had(dialect, injecting(server, dialect).answer(call(dialect, &conversation(), stream)).await, stream)
        .await
}

/// Whether the request lets the model call nothing.
fn forbids_calls(dialect: Dialect, request: &Value) -> bool {
    match dialect {
        Dialect::Messages => request["tool_choice"] == json!({ "type": "none" }),
        Dialect::Chat | Dialect::Responses => request["tool_choice"] == "none",
    }
}

/// A step that says a text and looks something up.
fn asks(dialect: Dialect, number: usize, text: &str) -> Vec<String> {
    let id = format!("c{number}");
    step(dialect, "a", text, &[(&id, "recall", json!({ "query": "vault" }))], (2_000 + number as u64, 10))
}

#[tokio::test]
async fn a_model_that_asks_too_often_is_asked_once_more_without_the_tool() {
    for dialect in DIALECTS {
        for form in FORMS {
            let server = upstream(dialect, form, move |number, body| match forbids_calls(dialect, body) {
                true => step(dialect, "b", "It is heron-4711.", &[], (3_000, 7)),
                false => asks(dialect, number, ""),
            })
            .await;
            let had = answer(&server, dialect, form).await;
            assert_eq!((had.text.as_str(), had.calls.len()), ("It is heron-4711.", 0), "{form:?}");
            assert_eq!(had.finish, Some(ModelStopReason::Stop));
            let sent = sent(&server);
            assert_eq!(sent.len(), 8, "five are answered, one is told, one is told again");
            sent.iter().for_each(|request| check(dialect, request));
            assert!(sent[..7].iter().all(|request| request.get("tool_choice").is_none()));
            let items = |at: usize| sent[at][list(dialect)].as_array().unwrap().clone();
            assert_eq!(items(7)[..items(6).len()], items(6)[..], "the upstream's prompt cache holds");
            assert_eq!(tools(&sent[7]), ["recall"]);
            let told = results(dialect, &sent[7]);
            let is_no = |told: &&String| told.contains("no more can be recalled");
            assert_eq!(told.iter().position(|told| is_no(&told)), Some(5));
            assert_eq!(told.iter().filter(is_no).count(), 2, "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_model_that_asks_even_so_has_no_answer_and_the_client_is_told() {
    for dialect in DIALECTS {
        for form in FORMS {
            for (text, expected) in [("", NO_ANSWER.to_owned()), ("Look.", format!("Look.\n\n{NO_ANSWER}"))] {
                let server = upstream(dialect, form, move |number, _| {
                    asks(dialect, number, if number == 7 { text } else { "" })
                })
                .await;
                let had = answer(&server, dialect, form).await;
                let said = had.text.replace(&format!("Look.{NO_ANSWER}"), &expected);
                assert_eq!((said, had.calls.len()), (expected, 0), "{dialect:?} {form:?} {}", had.all);
                assert_eq!(had.finish, Some(ModelStopReason::Stop), "nobody has set a limit");
                assert_eq!(server.received().len(), 8);
                assert!(had.all.contains("No answer"), "{}", had.all);
                let total = &had.totals;
                assert_eq!((&total["recalls"], &total["calls"]), (&json!(5), &json!(8)), "{total}");
                let billed = json!({ "input_tokens": 16_028, "output_tokens": 80, "estimated": false });
                assert_eq!(total["billed"], billed, "all eight calls");
                let output = if form == Form::Whole { 10 } else { 80 };
                assert_eq!(had.usage, (2_007, output), "{form:?}: the last call's input");
            }
        }
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_after_it_has_looked_up_leaves_no_empty_answer() {
    for dialect in DIALECTS {
        for form in FORMS {
            let server = upstream(dialect, form, move |number, _| match number {
                0 => asks(dialect, 0, ""),
                _ => step(dialect, "b", "", &[], (2_300, 1)),
            })
            .await;
            let had = answer(&server, dialect, form).await;
            assert_eq!((had.text.as_str(), had.finish), (NO_ANSWER, Some(ModelStopReason::Stop)), "{form:?}");
            assert_eq!(server.received().len(), 2);
            assert_eq!(had.totals["billed"]["input_tokens"], 4_300);
        }
    }
}

#[tokio::test]
async fn what_an_empty_answer_of_a_model_without_hidden_steps_is_stays() {
    for dialect in DIALECTS {
        for form in FORMS {
            let server = upstream(dialect, form, move |_, _| step(dialect, "b", "", &[], (2_300, 1))).await;
            let had = answer(&server, dialect, form).await;
            assert_eq!(
                (had.text.as_str(), had.finish),
                ("", Some(ModelStopReason::Stop)),
                "{dialect:?} {form:?}"
            );
        }
    }
}

/// The client's limit holds for all steps: where hidden ones have used it up there is no next one.
#[tokio::test]
async fn an_output_limit_that_hidden_steps_use_up_leaves_no_empty_answer() {
    for dialect in DIALECTS {
        let server = upstream(dialect, Form::Stream, move |_, body| {
            step(dialect, "a", "", &[("c1", "recall", look_up(body))], (2_000, 300))
        })
        .await;
        let mut asked = call(dialect, &conversation(), true);
        let mut request: Value = serde_json::from_slice(&asked.body).unwrap();
        let limit = if dialect == Dialect::Responses { "max_output_tokens" } else { "max_tokens" };
        request[limit] = json!(300);
        asked.body = request.to_string().into();
        let had = had(dialect, injecting(&server, dialect).answer(asked).await, true).await;
        assert_eq!(
            (had.text.as_str(), had.finish),
            (NO_ANSWER, Some(ModelStopReason::Length)),
            "{}",
            had.all
        );
        assert_eq!(server.received().len(), 1);
        assert_eq!(had.totals["billed"]["output_tokens"], 300);
    }
}
