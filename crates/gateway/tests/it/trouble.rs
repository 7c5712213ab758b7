//! Bad requests and bad upstreams: a clear error in the caller's words, and nothing that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{ClientRequest, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use crate::crossing::messages_call;
use crate::upstream::*;

fn error(body: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(body).unwrap();
    assert!(value["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
    value["error"].clone()
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_not_sent() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    // Deep nesting would exhaust the stack of a parser that calls itself.
    let big = "[".repeat(100_000);
    for (body_text, param) in [
        ("", Value::Null),
        ("not json", Value::Null),
        ("[]", Value::Null),
        ("{\"model\":\"m\"", Value::Null),
        ("{\"messages\":[]}", json!("model")),
        ("{\"model\":7,\"messages\":[]}", json!("model")),
        ("{\"model\":\"m\",\"messages\":{}}", json!("messages")),
        ("{\"model\":\"m\",\"messages\":[1]}", json!("messages[0]")),
        ("{\"model\":\"m\",\"messages\":[{\"role\":\"robot\",\"content\":\"\"}]}", json!("messages[0].role")),
        ("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":7}]}", json!("messages[0].content")),
        (&format!("{{\"model\":\"m\",\"messages\":{big}}}"), Value::Null),
    ] {
        let reply = gateway.answer(chat(body_text.to_owned())).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", &body_text[..body_text.len().min(80)]);
        let error = error(&body(reply).await);
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &param), "{error}");
    }
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn odd_histories_are_the_upstreams_to_judge() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    for messages in [
        vec![],
        vec![json!({ "role": "tool", "tool_call_id": "nobody", "content": "orphan" })],
        vec![assistant("first"), assistant("second")],
        vec![user(""), json!({ "role": "assistant", "content": null })],
    ] {
        let asked = request(&messages, false);
        assert_eq!(gateway.answer(chat(asked.clone())).await.status, StatusCode::OK);
        assert_eq!(server.received().last().unwrap().body, asked);
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let config = GatewayOptions { max_body_bytes: 1_000, ..waiting(vec![server.upstream(8_000)]) };
    let reply = gateway(config).answer(chat(request(&[user(words(400, 1))], false))).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    error(&body(reply).await);
}

#[tokio::test]
async fn the_upstreams_own_errors_pass() {
    for status in [400, 401, 404, 422, 429, 500] {
        let said = json!({ "error": { "message": format!("no {status}"), "type": "odd" } });
        let script = said.clone();
        let server = start_upstream(move |_, _| UpstreamAnswer::Json(status, script.clone())).await;
        let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
        assert_eq!(reply.status.as_u16(), status);
        assert_eq!(body_json(reply).await, said);
        // Whether 429 and 500 are repeated is left to the client, which has retries of its own.
        assert_eq!(server.received().len(), 1, "{status} is not tried again");
    }
}

#[tokio::test]
async fn what_is_for_a_moment_only_is_tried_again() {
    let server = start_upstream(|number, _| match number {
        0 => UpstreamAnswer::Json(503, json!({ "error": { "message": "loading" } })),
        _ => UpstreamAnswer::Json(200, said("hi", 9, 1)),
    })
    .await;
    let gateway = server.gateway(8_000);
    let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status, server.received().len()), (StatusCode::OK, 2));
}

#[tokio::test]
async fn so_it_is_for_a_client_of_another_dialect() {
    let stale = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (status, expected) in [(503, 3), (502, 3), (500, 1), (401, 1)] {
        let server = start_upstream(move |number, _| match number {
            0 | 1 => UpstreamAnswer::Json(status, json!({ "error": { "message": "loading" } })),
            _ => UpstreamAnswer::Events(streamed("a", "hi", Some((9, 1))), Duration::ZERO),
        })
        .await;
        let asked = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
        let reply = server.gateway(8_000).answer(messages_call(&asked)).await;
        assert_eq!(server.received().len(), expected, "{status}");
        assert_eq!(reply.status == StatusCode::OK, expected == 3, "{status}");
    }
    // A line that the server was just closing.
    let mut upstream = nowhere();
    upstream.endpoint.base_url = format!("http://{}/v1", stale.local_addr().unwrap());
    let opened = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&opened);
    tokio::spawn(async move {
        while let Ok((line, _)) = stale.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(line);
        }
    });
    let asked = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
    let reply = gateway(waiting(vec![upstream])).answer(messages_call(&asked)).await;
    assert_eq!((reply.status, opened.load(Ordering::SeqCst)), (StatusCode::BAD_GATEWAY, 2));
}

