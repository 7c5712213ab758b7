//! How large a window is, as everybody in the process knows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use longhaul_core::message::ModelOrigin;
use longhaul_gateway::{Gateway, GatewayDependencies, KnownWindow, SharedWindowStore, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_providers::{DeclaredLimits, LimitSource};
use serde_json::json;

use crate::upstream::*;

/// What sessions of the same process know.
#[derive(Default)]
struct Sessions(Mutex<BTreeMap<String, u64>>);

impl SharedWindowStore for Sessions {
    fn window(&self, base_url: &str, model: &ModelOrigin) -> Option<u64> {
        self.0.lock().unwrap().get(&format!("{base_url} {}", model.model)).copied()
    }

    fn learn(&self, base_url: &str, model: &ModelOrigin, window: Option<u64>) {
        let mut known = self.0.lock().unwrap();
        let key = format!("{base_url} {}", model.model);
        match window {
            Some(window) => known.insert(key, window),
            None => known.remove(&key),
        };
    }
}

/// A server of which nobody says how large its window is.
fn unsaid(server: &ScriptedUpstream) -> UpstreamOptions {
    UpstreamOptions {
        window_key: "context_window",
        ..UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url("/v1"))
    }
}

fn beside(sessions: &Arc<Sessions>, upstream: UpstreamOptions) -> Gateway {
    let parts = GatewayDependencies { windows: sessions.clone(), ..GatewayDependencies::default() };
    Gateway::new(waiting(vec![upstream]), parts).unwrap()
}

#[tokio::test]
async fn what_a_session_has_learned_the_gateway_knows() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let sessions = Arc::new(Sessions::default());
    let gateway = beside(&sessions, unsaid(&server));
    let ask = async |_: ()| gateway.answer(chat(request(&[user("hi")], false))).await;
    let first = ask(()).await;
    assert_eq!(
        header(&first, "x-longhaul-window"),
        "32000 (assumed; state it with `context_window: N` in longhaul.yml)"
    );
    sessions.learn(&server.url("/v1"), &origin("m"), Some(16_000));
    assert_eq!(header(&ask(()).await, "x-longhaul-window"), "16000 (learned)");
    let known = gateway.window("m", false).await.unwrap();
    assert_eq!((known.tokens, known.said()), (16_000, "learned"));
    sessions.learn(&server.url("/v1"), &origin("m"), Some(9_000));
    assert_eq!(header(&ask(()).await, "x-longhaul-window"), "9000 (learned)", "the newest");
}

fn origin(model: &str) -> ModelOrigin {
    ModelOrigin { provider: "openai-compatible".into(), api: "openai-chat".into(), model: model.into() }
}

/// A server that refuses what is longer than 2,000 words.
async fn narrow() -> ScriptedUpstream {
    start_upstream(|_, body| {
        if crate::shortening::is_summary_request(body) {
            return crate::shortening::pruned();
        }
        match body["messages"].to_string().split(' ').count() {
            size if size > 2_000 => {
                let message = format!("This model's maximum context length is 2000 tokens. However, your messages resulted in {size} tokens.");
                UpstreamAnswer::Json(400, json!({ "error": { "message": message, "code": "context_length_exceeded" } }))
            }
            size => UpstreamAnswer::Json(200, said("fine", size as u64, 2)),
        }
    })
    .await
}

