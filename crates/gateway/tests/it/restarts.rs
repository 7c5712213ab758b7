//! What is told of an answer that was stopped and gone on with: what it took in all, and what is sent next.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_core::truncate::MARKER;
use longhaul_gateway::{Gateway, GatewayOptions};
use longhaul_wire::edit::Dialect;
use longhaul_wire::edit::ephemeral::SPENT;
use serde_json::{Value, json};

use crate::model::{begun, call, conversation, events, read, rest, text_of, totals, upstream};
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

/// A model that reports what it was sent: a token a word. It says `text`, and goes on with it.
async fn model(text: String) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        if is_summary_request(body) {
            return pruned();
        }
        let rest = rest(Dialect::Chat, body, &text);
        let (input, output) = (tokens(body), rest.split(' ').count() as u64);
        UpstreamAnswer::Events(
            events(Dialect::Chat, &format!("id{number}"), rest, (input, output)),
            Duration::ZERO,
        )
    })
    .await
}

fn tokens(body: &Value) -> u64 {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap().split(' ').count() as u64 + 4).sum()
}

fn truncating(server: &ScriptedUpstream, window: u64) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    gateway(GatewayOptions { policy, ..waiting(vec![upstream(server, Dialect::Chat, window, true)]) })
}

fn mains(server: &ScriptedUpstream) -> Vec<Value> {
    server.received().iter().map(ReceivedRequest::json).filter(|body| !is_summary_request(body)).collect()
}

#[tokio::test]
async fn one_restart_and_several_say_what_was_billed_in_all() {
    for length in [1_000, 4_000] {
        for stream in [true, false] {
            let text = words(length as usize, 3);
            let server = model(text.clone()).await;
            let reply =
                truncating(&server, 1_500).answer(call(Dialect::Chat, &conversation(6), stream)).await;
            let told = [
                header(&reply, "x-longhaul-restarts"),
                header(&reply, "x-longhaul-calls"),
                header(&reply, "x-longhaul-billed"),
            ]
            .map(str::to_owned);
            let out = body(reply).await;
            let (total, usage) = match stream {
                true => {
                    let (seen, events) = read(Dialect::Chat, &out);
                    assert_eq!(seen.text, text);
                    let usage = seen.usage.unwrap();
                    (totals(&events), (usage.input_tokens, usage.output_tokens))
                }
                false => {
                    let answer: Value = serde_json::from_slice(&out).unwrap();
                    assert_eq!(answer["choices"][0]["message"]["content"], text);
                    let count = |name: &str| answer["usage"][name].as_u64().unwrap();
                    (answer["x_longhaul"].clone(), (count("prompt_tokens"), count("completion_tokens")))
                }
            };
            let sent = mains(&server);
            let restarts = sent.len() - 1;
            let expected = if length == 1_000 { 1..=1 } else { 4..=8 };
            assert!(expected.contains(&restarts), "{restarts}: most of a window goes to what is new");
            assert_eq!(total["restarts"], restarts, "{total}");
            assert_eq!(total["calls"], restarts + 1);
            assert_eq!(total["billed"]["estimated"], true, "streams that were left have reported nothing");
            let near = |found: &Value, expected: u64| {
                let found = found.as_u64().unwrap();
                assert!(found.abs_diff(expected) * 100 <= expected * 8, "{found} for {expected}");
            };
            near(&total["billed"]["input_tokens"], sent.iter().map(tokens).sum());
            near(&total["billed"]["output_tokens"], length);
            assert_eq!(usage.0, tokens(sent.last().unwrap()), "the client meters the last call's input");
            near(&json!(usage.1), length);
            if !stream {
                let billed = &total["billed"];
                let billed = format!("input={} output={}", billed["input_tokens"], billed["output_tokens"]);
                assert_eq!(told, [restarts.to_string(), (restarts + 1).to_string(), billed]);
            }
        }
    }
}

