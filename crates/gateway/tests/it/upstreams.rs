//! Several upstreams: which is asked, which is asked next, and in which dialect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{ClientRequest, Gateway, GatewayOptions, UpstreamModelEntry, UpstreamOptions};
use longhaul_providers::DeclaredLimits;
use longhaul_providers::connect::Kind;
use longhaul_providers::http::Secret;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, events};
use crate::upstream::*;

fn model(name: &str, upstream_name: &str) -> UpstreamModelEntry {
    let declared = DeclaredLimits { window: Some(16_000), ..DeclaredLimits::default() };
    UpstreamModelEntry { name: name.into(), upstream_name: upstream_name.into(), declared }
}

fn named(server: &ScriptedUpstream, name: &str, models: Vec<UpstreamModelEntry>) -> UpstreamOptions {
    UpstreamOptions { name: name.to_owned(), models, ..server.upstream(8_000) }
}

fn ask(model: &str) -> ClientRequest {
    chat(json!({ "model": model, "messages": [user("hi")] }).to_string())
}

#[tokio::test]
async fn the_next_is_asked_where_the_first_has_no_time_or_is_broken() {
    for broken in [500, 503, 429] {
        let first = start_upstream(move |_, _| {
            UpstreamAnswer::Json(broken, json!({ "error": { "message": "not now" } }))
        })
        .await;
        let second = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 9, 1))).await;
        let upstreams = vec![
            named(&first, "first", vec![model("coder", "a")]),
            named(&second, "second", vec![model("coder", "b")]),
        ];
        let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
        let reply = gateway.answer(ask("coder")).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "second"));
        assert_eq!(first.received()[0].json()["model"], "a");
        assert_eq!(second.received()[0].json()["model"], "b");
        let models = gateway.models();
        assert_eq!(models.iter().map(|model| model.window).collect::<Vec<_>>(), [Some(16_000); 2]);
    }
}

#[tokio::test]
async fn the_next_is_asked_where_nobody_is_and_no_other_when_it_is_the_callers_fault() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    };
    let second =
        start_upstream(|_, _| UpstreamAnswer::Json(400, json!({ "error": { "message": "no such field" } })))
            .await;
    let third = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 9, 1))).await;
    let mut nobody = UpstreamOptions::new("nobody", Kind::OpenAiCompatible, gone);
    nobody.endpoint.declared = second.upstream(8_000).endpoint.declared;
    let upstreams = vec![nobody, named(&second, "second", Vec::new()), named(&third, "third", Vec::new())];
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
    let reply = gateway.answer(ask("any")).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::BAD_REQUEST, "second"));
    assert!(third.received().is_empty());
}

#[tokio::test]
async fn each_conversation_stays_at_its_replica_and_all_have_their_share() {
    let fine = || UpstreamAnswer::Json(200, said("fine", 9, 1));
    let (first, second) =
        (start_upstream(move |_, _| fine()).await, start_upstream(move |_, _| fine()).await);
    let replica = |server, name: &str| named(server, name, vec![model("coder", "the same")]);
    let gateway = gateway(waiting(vec![replica(&first, "first"), replica(&second, "second")]));
    let mut names = Vec::new();
    for number in 0..40 {
        let mut messages =
            vec![json!({ "role": "system", "content": "rules" }), user(format!("job {number}"))];
        let mut of_turns = Vec::new();
        for turn in 0..3 {
            let asked = chat(json!({ "model": "coder", "messages": messages }).to_string());
            of_turns.push(header(&gateway.answer(asked).await, "x-longhaul-upstream").to_owned());
            messages.extend([assistant(format!("done {turn}")), user("more")]);
        }
        assert!(of_turns.windows(2).all(|two| two[0] == two[1]), "{number}: {of_turns:?}");
        names.push(of_turns.remove(0));
    }
    let firsts = names.iter().filter(|name| *name == "first").count();
    assert!((8..=32).contains(&firsts), "{firsts} of 40");
}

