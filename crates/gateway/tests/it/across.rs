//! What is done to a long conversation whose model's server speaks another dialect than its client: the same, told in
//! the same way.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{
    ClientRequest, Gateway, GatewayOptions, GatewayReply, MidstreamMode, UpstreamOptions,
};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING, without_notices};
use serde_json::{Value, json};

use crate::cuts::check;
use crate::model::{begun, call, conversation, events, numbered, read, rest, text_of, totals};
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

/// How a client speaks, and how its model's server does.
const PAIRS: [(Dialect, Dialect); 3] = [
    (Dialect::Messages, Dialect::Chat),
    (Dialect::Responses, Dialect::Chat),
    (Dialect::Chat, Dialect::Messages),
];

/// An upstream that speaks one of these dialects and no other.
pub(crate) fn upstream(
    server: &ScriptedUpstream,
    speaks: Dialect,
    window: u64,
    prefill: bool,
) -> UpstreamOptions {
    let kind = if speaks == Dialect::Messages { Kind::Anthropic } else { Kind::OpenAiCompatible };
    let mut upstream = UpstreamOptions::new("up", kind, server.url("/v1"));
    upstream.endpoint.declared = server.upstream(window).endpoint.declared;
    upstream.endpoint.declared.prefill = Some(prefill);
    upstream
}

fn gateway_at(
    server: &ScriptedUpstream,
    speaks: Dialect,
    window: u64,
    set: impl FnOnce(&mut GatewayOptions),
) -> Gateway {
    let prefill = true;
    let mut config = waiting(vec![upstream(server, speaks, window, prefill)]);
    config.policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    set(&mut config);
    gateway(config)
}

/// A model that says `text`, and goes on with what it is shown of it; asked to in words it repeats the end.
async fn model(speaks: Dialect, text: String) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let (said, asks) = begun(speaks, body);
        let rest = rest(speaks, body, &text);
        let again = if asks { &said[said.len() - 40..] } else { "" };
        UpstreamAnswer::Events(
            events(speaks, &format!("id{number}"), &format!("{again}{rest}"), (300, 20)),
            Duration::ZERO,
        )
    })
    .await
}

