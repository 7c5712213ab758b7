//! The Ollama client against real sockets.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    Message, ModelStopReason, Part, ReasoningPart, Role, ToolResult, ToolSpec, ToolStatus,
};
use longhaul_providers::http::Secret;
use longhaul_providers::ollama::OllamaProvider;
use longhaul_providers::{
    FeatureSupport, LimitSource, ModelEndpoint, ModelEvent, ModelRequest, Provider, ReasoningScope,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::answers::{End, answer, stream, whole_then_silence};
use crate::wire::{Outcome, call, finished, hi as request, patient};

const HELLO: &[&str] = &[
    // The network cuts the second line inside a field's name.
    "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"done\":false}\n{\"mod",
    "el\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"lo\"},\"done\":false}\n",
    "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":7,\"eval_count\":2}\n",
];

fn endpoint(fake: &ScriptedUpstream) -> ModelEndpoint {
    let mut endpoint = ModelEndpoint::new("ollama", fake.url(""), "m");
    endpoint.timeouts = patient();
    endpoint
}

async fn against<F>(reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    call(&OllamaProvider::new(endpoint(&fake)).unwrap(), request()).await
}

fn body(asked: &ReceivedRequest) -> Value {
    serde_json::from_slice(&asked.body).unwrap()
}

#[tokio::test]
async fn an_answer_streams_line_by_line() {
    let (hold, gone) = oneshot::channel();
    let hold = Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake = ScriptedUpstream::start(move |_| {
        stream(&HELLO[..2], End::Silence(hold.lock().unwrap().take().unwrap()))
    })
    .await;
    let provider = OllamaProvider::new(endpoint(&fake)).unwrap();
    let mut events = provider.call(request()).await.unwrap();
    assert_eq!(events.next().await, Some(Ok(ModelEvent::Text("Hel".into()))), "before the answer has ended");
    assert_eq!(events.next().await, Some(Ok(ModelEvent::Text("lo".into()))));
    drop(events);
    let closed = tokio::time::timeout(Duration::from_secs(20), gone).await;
    assert!(closed.unwrap().is_err(), "the server's end of the stream was dropped");

    let answer = finished(against(|_| stream(HELLO, End::Whole)).await);
    assert_eq!((answer.parts, answer.finish), (vec![Part::text("Hello")], ModelStopReason::Stop));
    assert_eq!(answer.usage.unwrap().input_tokens, 7);
}

#[tokio::test]
async fn the_closing_line_is_the_end() {
    let (hold, _gone) = oneshot::channel();
    let hold = Arc::new(std::sync::Mutex::new(Some(hold)));
    let answer =
        finished(against(move |_| stream(HELLO, End::Silence(hold.lock().unwrap().take().unwrap()))).await);
    assert_eq!(answer.parts, [Part::text("Hello")]);
}

#[tokio::test]
async fn a_base_url_of_another_route_is_understood() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    // Users copy the base URL of Ollama's compatible route, or the path of its own API.
    for path in ["", "/", "/v1", "/v1/", "/api"] {
        let mut endpoint = endpoint(&fake);
        endpoint.base_url = fake.url(path);
        endpoint.api_key = Some(Secret::new("key-0123456789"));
        finished(call(&OllamaProvider::new(endpoint).unwrap(), request()).await);
    }
    for asked in fake.received() {
        assert_eq!(asked.path, "/api/chat");
        assert_eq!(asked.headers["authorization"], "Bearer key-0123456789");
    }
}

