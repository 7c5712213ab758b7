//! Known mistakes of adapters, a test for each mistake over the wires of OpenAI. The numbers are from the list for
//! all wires.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, ModelStopReason, OpaquePart, Part, RawJson, Role};
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};
use longhaul_providers::openai_responses::OpenAiResponsesProvider;
use longhaul_providers::{ModelEndpoint, ModelEvent, ModelRequest, Provider, ProviderError};
use serde_json::{Value, json};

use crate::answers::{End, answer, stream};

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages, ..ModelRequest::default() }
}

fn hi() -> ModelRequest {
    request(vec![Message::user("u", vec![Part::text("hi")])])
}

fn endpoint(fake: &ScriptedUpstream) -> ModelEndpoint {
    let mut endpoint = ModelEndpoint::new("openai", fake.url("/v1"), "m");
    endpoint.timeouts.idle = Duration::from_secs(20);
    endpoint
}

fn chat(fake: &ScriptedUpstream) -> OpenAiChatProvider {
    OpenAiChatProvider::new(OpenAiChatConfig::from(endpoint(fake))).unwrap()
}

fn responses(fake: &ScriptedUpstream) -> OpenAiResponsesProvider {
    OpenAiResponsesProvider::new(endpoint(fake)).unwrap()
}

async fn call(provider: &dyn Provider) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut stream = provider.call(hi()).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Finished(answer) => return Ok((events, answer)),
            event => events.push(event),
        }
    }
    panic!("no answer")
}

async fn fake(pieces: &[String], end: fn() -> End) -> ScriptedUpstream {
    let pieces = pieces.to_vec();
    ScriptedUpstream::start(move |_| stream(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), end()))
        .await
}

fn data(payload: &str) -> String {
    format!("data: {payload}\n\n")
}

fn chunk(delta: &Value) -> String {
    data(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string())
}

fn chat_end(reason: &str) -> String {
    data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string())
}