/// The events of a chunked answer, each with a report of what was read and written so far.
fn with_reports(events: Vec<String>, report: impl Fn(usize) -> Value) -> Vec<String> {
    let with = |(at, event): (usize, String)| {
        let data = event.trim().trim_start_matches("data: ");
        let Ok(mut data) = serde_json::from_str::<Value>(data) else { return event };
        data.as_object_mut().unwrap().extend(report(at).as_object().unwrap().clone());
        format!("data: {data}\n\n")
    };
    events.into_iter().enumerate().map(with).collect()
}

#[tokio::test]
async fn what_a_server_reports_on_its_way_is_what_is_billed_for_a_stream_that_was_left() {
    type Report = fn(u64, u64) -> Value;
    let reports: [Report; 2] = [
        |input, output| json!({ "usage": { "prompt_tokens": input, "completion_tokens": output } }),
        |input, output| json!({ "timings": { "cache_n": input - 3, "prompt_n": 3, "predicted_n": output } }),
    ];
    for report in reports {
        let text = words(1_000, 3);
        let said = text.clone();
        // Every word is two tokens of its own.
        let server = start_upstream(move |number, body| {
            let rest = said.strip_prefix(&begun(Dialect::Chat, body).0).unwrap();
            let all = streamed(&format!("id{number}"), rest, None);
            let input = 2 * tokens(body);
            UpstreamAnswer::Events(with_reports(all, |at| report(input, 2 * at as u64)), Duration::ZERO)
        })
        .await;
        let reply = truncating(&server, 1_500).answer(call(Dialect::Chat, &conversation(6), true)).await;
        let (seen, events) = read(Dialect::Chat, &body(reply).await);
        assert_eq!(seen.text, text);
        let total = totals(&events);
        let sent = mains(&server);
        assert!(sent.len() > 1, "it was stopped");
        assert_eq!(total["billed"]["estimated"], false, "{total}");
        let input: u64 = sent.iter().map(|body| 2 * tokens(body)).sum();
        assert_eq!(total["billed"]["input_tokens"], input);
        let output = total["billed"]["output_tokens"].as_u64().unwrap();
        // And a few for the ends of streams, and the words that came as one was left.
        assert!((2_000..2_000 + 8 * sent.len() as u64).contains(&output), "{total}");
    }
}

#[tokio::test]
async fn what_a_server_reports_at_the_beginning_is_the_input_of_a_stream_that_was_left() {
    let text = words(1_000, 3);
    let said = text.clone();
    let dialect = Dialect::Messages;
    let server = start_upstream(move |number, body| {
        let rest = said.strip_prefix(&begun(dialect, body).0).unwrap();
        UpstreamAnswer::Events(events(dialect, &format!("id{number}"), rest, (7_777, 20)), Duration::ZERO)
    })
    .await;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let gateway =
        gateway(GatewayOptions { policy, ..waiting(vec![upstream(&server, dialect, 1_500, true)]) });
    let (seen, events) =
        read(dialect, &body(gateway.answer(call(dialect, &conversation(6), true)).await).await);
    assert_eq!(seen.text, text);
    let (total, calls) = (totals(&events), server.received().len());
    assert!(calls > 1, "it was stopped");
    assert_eq!(total["billed"]["input_tokens"], 7_777 * calls, "{total}");
    assert_eq!(total["billed"]["estimated"], true, "nobody has said how much was written");
}

#[tokio::test]
async fn a_stream_that_was_left_is_billed_once_where_nobody_goes_on_with_it() {
    let dialect = Dialect::Messages;
    let server = start_upstream(move |number, _| match number {
        0 => UpstreamAnswer::Events(events(dialect, "id0", &words(1_000, 3), (7_777, 20)), Duration::ZERO),
        _ => UpstreamAnswer::Json(
            400,
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no" } }),
        ),
    })
    .await;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let gateway =
        gateway(GatewayOptions { policy, ..waiting(vec![upstream(&server, dialect, 1_500, true)]) });
    let reply = gateway.answer(call(dialect, &conversation(6), true)).await;
    let (seen, events) = read(dialect, &body(reply).await);
    assert_eq!(seen.finish, Some(ModelStopReason::Length));
    let total = totals(&events);
    assert_eq!((server.received().len(), &total["billed"]["input_tokens"]), (2, &json!(7_777)), "{total}");
}

