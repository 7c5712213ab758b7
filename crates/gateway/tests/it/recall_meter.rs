//! What recall adds to requests, as the meter counts it: what is put back goes out, and is counted once.

use std::time::Duration;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::{Message, Part, Role, ToolResult, ToolStatus};
use longhaul_gateway::{GatewayDependencies, RecallMode};
use longhaul_wire::edit::{Dialect, ItemSegment, PartialToolCall};
use serde_json::{Value, json};

use crate::model::{call, read};
use crate::recall::{gateway_with, handle, whole, wire};
use crate::steps::{ClientRequest, DIALECTS, check, resent, results, step};
use crate::upstream::*;

const WINDOW: u64 = 16_000;

/// Turns of a conversation.
const TURNS: usize = 10;

/// Tokens of a request as it was sent, by the gateway's own counter.
fn sent_tokens(dialect: Dialect, request: &Value) -> u64 {
    let counter = MessageTokenCounter::default().for_model("m");
    let wire = wire(dialect);
    let envelope = wire.parse_request(request.to_string().into()).unwrap();
    let items: Vec<&str> = (0..envelope.items.len()).map(|at| envelope.item(at)).collect();
    let fixed = wire.fixed_content(&envelope).unwrap();
    let tools: u64 = fixed.tools.iter().map(|tool| counter.tool(tool)).sum();
    let messages = messages(wire.parse_segments(&items, 0).unwrap());
    let said: u64 = messages.iter().map(|message| counter.message(message)).sum();
    said + tools + counter.text(&fixed.system) + counter.framing().reply
}

/// The messages that pieces make: what a model says in a row is one.
fn messages(pieces: Vec<Vec<ItemSegment>>) -> Vec<Message> {
    let message = |role, parts| Message { id: "m".into(), role, parts, origin: None };
    let mut all: Vec<Message> = Vec::new();
    for piece in pieces.into_iter().flatten() {
        match piece {
            ItemSegment::Assistant(parts) => match all.last_mut().filter(|last| last.role == Role::Assistant)
            {
                Some(last) => last.parts.extend(parts),
                None => all.push(message(Role::Assistant, parts)),
            },
            ItemSegment::Result { call, content, .. } => {
                let status = ToolStatus::Completed;
                let result = ToolResult { call_id: call.as_str().into(), status, content, truncated: None };
                all.push(message(Role::Tool, vec![Part::ToolResult(result)]));
            }
            ItemSegment::Typed(parts)
            | ItemSegment::Note(parts)
            | ItemSegment::Summary(parts)
            | ItemSegment::System(parts) => {
                all.push(message(Role::User, parts));
            }
        }
    }
    all
}

/// Tokens of a step of the model's, as later requests have it.
fn said_tokens(text: &str, calls: &[ClientRequest<'_>]) -> u64 {
    let counter = MessageTokenCounter::default().for_model("m");
    let call = |(_, name, arguments): &ClientRequest<'_>| {
        counter.text(name) + counter.text(&arguments.to_string()) + counter.framing().call
    };
    counter.framing().message + counter.text(text) + calls.iter().map(call).sum::<u64>()
}

/// When a model looks something up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// In the step that calls the client's tool.
    Beside,
    /// In a step of its own before that, which says something.
    Before,
}

