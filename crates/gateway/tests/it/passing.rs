//! What fits goes through as it is.

use std::io::Write;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use longhaul_gateway::{
    CredentialSource, GatewayOptions, RelayEndpoint, ReplyBody, UpstreamModelEntry, UpstreamOptions,
};
use longhaul_providers::DeclaredLimits;
use longhaul_providers::connect::Kind;
use longhaul_providers::http::Secret;
use serde_json::json;

use crate::upstream::*;

const ODD: &str = "{ \"temperature\": 1.0e0,\n\t\"model\":\"m\",\"messages\":[ {\"role\":\"user\",\"content\":\"h\\u0069\",\"x\":null} ],\"seed\":12345678901234567890, \"stream\" :true}";

#[tokio::test]
async fn a_request_arrives_byte_for_byte_and_so_does_its_answer() {
    let events = streamed("a", "hello there you", Some((9, 3)));
    let script = events.clone();
    let server =
        start_upstream(move |_, _| UpstreamAnswer::Events(script.clone(), Duration::from_millis(2))).await;
    let gateway = server.gateway(8_000);
    let reply = gateway.answer(chat(ODD)).await;
    assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "text/event-stream"));
    assert_eq!(header(&reply, "x-longhaul-action"), "none");
    assert_eq!(header(&reply, "x-longhaul-upstream"), "up");
    assert_eq!(header(&reply, "x-longhaul-window"), "8000 (stated)");
    assert!(matches!(reply.body, ReplyBody::Stream(_)));
    assert_eq!(body(reply).await, events.concat());
    let sent = &server.received()[0];
    assert_eq!(sent.path, "/v1/chat/completions");
    assert_eq!(sent.body, ODD.as_bytes());
    assert_eq!(sent.headers["x-client"], "c");
    assert!(!sent.headers.contains_key("authorization"), "the caller's key is not passed on");
}

#[tokio::test]
async fn an_answer_that_is_no_stream_passes_too() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(header(&reply, "x-request-id"), "r1");
    assert_eq!(body(reply).await, said("hi", 9, 1).to_string());
}

#[tokio::test]
async fn the_upstreams_key_or_the_callers() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    for (credentials, expected) in
        [(CredentialSource::Own, "Bearer own"), (CredentialSource::Forward, "Bearer caller")]
    {
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.api_key = Some(Secret::new("own"));
        let gateway = gateway(GatewayOptions { credentials, ..waiting(vec![upstream]) });
        gateway.answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(server.received().last().unwrap().headers["authorization"], expected);
    }
}

#[tokio::test]
async fn a_model_by_another_name_changes_its_name_only() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let mut upstream = server.upstream(8_000);
    upstream.models = vec![UpstreamModelEntry {
        name: "m".to_owned(),
        upstream_name: "real/model".to_owned(),
        declared: DeclaredLimits::default(),
    }];
    let gateway = gateway(waiting(vec![upstream]));
    assert_eq!(gateway.models()[0].window, Some(8_000));
    gateway.answer(chat(ODD)).await;
    let expected = ODD.replace("\"model\":\"m\"", "\"model\":\"real/model\"");
    assert_eq!(server.received()[0].body, expected.as_bytes());
    let other =
        gateway.answer(chat(request(&[user("hi")], false).to_vec().as_slice().replacen_model())).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    let error = body_json(other).await;
    assert_eq!(
        (&error["error"]["code"], &error["error"]["param"]),
        (&json!("model_not_found"), &json!("model"))
    );
}

trait OtherModel {
    fn replacen_model(&self) -> Bytes;
}

impl OtherModel for [u8] {
    fn replacen_model(&self) -> Bytes {
        String::from_utf8_lossy(self).replacen("\"model\":\"m\"", "\"model\":\"unknown\"", 1).into()
    }
}

#[tokio::test]
async fn an_output_limit_beyond_the_window_is_clamped() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    let body = json!({ "model": "m", "max_tokens": 9_000, "messages": [user("hi")] }).to_string();
    gateway.answer(chat(body)).await;
    let sent = server.received()[0].json();
    let limit = sent["max_tokens"].as_u64().unwrap();
    assert!((7_900..8_000).contains(&limit), "{limit}");
    let body = json!({ "model": "m", "max_tokens": 900, "messages": [user("hi")] }).to_string();
    gateway.answer(chat(body.clone())).await;
    assert_eq!(server.received()[1].body, body.as_bytes());
}

#[tokio::test]
async fn tokens_are_counted_without_asking_anybody() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let reply = server.gateway(8_000).count_tokens(chat(request(&[user(words(100, 1))], false))).await;
    assert_eq!(header(&reply, "x-longhaul-view"), "client");
    let tokens = body_json(reply).await["input_tokens"].as_u64().unwrap();
    assert!((90..160).contains(&tokens), "{tokens}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn what_the_upstream_counts_is_what_the_next_request_is_measured_by() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("one two three", 700, 40))).await;
    let gateway = server.gateway(8_000);
    let mut messages = vec![user(words(200, 1))];
    let before = |reply: &longhaul_gateway::GatewayReply| {
        header(reply, "x-longhaul-tokens-before").parse::<u64>().unwrap()
    };
    let first = gateway.answer(chat(request(&messages, false))).await;
    assert!((180..300).contains(&before(&first)), "an estimate: {}", before(&first));
    messages.extend([assistant("one two three"), user("and?")]);
    let second = gateway.answer(chat(request(&messages, false))).await;
    assert!((741..760).contains(&before(&second)), "700 and 40 and what is new: {}", before(&second));
}