/// A whole turn: a call with tools, the result, and the next request.
#[tokio::test]
async fn hazard_05_one_line_may_hold_thinking_text_and_calls_and_arguments_go_back_as_they_came() {
    let calls = [
        r#"{"id":"call_ab12","function":{"index":0,"name":"read","arguments":{"n": 1.50,"\u0061":1e3}}}"#,
        r#"{"function":{"index":1,"name":"list","arguments":{}}}"#,
    ];
    let line = format!(
        "{{\"message\":{{\"role\":\"assistant\",\"content\":\"So:\",\"thinking\":\"hm\",\"tool_calls\":[{},{}]}},\"done\":false}}\n",
        calls[0], calls[1]
    );
    let fake = ScriptedUpstream::start(move |_| stream(&[&line, HELLO[2]], End::Whole)).await;
    let provider = OllamaProvider::new(endpoint(&fake)).unwrap();
    let first = finished(call(&provider, request()).await);
    assert_eq!(first.finish, ModelStopReason::ToolCalls);
    let thought = Part::Reasoning(ReasoningPart { text: "hm".into(), native: None });
    assert_eq!(first.parts[..2], [thought, Part::text("So:")]);
    let mut second = request();
    let ids: Vec<_> = first
        .parts
        .iter()
        .filter_map(|part| if let Part::ToolCall(call) = part { Some(call.call_id.clone()) } else { None })
        .collect();
    let answered = Message {
        id: "a".into(),
        role: Role::Assistant,
        parts: first.parts,
        origin: Some(provider.origin()),
    };
    second.messages.push(answered);
    for call_id in ids {
        let result = ToolResult {
            call_id,
            status: ToolStatus::Completed,
            content: vec![Part::text("ok")],
            truncated: None,
        };
        second.messages.push(Message {
            id: "t".into(),
            role: Role::Tool,
            parts: vec![Part::ToolResult(result)],
            origin: None,
        });
    }
    finished(call(&provider, second).await);
    let sent = String::from_utf8(fake.received()[1].body.to_vec()).unwrap();
    let messages = format!(
        r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"So:","thinking":"hm","tool_calls":[{},{}]}},{{"role":"tool","content":"ok","tool_name":"read","tool_call_id":"call_ab12"}},{{"role":"tool","content":"ok","tool_name":"list"}}]"#,
        calls[0], calls[1]
    );
    let expected =
        format!(r#"{{"model":"m","stream":true,"truncate":false,"shift":false,"messages":{messages}}}"#);
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn hazard_07_a_stream_without_its_closing_line_is_truncated() {
    let (events, error) = against(|_| stream(&HELLO[..2], End::Whole)).await;
    assert_eq!(events.len(), 2);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::TruncatedStream, true));
    let (_, error) = against(|_| stream(&HELLO[..1], End::Whole)).await;
    assert_eq!(error.unwrap().code, ErrorCode::TruncatedStream, "in the middle of a line");
    let (_, error) = against(|_| stream(&HELLO[..2], End::Broken)).await;
    assert_eq!(error.unwrap().code, ErrorCode::Network);
}

#[tokio::test]
async fn hazard_07_errors_come_in_band() {
    let crashed = "{\"error\":\"an error was encountered while running the model: unexpected EOF\"}\n";
    let (events, error) = against(move |_| stream(&[HELLO[0], HELLO[1], crashed], End::Whole)).await;
    assert_eq!(events.len(), 2);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable, error.status), (ErrorCode::ThirdParty, true, None));
}