#[tokio::test]
async fn one_that_was_not_there_is_asked_after_the_others_for_a_while() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let knocks = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&knocks);
    let dead = tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let second = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 9, 1))).await;
    let mut first = UpstreamOptions::new("first", Kind::OpenAiCompatible, url);
    first.endpoint.declared = second.upstream(8_000).endpoint.declared;
    let upstreams = vec![first, named(&second, "second", Vec::new())];
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
    // It is left in peace for 30 s, and the requests of this test take some time of their own.
    for (waits, expected) in [(0, 1), (0, 1), (25, 1), (6, 2), (0, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(waits)).await;
        tokio::time::resume();
        let reply = gateway.answer(ask("any")).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "second"));
        assert_eq!(knocks.load(Ordering::SeqCst), expected, "after {waits} s more");
    }
    dead.abort();
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_begun_elsewhere() {
    let first =
        start_upstream(|_, _| UpstreamAnswer::Breaks(streamed("a", "half", None)[..2].to_vec())).await;
    let second = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 9, 1))).await;
    let upstreams = vec![named(&first, "first", Vec::new()), named(&second, "second", Vec::new())];
    let reply = gateway(waiting(upstreams)).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!(header(&reply, "x-longhaul-upstream"), "first");
    assert!(!body(reply).await.is_empty());
    assert!(second.received().is_empty());
}

/// Half an answer of 40 words to a request of about 130 tokens, at a server that goes on with answers.
fn breaking(server: &ScriptedUpstream, name: &str) -> UpstreamOptions {
    let mut upstream = named(server, name, Vec::new());
    upstream.endpoint.declared.window = Some(900);
    upstream.endpoint.declared.prefill = Some(true);
    upstream
}

#[tokio::test]
async fn what_an_upstream_cost_before_the_next_was_asked_is_billed() {
    let half = || UpstreamAnswer::Breaks(streamed("a", &words(40, 1), None)[..41].to_vec());
    let first = start_upstream(move |_, _| half()).await;
    let second =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("b", "fine", Some((412, 1))), Duration::ZERO))
            .await;
    let messages = [user(words(400, 2))];
    let upstreams = vec![breaking(&first, "first"), breaking(&second, "second")];
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
    // The client wants it whole, and it may have to be stopped on its way: it is streamed behind the scenes.
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "second"));
    assert_eq!(header(&reply, "x-longhaul-calls"), "2");
    let answer = body_json(reply).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "fine");
    let total = &answer["x_longhaul"];
    assert_eq!((&total["calls"], &total["restarts"]), (&json!(2), &json!(0)), "{total}");
    let billed = |name: &str| total["billed"][name].as_u64().unwrap();
    assert!((800..850).contains(&billed("input_tokens")), "{total}");
    assert!((36..46).contains(&billed("output_tokens")), "{total}");
    assert_eq!(total["billed"]["estimated"], true);
}

#[tokio::test]
async fn an_upstream_that_cost_nothing_leaves_no_trace() {
    for stream in [true, false] {
        let first =
            start_upstream(|_, _| UpstreamAnswer::Json(503, json!({ "error": { "message": "not now" } })))
                .await;
        let fine = streamed("b", "fine", Some((9, 1)));
        let whole = said("fine", 9, 1).to_string();
        let (events, expected) = (fine.clone(), if stream { fine.concat() } else { whole.clone() });
        let second = start_upstream(move |_, _| match stream {
            true => UpstreamAnswer::Events(events.clone(), Duration::ZERO),
            false => UpstreamAnswer::Text(200, "application/json", whole.clone()),
        })
        .await;
        let upstreams = vec![named(&first, "first", Vec::new()), named(&second, "second", Vec::new())];
        let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
        let reply = gateway.answer(chat(request(&[user("hi")], stream))).await;
        assert_eq!(header(&reply, "x-longhaul-calls"), "");
        assert_eq!(body(reply).await, expected.as_bytes(), "as it came");
    }
}

#[tokio::test]
async fn a_summary_that_was_paid_before_the_next_was_asked_is_billed() {
    let first = start_upstream(|_, body| match crate::shortening::is_summary_request(body) {
        true => crate::shortening::pruned(),
        false => UpstreamAnswer::Json(503, json!({ "error": { "message": "not now" } })),
    })
    .await;
    let second = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 2_800, 1))).await;
    let mut large = named(&second, "second", Vec::new());
    large.endpoint.declared.window = Some(100_000);
    let mut small = named(&first, "first", Vec::new());
    small.endpoint.declared.window = Some(3_000);
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(vec![small, large]) });
    let reply = gateway.answer(chat(request(&crate::model::conversation(24), false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "second"));
    let summaries = first.summary_requests().len();
    let total = body_json(reply).await["x_longhaul"].clone();
    assert!(summaries > 0);
    assert_eq!(total["calls"], first.received().len() + 1, "{total}");
    assert_eq!(total["billed"]["input_tokens"], 2_800 + 100 * summaries, "{total}");
    assert_eq!(total["billed"]["estimated"], false);
}