#[tokio::test]
async fn what_is_between_the_upstream_and_the_gateway_stays_there() {
    let server = start_upstream(|_, _| {
        let headers = [
            ("content-type", "application/json"),
            ("x-ratelimit-remaining-requests", "7"),
            ("retry-after", "3"),
            ("openai-processing-ms", "12"),
            ("access-control-allow-origin", "*"),
            ("content-security-policy", "default-src 'none'"),
            ("www-authenticate", "Basic realm=\"up\""),
            ("set-cookie", "up=1"),
            ("location", "http://elsewhere.example/"),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned())).to_vec();
        UpstreamAnswer::Head(429, headers, json!({ "error": { "message": "slower" } }).to_string().into())
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    let names: Vec<&str> = reply
        .headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| !name.starts_with("x-longhaul"))
        .collect();
    assert_eq!(
        names,
        ["content-type", "x-ratelimit-remaining-requests", "retry-after", "openai-processing-ms"]
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_names_its_place() {
    let server = start_upstream(|_, _| {
        let place = "https://elsewhere.example/v1/chat/completions?key=secret".to_owned();
        UpstreamAnswer::Head(307, vec![("location", place)], Bytes::new())
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!((reply.status, header(&reply, "location")), (StatusCode::BAD_GATEWAY, ""));
    let error = body_json(reply).await["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.contains("https://elsewhere.example/v1/chat/completions"), "{error}");
    assert!(error.contains("307") && !error.contains("secret"), "{error}");
}

fn gzip(text: &str) -> Bytes {
    let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
    coder.write_all(text.as_bytes()).unwrap();
    coder.finish().unwrap().into()
}

fn deflate(text: &str) -> Bytes {
    let mut coder = ZlibEncoder::new(Vec::new(), Compression::fast());
    coder.write_all(text.as_bytes()).unwrap();
    coder.finish().unwrap().into()
}

#[tokio::test]
async fn an_answer_that_comes_coded_is_read_or_refused() {
    let whole = said("hi", 9, 1).to_string();
    let events = streamed("a", "hello there you", Some((9, 3))).concat();
    for (name, coded, stream) in [
        ("gzip", gzip(&whole), false),
        ("deflate", deflate(&whole), false),
        ("GZIP", gzip(&events), true),
        ("identity", events.clone().into(), true),
    ] {
        let kind = if stream { "text/event-stream" } else { "application/json" };
        let server = start_upstream(move |_, _| {
            let headers = vec![("content-type", kind.to_owned()), ("content-encoding", name.to_owned())];
            UpstreamAnswer::Head(200, headers, coded.clone())
        })
        .await;
        let mut call = chat(request(&[user("hi")], stream));
        call.headers.insert("accept-encoding", "gzip, br".parse().unwrap());
        let reply = server.gateway(8_000).answer(call).await;
        assert_eq!((reply.status, header(&reply, "content-encoding")), (StatusCode::OK, ""), "{name}");
        assert_eq!(body(reply).await, if stream { events.clone() } else { whole.clone() }, "{name}");
        assert_eq!(server.received()[0].headers["accept-encoding"], "identity");
    }
    for (name, coded) in [("br", whole.clone().into()), ("gzip, gzip", gzip(&whole)), ("gzip", whole.into())]
    {
        let coded: Bytes = coded;
        let server = start_upstream(move |_, _| {
            let headers =
                vec![("content-type", "application/json".to_owned()), ("content-encoding", name.to_owned())];
            UpstreamAnswer::Head(200, headers, coded.clone())
        })
        .await;
        let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY, "{name}");
        let error = body_json(reply).await["error"]["message"].to_string();
        assert!(error.contains("coded as"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_nobody_asked_for_is_made_one_answer() {
    let server = start_upstream(|_, _| {
        UpstreamAnswer::Events(streamed("a", "hello there", Some((9, 3))), Duration::ZERO)
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(body_json(reply).await["choices"][0]["message"]["content"], "hello there");
}

/// A server that names no type, or whose type is guessed for it, streams all the same.
#[tokio::test]
async fn a_stream_without_its_type_is_a_stream() {
    let events = streamed("a", "hello there you", Some((9, 3))).concat();
    for kind in [None, Some("text/plain; charset=utf-8"), Some("application/octet-stream")] {
        for (says, is_answer) in [(events.clone(), true), ("database gone".to_owned(), false)] {
            let server = start_upstream(move |_, _| {
                let headers = kind.map(|kind| ("content-type", kind.to_owned())).into_iter().collect();
                UpstreamAnswer::Head(200, headers, says.clone().into())
            })
            .await;
            let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
            if !is_answer {
                assert_eq!(reply.status, StatusCode::BAD_GATEWAY, "{kind:?}");
                assert!(
                    body_json(reply).await["error"]["message"].to_string().contains("database gone"),
                    "{kind:?}"
                );
                continue;
            }
            assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "text/event-stream"));
            assert_eq!(body(reply).await, events, "{kind:?}: nothing is changed or lost");
            let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
            assert_eq!(header(&reply, "content-type"), "application/json", "{kind:?}");
            assert_eq!(body_json(reply).await["choices"][0]["message"]["content"], "hello there you");
        }
    }
}

/// What may still become a stream is not waited for without end.
#[tokio::test]
async fn blanks_without_a_type_are_no_stream_and_no_answer() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Head(200, Vec::new(), "\n".repeat(1 << 20).into())).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn the_type_of_a_stream_that_is_named_passes_as_it_is() {
    let server = start_upstream(|_, _| {
        let events = streamed("a", "hello", Some((9, 1))).concat();
        UpstreamAnswer::Head(
            200,
            vec![("content-type", "text/event-stream; charset=utf-8".to_owned())],
            events.into(),
        )
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!(header(&reply, "content-type"), "text/event-stream; charset=utf-8");
}

/// Embeddings and completions of a text have no conversation: they go to the model's server as they are.
#[tokio::test]
async fn requests_without_a_conversation_pass_as_they_are() {
    let answer =
        json!({ "object": "list", "data": [{ "embedding": [0.25, -1.0] }], "usage": { "total_tokens": 3 } });
    let said = answer.clone();
    let server = start_upstream(move |_, body| match body["stream"] == true {
        true => UpstreamAnswer::Events(
            vec!["data: {\"choices\":[{\"text\":\"on\"}]}\n\n".into(), "data: [DONE]\n\n".into()],
            Duration::ZERO,
        ),
        false => UpstreamAnswer::Json(200, said.clone()),
    })
    .await;
    let mut upstream = server.upstream(4_000);
    let declared = upstream.endpoint.declared;
    upstream.models = vec![UpstreamModelEntry {
        name: "embedder".to_owned(),
        upstream_name: "org/embedder-v2".to_owned(),
        declared,
    }];
    let gateway = gateway(waiting(vec![upstream]));
    let asked = r#"{ "model":"embedder" , "input": ["a \u00e9", "b"], "dimensions": 2, "x": null }"#;
    let reply = gateway.relay_request(RelayEndpoint::Embeddings, chat(asked)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "up"));
    assert_eq!(body_json(reply).await, answer);
    let sent = server.received().pop().unwrap();
    assert_eq!(sent.path, "/v1/embeddings");
    assert_eq!(sent.body, asked.replace("embedder", "org/embedder-v2"), "only the name is another");

    let reply = gateway
        .relay_request(
            RelayEndpoint::Completions,
            chat(r#"{"model":"embedder","prompt":"go","stream":true}"#),
        )
        .await;
    assert_eq!(header(&reply, "content-type"), "text/event-stream");
    assert!(String::from_utf8_lossy(&body(reply).await).ends_with("data: [DONE]\n\n"));
    assert_eq!(server.received().pop().unwrap().path, "/v1/completions");

    for (asked, status) in [("{", 400), (r#"{"model":7}"#, 400), (r#"{"model":"nobody","input":"a"}"#, 404)] {
        let reply = gateway.relay_request(RelayEndpoint::Embeddings, chat(asked)).await;
        assert_eq!(reply.status.as_u16(), status, "{asked}");
        assert!(body_json(reply).await["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn a_page_of_a_proxy_becomes_an_error_of_the_dialect() {
    for status in [200_u16, 407, 502] {
        let page = "<html><head><title>Sign in to the network</title></head></html>";
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Text(status, "text/html", page.to_owned())).await;
        let gateway = server.gateway(8_000);
        for passed in [RelayEndpoint::Embeddings, RelayEndpoint::Completions] {
            let reply = gateway.relay_request(passed, chat(r#"{"model":"m","input":"a"}"#)).await;
            assert_eq!((reply.status, status), (StatusCode::BAD_GATEWAY, status));
            assert_eq!(header(&reply, "content-type"), "application/json");
            let said = body_json(reply).await["error"]["message"].as_str().unwrap().to_owned();
            assert!(said.contains(&server.url("")) && !said.contains('<'), "{said}");
            assert!(status == 200 || said.contains(&status.to_string()), "{said}");
        }
    }
}

#[tokio::test]
async fn a_server_without_the_path_is_named() {
    let upstream = UpstreamOptions::new("claude", Kind::Anthropic, "http://127.0.0.1:9/v1");
    let reply = gateway(waiting(vec![upstream]))
        .relay_request(RelayEndpoint::Embeddings, chat(r#"{"model":"m","input":"a"}"#))
        .await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    let said = body_json(reply).await["error"]["message"].to_string();
    assert!(said.contains("the upstream `claude` has no /embeddings"), "{said}");
}