#[tokio::test]
async fn hazard_08_errors_keep_status_and_body() {
    // Ollama wraps the error of its llama.cpp runner in a string.
    let server = r#"{"error":"{\"error\":{\"code\":400,\"message\":\"request (7010 tokens) exceeds the available context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":7010,\"n_ctx\":4096}}"}"#;
    let table = [
        (400, server, ErrorCode::ContextOverflow, false),
        (
            400,
            r#"{"error":"the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context length in settings, or use a model with a longer context length"}"#,
            ErrorCode::ContextOverflow,
            false,
        ),
        (
            400,
            r#"{"error":"registry.ollama.ai/library/gemma3:4b does not support tools"}"#,
            ErrorCode::InvalidRequest,
            false,
        ),
        (401, r#"{"error":"unauthorized","signin_url":"x"}"#, ErrorCode::Auth, false),
        (404, r#"{"error":"model 'm' not found"}"#, ErrorCode::NotFound, false),
        (500, r#"{"error":"model runner has unexpectedly stopped"}"#, ErrorCode::ThirdParty, true),
        (
            503,
            r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
            ErrorCode::ThirdParty,
            true,
        ),
    ];
    for (status, body, code, retryable) in table {
        let (_, error) = against(move |_| answer(status, "application/json", body)).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.retryable, error.status), (code, retryable, Some(status)), "{body}");
        assert_eq!(error.body.as_deref(), Some(body));
    }
    let (_, error) = against(move |_| answer(400, "application/json", server)).await;
    let error = error.unwrap();
    assert_eq!((error.used_tokens, error.limit_tokens), (Some(7010), Some(4096)));
}

#[tokio::test]
async fn hazard_09_only_silence_ends_a_stream() {
    let (hold, _gone) = oneshot::channel();
    let hold = Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake = ScriptedUpstream::start(move |_| {
        whole_then_silence(&HELLO[..2], hold.lock().unwrap().take().unwrap())
    })
    .await;
    let mut endpoint = endpoint(&fake);
    // Long enough for a busy machine to hand over what was sent before the silence.
    endpoint.timeouts.idle = Duration::from_secs(2);
    let (events, error) = call(&OllamaProvider::new(endpoint).unwrap(), request()).await;
    assert_eq!(events.len(), 2);
    assert_eq!(error.unwrap().code, ErrorCode::Timeout);
}

#[tokio::test]
async fn hazard_11_what_is_unknown_is_let_pass() {
    // Unknown fields, an unknown line, and a line without a message.
    let odd = "{\"news\":1,\"message\":{\"role\":\"assistant\",\"content\":\"x\",\"hologram\":{}},\"done\":false}\n\n{\"progress\":3}\n";
    let answer = finished(against(move |_| stream(&[odd, HELLO[2]], End::Whole)).await);
    assert_eq!(answer.parts, [Part::text("x")]);
}

#[tokio::test]
async fn hazard_12_what_is_rendered_is_what_is_sent() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let provider = OllamaProvider::new(endpoint(&fake)).unwrap();
    let tool = ToolSpec {
        name: "read".into(),
        description: "reads".into(),
        parameters: longhaul_core::message::RawJson(r#"{"type":"object", "properties":{}}"#.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    };
    let request = ModelRequest { tools: vec![tool], ..request() };
    let rendered = provider.render(&request).unwrap();
    finished(call(&provider, request).await);
    assert_eq!(fake.received()[0].body, rendered);
    assert_eq!(fake.received()[0].headers["content-type"], "application/json");
}

/// A server whose model is loaded with a window, 0 for not at all.
async fn serving(window: Arc<AtomicU64>, about: Value) -> ScriptedUpstream {
    ScriptedUpstream::start(move |asked| match asked.path.as_str() {
        "/api/ps" => {
            let list = match window.load(Ordering::SeqCst) {
                0 => json!({"models": []}),
                window => json!({"models": [{"name": "m:latest", "model": "m:latest", "context_length": window}]}),
            };
            answer(200, "application/json", list.to_string())
        }
        "/api/show" => answer(200, "application/json", about.to_string()),
        // A request without messages only loads the model.
        _ if body(asked)["messages"] == json!([]) => {
            window.store(body(asked)["options"]["num_ctx"].as_u64().unwrap_or(4096), Ordering::SeqCst);
            answer(200, "application/json", r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}"#)
        }
        _ => stream(HELLO, End::Whole),
    })
    .await
}

fn about() -> Value {
    json!({
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
        "capabilities": ["completion", "tools", "thinking"]
    })
}

#[tokio::test]
async fn the_window_is_the_loaded_one_and_is_read_again_after_a_reload() {
    let window = Arc::new(AtomicU64::new(8192));
    let fake = serving(window.clone(), about()).await;
    let provider = OllamaProvider::new(endpoint(&fake)).unwrap();
    let asked_for = || -> Value {
        serde_json::from_slice::<Value>(&provider.render(&request()).unwrap()).unwrap()["options"]["num_ctx"]
            .clone()
    };
    assert_eq!(asked_for(), Value::Null, "nobody has said yet");
    let limits = provider.limits().await;
    assert_eq!((limits.window, limits.source), (Some(8192), LimitSource::Server));
    assert_eq!(
        (limits.tools, limits.images, limits.files),
        (FeatureSupport::Yes, FeatureSupport::No, FeatureSupport::No)
    );
    assert_eq!((limits.prefill, limits.reasoning), (FeatureSupport::Yes, Some(ReasoningScope::Turn)));
    assert_eq!(asked_for(), 8192);
    window.store(16_384, Ordering::SeqCst);
    assert_eq!(provider.limits().await.window, Some(16_384));
    assert_eq!(asked_for(), 16_384);
    window.store(0, Ordering::SeqCst);
    assert_eq!(provider.limits().await.window, Some(16_384), "unloaded: what the next call asks for");
}

#[tokio::test]
async fn a_declared_window_is_asked_for() {
    let fake = serving(Arc::new(AtomicU64::new(4096)), about()).await;
    let mut endpoint = endpoint(&fake);
    endpoint.declared.window = Some(20_000);
    let provider = OllamaProvider::new(endpoint).unwrap();
    let limits = provider.limits().await;
    assert_eq!((limits.window, limits.source), (Some(20_000), LimitSource::Declared));
    finished(call(&provider, request()).await);
    assert_eq!(body(fake.received().last().unwrap())["options"], json!({"num_ctx": 20_000}));
}

#[tokio::test]
async fn a_model_that_is_not_loaded_is_loaded_only_if_that_is_wanted() {
    let window = Arc::new(AtomicU64::new(0));
    let fake = serving(window, about()).await;
    let provider = OllamaProvider::new(endpoint(&fake)).unwrap();
    assert_eq!(provider.limits().await.window, None);
    assert!(fake.received().iter().all(|asked| asked.path != "/api/chat"));
    let limits = provider.loading_first().limits().await;
    assert_eq!((limits.window, limits.source), (Some(4096), LimitSource::Server));
    let load = fake.received().into_iter().find(|asked| asked.path == "/api/chat").unwrap();
    // With other options than those of a call, Ollama would reload the model at the first call.
    assert_eq!(body(&load)["shift"], json!(false), "or the first call would load it again");
}

#[tokio::test]
async fn an_older_server_that_says_nothing_leaves_it_unknown() {
    let fake = ScriptedUpstream::start(|_| answer(404, "text/plain", "404 page not found")).await;
    let limits = OllamaProvider::new(endpoint(&fake)).unwrap().loading_first().limits().await;
    assert_eq!(
        (limits.window, limits.source, limits.tools),
        (None, LimitSource::Unknown, FeatureSupport::Unknown)
    );
}