fn item_done(place: u64, item: &str) -> String {
    data(&format!(r#"{{"type":"response.output_item.done","output_index":{place},"item":{item}}}"#))
}

fn response_end(status: &str, more: &str) -> String {
    data(&format!(r#"{{"type":"response.{status}","response":{{"id":"r","status":"{status}"{more}}}}}"#))
}

/// The content of an answer in the request of a second turn.
fn sent_back(provider: &dyn Provider, answer: &ModelAnswer) -> String {
    let origin = Some(provider.origin());
    let assistant = Message { id: "a".into(), role: Role::Assistant, parts: answer.parts.clone(), origin };
    let begin = Message::user("u", vec![Part::text("hi")]);
    let bytes =
        provider.render(&request(vec![begin, assistant, Message::user("u2", vec![Part::text("on")])]));
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn hazard_01_items_are_kept_verbatim_and_in_order() {
    let items = [
        r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gA\u003d","summary":[],"n":1.50}"#,
        r#"{"id":"ws_1","type":"web_search_call","action":{"b":1,"a":2}}"#,
        r#"{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"x","annotations":[]}]}"#,
        r#"{"id":"rs_2","type":"reasoning","encrypted_content":"gB==","summary":[]}"#,
        r#"{"id":"zz_1","type":"something_new","x":1e3}"#,
    ];
    let mut pieces: Vec<String> = (0..).zip(items).map(|(place, item)| item_done(place, item)).collect();
    pieces.push(response_end("completed", ""));
    let fake = fake(&pieces, || End::Whole).await;
    let provider = responses(&fake);
    let (_, answer) = call(&provider).await.unwrap();
    assert!(sent_back(&provider, &answer).contains(&items.join(",")));
}

#[tokio::test]
async fn hazard_02_of_three_copies_of_an_item_the_done_one_counts() {
    let item = |content: &str| {
        format!(r#"{{"id":"rs_1","type":"reasoning","encrypted_content":"{content}","summary":[]}}"#)
    };
    let said = r#"{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"half"}]}"#;
    let details = r#","incomplete_details":{"reason":"max_output_tokens"}"#;
    let pieces = [
        data(&format!(
            r#"{{"type":"response.output_item.added","output_index":0,"item":{}}}"#,
            item("added")
        )),
        item_done(0, &item("done")),
        item_done(1, said),
        response_end("incomplete", &format!(r#"{details},"output":[{},{said}]"#, item("closing"))),
    ];
    let fake = self::fake(&pieces, || End::Whole).await;
    let provider = responses(&fake);
    let (_, answer) = call(&provider).await.unwrap();
    assert_eq!(answer.finish, ModelStopReason::Length, "`incomplete` is an end with items");
    let sent = sent_back(&provider, &answer);
    assert!(sent.contains(&item("done")) && !sent.contains("closing") && !sent.contains("added"), "{sent}");
    for failure in [
        response_end("failed", r#","error":{"code":"server_error","message":"Sorry"}"#),
        data(r#"{"type":"error","code":"server_error","message":"Sorry"}"#),
    ] {
        let fake = self::fake(&[failure], || End::Whole).await;
        assert_eq!(
            call(&responses(&fake)).await.unwrap_err().code,
            ErrorCode::ThirdParty,
            "under status 200"
        );
    }
}

#[tokio::test]
async fn hazard_04_arguments_cut_by_the_limit_are_kept() {
    let open = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"p\":\"/t"}}]});
    let fake = self::fake(&[chunk(&open), chat_end("length")], || End::Whole).await;
    let (_, answer) = call(&chat(&fake)).await.unwrap();
    let Part::ToolCall(cut) = &answer.parts[0] else { panic!("{answer:?}") };
    assert_eq!((cut.arguments.as_str(), answer.finish), ("{\"p\":\"/t", ModelStopReason::Length));
}

#[tokio::test]
async fn hazard_05_one_delta_holds_everything_and_usage_comes_last() {
    let call_delta =
        json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{ \"k\" : 1.0 }"}});
    let everything = json!({"reasoning": "think", "content": "say", "tool_calls": [call_delta]});
    let usage = data(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#);
    let pieces = [chunk(&everything), chat_end("tool_calls"), usage, data("[DONE]")];
    let fake = self::fake(&pieces, || End::Whole).await;
    let (_, answer) = call(&chat(&fake)).await.unwrap();
    assert_eq!(answer.parts.len(), 3);
    assert_eq!(answer.usage.as_ref().unwrap().input_tokens, 7);
    let sent = sent_back(&chat(&fake), &ModelAnswer { parts: answer.parts[1..].to_vec(), ..answer.clone() });
    assert!(sent.contains(r#""arguments":"{ \"k\" : 1.0 }""#), "{sent}");
}

#[tokio::test]
async fn hazard_07_no_end_is_truncated_and_errors_in_band_are_typed() {
    let fake = self::fake(&[chunk(&json!({"content": "a"}))], || End::Whole).await;
    assert_eq!(call(&chat(&fake)).await.unwrap_err().code, ErrorCode::TruncatedStream);
    let item = r#"{"id":"m","type":"message","content":[{"type":"output_text","text":"a"}]}"#;
    let fake = self::fake(&[item_done(0, item)], || End::Whole).await;
    assert_eq!(call(&responses(&fake)).await.unwrap_err().code, ErrorCode::TruncatedStream);
    let table = [
        // OpenRouter: the code is a status, the chunk has choices besides.
        (
            data(r#"{"id":"g","error":{"code":429,"message":"Provider returned error","metadata":{"raw":"busy"}},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#),
            ErrorCode::RateLimitExceeded,
        ),
        // LM Studio 0.3: a sentence; 0.4: an object.
        ("event: error\ndata: {\"error\":\"The model has crashed\"}\n\n".to_owned(), ErrorCode::ThirdParty),
        (
            "event: error\ndata: {\"error\":{\"message\":\"Reached context length of 4096 tokens with model (arch: qwen3) that does not currently support mid-generation context overflow\"}}\n\n".to_owned(),
            ErrorCode::ContextOverflow,
        ),
        // vLLM: the fields of the error in the chunk itself.
        (data(r#"{"object":"error","message":"no","type":"BadRequestError","code":400}"#), ErrorCode::InvalidRequest),
    ];
    for (event, code) in table {
        let fake = self::fake(&[chunk(&json!({"content": "a"})), event.clone()], || End::Whole).await;
        let error = call(&chat(&fake)).await.unwrap_err();
        assert_eq!((error.code, error.status), (code, None), "{event}");
    }
}

async fn refused<F>(reply: F) -> [ProviderError; 2]
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    [call(&chat(&fake)).await.unwrap_err(), call(&responses(&fake)).await.unwrap_err()]
}

#[tokio::test]
async fn hazard_08_errors_keep_status_wait_and_body() {
    for error in refused(|_| {
        let mut response = answer(503, "application/json", r#"{"error":{"message":"Loading model"}}"#);
        response.headers_mut().insert("retry-after", "2".parse().unwrap());
        response
    })
    .await
    {
        assert_eq!((error.code, error.status, error.retryable), (ErrorCode::ThirdParty, Some(503), true));
        assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(error.body.as_deref(), Some(r#"{"error":{"message":"Loading model"}}"#));
    }
    // LM Studio's refusal of a prompt that is too long, a sentence instead of an object.
    let long = r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#;
    for error in refused(move |_| answer(400, "application/json", long)).await {
        assert_eq!((error.code, error.retryable), (ErrorCode::ContextOverflow, false), "{error:?}");
    }
    for error in refused(|_| answer(502, "text/html", "<html>Bad gateway</html>")).await {
        assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true));
    }
}

#[tokio::test]
async fn hazard_09_a_long_answer_has_no_time_limit_but_a_silent_one_has() {
    let mut pieces: Vec<String> = (0..1_500).map(|n| chunk(&json!({"content": format!("{n} ")}))).collect();
    pieces.push(chat_end("stop"));
    let fake = self::fake(&pieces, || End::Whole).await;
    let mut slow = endpoint(&fake);
    slow.timeouts.idle = Duration::from_secs(2);
    slow.timeouts.first_byte = Some(Duration::from_secs(2));
    let provider = OpenAiChatProvider::new(OpenAiChatConfig::from(slow)).unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(call(&provider).await.unwrap().1.finish, ModelStopReason::Stop);
    assert!(begun.elapsed() > Duration::from_secs(2), "longer than any single wait may be");

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut endpoint =
        ModelEndpoint::new("openai", format!("http://{}/v1", silent.local_addr().unwrap()), "m");
    endpoint.timeouts.first_byte = Some(Duration::from_millis(150));
    let error = call(&OpenAiResponsesProvider::new(endpoint).unwrap()).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::Timeout, false));
}

#[tokio::test]
async fn hazard_10_what_is_counted_is_what_would_be_sent() {
    let fake = ScriptedUpstream::start(|_| answer(200, "application/json", r#"{"input_tokens":5}"#)).await;
    let provider = responses(&fake);
    assert_eq!(provider.count(&hi()).await, Ok(Some(5)));
    let counted: Value = serde_json::from_slice(&fake.received()[0].body).unwrap();
    let sent: Value = serde_json::from_slice(&provider.render(&hi()).unwrap()).unwrap();
    assert_eq!(fake.received()[0].path, "/v1/responses/input_tokens");
    for (name, value) in counted.as_object().unwrap() {
        assert_eq!(&sent[name], value, "{name}");
    }
    assert!(counted.get("input").is_some() && counted.get("stream").is_none());
}

#[tokio::test]
async fn hazard_11_what_is_not_known_is_no_error() {
    let pieces = [
        data(r#"{"type":"response.brand_new","x":1}"#),
        item_done(0, r#"{"id":"n_1","type":"brand_new_call","x":1.0}"#),
        response_end("completed", r#","brand_new":1.0"#),
    ];
    let fake = self::fake(&pieces, || End::Whole).await;
    let (_, answer) = call(&responses(&fake)).await.unwrap();
    let native = RawJson(r#"{"id":"n_1","type":"brand_new_call","x":1.0}"#.into());
    assert_eq!(answer.parts, [Part::Opaque(OpaquePart { kind: "brand_new_call".into(), native })]);
    assert!(answer.envelope.unwrap().as_str().contains(r#""brand_new":1.0"#));

    let block =
        r#"{"choices":[{"index":0,"delta":{"content":[{"type":"brand_new", "x":1.0}],"brand_new":1}}]}"#;
    let fake = self::fake(&[data(r#"{"brand_new":[]}"#), data(block), chat_end("stop")], || End::Whole).await;
    let (_, answer) = call(&chat(&fake)).await.unwrap();
    let native = RawJson(r#"{"type":"brand_new", "x":1.0}"#.into());
    assert_eq!(answer.parts, [Part::Opaque(OpaquePart { kind: "brand_new".into(), native })]);
}

#[tokio::test]
async fn hazard_12_the_bytes_that_are_rendered_are_the_bytes_that_are_sent() {
    let fake = ScriptedUpstream::start(|_| answer(400, "application/json", "{}")).await;
    let (one, two) = (chat(&fake), responses(&fake));
    let rendered: Vec<Bytes> = vec![one.render(&hi()).unwrap(), two.render(&hi()).unwrap()];
    let _ = (call(&one).await, call(&two).await);
    let sent: Vec<Bytes> = fake.received().into_iter().map(|asked| asked.body).collect();
    assert_eq!(sent, rendered);
}
