//! Turns: what their streams tell, how they end, and that none is waited for without end.

use std::time::Duration;

use longhaul::core::error::ErrorCode;
use longhaul::prelude::*;
use longhaul::providers::ProviderError;
use longhaul::providers::scripted::ScriptedFault;

use super::{scripted, scripted_model, whole_turn};

#[tokio::test]
async fn a_turn_tells_its_story_in_order() {
    let script = ModelScript::turns([
        ScriptedAnswer::reasoning("I should look.").then("Let me look.").call("look", "{}"),
        ScriptedAnswer::text("It is blue."),
    ]);
    let look = tool_fn("look", "Looks", |_: super::tools::Nothing, _| async { "blue" });
    let agent = scripted(script).0.tool(look).build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Which colour?").await;
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| {
            Some(match event {
                SessionEvent::MessagesTaken { .. } => "taken",
                SessionEvent::RunStarted { .. } => "started",
                SessionEvent::ReasoningDelta { .. } => "reasoning",
                SessionEvent::TextDelta { .. } => "text",
                SessionEvent::ToolCall { .. } => "call",
                SessionEvent::ToolResult { .. } => "result",
                SessionEvent::StepFinished { .. } => "step",
                SessionEvent::RunFinished { .. } => "finished",
                _ => return None,
            })
        })
        .collect();
    let mut short = kinds.clone();
    short.dedup();
    let answer = ["reasoning", "text", "call", "step", "result", "text", "step", "finished"];
    assert_eq!(short[short.len() - answer.len()..], answer, "{kinds:?}");
    assert!(
        short.starts_with(&["taken", "started"]) || short.starts_with(&["started", "taken"]),
        "{short:?}"
    );
    let output = output.unwrap();
    assert_eq!((output.text.as_str(), output.steps, output.end), ("It is blue.", 2, Some(RunEnd::Stop)));
    assert!(output.usage.input_tokens > 0);
}

#[tokio::test]
async fn a_turn_that_fails_ends_its_stream_with_the_error() {
    let refused = ProviderError::new(ErrorCode::InvalidRequest, "there is no model of that name");
    let script =
        ModelScript::always(ScriptedAnswer::text("x").fail(ScriptedFault::Refuse(Box::new(refused))));
    let agent = scripted(script).0.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut turn = session.turn("Hi").await.unwrap();
    let mut last = None;
    while let Some(event) = turn.next().await {
        last = Some(event);
    }
    let Some(Err(TurnError::Run(error))) = last else { panic!("{last:?}") };
    assert_eq!(error.message, "there is no model of that name");
    assert_eq!(turn.finish().await, Err(TurnError::Run(error.clone())));
    let unread = session.turn("Hi").await.unwrap();
    assert_eq!(unread.finish().await, Err(TurnError::Run(error)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_given_up_after_the_patience() {
    let down = ProviderError { unsent: true, ..ProviderError::new(ErrorCode::Network, "nobody listens") };
    let script = ModelScript::always(ScriptedAnswer::text("x").fail(ScriptedFault::Refuse(Box::new(down))));
    let agent = scripted(script).0.patience(Duration::from_secs(5)).build().await.unwrap();
    let session = agent.session().await.unwrap();
    let began = tokio::time::Instant::now();
    let (events, output) = whole_turn(&session, "Hi").await;
    assert!(events.iter().any(|event| matches!(event, SessionEvent::Waiting { .. })), "{events:?}");
    assert!(matches!(output, Err(TurnError::Run(_))), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_turn_in_a_busy_session_ends_with_its_own_answer() {
    let slow = ScriptedAnswer::text("one and much more").pace(Duration::from_millis(30));
    let agent = scripted(ModelScript::turns([slow, ScriptedAnswer::text("two")])).0.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut first = session.turn("First").await.unwrap();
    while !matches!(first.next().await, Some(Ok(SessionEvent::TextDelta { .. }))) {}
    let second = session.turn("Second").await.unwrap();
    let (first, second) = tokio::join!(first.finish(), second.finish());
    assert_eq!(second.unwrap().text, "two");
    assert_eq!(first.unwrap().end, Some(RunEnd::Stop));
}

#[tokio::test]
async fn a_cancelled_turn_ends() {
    let slow = ScriptedAnswer::text("word ".repeat(10_000)).pace(Duration::from_millis(20));
    let agent = scripted(ModelScript::always(slow)).0.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut turn = session.turn("Go on for ever").await.unwrap();
    let waiting = session.turn("And this?").await.unwrap();
    while let Some(event) = turn.next().await {
        if let SessionEvent::TextDelta { .. } = event.unwrap() {
            break;
        }
    }
    session.cancel(true).await.unwrap();
    let output = turn.finish().await.unwrap();
    assert_eq!(output.end, Some(RunEnd::Cancelled));
    assert!(output.text.starts_with("word"), "what was said is kept: {}", output.text);
    // Its message was taken from the queue.
    tokio::time::timeout(Duration::from_secs(30), waiting.finish()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed_and_has_the_answer() {
    let long = format!("{}the end", "word ".repeat(3_000));
    let agent = scripted_model(ScriptedProvider::new(ModelScript::always(long.clone())).window(200_000))
        .0
        .build()
        .await
        .unwrap();
    let session = agent.session().await.unwrap();
    let mut turn = session.turn("Say much").await.unwrap();
    session.settled().await.unwrap();
    let mut missed = 0;
    while let Some(event) = turn.next().await {
        if let SessionEvent::Lagged { missed: more } = event.unwrap() {
            missed += more;
        }
    }
    assert!(missed > 0, "the answer has more pieces than are kept");
    let output = turn.finish().await.unwrap();
    assert_eq!(output.text, long);
    assert_eq!(output.end, Some(RunEnd::Stop));
}

#[tokio::test]
async fn a_turn_whose_runtime_is_gone_ends_with_an_error() {
    let slow = ScriptedAnswer::text("word ".repeat(10_000)).pace(Duration::from_millis(20));
    let agent = scripted(ModelScript::always(slow)).0.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let turn = session.turn("Hi").await.unwrap();
    drop(agent);
    let end = tokio::time::timeout(Duration::from_secs(30), turn.finish()).await.unwrap();
    assert_eq!(end, Err(TurnError::Session(SessionError::Stopped)));
}