#[tokio::test]
async fn what_the_gateway_has_learned_sessions_know() {
    let server = narrow().await;
    let sessions = Arc::new(Sessions::default());
    let gateway = beside(&sessions, unsaid(&server));
    let long: Vec<_> = (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect();
    let reply = gateway.answer(chat(request(&long, false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-window")), (StatusCode::OK, "2000 (learned)"));
    assert_eq!(sessions.window(&server.url("/v1"), &origin("m")), Some(2_000));
    assert_eq!(sessions.window(&server.url("/v1"), &origin("other")), None, "another model may have another");
}

/// A server that counts a token for four bytes of content, and refuses what is longer than its window.
async fn by_bytes(window: usize) -> ScriptedUpstream {
    start_upstream(move |_, body| {
        let messages = body["messages"].as_array().unwrap();
        let bytes: usize = messages.iter().map(|message| message["content"].as_str().unwrap().len()).sum();
        let size = bytes / 4;
        if size > window {
            let message = format!("This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens.");
            return UpstreamAnswer::Json(400, json!({ "error": { "message": message, "code": "context_length_exceeded" } }));
        }
        UpstreamAnswer::Json(200, said("fine", size as u64, 2))
    })
    .await
}

/// What a tokenizer has fewer tokens of than a quarter of its bytes.
fn sparse() -> Vec<serde_json::Value> {
    let words = |at: usize| format!("q{at} {}", "alpha beta gamma delta ".repeat(19));
    let said = |at: usize| if at.is_multiple_of(2) { user(words(at)) } else { assistant(words(at)) };
    (0..120).map(said).chain([user("final")]).collect()
}

#[tokio::test]
async fn who_counts_more_than_we_do_is_asked_after_one_refusal_and_has_the_window_that_it_named() {
    for window in [4_000, 12_000] {
        for strategy in ["truncation", "summarization", "pruning-agent", "adaptive", "middle-removal"] {
            let server = by_bytes(window).await;
            let sessions = Arc::new(Sessions::default());
            let gateway = beside(&sessions, unsaid(&server));
            for _ in 0..3 {
                let mut asked = chat(request(&sparse(), false));
                asked.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
                let reply = gateway.answer(asked).await;
                let told = header(&reply, "x-longhaul-window").to_owned();
                assert_eq!(reply.status, StatusCode::OK, "{window}, {strategy}");
                assert_eq!(told, format!("{window} (learned)"), "{strategy}");
                body(reply).await;
            }
            assert_eq!(sessions.window(&server.url("/v1"), &origin("m")), Some(window as u64), "{strategy}");
        }
    }
}

#[tokio::test]
async fn what_turns_out_wrong_is_forgotten_by_all() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 12_000, 1))).await;
    let sessions = Arc::new(Sessions::default());
    sessions.learn(&server.url("/v1"), &origin("m"), Some(9_000));
    let gateway = beside(&sessions, unsaid(&server));
    gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(sessions.window(&server.url("/v1"), &origin("m")), None, "12,000 went through");
}

#[tokio::test]
async fn what_a_person_states_is_for_nobody_else_to_learn() {
    let server = narrow().await;
    let sessions = Arc::new(Sessions::default());
    sessions.learn(&server.url("/v1"), &origin("m"), Some(700));
    let gateway = beside(&sessions, server.upstream(8_000));
    let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(header(&reply, "x-longhaul-window"), "8000 (stated)");
}

#[tokio::test]
async fn a_window_is_told_with_who_says_so() {
    let server = start_llama_cpp(4_096, |_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let mut upstream = unsaid(&server);
    let own = DeclaredLimits { window: Some(7_000), ..DeclaredLimits::default() };
    upstream.declared_of = BTreeMap::from([("small".to_owned(), own)]);
    let gateway = gateway(waiting(vec![upstream]));
    let window = |tokens, source| Some(KnownWindow { tokens, source });
    assert_eq!(gateway.window("m", false).await, window(32_000, LimitSource::Unknown), "nobody was asked");
    assert_eq!(gateway.window("m", true).await, window(4_096, LimitSource::Server));
    assert_eq!(gateway.window("m", false).await, window(4_096, LimitSource::Server), "and it stays");
    assert_eq!(gateway.window("small", true).await, window(7_000, LimitSource::Declared));
    assert_eq!(gateway.window("m", true).await.unwrap().said(), "discovered");
    let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(header(&reply, "x-longhaul-window"), "4096 (discovered)");
}

#[tokio::test]
async fn a_request_without_a_model_is_for_the_one_that_is_named_or_for_the_first() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let asked = r#"{"messages":[{"role":"user","content":"hi"}],"seed":1.50}"#;
    let none = server.gateway(8_000).answer(chat(asked)).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    assert_eq!(body_json(none).await["error"]["param"], "model", "where there is none");
    let usual = UpstreamOptions { usual_model: Some("tiny".into()), ..server.upstream(8_000) };
    let named = UpstreamOptions { is_usual: true, ..usual.clone() };
    let open =
        UpstreamOptions { name: "open".into(), endpoint: usual.endpoint.clone(), ..server.upstream(8_000) };
    for (upstreams, upstream, model) in [
        (vec![usual.clone()], "up", "tiny"),
        (vec![listing(&server), usual], "first", "real/coder"),
        (vec![listing(&server), open, named], "up", "tiny"),
    ] {
        let gateway = gateway(waiting(upstreams));
        for asked in [
            asked.to_owned(),
            asked.replacen('{', r#"{"model":null,"#, 1),
            asked.replacen('{', r#"{"model":"","#, 1),
        ] {
            let reply = gateway.answer(chat(asked)).await;
            assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, upstream));
            let sent = server.received().pop().unwrap();
            assert_eq!(sent.json()["model"], model);
            assert!(String::from_utf8_lossy(&sent.body).contains(r#""seed":1.50"#), "the rest is as it was");
        }
    }
}

fn listing(server: &ScriptedUpstream) -> UpstreamOptions {
    let model = longhaul_gateway::UpstreamModelEntry {
        name: "coder".into(),
        upstream_name: "real/coder".into(),
        declared: DeclaredLimits::default(),
    };
    UpstreamOptions { name: "first".into(), models: vec![model], ..server.upstream(8_000) }
}