#[tokio::test]
async fn who_lists_a_model_is_asked_and_who_takes_any_for_the_others() {
    let any = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 9, 1))).await;
    let listing = start_upstream(|_, _| UpstreamAnswer::Json(500, json!({}))).await;
    let upstreams =
        vec![named(&any, "any", Vec::new()), named(&listing, "listing", vec![model("coder", "coder")])];
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
    let reply = gateway.answer(ask("coder")).await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "what another server has is not its model");
    assert!(any.received().is_empty());
    assert_eq!(gateway.answer(ask("else")).await.status, StatusCode::OK);
}

/// A server that says of itself that it is llama.cpp.
async fn llama(messages: u16) -> ScriptedUpstream {
    start_llama_cpp(8_000, move |_, body| {
        match (body.get("max_tokens").is_some() && body.get("stream").is_none(), messages) {
            (true, 200) => UpstreamAnswer::Json(
                200,
                json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
                    "content": [{ "type": "text", "text": "its own" }], "stop_reason": "end_turn",
                    "usage": { "input_tokens": 5, "output_tokens": 2 } }),
            ),
            (true, 404) => UpstreamAnswer::Json(404, json!({ "error": { "message": "File Not Found" } })),
            // As a proxy in front of it says it.
            (true, status) => UpstreamAnswer::Text(status, "text/plain", "404 page not found".to_owned()),
            (false, _) => UpstreamAnswer::Events(streamed("a", "translated", Some((5, 1))), Duration::ZERO),
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_speaks_several_dialects_is_found_out() {
    for (status, paths, text) in [
        (200, vec!["/v1/messages", "/v1/messages"], "its own"),
        (404, vec!["/v1/messages", "/v1/chat/completions", "/v1/chat/completions"], "translated"),
        (405, vec!["/v1/messages", "/v1/chat/completions", "/v1/chat/completions"], "translated"),
    ] {
        let server = llama(status).await;
        let mut upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url("/v1"));
        upstream.endpoint.timeouts.first_byte = Some(Duration::from_secs(30));
        let gateway = gateway(waiting(vec![upstream]));
        let asked = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] }).to_string();
        for _ in 0..2 {
            let reply =
                gateway.answer(ClientRequest { dialect: Dialect::Messages, ..chat(asked.clone()) }).await;
            assert_eq!(reply.status, StatusCode::OK);
            let said: Value = body_json(reply).await;
            assert_eq!(said["content"][0]["text"], text);
        }
        let asked: Vec<String> = server.received().into_iter().map(|sent| sent.path).collect();
        assert_eq!(asked, paths);
    }
}

/// A server of OpenAI's kind that speaks Responses only, and answers every other path with `status` and `lost`.
async fn responses_only(status: u16, lost: &'static str) -> ScriptedUpstream {
    ScriptedUpstream::start_without_pages(move |request| match request.path.as_str() {
        "/v1/responses" => {
            UpstreamAnswer::Events(events(Dialect::Responses, "a", "translated", (5, 1)), Duration::ZERO)
        }
        _ => UpstreamAnswer::Text(status, "application/json", lost.to_owned()),
    })
    .await
}

fn paths(server: &ScriptedUpstream) -> Vec<String> {
    server.received().into_iter().map(|sent| sent.path).collect()
}