fn nowhere() -> UpstreamOptions {
    // Nothing listens at port 9 (discard), so a connection is refused at once.
    let mut upstream = UpstreamOptions::new("down", Kind::OpenAiCompatible, "http://127.0.0.1:9/v1");
    upstream.endpoint.declared.window = Some(8_000);
    (upstream.endpoint.declared.tools, upstream.endpoint.declared.images) = (Some(true), Some(true));
    upstream
}

#[tokio::test]
async fn an_upstream_that_is_down_is_named_and_another_takes_its_place() {
    let alone = gateway(waiting(vec![nowhere()]));
    let reply = alone.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
    let said_error = error(&body(reply).await);
    let message = said_error["message"].as_str().unwrap();
    assert!(message.contains("`down` cannot be reached"), "{said_error}");
    assert!(message.contains("cannot connect to http://127.0.0.1:9: connection refused"), "{said_error}");
    // A request that is translated for the upstream has the same message.
    let asked = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
    let reply = alone.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
    assert_eq!(error(&body(reply).await)["message"], message, "{said_error}");
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let both = gateway(waiting(vec![nowhere(), server.upstream(8_000)]));
    let reply = both.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "up"));
}

#[tokio::test]
async fn an_upstream_that_hangs_is_given_up() {
    let server = start_upstream(|_, _| UpstreamAnswer::Hangs).await;
    let mut upstream = server.upstream(8_000);
    upstream.endpoint.timeouts.first_byte = Some(Duration::from_millis(200));
    let config = waiting(vec![upstream]);
    let reply = gateway(config).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(error(&body(reply).await)["code"], "upstream_timeout");
}

#[tokio::test]
async fn a_stream_that_is_long_in_coming_begins_with_comments() {
    let events = streamed("a", "hello you", None);
    let script = events.clone();
    let (answers, may_answer) = watch::channel(false);
    let server = start_upstream(move |_, _| {
        UpstreamAnswer::When(
            may_answer.clone(),
            Box::new(UpstreamAnswer::Events(script.clone(), Duration::ZERO)),
        )
    })
    .await;
    let config =
        GatewayOptions { keep_alive: Duration::from_millis(50), ..waiting(vec![server.upstream(8_000)]) };
    // The client hears something although the upstream has said nothing.
    let mut reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "text/event-stream"));
    assert_eq!(beginning(&mut reply, 2).await, ": keep-alive\n\n: keep-alive\n\n");
    answers.send(true).unwrap();
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    assert_eq!(out.replace(": keep-alive\n\n", ""), events.concat());
}