#[tokio::test]
async fn an_answer_whose_rest_cannot_be_had_has_failed() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for (status, stream) in [(401, true), (429, false), (500, true), (503, false), (500, false)] {
            let text = words(1_000, 3);
            let server = start_upstream(move |number, _| match number {
                0 => UpstreamAnswer::Events(events(dialect, "id0", &text, (0, 0)), Duration::ZERO),
                _ => UpstreamAnswer::Json(status, json!({ "error": { "message": "not now" } })),
            })
            .await;
            let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
            let upstreams = vec![upstream(&server, dialect, 1_500, true)];
            // The outage lasts longer than the gateway waits for its end.
            let retry = RetryPolicy { patience_ms: Some(100), max_delay_ms: 10, ..RetryPolicy::default() };
            let gateway = gateway(GatewayOptions { policy, retry, attempts: 1, ..waiting(upstreams) });
            let reply = gateway.answer(call(dialect, &conversation(6), stream)).await;
            let told = reply.status;
            let out = body(reply).await;
            let words = String::from_utf8_lossy(&out).into_owned();
            assert!(server.received().len() > 1, "it was stopped");
            assert!(
                words.contains("not now") && !words.contains("max-compactions"),
                "{dialect:?} {status}: {words}"
            );
            match stream {
                true => {
                    let (seen, _) = read(dialect, &out);
                    assert!(seen.error.is_some() && seen.finish.is_none(), "{dialect:?}: {seen:?}");
                }
                false => assert_eq!(told, status, "{dialect:?}: {words}"),
            }
        }
    }
}

