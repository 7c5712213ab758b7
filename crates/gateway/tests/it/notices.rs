//! What the gateway says of what it does: always in comments, in the text where that is wanted, and never to the model.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayOptions};
use longhaul_wire::edit::Dialect;
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING, SPENT, may_have_notices, without_notices};
use serde_json::{Value, json};

use crate::model::{begun, call, conversation, events, list, read, rest, text_of, totals, upstream};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

async fn model(dialect: Dialect, text: String) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        assert!(!body[list(dialect)].to_string().contains("ompact"), "the model is told of no notice");
        let (said, _) = begun(dialect, body);
        let rest = text.strip_prefix(&said).unwrap_or(&text);
        UpstreamAnswer::Events(events(dialect, &format!("id{number}"), rest, (300, 20)), Duration::ZERO)
    })
    .await
}

fn gateway_at(server: &ScriptedUpstream, dialect: Dialect, window: u64, in_text: bool) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = upstream(server, dialect, window, true);
    gateway(GatewayOptions { policy, notices_in_text: in_text, ..waiting(vec![upstream]) })
}

#[tokio::test]
async fn they_are_in_the_text_where_that_is_wanted_and_go_when_they_come_back() {
    for dialect in DIALECTS {
        let text = words(1_000, 3);
        let server = model(dialect, text.clone()).await;
        let gateway = gateway_at(&server, dialect, 1_500, true);
        let out = body(gateway.answer(call(dialect, &conversation(6), true)).await).await;
        let (seen, all) = read(dialect, &out);
        let shown = format!("\n\n{COMPACTING}\n{CONTINUING}\n\n");
        assert!(seen.text.contains(&shown), "{dialect:?}: {}", seen.text);
        assert_eq!(without_notices(&seen.text).as_deref(), Some(text.as_str()), "{dialect:?}");
        assert!(String::from_utf8_lossy(&out).contains(&format!(": {COMPACTING}\n\n")), "as a comment too");
        if dialect == Dialect::Responses {
            let whole = &all.last().unwrap()["response"]["output"][0];
            assert_eq!(text_of(whole), seen.text, "the closing copy says what was streamed");
        }
        // It comes back in the history of the next request.
        let mut more = conversation(6);
        more.extend([assistant(seen.text.as_str()), user("thanks")]);
        let before = server.received().len();
        let gateway = gateway_at(&server, dialect, 100_000, true);
        body(gateway.answer(call(dialect, &more, true)).await).await;
        let sent = server.received()[before].json();
        let items = sent[list(dialect)].as_array().unwrap();
        let answer =
            items.iter().find(|item| item["role"] == "assistant" && text_of(item).len() > 3_000).unwrap();
        assert_eq!(text_of(answer), text, "{dialect:?}");
    }
}

#[tokio::test]
async fn an_answer_with_notices_has_the_name_of_the_one_without() {
    let server = model(Dialect::Chat, words(40, 3)).await;
    let gateway = gateway_at(&server, Dialect::Chat, 100_000, true);
    let answer = |text: String| [user("hi"), assistant(text), user("go on")];
    let plain = gateway.answer(call(Dialect::Chat, &answer("one two".to_owned()), true)).await;
    body(plain).await;
    let noticed = format!("one\n\n{COMPACTING}\n{CONTINUING}\n\n two");
    body(gateway.answer(call(Dialect::Chat, &answer(noticed), true)).await).await;
    let sent = server.received();
    assert_eq!(sent[0].json()["messages"], sent[1].json()["messages"], "what is sent is the same");
}

#[tokio::test]
async fn without_the_setting_the_text_is_the_models_only() {
    for dialect in DIALECTS {
        let text = words(1_000, 3);
        let server = model(dialect, text.clone()).await;
        let out = body(
            gateway_at(&server, dialect, 1_500, false).answer(call(dialect, &conversation(6), true)).await,
        )
        .await;
        assert_eq!(read(dialect, &out).0.text, text);
        let said = String::from_utf8_lossy(&out);
        assert!(
            said.contains(&format!(": {COMPACTING}\n\n")) && said.contains(&format!(": {CONTINUING}\n\n"))
        );
    }
}

#[tokio::test]
async fn a_request_that_was_shortened_says_so_before_the_answer() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(dialect, "fine and well".to_owned()).await;
            let gateway = gateway_at(&server, dialect, 1_500, true);
            let reply = gateway.answer(call(dialect, &conversation(12), stream)).await;
            assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
            let out = body(reply).await;
            let text = match stream {
                true => read(dialect, &out).0.text,
                false => text_in(dialect, &serde_json::from_slice(&out).unwrap()),
            };
            assert_eq!(text, format!("{COMPACTING}\n{CONTINUING}\n\nfine and well"), "{dialect:?} {stream}");
        }
    }
}

fn text_in(dialect: Dialect, answer: &Value) -> String {
    match dialect {
        Dialect::Chat => answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
        Dialect::Messages => text_of(answer),
        Dialect::Responses => text_of(&answer["output"][0]),
    }
}

/// An event that ends an answer as one that is cut off.
fn cut_off(event: &str) -> String {
    let event = event
        .replace(r#""finish_reason":"stop""#, r#""finish_reason":"length""#)
        .replace("end_turn", "max_tokens")
        .replace("response.completed", "response.incomplete");
    let Some((name, data)) = event.split_once("data: ").filter(|(name, _)| name.contains("incomplete"))
    else {
        return event;
    };
    let mut data: Value = serde_json::from_str(data.trim()).unwrap();
    data["response"]["status"] = json!("incomplete");
    data["response"]["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    format!("{name}data: {data}\n\n")
}

#[tokio::test]
async fn the_end_of_the_window_is_told_with_its_numbers() {
    // After the last restart it goes on to the real end, where the server cuts it.
    for dialect in DIALECTS {
        let text = words(20_000, 3);
        let script = text.clone();
        let server = start_upstream(move |number, body| {
            let rest = rest(dialect, body, &script);
            let all = events(dialect, &format!("id{number}"), rest, (300, 1_250));
            UpstreamAnswer::Events(all.iter().map(|event| cut_off(event)).collect(), Duration::ZERO)
        })
        .await;
        let gateway = gateway_at(&server, dialect, 1_500, true);
        let out = body(gateway.answer(call(dialect, &conversation(6), true)).await).await;
        let (seen, all) = read(dialect, &out);
        assert_eq!(seen.finish, Some(ModelStopReason::Length), "{dialect:?}");
        assert!(seen.text.contains(&format!("{SPENT}\n\n")), "{dialect:?}");
        let last = seen.text.lines().last().unwrap();
        assert_eq!(last, "⚠️ Context limit exceeded (1550/1500 tokens). Aborting.", "{dialect:?}");
        assert!(String::from_utf8_lossy(&out).contains(&format!(": {last}\n\n")), "as a comment too");
        assert_eq!(totals(&all)["code"], "max-compactions", "{dialect:?}: {}", totals(&all));
        assert_eq!(without_notices(&seen.text).as_deref(), Some(text.as_str()));
    }
}

#[tokio::test]
async fn what_only_looks_like_a_notice_stays() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let quoted = format!("the log says\n{COMPACTING}\n");
    assert!(may_have_notices(&quoted));
    let asked = json!({ "model": "m", "messages": [user(quoted)] }).to_string();
    server.gateway(8_000).answer(chat(asked.clone())).await;
    assert_eq!(server.received()[0].body, asked.as_bytes(), "a person's words are theirs");
}