#[tokio::test]
async fn errors_after_that_stand_in_the_stream() {
    let (refuses, may_refuse) = watch::channel(false);
    let server = start_upstream(move |_, _| {
        let refused = UpstreamAnswer::Json(401, json!({ "error": { "message": "bad key" } }));
        UpstreamAnswer::When(may_refuse.clone(), Box::new(refused))
    })
    .await;
    let config =
        GatewayOptions { keep_alive: Duration::from_millis(50), ..waiting(vec![server.upstream(8_000)]) };
    let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
    refuses.send(true).unwrap();
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    let last = out.rsplit(": keep-alive\n\n").next().unwrap();
    assert!(
        last.starts_with("data: {\"error\":") && last.contains("\"message\":\"bad key (HTTP 401)\""),
        "{out}"
    );
    assert!(last.contains("\"invalid_api_key\""), "a client must not take it for trouble that passes: {out}");
    assert!(last.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_stream_that_breaks_or_stalls_or_just_ends_says_so() {
    let begun: Vec<String> = streamed("a", "hello you there", None).into_iter().take(3).collect();
    // The last event has no end. A client must not see its pieces, which are no JSON.
    let half = begun.concat() + "data: {\"id\":\"a\",\"cho";
    for kind in 0..4 {
        let (events, half) = (begun.clone(), half.clone());
        let server = start_upstream(move |_, _| match kind {
            0 => UpstreamAnswer::Breaks(vec![half.clone()]),
            1 => UpstreamAnswer::Stalls(vec![half.clone()]),
            2 => UpstreamAnswer::Events(vec![half.clone()], Duration::ZERO),
            _ => UpstreamAnswer::Events(events.clone(), Duration::ZERO),
        })
        .await;
        for prefill in [false, true] {
            let mut upstream = server.upstream(8_000);
            upstream.endpoint.declared.prefill = Some(prefill);
            upstream.endpoint.timeouts.idle = Duration::from_secs(2);
            let config = GatewayOptions { keep_alive: Duration::from_secs(60), ..waiting(vec![upstream]) };
            let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
            let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
            let rest = out.strip_prefix(&begun.concat()).unwrap();
            assert!(
                rest.starts_with("data: {\"error\":"),
                "nothing of the half event: {kind} {prefill}: {out}"
            );
            assert_eq!(rest.matches("\n\n").count(), 2, "the error and the end: {out}");
        }
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_pass_or_are_named() {
    let server = start_upstream(|number, _| match number % 2 {
        0 => UpstreamAnswer::Text(200, "text/html", "<html>hello</html>".to_owned()),
        _ => UpstreamAnswer::Text(200, "application/json", "{\"half\":".to_owned()),
    })
    .await;
    let gateway = server.gateway(8_000);
    for _ in 0..2 {
        let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
        assert_eq!(error(&body(reply).await)["code"], "upstream_error");
    }
}

#[tokio::test]
async fn a_page_for_people_becomes_an_error_of_the_dialect() {
    let page = "<html><h1>not today</h1></html>";
    for status in [400_u16, 401, 404, 413, 502, 503] {
        for said in [page, "", "404 page not found"] {
            let server =
                start_upstream(move |_, _| UpstreamAnswer::Text(status, "text/html", said.to_owned())).await;
            let mut upstream = server.upstream(8_000);
            upstream.finds_dialects = false;
            let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(vec![upstream]) });
            for stream in [false, true] {
                let reply = gateway.answer(chat(request(&[user("hi")], stream))).await;
                assert_eq!(reply.status.as_u16(), status);
                assert_eq!(header(&reply, "content-type"), "application/json");
                let error = error(&body(reply).await);
                let message = error["message"].as_str().unwrap();
                assert!(message.contains(&format!("answered with status {status}")), "{message}");
                assert!(message.contains(said) && !message.contains("does not fit"), "{message}");
                assert!(status != 404 || error["code"] == "unknown_url", "{error}");
                let is_proxys = status >= 500 && said == page;
                assert_eq!(message.contains("but of a proxy in front of it"), is_proxys, "{message}");
            }
        }
    }
    // A proxy that wants a login is not the client's own.
    let server = start_upstream(move |_, _| UpstreamAnswer::Text(407, "text/html", page.to_owned())).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
    let message = error(&body(reply).await)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("answered with status 407; it is the answer of a proxy"), "{message}");
    assert!(message.contains(&server.url("")), "the address is named: {message}");
    // An empty refusal proves nothing about the length, and nothing is said that is not so.
    let server = start_upstream(|_, _| UpstreamAnswer::Text(400, "text/plain", String::new())).await;
    let reply = server.gateway(32_000).answer(chat(request(&[user(words(3_000, 1))], false))).await;
    assert_eq!(server.received().len(), 2, "it is sent once more, unchanged");
    let message = error(&body(reply).await)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("without a word") && message.contains(&server.url("")), "{message}");
    assert!(!message.contains("left out") && !message.contains("window"), "{message}");
    // What is an error already passes as it came.
    let own = "{ \"error\" : {\"message\": \"no\", \"odd\": 1} }";
    let server =
        start_upstream(move |_, _| UpstreamAnswer::Text(418, "application/json", own.to_owned())).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status.as_u16(), &body(reply).await[..]), (418, own.as_bytes()));
}

#[tokio::test]
async fn an_answer_that_the_window_has_cut_is_the_clients_if_nothing_can_be_left_out() {
    let full = |input: u64, output: u64| {
        let mut answer = said("as far as it went", input, output);
        answer["choices"][0]["finish_reason"] = json!("length");
        answer
    };
    let cut = full(60, 3_940);
    let answered = cut.clone();
    let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, answered.clone())).await;
    let reply = server.gateway(4_000).answer(chat(request(&[user("go on for ever")], false))).await;
    assert_eq!((reply.status, body_json(reply).await), (StatusCode::OK, cut));
    // One that may have read only a part of the request is, too, and it is said so.
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("what?", 1_010, 3))).await;
    let reply = server.unstated_gateway().answer(chat(request(&[user(words(2_000, 1))], false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert!(header(&reply, "x-longhaul-reason").contains("has read 1010 of"), "{:?}", reply.headers);
    // An error that came with 200 is no answer.
    let error = json!({ "error": "Context size has been exceeded" });
    let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, error.clone())).await;
    let reply = server.gateway(4_000).answer(chat(request(&[user("hi")], false))).await;
    assert!(!reply.status.is_success(), "{:?}", reply.status);
}