#[tokio::test]
async fn an_outage_after_a_stop_at_the_end_of_the_window_is_waited_out() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for stream in [true, false] {
            let text = words(1_000, 3);
            let said = text.clone();
            let server = start_upstream(move |number, body| match number {
                1 => UpstreamAnswer::Json(503, json!({ "error": { "message": "loading the model" } })),
                2 => UpstreamAnswer::Json(429, json!({ "error": { "message": "slow down" } })),
                _ => {
                    let rest = rest(dialect, body, &said);
                    UpstreamAnswer::Events(
                        events(dialect, &format!("id{number}"), rest, (0, 0)),
                        Duration::ZERO,
                    )
                }
            })
            .await;
            let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
            let upstreams = vec![upstream(&server, dialect, 1_500, true)];
            let retry = RetryPolicy { max_delay_ms: 10, ..RetryPolicy::default() };
            let gateway = gateway(GatewayOptions { policy, retry, attempts: 1, ..waiting(upstreams) });
            let out = body(gateway.answer(call(dialect, &conversation(6), stream)).await).await;
            let all = String::from_utf8_lossy(&out);
            assert!(server.received().len() >= 4, "{dialect:?}: stopped, refused twice, and gone on: {all}");
            if stream {
                let (seen, _) = read(dialect, &out);
                assert_eq!((seen.text, seen.error), (text, None), "{dialect:?}");
            } else {
                assert!(all.contains(text.trim_end()), "{dialect:?}: {all}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_has_room_for_what_is_asked_is_not_stopped() {
    for stream in [true, false] {
        // Fewer tokens than we count in it.
        let text = words(1_900, 9);
        let server = start_upstream({
            let text = text.clone();
            move |_, body| {
                UpstreamAnswer::Events(
                    events(Dialect::Chat, "id0", &text, (tokens(body), 1_500)),
                    Duration::ZERO,
                )
            }
        })
        .await;
        let mut asked = call(Dialect::Chat, &conversation(2), stream);
        let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
        fields["max_tokens"] = json!(1_600);
        asked.body = fields.to_string().into();
        let reply = truncating(&server, 2_200).answer(asked).await;
        let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
        assert_eq!(server.received().len(), 1, "{out}");
        assert!(!out.contains("max-compactions") && !out.contains("Aborting"), "{out}");
        let said = match stream {
            true => read(Dialect::Chat, out.as_bytes()).0.text,
            false => {
                serde_json::from_str::<Value>(&out).unwrap()["choices"][0]["message"]["content"].to_string()
            }
        };
        assert_eq!(said.trim_matches('"'), text, "stream: {stream}");
    }
}

/// Returns the events with the end of an answer that its server cuts because the window is full.
fn cut_short(dialect: Dialect, events: Vec<String>) -> Vec<String> {
    let cut = |event: String| match dialect {
        Dialect::Chat => event.replace(r#""finish_reason":"stop""#, r#""finish_reason":"length""#),
        Dialect::Messages => event.replace("end_turn", "max_tokens"),
        Dialect::Responses if event.contains("response.completed") => {
            let reason = r#""incomplete_details":{"reason":"max_output_tokens"},"object":"response""#;
            let event = event.replace("response.completed", "response.incomplete");
            event.replace(r#""object":"response""#, reason).replace("completed", "incomplete")
        }
        Dialect::Responses => event,
    };
    events.into_iter().map(cut).collect()
}

#[tokio::test]
async fn an_answer_that_fills_the_window_by_the_servers_count_goes_on() {
    const WINDOW: u64 = 3_000;
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for (stream, limit, streams) in [(true, None, 2), (false, None, 2), (true, Some(1_000), 1)] {
            let text = words(1_600, 3);
            let said = text.clone();
            // Every word of an answer is two tokens, twice what is counted before a server has said so.
            let server = start_upstream(move |number, body| {
                let items = body[crate::model::list(dialect)].as_array().unwrap();
                let input = items.iter().map(|item| text_of(item).split(' ').count() as u64 + 4).sum::<u64>();
                let rest = rest(dialect, body, &said);
                let room = limit.unwrap_or(WINDOW - input).min(WINDOW - input);
                let words: Vec<&str> = rest.split_inclusive(' ').collect();
                let fits = words.len().min(room as usize / 2);
                let part = words[..fits].concat();
                let all = events(dialect, &format!("id{number}"), part.trim_end(), (input, 2 * fits as u64));
                let is_cut = fits < words.len();
                UpstreamAnswer::Events(if is_cut { cut_short(dialect, all) } else { all }, Duration::ZERO)
            })
            .await;
            let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
            let upstreams = vec![upstream(&server, dialect, WINDOW, true)];
            let gateway = gateway(GatewayOptions { policy, ..waiting(upstreams) });
            let mut asked = call(dialect, &conversation(6), stream);
            if let Some(limit) = limit {
                let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
                let name = if dialect == Dialect::Responses { "max_output_tokens" } else { "max_tokens" };
                fields[name] = json!(limit);
                asked.body = fields.to_string().into();
            }
            let out = body(gateway.answer(asked).await).await;
            let case = format!("{dialect:?}, stream: {stream}, limit: {limit:?}");
            assert_eq!(server.received().len(), streams, "{case}");
            match (stream, limit) {
                (true, None) => {
                    let (seen, events) = read(dialect, &out);
                    assert_eq!(
                        (seen.text == text, seen.finish),
                        (true, Some(ModelStopReason::Stop)),
                        "{case}"
                    );
                    assert_eq!(
                        totals(&events)["billed"]["estimated"],
                        false,
                        "{case}: every stream reported"
                    );
                }
                (true, Some(_)) => {
                    assert_eq!(read(dialect, &out).0.finish, Some(ModelStopReason::Length), "{case}")
                }
                (false, _) => {
                    let out = String::from_utf8_lossy(&out).into_owned();
                    assert!(out.contains(&text), "{case}: {out}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_summary_is_billed_too() {
    let server = model(words(2_700, 3)).await;
    let gateway = gateway(waiting(vec![upstream(&server, Dialect::Chat, 4_000, true)]));
    let out = body(gateway.answer(call(Dialect::Chat, &conversation(12), true)).await).await;
    let total = totals(&read(Dialect::Chat, &out).1);
    let summaries = server.received().len() - mains(&server).len();
    assert!(summaries > 0);
    assert_eq!(total["calls"], server.received().len(), "{total}");
    let all: u64 = mains(&server).iter().map(tokens).sum::<u64>() + 100 * summaries as u64;
    let billed = total["billed"]["input_tokens"].as_u64().unwrap();
    assert!(billed.abs_diff(all) * 100 <= all * 8, "{billed} for {all}");
}

#[tokio::test]
async fn what_is_reckoned_with_after_an_edit_in_mid_answer_is_what_is_sent() {
    for window in [1_500, 1_900, 2_600] {
        let server = model(words(window as usize * 3 / 4, 3)).await;
        let messages = conversation(window as usize / 250);
        let gateway = truncating(&server, window);
        let reply = gateway.answer(call(Dialect::Chat, &messages, true)).await;
        let (seen, events) = read(Dialect::Chat, &body(reply).await);
        let total = totals(&events);
        let sent = mains(&server);
        assert!(sent.len() > 1, "it was stopped");
        let (told, real) = (total["tokens_after"].as_u64().unwrap(), tokens(sent.last().unwrap()));
        assert!(told.abs_diff(real) * 100 <= real * 10, "window {window}: {told} for {real}");
        // The next request is measured by the same.
        let mut more = messages.clone();
        more.extend([assistant(seen.text), user("thanks")]);
        let reply = gateway.answer(call(Dialect::Chat, &more, true)).await;
        let told: u64 = header(&reply, "x-longhaul-tokens-after").parse().unwrap();
        body(reply).await;
        let real = tokens(mains(&server).last().unwrap());
        // A note that says what is gone is more than its words.
        assert!(told.abs_diff(real) <= 60 + real / 10, "window {window}: {told} for {real}");
        assert!(real < window, "it fits");
    }
}

#[tokio::test]
async fn a_newest_message_that_fills_the_window_ends_the_answer_clearly() {
    // Nothing can be left out: it goes on to the real end.
    let text = words(900, 3);
    let server = model(text.clone()).await;
    let question = [user(words(900, 5))];
    let reply = truncating(&server, 1_500).answer(call(Dialect::Chat, &question, true)).await;
    assert_eq!(reply.status, StatusCode::OK);
    let out = body(reply).await;
    let (seen, events) = read(Dialect::Chat, &out);
    assert_eq!((seen.text, seen.finish), (text, Some(ModelStopReason::Stop)), "this server lets it");
    assert!(String::from_utf8_lossy(&out).contains(&format!(": {SPENT}\n\n")));
    let sent = mains(&server);
    assert_eq!(sent.len(), 2, "it is stopped once, not again and again");
    assert_eq!(totals(&events)["restarts"], 1);
    assert_eq!(sent[1]["messages"][0], question[0], "and whole");
}

#[tokio::test]
async fn a_newest_message_above_the_trigger_goes_out_as_it_is_or_by_its_ends() {
    let server = model("short".to_owned()).await;
    let gateway = gateway(waiting(vec![upstream(&server, Dialect::Chat, 8_000, true)]));
    // Above the trigger, which is 5,400, and below the window: nothing can be left out, nothing has to be.
    let question = [user(words(5_600, 5))];
    let reply = gateway.answer(call(Dialect::Chat, &question, true)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "none"));
    assert_eq!(mains(&server)[0]["messages"], json!(question));
    let reply = gateway.answer(call(Dialect::Chat, &[user(words(9_000, 5))], true)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "pruned"));
    let said = mains(&server)[1]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(said.contains(MARKER) && said.len() < words(6_000, 5).len(), "{}", said.len());
}
