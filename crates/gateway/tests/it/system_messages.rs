//! A client's system or developer message in the middle of a conversation reaches the model with every request,
//! however often the conversation is shortened.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, events, list, text_of, upstream as upstream_of};
use crate::shortening::spoke_of;
use crate::upstream::*;

const WINDOW_TOKENS: u64 = 6_000;

const RULE: &str = "House rule 7c:\n\nanswer in Latin, and sign with \"Vale\".";

const STRATEGIES: [&str; 6] =
    ["pruning-agent", "adaptive", "truncation", "reactive-overflow", "middle-removal", "proactive-threshold"];

/// The roles of such a message on each wire.
const ROLES: [(Dialect, &str); 5] = [
    (Dialect::Chat, "system"),
    (Dialect::Chat, "developer"),
    (Dialect::Responses, "system"),
    (Dialect::Responses, "developer"),
    (Dialect::Messages, "system"),
];

/// Returns whether a request asks for a summary, and whether that has to be a pruning agent's JSON.
fn summary_request(dialect: Dialect, body: &Value) -> Option<bool> {
    let last = body[list(dialect)].as_array().and_then(|items| items.last()).map(text_of).unwrap_or_default();
    let is_pruning = last.contains("You prune the history");
    (is_pruning || last.contains("The conversation is about to be shortened")).then_some(is_pruning)
}

async fn server(dialect: Dialect) -> ScriptedUpstream {
    start_upstream(move |_, body| {
        let text = match summary_request(dialect, body) {
            Some(true) => json!({ "prunedConversation": [], "summary": spoke_of("stones") }).to_string(),
            Some(false) => spoke_of("stones"),
            None => "fine".to_owned(),
        };
        let input = body.to_string().len() as u64 / 4;
        UpstreamAnswer::Events(events(dialect, "a", &text, (input, 5)), Duration::ZERO)
    })
    .await
}

async fn reaches_the_model(dialect: Dialect, role: &str, strategy: &str) {
    let server = server(dialect).await;
    let gateway = gateway(waiting(vec![upstream_of(&server, dialect, WINDOW_TOKENS, false)]));
    let mut items = vec![user(words(40, 0)), assistant(words(40, 1)), user("go on")];
    items.push(json!({ "role": role, "content": RULE }));
    items.push(assistant("yes"));
    let mut compactions = 0;
    for turn in 2..70 {
        items.push(user(format!("question {turn} {}", words(120, turn))));
        let mut request = call(dialect, &items, true);
        request.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
        let reply = gateway.answer(request).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}, {role}, {strategy}, turn {turn}");
        compactions += u32::from(header(&reply, "x-longhaul-action") == "compacted");
        body(reply).await;
        let mains = server.received().into_iter().rev().map(|sent| sent.json());
        let main = mains.into_iter().find(|body| summary_request(dialect, body).is_none()).unwrap();
        let sent: Vec<String> = main[list(dialect)].as_array().unwrap().iter().map(text_of).collect();
        let shown = sent.join("\n");
        assert!(shown.contains(RULE), "{dialect:?}, {role}, {strategy}, turn {turn}: {shown}");
        items.push(assistant(format!("answer {turn} {}", words(120, turn + 100))));
    }
    assert!(compactions >= 2, "{dialect:?}, {role}, {strategy}: {compactions} compactions");
}

#[tokio::test]
async fn a_system_message_in_the_middle_outlasts_every_compaction() {
    for strategy in STRATEGIES {
        for (dialect, role) in ROLES {
            reaches_the_model(dialect, role, strategy).await;
        }
    }
}

#[tokio::test]
async fn a_system_message_outlasts_compactions_that_a_client_asks_for() {
    let server = server(Dialect::Responses).await;
    let gateway = gateway(waiting(vec![upstream_of(&server, Dialect::Responses, 100_000, false)]));
    let mut items = vec![user(words(40, 0)), assistant(words(40, 1)), user("go on")];
    items.extend([json!({ "role": "developer", "content": RULE }), assistant("yes")]);
    for round in 0..3 {
        items.extend((0..30).map(|at| match at % 2 {
            0 => user(words(90, 31 * round + at)),
            _ => assistant(words(90, 31 * round + at)),
        }));
        items.push(user("go on"));
        let asked: Vec<Value> =
            items.iter().cloned().chain([json!({ "type": "compaction_trigger" })]).collect();
        let reply = gateway.answer(call(Dialect::Responses, &asked, false)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
        let item = body_json(reply).await["output"][0].clone();
        items = vec![item, user("next")];
        body(gateway.answer(call(Dialect::Responses, &items, true)).await).await;
        let main = server.received().last().unwrap().json();
        let sent: Vec<String> = main["input"].as_array().unwrap().iter().map(text_of).collect();
        let shown = sent.join("\n");
        assert!(shown.contains(RULE), "round {round}: {shown}");
        items.push(assistant("fine"));
    }
}

#[tokio::test]
async fn a_reminder_in_a_user_message_is_no_system_message() {
    let server = server(Dialect::Chat).await;
    let gateway = server.gateway(WINDOW_TOKENS);
    let reminder = "<system-reminder>The todo list is empty now.</system-reminder>";
    let mut items = vec![user(words(40, 0)), assistant(words(40, 1)), user(reminder), assistant("yes")];
    for turn in 2..70 {
        items.push(user(format!("question {turn} {}", words(120, turn))));
        items.push(assistant(format!("answer {turn} {}", words(120, turn + 100))));
    }
    items.push(user("and now?"));
    body(gateway.answer(call(Dialect::Chat, &items, true)).await).await;
    let sent = server.received().last().unwrap().messages();
    let texts: Vec<String> = sent.iter().map(text_of).collect();
    assert!(!texts.join("\n").contains("System messages given in the conversation"), "{texts:?}");
}