/// The text of a whole answer.
fn text_in(dialect: Dialect, answer: &Value) -> String {
    match dialect {
        Dialect::Chat => answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
        Dialect::Messages => text_of(answer),
        Dialect::Responses => text_of(&answer["output"][0]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_stopped_room_is_made_and_it_goes_on() {
    for (asks, speaks) in PAIRS {
        for case in 0..20_u64 {
            let text = numbered(usize::try_from(500 + case * 37).unwrap());
            let server = model(speaks, text.clone()).await;
            let gateway = gateway_at(&server, speaks, 1_300 + case * 53 % 400, |_| {});
            let reply = gateway.answer(call(asks, &conversation(6), true)).await;
            assert_eq!((reply.status, header(&reply, "x-longhaul-midstream")), (StatusCode::OK, ""));
            let out = body(reply).await;
            let (seen, all) = read(asks, &out);
            assert_eq!(
                (seen.text.as_str(), seen.finish),
                (text.as_str(), Some(ModelStopReason::Stop)),
                "{asks:?} {case}"
            );
            check(asks, &seen, &all, case);
            let total = totals(&all);
            assert_eq!(total["restarts"], server.received().len() - 1, "{asks:?} {case}: {total}");
            assert!(total["restarts"].as_u64() > Some(0), "{asks:?} {case}: {total}");
            let said = String::from_utf8_lossy(&out);
            assert!(
                said.contains(&format!(": {COMPACTING}\n\n"))
                    && said.contains(&format!(": {CONTINUING}\n\n"))
            );
        }
    }
}

#[tokio::test]
async fn a_whole_answer_is_too_and_says_what_it_took() {
    for (asks, speaks) in PAIRS {
        let text = numbered(800);
        let server = model(speaks, text.clone()).await;
        let gateway = gateway_at(&server, speaks, 1_500, |_| {});
        let reply = gateway.answer(call(asks, &conversation(6), false)).await;
        let told = ["x-longhaul-restarts", "x-longhaul-calls"].map(|name| header(&reply, name).to_owned());
        assert!(header(&reply, "x-longhaul-billed").starts_with("input="), "{:?}", reply.headers);
        assert_eq!(header(&reply, "content-type"), "application/json");
        let answer = body_json(reply).await;
        assert_eq!(text_in(asks, &answer), text, "{asks:?}");
        let calls = server.received().len();
        assert!(calls > 1);
        assert_eq!(told, [(calls - 1).to_string(), calls.to_string()]);
        assert_eq!(answer["x_longhaul"]["calls"], calls);
    }
}

#[tokio::test]
async fn a_model_that_cannot_go_on_by_itself_is_asked_to() {
    for (asks, speaks) in PAIRS {
        for (midstream, is_asked) in [(MidstreamMode::BestEffort, true), (MidstreamMode::Exact, false)] {
            let text = numbered(500);
            let server = model(speaks, text.clone()).await;
            let config = GatewayOptions {
                policy: CompactionPolicy::new(Arc::new(TruncationStrategy::default())),
                midstream,
                ..waiting(vec![upstream(&server, speaks, 1_300, false)])
            };
            let reply = gateway(config).answer(call(asks, &conversation(2), true)).await;
            let label = if is_asked { "approximate" } else { "" };
            assert_eq!(header(&reply, "x-longhaul-midstream"), label);
            let (seen, all) = read(asks, &body(reply).await);
            assert_eq!(
                (seen.text, seen.finish),
                (text, Some(ModelStopReason::Stop)),
                "{asks:?} {midstream:?}"
            );
            assert_eq!(server.received().len() > 1, is_asked);
            assert_eq!(totals(&all)["approximate"] == true, is_asked);
        }
    }
}

#[tokio::test]
async fn what_is_done_before_the_answer_is_told_in_comments_and_where_wanted_in_the_text() {
    for (asks, speaks) in PAIRS {
        for (stream, in_text) in [(true, false), (true, true), (false, true), (false, false)] {
            let server = model(speaks, "fine and well".to_owned()).await;
            let gateway = gateway_at(&server, speaks, 1_500, |config| {
                config.notices_in_text = in_text;
                config.midstream = MidstreamMode::Off;
            });
            let reply = gateway.answer(call(asks, &conversation(12), stream)).await;
            assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
            let out = body(reply).await;
            let (text, total) = match stream {
                true => {
                    let said = String::from_utf8_lossy(&out);
                    assert!(said.starts_with(&format!(": {COMPACTING}\n\n: {CONTINUING}\n\n")), "{said}");
                    let (seen, all) = read(asks, &out);
                    (seen.text, totals(&all))
                }
                false => {
                    let answer: Value = serde_json::from_slice(&out).unwrap();
                    (text_in(asks, &answer), answer["x_longhaul"].clone())
                }
            };
            assert_eq!(total["action"], "compacted", "{asks:?} {stream}");
            assert_eq!(text.starts_with(COMPACTING), in_text, "{asks:?} {stream}: {text}");
            assert_eq!(without_notices(&text).unwrap_or(text), "fine and well");
        }
    }
}

#[tokio::test]
async fn a_summary_is_counted_in_the_headers_of_a_whole_answer() {
    let server = start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Events(streamed("a", "fine", Some((900, 3))), Duration::ZERO),
    })
    .await;
    let reply = server.gateway(3_000).answer(call(Dialect::Messages, &conversation(24), false)).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
    let calls = server.received().len();
    assert_eq!(header(&reply, "x-longhaul-calls"), calls.to_string());
    let billed = body_json(reply).await["x_longhaul"]["billed"].clone();
    assert!(calls > 1 && billed["input_tokens"].as_u64() > Some(900), "{billed}");
}

#[tokio::test]
async fn usage_counts_although_the_client_does_not_ask_for_it() {
    let server = model(Dialect::Messages, "fine and well".to_owned()).await;
    let gateway = gateway_at(&server, Dialect::Messages, 1_500, |_| {});
    let out = body(gateway.answer(call(Dialect::Chat, &conversation(12), true)).await).await;
    let (seen, all) = read(Dialect::Chat, &out);
    assert_eq!(seen.usage, None);
    let billed = totals(&all)["billed"].clone();
    assert_eq!(billed, json!({ "input_tokens": 300, "output_tokens": 20, "estimated": false }));
}

/// A request of that dialect for so long an answer.
fn asking(dialect: Dialect, items: &[Value], most: u64) -> (ClientRequest, &'static str) {
    let mut asked = call(dialect, items, false);
    let mut body: Value = serde_json::from_slice(&asked.body).unwrap();
    let name = if dialect == Dialect::Responses { "max_output_tokens" } else { "max_tokens" };
    body[name] = json!(most);
    asked.body = body.to_string().into();
    (asked, name)
}

async fn whole(
    server: &ScriptedUpstream,
    gateway: &Gateway,
    asked: ClientRequest,
) -> (GatewayReply, Vec<Value>) {
    let reply = gateway.answer(asked).await;
    (reply, server.received().iter().map(ReceivedRequest::json).collect())
}

#[tokio::test]
async fn a_longer_answer_than_the_window_has_room_for_is_not_asked_for() {
    for (asks, speaks) in PAIRS.into_iter().chain([(Dialect::Chat, Dialect::Chat)]) {
        let server = model(speaks, "yes".to_owned()).await;
        let gateway = gateway_at(&server, speaks, 8_000, |config| config.midstream = MidstreamMode::Off);
        let (asked, name) = asking(asks, &[user(words(1_000, 1))], 9_000);
        let (reply, sent) = whole(&server, &gateway, asked).await;
        assert_eq!(reply.status, StatusCode::OK, "{asks:?}");
        let limit = sent[0]["max_tokens"].as_u64().unwrap();
        assert!((5_000..7_000).contains(&limit), "{asks:?}: {limit}");
        assert_eq!(header(&reply, "x-longhaul-changed"), format!("{name}={limit}"));
        let (asked, _) = asking(asks, &[user(words(1_000, 1))], 900);
        let (reply, sent) = whole(&server, &gateway, asked).await;
        assert_eq!((&sent[1]["max_tokens"], header(&reply, "x-longhaul-changed")), (&json!(900), ""));
    }
}

#[tokio::test]
async fn a_limit_that_a_dialect_demands_is_not_more_than_the_window_has_room_for() {
    let server = model(Dialect::Messages, "yes".to_owned()).await;
    for (window, declared, room) in [
        (4_000, None, 2_000..3_000),
        (40_000, None, 4_096..4_097),
        (4_000, Some(3_900), 2_000..3_000),
        (4_000, Some(700), 700..701),
    ] {
        let gateway = gateway_at(&server, Dialect::Messages, window, |config| {
            config.midstream = MidstreamMode::Off;
            config.upstreams[0].endpoint.declared.max_output = declared;
        });
        for asks in [Dialect::Chat, Dialect::Responses] {
            let reply = gateway.answer(call(asks, &[user(words(1_000, 1))], false)).await;
            assert_eq!(
                (reply.status, header(&reply, "x-longhaul-changed")),
                (StatusCode::OK, ""),
                "{asks:?}"
            );
            let limit = server.received().last().unwrap().json()["max_tokens"].as_u64().unwrap();
            assert!(room.contains(&limit), "{asks:?}, {window}: {limit}");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_is_all_there_is_goes_out_as_a_question() {
    let system = json!({ "role": "system", "content": "say hi" });
    let server = model(Dialect::Messages, "hi".to_owned()).await;
    let gateway = gateway_at(&server, Dialect::Messages, 8_000, |_| {});
    for asks in [Dialect::Chat, Dialect::Responses] {
        let reply = gateway.answer(call(asks, std::slice::from_ref(&system), false)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-changed")), (StatusCode::OK, "system=user"));
        let sent = server.received().last().unwrap().json();
        assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "{sent}");
        assert!(sent["messages"][0].to_string().contains("say hi") && sent["messages"][0]["role"] == "user");
        assert_eq!(sent.get("system"), None);
    }
}

/// A server with a window of 5,600 which it tells of only when it refuses. `says` its refusal.
async fn narrow(speaks: Dialect, says: fn(u64) -> String) -> ScriptedUpstream {
    start_upstream(move |number, asked| match asked["max_tokens"].as_u64() {
        Some(most) if 3_023 + most > 5_600 => {
            UpstreamAnswer::Json(400, json!({ "error": { "message": says(most) } }))
        }
        _ => UpstreamAnswer::Events(
            events(speaks, &format!("a{number}"), "short, then", (3_023, 3)),
            Duration::ZERO,
        ),
    })
    .await
}

#[tokio::test]
async fn after_a_refusal_a_shorter_one_is_asked_for_and_the_window_is_known() {
    let exact = |most| format!("input length and `max_tokens` exceed context limit: 3023 + {most} > 5600");
    let bare = |_| "This model's maximum context length is 5600 tokens. Please reduce the length.".to_owned();
    for (asks, speaks) in PAIRS {
        for says in [exact, bare as fn(u64) -> String] {
            let server = narrow(speaks, says).await;
            let mut upstream = upstream(&server, speaks, 1, true);
            upstream.endpoint.declared.window = None;
            let gateway = gateway(waiting(vec![upstream]));
            let items = [user(words(3_000, 1))];
            let (reply, sent) = whole(&server, &gateway, asking(asks, &items, 3_200).0).await;
            assert_eq!((reply.status, sent.len()), (StatusCode::OK, 2), "{asks:?}");
            assert_eq!(header(&reply, "x-longhaul-action"), "none", "nothing is left out");
            assert_eq!(sent[1]["messages"], sent[0]["messages"]);
            let limit = sent[1]["max_tokens"].as_u64().unwrap();
            assert!(limit >= 1_000 && 3_023 + limit <= 5_600, "{asks:?}: {limit}");
            let (_, name) = asking(asks, &items, 1);
            assert_eq!(header(&reply, "x-longhaul-changed"), format!("{name}={limit}"));
            // From then on it is known before.
            let (reply, sent) = whole(&server, &gateway, asking(asks, &items, 3_200).0).await;
            assert_eq!(
                (reply.status, sent.len()),
                (StatusCode::OK, 3),
                "{asks:?}: {:?}",
                sent[2]["max_tokens"]
            );
            assert_eq!(header(&reply, "x-longhaul-window"), "5600 (learned)");
        }
    }
}

#[tokio::test]
async fn what_cannot_fit_is_told_in_figures_that_add_up() {
    let refuses = |_, _: &Value| {
        let message = "This model's maximum context length is 2000 tokens. Please reduce the length.";
        UpstreamAnswer::Json(400, json!({ "error": { "message": message } }))
    };
    for (asks, speaks) in PAIRS {
        let server = start_upstream(refuses).await;
        let gateway = gateway_at(&server, speaks, 56_000, |_| {});
        // The system prompt can neither be left out nor cut.
        let (mut asked, _) = asking(asks, &[user("go on")], 700);
        let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
        let name = if asks == Dialect::Responses { "instructions" } else { "system" };
        match asks {
            Dialect::Chat => {
                let system = json!({ "role": "system", "content": words(3_000, 1) });
                fields["messages"] = json!([system, user("go on")]);
            }
            _ => fields[name] = json!(words(3_000, 1)),
        }
        asked.body = fields.to_string().into();
        let (reply, _) = whole(&server, &gateway, asked).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        let error = body_json(reply).await["error"].clone();
        if asks != Dialect::Messages {
            assert_eq!(error["code"], "prompt_does_not_fit", "{error}");
        }
        let said = error["message"].as_str().unwrap();
        let figures: Vec<u64> = said
            .replace(',', "")
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        assert!(said.contains("2000 (learned)") && said.contains("asks for 700"), "{said}");
        // What is usable and what is kept are the window.
        let window = figures.iter().position(|figure| *figure == 2_000).unwrap();
        assert_eq!(figures[window - 1] + figures[window + 1], 2_000, "{said}");
        assert!(figures.iter().any(|figure| (3_000..5_000).contains(figure)), "the input: {said}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_fails_under_the_name_that_it_has() {
    let parts = streamed("a", "one two three four", None)[..4].to_vec();
    let across = {
        let parts = parts.clone();
        start_upstream(move |_, _| UpstreamAnswer::Breaks(parts.clone())).await
    };
    let own = {
        let events = events(Dialect::Responses, "resp_own", "one two three four five six", (9, 2));
        start_upstream(move |_, _| UpstreamAnswer::Breaks(events[..4].to_vec())).await
    };
    let mut same = own.upstream(8_000);
    same.dialects = vec![Dialect::Responses];
    for gateway in [across.gateway(8_000), gateway(waiting(vec![same]))] {
        let reply = gateway.answer(call(Dialect::Responses, &[user("hi")], true)).await;
        let (seen, all) = read(Dialect::Responses, &body(reply).await);
        assert!(seen.error.is_some());
        let (first, failed) = (&all[0], all.last().unwrap());
        assert_eq!(
            (&first["type"], &failed["type"]),
            (&json!("response.created"), &json!("response.failed"))
        );
        assert_eq!(failed["response"]["id"], first["response"]["id"]);
        let numbers: Vec<u64> = all.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{numbers:?}");
    }
}

#[tokio::test]
async fn in_the_callers_own_dialect_too_the_end_of_a_stream_says_what_was_done() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for window in [1_500, 100_000] {
            let all = events(dialect, "id0", "fine and well", (300, 20));
            // As servers in Python write it.
            let all: Vec<String> = all
                .iter()
                .filter(|event| !event.contains("prompt_tokens"))
                .map(|event| event.replace("\"finish_reason\":", "\"finish_reason\": "))
                .collect();
            let script = all.clone();
            let server =
                start_upstream(move |_, _| UpstreamAnswer::Events(script.clone(), Duration::ZERO)).await;
            let mut upstream = crate::model::upstream(&server, dialect, window, false);
            upstream.endpoint.declared.prefill = Some(false);
            let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
            let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
            let out = body(gateway.answer(call(dialect, &conversation(12), true)).await).await;
            let said = String::from_utf8(out.to_vec()).unwrap();
            if window > 1_500 {
                assert_eq!(said, all.concat(), "nothing was done: every byte is the upstream's");
                continue;
            }
            let total = totals(&read(dialect, &out).1);
            assert_eq!(
                (&total["action"], &total["calls"]),
                (&json!("compacted"), &json!(1)),
                "{dialect:?}: {said}"
            );
            let object = format!(",\"x_longhaul\":{total}");
            let bare =
                said.replace(&format!(": {COMPACTING}\n\n: {CONTINUING}\n\n"), "").replace(&object, "");
            let (bare, all) = (read(dialect, bare.as_bytes()).1, read(dialect, all.concat().as_bytes()).1);
            assert_eq!(bare, all, "{dialect:?}: that is all that is new");
        }
    }
}