#[tokio::test]
async fn a_name_that_no_model_has_is_not_kept() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(4_000);
    let asked = json!({ "model": "m".repeat(513), "messages": [user("hi")] }).to_string();
    let reply = gateway.answer(chat(asked)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(error(&body(reply).await)["param"], "model");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn a_whole_stream_passes_however_it_ends_and_comes() {
    let events = streamed("a", "hello you there", Some((9, 3))).concat();
    let bare = events.trim_end().to_owned();
    let odd = format!("\u{feff}: hello\n\n{events}\n");
    let crlf = events.replace('\n', "\r\n");
    for whole in [events, bare, odd, crlf] {
        // The network may cut anywhere, so each character comes as a piece of its own.
        let pieces: Vec<String> = whole.chars().map(String::from).collect();
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(pieces.clone(), Duration::ZERO)).await;
        let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
        assert_eq!(String::from_utf8_lossy(&body(reply).await), whole);
    }
}

#[tokio::test]
async fn an_end_that_is_half_an_event_is_left_out() {
    let mut events = streamed("a", "hello you there", Some((9, 3)));
    events.pop();
    let usage = events.pop().unwrap();
    let whole = events.concat();
    let half = format!("{whole}{}", &usage[..usage.len() / 2]);
    let server = start_upstream(move |_, _| UpstreamAnswer::Events(vec![half.clone()], Duration::ZERO)).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!(String::from_utf8_lossy(&body(reply).await), whole);
}

#[tokio::test]
async fn an_event_without_end_is_not_kept() {
    for prefill in [false, true] {
        // A mebibyte at a time, so that the limit of 16 MiB is passed quickly.
        let more = bytes::Bytes::from(vec![b'x'; 1 << 20]);
        let begun = streamed("a", "hello", None)[..2].concat();
        let first = format!("{begun}data: ");
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Endless(first.clone(), more.clone(), Duration::ZERO))
                .await;
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.declared.prefill = Some(prefill);
        let reply = gateway(waiting(vec![upstream])).answer(chat(request(&[user("hi")], true))).await;
        let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
        let rest = out.strip_prefix(&begun).unwrap();
        assert!(rest.starts_with("data: {\"error\":") && rest.contains("16777216 bytes"), "{rest:.300}");
    }
}

#[tokio::test]
async fn silence_ends_however_often_the_line_is_kept_alive() {
    for prefill in [false, true] {
        let begun = streamed("a", "hello", None)[..2].to_vec();
        let script = begun.clone();
        let server = start_upstream(move |_, _| UpstreamAnswer::Stalls(script.clone())).await;
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.declared.prefill = Some(prefill);
        // Several keep-alive intervals: the gateway's own comments must not count as the upstream's life.
        upstream.endpoint.timeouts.idle = Duration::from_secs(2);
        let config = GatewayOptions { keep_alive: Duration::from_millis(40), ..waiting(vec![upstream]) };
        let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
        let out = tokio::time::timeout(Duration::from_secs(20), body(reply)).await.unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap().replace(": keep-alive\n\n", "");
        let rest = out.strip_prefix(&begun.concat()).unwrap();
        assert!(rest.contains("upstream_timeout"), "{out}");
    }
}

#[tokio::test]
async fn comments_for_ever_are_no_answer() {
    for (stream, prefill) in [(true, false), (true, true), (false, false)] {
        let comment = bytes::Bytes::from_static(b": still here\n\n");
        // Far shorter than the time-out below, so that only a real event can stop the clock.
        let gap = Duration::from_millis(10);
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Endless(String::new(), comment.clone(), gap)).await;
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.declared.prefill = Some(prefill);
        upstream.endpoint.timeouts.first_byte = Some(Duration::from_millis(300));
        upstream.endpoint.timeouts.idle = Duration::from_secs(2);
        let gateway = gateway(waiting(vec![upstream]));
        let ask = async { body(gateway.answer(chat(request(&[user("hi")], stream))).await).await };
        let out = tokio::time::timeout(Duration::from_secs(20), ask).await.unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap();
        assert!(out.contains("upstream_timeout"), "{out}");
    }
}