#[tokio::test]
async fn clients_of_chat_completions_are_translated_to_a_server_that_has_only_responses() {
    for (status, lost) in [
        (404, r#"{"error":{"message":"no path","type":"not_found"}}"#),
        (404, r#"{"detail":"Not Found"}"#),
        (404, "404 page not found"),
        (404, ""),
        (404, "<html><body>We have no such page, but many model trains.</body></html>"),
        (
            404,
            r#"{"error":{"message":"Unknown request URL: POST /v1/chat/completions","type":"invalid_request_error","code":"unknown_url"}}"#,
        ),
        (405, r#"{"detail":"Method Not Allowed"}"#),
    ] {
        let server = responses_only(status, lost).await;
        let gateway = gateway(waiting(vec![UpstreamOptions::new("up", Kind::OpenAi, server.url("/v1"))]));
        // What is learned holds for all models of the server.
        for model in ["first", "first", "second"] {
            let reply = gateway.answer(ask(model)).await;
            assert_eq!(reply.status, StatusCode::OK, "{lost}");
            let said = body_json(reply).await;
            assert_eq!(said["choices"][0]["message"]["content"], "translated", "{lost}");
        }
        assert_eq!(
            paths(&server),
            ["/v1/chat/completions", "/v1/responses", "/v1/responses", "/v1/responses"],
            "{lost}"
        );
    }
}

#[tokio::test]
async fn a_missing_model_or_resource_is_no_missing_path() {
    for lost in [
        r#"{"error":{"message":"The model `coder` does not exist","code":"model_not_found"}}"#,
        r#"{"error":{"message":"\"coder\" not found, try pulling it first"}}"#,
        r#"{"error":{"message":"Item with id 'rs_1' not found.","type":"invalid_request_error"}}"#,
    ] {
        let server = responses_only(404, lost).await;
        let gateway = gateway(waiting(vec![UpstreamOptions::new("up", Kind::OpenAi, server.url("/v1"))]));
        assert_eq!(gateway.answer(ask("coder")).await.status, StatusCode::NOT_FOUND, "{lost}");
        assert!(!paths(&server).contains(&"/v1/responses".to_owned()), "{lost}");
    }
}

/// Tokens of the windows of two upstreams, and of a text that only the larger one holds.
const SMALL: u64 = 4_000;
const LARGE: u64 = 32_000;
const TEXT: usize = 8_000;

fn sized(server: &ScriptedUpstream, name: &str, window: u64) -> UpstreamOptions {
    let mut upstream = named(server, name, Vec::new());
    upstream.endpoint.declared.window = Some(window);
    upstream
}

/// A gateway that asks no model for summaries.
fn truncating(upstreams: Vec<UpstreamOptions>) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    gateway(GatewayOptions { policy, attempts: 1, ..waiting(upstreams) })
}

/// A server that answers each request, and counts `input` tokens.
async fn fine(input: u64) -> ScriptedUpstream {
    start_upstream(move |_, _| UpstreamAnswer::Json(200, said("fine", input, 1))).await
}

/// Conversations whose system prompt or newest message has no room in the small window.
fn long_conversations() -> [Vec<Value>; 3] {
    let text = words(TEXT, 1);
    let calls =
        json!([{ "id": "c1", "type": "function", "function": { "name": "read", "arguments": "{}" } }]);
    [
        vec![json!({ "role": "system", "content": text }), user("hi")],
        vec![user("hi"), assistant("hello"), user(text.as_str())],
        vec![
            user("read it"),
            json!({ "role": "assistant", "content": null, "tool_calls": calls }),
            json!({ "role": "tool", "tool_call_id": "c1", "content": text }),
        ],
    ]
}

#[tokio::test]
async fn a_request_goes_to_the_upstream_whose_window_has_room_for_it() {
    for messages in long_conversations() {
        let (small, large) = (fine(9).await, fine(TEXT as u64).await);
        let gateway = truncating(vec![sized(&small, "small", SMALL), sized(&large, "large", LARGE)]);
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "large"));
        assert!(small.received().is_empty());
        assert_eq!(large.received()[0].messages(), messages, "nothing is cut");
        // A request that fits keeps the order of the file.
        let reply = gateway.answer(chat(request(&[user("a short question")], false))).await;
        assert_eq!(header(&reply, "x-longhaul-upstream"), "small");
    }
}

#[tokio::test]
async fn a_refusal_that_names_a_small_window_leads_to_the_next_upstream() {
    let refused = json!({ "error": {
        "message": "This model's maximum context length is 4096 tokens. However, your messages resulted in 8100 tokens.",
        "type": "invalid_request_error", "code": "context_length_exceeded" } });
    for messages in long_conversations() {
        let refused = refused.clone();
        let small = start_upstream(move |_, _| UpstreamAnswer::Json(400, refused.clone())).await;
        let large = fine(TEXT as u64).await;
        // Nobody states a window.
        let unstated = |name: &str, server: &ScriptedUpstream| {
            UpstreamOptions::new(name, Kind::OpenAiCompatible, server.url("/v1"))
        };
        let gateway = truncating(vec![unstated("small", &small), unstated("large", &large)]);
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "large"));
        assert_eq!(small.received().len(), 1);
        assert_eq!(large.received()[0].messages(), messages, "nothing is cut");
    }
}