/// What a step of the model's says, and what it calls.
fn said_in(looks: Looks, number: usize, request: &Value) -> (String, Vec<(String, &'static str, Value)>) {
    let recall = || (format!("r{number}"), "recall", json!({ "handle": handle(request) }));
    let read = || (format!("f{number}"), "read", json!({ "n": number }));
    match (looks, number % 2) {
        (Looks::Beside, _) => (String::new(), vec![recall(), read()]),
        (Looks::Before, 0) => (words(120, number), vec![recall()]),
        (Looks::Before, _) => ("Now I read.".to_owned(), vec![read()]),
    }
}

/// A server that reports what it was really sent, and what the model has said.
async fn server(dialect: Dialect, looks: Looks, streams: bool) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let (text, calls) = said_in(looks, number, body);
        let calls: Vec<ClientRequest<'_>> =
            calls.iter().map(|(id, name, said)| (id.as_str(), *name, said.clone())).collect();
        let usage = (sent_tokens(dialect, body), said_tokens(&text, &calls));
        let events = step(dialect, &format!("a{number}"), &text, &calls, usage);
        if streams { UpstreamAnswer::Events(events, Duration::ZERO) } else { whole(dialect, events) }
    })
    .await
}

/// Ten turns: what the gateway says that it sends is what it sends.
async fn is_counted_as_sent(looks: Looks) {
    for (dialect, streams) in DIALECTS.into_iter().flat_map(|dialect| [(dialect, true), (dialect, false)]) {
        let server = server(dialect, looks, streams).await;
        let gateway =
            gateway_with(&server, dialect, RecallMode::Inject, GatewayDependencies::default(), WINDOW);
        let message =
            |at: usize| if at.is_multiple_of(2) { user(words(150, at)) } else { assistant(words(150, at)) };
        let mut messages: Vec<Value> = (0..91).map(message).collect();
        let mut replayed = 0;
        for turn in 0..TURNS {
            let before = server.received().len();
            let reply = gateway.answer(call(dialect, &messages, streams)).await;
            let counted: u64 = header(&reply, "x-longhaul-tokens-after").parse().unwrap();
            let out = body(reply).await;
            let seen =
                if streams { read(dialect, &out).0 } else { wire(dialect).parse_answer(&out).unwrap() };
            let request = server.received()[before].json();
            check(dialect, &request);
            let sent = sent_tokens(dialect, &request);
            let case =
                format!("{dialect:?}, streams: {streams}, turn {turn}: {counted} counted, {sent} sent");
            assert!(counted.abs_diff(sent) * 50 <= sent, "{case}");
            replayed += results(dialect, &request).len();
            let own = |call: &PartialToolCall| {
                (call.id.clone(), serde_json::from_str::<Value>(&call.arguments).unwrap())
            };
            let calls: Vec<(String, Value)> = seen.calls.iter().map(own).collect();
            let calls: Vec<ClientRequest<'_>> =
                calls.iter().map(|(id, said)| (id.as_str(), "read", said.clone())).collect();
            assert_eq!(calls.len(), 1, "{case}");
            messages.extend(resent(dialect, &seen.text, &calls, &words(150, turn)));
        }
        assert!(replayed > 2 * TURNS, "{dialect:?}: {replayed} results, the client's and ours");
    }
}

#[tokio::test]
async fn what_is_put_back_into_a_step_is_counted_as_it_is_sent() {
    is_counted_as_sent(Looks::Beside).await;
}

#[tokio::test]
async fn steps_that_are_put_back_are_counted_as_they_are_sent() {
    is_counted_as_sent(Looks::Before).await;
}

/// A server that reports ten times its tokens cannot have read what it reports: its window is too small for that.
#[tokio::test]
async fn reports_that_the_window_cannot_hold_do_not_refuse_short_messages() {
    let server = start_upstream(|_, body| {
        let read = body["messages"].to_string().split(' ').count() as u64;
        UpstreamAnswer::Json(200, said("it goes on", 10 * read, 4))
    })
    .await;
    let gateway =
        gateway_with(&server, Dialect::Chat, RecallMode::Inject, GatewayDependencies::default(), 4_096);
    let mut messages = Vec::new();
    for turn in 0..14 {
        messages.push(user(format!("{} number {turn}", words(180, turn))));
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(reply.status, http::StatusCode::OK, "turn {turn}");
        body(reply).await;
        gateway.settle().await;
        messages.push(assistant(format!("{} number {turn}", words(150, turn + 3))));
    }
}