/// An upstream that is not even HTTP as it should be.
struct RawUpstream {
    options: UpstreamOptions,
    /// A request has arrived.
    was_asked: mpsc::UnboundedReceiver<()>,
    /// The other end of a connection has gone.
    was_left: mpsc::UnboundedReceiver<()>,
}

/// An upstream that says this to each connection, and whether it hangs up then.
async fn raw(said: Vec<u8>, hangs_up: bool) -> RawUpstream {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (asked, was_asked) = mpsc::unbounded_channel();
    let (left, was_left) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (said, asked, left) = (said.clone(), asked.clone(), left.clone());
            tokio::spawn(async move {
                let mut read = vec![0; 1 << 16];
                // The request is read first: some systems discard an answer if data is unread at the close.
                let _ = stream.read(&mut read).await;
                let _ = asked.send(());
                let _ = stream.write_all(&said).await;
                if !hangs_up {
                    // The loop ends only when the gateway closes the connection.
                    while stream.read(&mut read).await.is_ok_and(|read| read > 0) {}
                    let _ = left.send(());
                }
            });
        }
    });
    let mut options = nowhere();
    options.endpoint.base_url = url;
    options.endpoint.timeouts.first_byte = Some(Duration::from_secs(5));
    options.endpoint.timeouts.idle = Duration::from_millis(500);
    RawUpstream { options, was_asked, was_left }
}

#[tokio::test]
async fn a_server_that_lies_about_its_answer_is_found_out() {
    let whole = said("hi", 9, 1).to_string();
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
    };
    let fill = "x-filler: 1\r\n".repeat(100_000);
    for (what, said, hangs_up) in [
        ("too short", head(whole.len() + 50) + &whole, true),
        ("too short and waits", head(whole.len() + 50) + &whole, false),
        ("too long", head(whole.len() - 20) + &whole, false),
        ("nothing", String::new(), true),
        ("no HTTP", "SSH-2.0-OpenSSH_9.9\r\n".to_owned(), false),
        (
            "another kind",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n{}",
                r#"{"object":"list","data":[]}"#
            ),
            false,
        ),
        ("a head without end", format!("HTTP/1.1 200 OK\r\n{fill}"), false),
        (
            "a chunk that is none",
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
                .to_owned(),
            false,
        ),
        (
            "a switch",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
            false,
        ),
        ("no content", "HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false),
        ("not modified", "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), false),
    ] {
        let upstream = raw(said.into_bytes(), hangs_up).await;
        let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(vec![upstream.options]) });
        for stream in [false, true] {
            let ask = async {
                let reply = gateway.answer(chat(request(&[user("hi")], stream))).await;
                (reply.status, body(reply).await)
            };
            let (status, out) = tokio::time::timeout(Duration::from_secs(20), ask).await.expect(what);
            let out = String::from_utf8(out.to_vec()).unwrap();
            let is_error = status.is_server_error() || out.starts_with("data: {\"error\":");
            assert!(is_error && out.contains("\"message\""), "{what}: {status} {out}");
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_with_it() {
    let event = streamed("a", "hello", None)[..2].concat();
    let begun = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{event}");
    for (said, stream) in [(begun.as_str(), true), ("", true), ("", false)] {
        let RawUpstream { mut options, mut was_asked, mut was_left } =
            raw(said.as_bytes().to_vec(), false).await;
        options.endpoint.timeouts.idle = Duration::from_secs(60);
        options.endpoint.timeouts.first_byte = Some(Duration::from_secs(60));
        let config = GatewayOptions { keep_alive: Duration::from_millis(50), ..waiting(vec![options]) };
        let gateway = gateway(config);
        let leaving = async {
            let asking = gateway.answer(chat(request(&[user("hi")], stream)));
            if stream {
                let (mut reply, _) = tokio::join!(asking, was_asked.recv());
                beginning(&mut reply, 1).await;
            } else {
                tokio::select! {
                    reply = asking => panic!("nobody has answered: {}", reply.status),
                    _ = was_asked.recv() => {}
                }
            }
        };
        // What the future drops at its end is all that holds the request.
        tokio::time::timeout(Duration::from_secs(20), leaving).await.expect("the upstream is not asked");
        tokio::time::timeout(Duration::from_secs(20), was_left.recv())
            .await
            .expect("the upstream's line is open");
    }
}

/// Every field of a request, and of what is in it, as something else.
fn distorted(whole: &Value) -> Vec<Value> {
    let deep = (0..100).fold(Value::Null, |inner, _| json!([inner]));
    let others = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([[7]]),
        deep,
    ];
    let mut all = Vec::new();
    let inside: Vec<(String, Value)> = match whole {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone())).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in inside {
        let place = |other: Value| {
            let mut changed = whole.clone();
            match &mut changed {
                Value::Object(fields) => drop(fields.insert(name.clone(), other)),
                Value::Array(list) => list[name.parse::<usize>().unwrap()] = other,
                _ => {}
            }
            changed
        };
        all.extend(others.iter().cloned().map(place));
        all.extend(distorted(&value).into_iter().map(place));
    }
    all
}