#[tokio::test]
async fn where_no_upstream_has_room_the_largest_window_gets_the_cut_message() {
    let (larger, smaller) = (fine(3_000).await, fine(3_000).await);
    let upstreams = vec![sized(&larger, "larger", 2 * SMALL), sized(&smaller, "smaller", SMALL)];
    let gateway = truncating(upstreams);
    let long = request(&[user(words(3 * TEXT, 1))], false);
    let reply = gateway.answer(chat(long.clone())).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "larger"));
    assert!(larger.received()[0].body.len() < long.len() / 2, "the message is cut");
    assert!(smaller.received().is_empty());
    // A system prompt cannot be cut.
    let prompt = json!({ "role": "system", "content": words(3 * TEXT, 1) });
    let reply = gateway.answer(chat(request(&[prompt, user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!((larger.received().len(), smaller.received().len()), (1, 0));
}

#[tokio::test]
async fn a_message_is_cut_where_the_upstream_with_room_fails() {
    let small = fine(1_500).await;
    let large =
        start_upstream(|_, _| UpstreamAnswer::Json(503, json!({ "error": { "message": "not now" } }))).await;
    let gateway = truncating(vec![sized(&small, "small", SMALL), sized(&large, "large", LARGE)]);
    let reply = gateway.answer(chat(request(&[user(words(TEXT, 1))], false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "small"));
    assert_eq!(large.received().len(), 1);
    // Only the large window holds the system prompt, so the client is told that its server is busy.
    let prompt = json!({ "role": "system", "content": words(TEXT, 1) });
    let reply = gateway.answer(chat(request(&[prompt, user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((small.received().len(), large.received().len()), (1, 2));
}

#[tokio::test]
async fn a_header_that_repeats_the_key_is_left_out() {
    let key = "sk-0123456789abcdef";
    let server = start_upstream(move |_, _| {
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-seen-key", format!("Bearer {key}")),
            ("x-request-id", "r7".to_owned()),
        ];
        UpstreamAnswer::Head(200, headers, said("hi", 9, 1).to_string().into())
    })
    .await;
    let mut upstream = server.upstream(8_000);
    upstream.endpoint.api_key = Some(Secret::new(key));
    // What a person has each request carry may be no secret.
    upstream.endpoint.headers = vec![("accept".to_owned(), Secret::new("application/json"))];
    let reply = gateway(waiting(vec![upstream])).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((header(&reply, "x-request-id"), header(&reply, "x-seen-key")), ("r7", ""));
    assert_eq!(header(&reply, "content-type"), "application/json");
}

#[tokio::test]
async fn a_base_url_without_a_path_that_has_no_such_path_is_told_so() {
    let lost = || UpstreamAnswer::Text(404, "text/plain", "404 page not found".to_owned());
    for (dialect, kind) in [(Dialect::Chat, Kind::OpenAiCompatible), (Dialect::Chat, Kind::Anthropic)] {
        let server = start_upstream(move |_, _| lost()).await;
        let place = server.url("");
        for (base_url, is_told) in [(place.clone(), true), (server.url("/v1"), false)] {
            let upstream = UpstreamOptions::new("up", kind, base_url);
            let gateway = gateway(waiting(vec![upstream]));
            let reply = gateway.answer(call(dialect, &[user("hi")], false)).await;
            assert_eq!(reply.status, StatusCode::NOT_FOUND);
            let said = String::from_utf8(body(reply).await.to_vec()).unwrap();
            // A translated request has been tried below the version already.
            let hint = match kind {
                Kind::Anthropic => format!("{place}/v1 was tried too"),
                _ => format!("Its base URL has no path: did you mean {place}/v1 ?"),
            };
            assert_eq!(said.contains(&hint), is_told, "{kind:?}: {said}");
            assert!(said.contains("page not found"), "{said}");
        }
    }
    let absent = |_, _: &Value| UpstreamAnswer::Json(404, json!({ "error": { "message": "no such model" } }));
    let server = start_upstream(absent).await;
    let upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url(""));
    let reply = gateway(waiting(vec![upstream])).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(body_json(reply).await, json!({ "error": { "message": "no such model" } }), "as it is");
}