#[tokio::test]
async fn whatever_a_field_is_the_answer_is_one() {
    let chat_server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let any =
        start_upstream(|_, _| UpstreamAnswer::Json(400, json!({ "error": { "message": "whatever" } }))).await;
    let mut speaks_all = any.upstream(8_000);
    speaks_all.dialects = vec![Dialect::Chat, Dialect::Messages, Dialect::Responses];
    let gateways = [gateway(waiting(vec![chat_server.upstream(8_000)])), gateway(waiting(vec![speaks_all]))];
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let tool =
        json!({ "type": "function", "function": { "name": "f", "description": "d", "parameters": {} } });
    let chat_body = json!({ "model": "m", "stream": false, "max_tokens": 9, "n": 1, "temperature": 1,
        "stream_options": { "include_usage": true }, "tool_choice": "auto", "tools": [tool], "messages": [
            { "role": "system", "content": "s" }, { "role": "user", "content": [{ "type": "text", "text": "t" }] },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "c", "content": "r" }] });
    let messages_body = json!({ "model": "m", "stream": false, "max_tokens": 9, "system": [{ "type": "text", "text": "s" }],
        "tools": [{ "name": "f", "description": "d", "input_schema": {} }], "tool_choice": { "type": "auto" },
        "thinking": { "type": "disabled" }, "stop_sequences": ["x"], "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "t", "cache_control": { "type": "ephemeral" } }] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "f", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": "r" }] }] }] });
    let responses_body = json!({ "model": "m", "stream": false, "max_output_tokens": 90, "instructions": "s", "store": false,
        "tools": [{ "type": "function", "name": "f", "parameters": {} }], "tool_choice": "auto", "text": { "format": { "type": "text" } },
        "reasoning": { "effort": "low" }, "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "t" }] },
            { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "r" }] });
    for (dialect, whole) in
        [(Dialect::Chat, chat_body), (Dialect::Messages, messages_body), (Dialect::Responses, responses_body)]
    {
        for asked in distorted(&whole) {
            for gateway in &gateways {
                let reply = gateway.answer(ClientRequest { dialect, ..chat(asked.to_string()) }).await;
                let status = reply.status.as_u16();
                // 400 | 404) | A 5xx would blame the server for what the client sent.
                assert!(matches!(status, 200 | 400 | 404), "{dialect:?}: {status} {asked}");
                let out = body(reply).await;
                if status != 200 {
                    error(&out);
                }
            }
        }
    }
}

#[tokio::test]
async fn odd_texts_are_read_or_refused() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let asked =
        |more: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    for (asked, status) in [
        (asked(&format!(r#","metadata":{deep}"#)), 200),
        (asked(&format!(r#","tools":{deep}"#)), 400),
        (asked(r#","max_tokens":1e400"#), 200),
        (asked(r#","max_tokens":-5"#), 200),
        (asked(r#","seed":123456789012345678901234567890"#), 200),
        (asked(r#","model":"m","messages":[{"role":"user","content":"again"}]"#), 200),
        (format!(r#"{{"model":"m","messages":[{{"role":"user","content":{deep}}}]}}"#), 400),
        (format!("\u{feff}{}", asked("")), 400),
        (asked("") + "x", 400),
        (r#"{"model":"m","messages":[{"role":"user","content":"half \ud83d"}]}"#.to_owned(), 200),
    ] {
        let reply = gateway.answer(chat(asked.clone())).await;
        assert_eq!(reply.status.as_u16(), status, "{asked:.200}");
    }
    assert!(String::from_utf8_lossy(&server.received().last().unwrap().body).contains("half \\ufffd"));
    let reply = gateway.answer(chat(b"{\"model\":\"m\",\"messages\":[\"\xff\"]}".to_vec())).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}
