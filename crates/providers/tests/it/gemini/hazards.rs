//! Known hazards of adapters, in Gemini's form.

use longhaul_testkit::ScriptedUpstream;
use std::time::Duration;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    Message, ModelStopReason, OpaquePart, Part, RawJson, Role, ToolResult, ToolStatus,
};
use longhaul_providers::gemini::GeminiProvider;
use longhaul_providers::{ModelEvent, ModelRequest, Provider};
use tokio::sync::oneshot;

use super::{HELLO, KEY, against, call, data, endpoint, finished, request};
use crate::answers::{End, answer, stream, whole_then_silence};

#[tokio::test]
async fn hazard_06_the_key_is_a_header_and_no_part_of_the_address() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let mut endpoint = endpoint(&fake);
    endpoint.model = "tunedModels/mine".to_owned();
    // A tuned model's name has its kind in it, and no `models/` before it.
    for model in ["gemini-2.5-flash", "tunedModels/mine"] {
        endpoint.model = model.to_owned();
        finished(call(&GeminiProvider::new(endpoint.clone()).unwrap(), request()).await);
    }
    let asked = fake.received();
    assert_eq!(asked[0].path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent");
    assert_eq!(asked[1].path, "/v1beta/tunedModels/mine:streamGenerateContent");
    for asked in asked {
        assert_eq!((asked.query.as_str(), asked.headers.get("authorization")), ("alt=sse", None));
        assert_eq!(asked.headers["x-goog-api-key"], KEY);
    }
}

#[tokio::test]
async fn hazard_01_items_go_back_verbatim_and_in_order() {
    let parts = [
        // A thought without a signature is not sent back.
        r#"{"text":"plan","thought":true}"#,
        r#"{"text":"So: ","thoughtSignature":"dGV4dA+/=="}"#,
        r#"{"executableCode":{"language":"PYTHON","code":"1"},"newField":{"z" : [1, 2]}}"#,
        // Numbers and escapes that a JSON writer would change show that a part keeps its bytes.
        r#"{"functionCall":{"id":"fc-1","name":"read","args":{"n": 1.50,"\u0061":1e3}},"thoughtSignature":"Y2FsbA=="}"#,
        r#"{"functionCall":{"name":"list"}}"#,
    ];
    let chunks: Vec<String> = parts
        .iter()
        .map(|part| data(&format!(r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}}}}]}}"#)))
        .collect();
    let end = data(r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}"#);
    let fake = ScriptedUpstream::start(move |_| {
        let pieces: Vec<&str> = chunks.iter().chain([&end]).map(String::as_str).collect();
        stream(&pieces, End::Whole)
    })
    .await;
    let provider = GeminiProvider::new(endpoint(&fake)).unwrap();
    let first = finished(call(&provider, request()).await);
    assert_eq!(first.finish, ModelStopReason::ToolCalls);
    let mut second = request();
    let calls: Vec<_> = first
        .parts
        .iter()
        .filter_map(|part| if let Part::ToolCall(call) = part { Some(call.call_id.clone()) } else { None })
        .collect();
    second.messages.push(Message {
        id: "a".into(),
        role: Role::Assistant,
        parts: first.parts,
        origin: Some(provider.origin()),
    });
    for call_id in calls {
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
    let model = format!(r#"{{"role":"model","parts":[{}]}}"#, parts[1..].join(","));
    let results = r#"{"role":"user","parts":[{"functionResponse":{"id":"fc-1","name":"read","response":{"output":"ok"}}},{"functionResponse":{"name":"list","response":{"output":"ok"}}}]}"#;
    assert_eq!(
        sent,
        format!(r#"{{"contents":[{{"role":"user","parts":[{{"text":"hi"}}]}},{model},{results}]}}"#)
    );
}

#[tokio::test]
async fn hazard_03_counts_are_snapshots_and_those_of_a_part_are_none() {
    let (events, error) = against(|_| stream(HELLO, End::Whole)).await;
    let counted: Vec<_> = events
        .iter()
        .filter_map(|event| if let ModelEvent::Usage(usage) = event { Some(usage) } else { None })
        .map(|usage| (usage.input_tokens, usage.output_tokens))
        .collect();
    assert_eq!((counted, error), (vec![(9, 7)], None));
}

#[tokio::test]
async fn hazard_04_a_call_that_the_limit_cut_keeps_its_partial_arguments() {
    let begun = data(
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"write","willContinue":true},"thoughtSignature":"c2ln"}]}}]}"#,
    );
    let more = data(
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":"once upon","willContinue":true}],"willContinue":true}}]}}]}"#,
    );
    let end = data(r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#);
    let cut = finished(against(move |_| stream(&[&begun, &more, &end], End::Whole)).await);
    let [Part::ToolCall(call)] = cut.parts.as_slice() else { panic!("{:?}", cut.parts) };
    assert_eq!((call.arguments.as_str(), &call.native), (r#"{"text":"once upon"}"#, &None));
    assert_eq!(cut.finish, ModelStopReason::Length);
}

#[tokio::test]
async fn hazard_06_a_signature_may_sit_on_an_empty_text_and_a_call_may_have_no_id() {
    // Gemini may send the signature in a last part without text.
    let signed = r#"{"text":"","thoughtSignature":"c2ln"}"#;
    let parts = data(&format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"Well."}},{signed},{{"functionCall":{{"name":"list","args":{{}}}}}}]}},"finishReason":"STOP"}}]}}"#
    ));
    let found = finished(against(move |_| stream(&[&parts], End::Whole)).await);
    let [Part::Text(plain), Part::Text(empty), Part::ToolCall(call)] = found.parts.as_slice() else {
        panic!("{:?}", found.parts)
    };
    assert_eq!((plain.text.as_str(), &plain.native), ("Well.", &None));
    assert_eq!((empty.text.as_str(), empty.native.as_ref()), ("", Some(&RawJson(signed.into()))));
    assert_eq!((call.call_id.as_str(), &call.provider_id), ("call_0", &None));
}

#[tokio::test]
async fn hazard_06_output_is_candidates_and_thoughts() {
    let counts = data(
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"toolUsePromptTokenCount":11,"candidatesTokenCount":15,"thoughtsTokenCount":804,"totalTokenCount":930}}"#,
    );
    let usage = finished(against(move |_| stream(&[&counts], End::Whole)).await).usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cache_read_tokens),
        (111, 60),
        "cached tokens are part of the prompt"
    );
    assert_eq!((usage.output_tokens, usage.reasoning_tokens, usage.total_tokens()), (819, 804, 930));
}

#[tokio::test]
async fn hazard_07_a_stream_without_a_reason_to_stop_is_truncated() {
    let (events, error) = against(|_| stream(&[HELLO[0], "\r\n\r\n"], End::Whole)).await;
    assert_eq!(events.len(), 1);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable, error.usage), (ErrorCode::TruncatedStream, true, None));
    let (_, error) = against(|_| stream(&[], End::Whole)).await;
    assert_eq!(error.unwrap().code, ErrorCode::TruncatedStream);
    let (_, error) = against(|_| stream(&HELLO[..1], End::Broken)).await;
    assert_eq!(error.unwrap().code, ErrorCode::Network);
}

#[tokio::test]
async fn hazard_07_an_error_inside_the_stream_ends_it() {
    // Google's errors in a stream come with status 200.
    let overloaded =
        data(r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#);
    let begun = data(
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":3}}"#,
    );
    let (events, error) = against(move |_| stream(&[&begun, &overloaded], End::Whole)).await;
    assert_eq!(events.len(), 1);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable, error.status), (ErrorCode::ThirdParty, true, None));
}

#[tokio::test]
async fn hazard_08_errors_keep_status_wait_and_body() {
    // Google wraps errors of the streaming method in a list.
    let body = r#"[{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}]"#;
    let (_, error) = against(move |_| answer(429, "application/json", body)).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable, error.status), (ErrorCode::RateLimitExceeded, true, Some(429)));
    assert_eq!((error.retry_after, error.body.as_deref()), (Some(Duration::from_secs(17)), Some(body)));
    let table = [
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            ErrorCode::ContextOverflow,
            false,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}"#,
            ErrorCode::InvalidRequest,
            false,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#,
            ErrorCode::Auth,
            false,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}"#,
            ErrorCode::NotFound,
            false,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#,
            ErrorCode::ThirdParty,
            true,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#,
            ErrorCode::ThirdParty,
            true,
        ),
    ];
    for (status, body, code, retryable) in table {
        let (_, error) = against(move |_| answer(status, "application/json", body)).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.retryable, error.status), (code, retryable, Some(status)), "{body}");
    }
    let (_, error) = against(move |_| answer(400, "application/json", table[0].1)).await;
    let error = error.unwrap();
    assert_eq!((error.used_tokens, error.limit_tokens), (Some(1_200_000), Some(1_048_576)));
}

#[tokio::test]
async fn hazard_09_only_silence_ends_a_stream() {
    let (hold, _gone) = oneshot::channel();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(Some(hold)));
    let pieces = || [HELLO[0], "\r\n\r\n"];
    let fake =
        ScriptedUpstream::start(move |_| whole_then_silence(&pieces(), hold.lock().unwrap().take().unwrap()))
            .await;
    let mut endpoint = endpoint(&fake);
    // Long enough for a busy machine to hand over what was sent before the silence.
    endpoint.timeouts.idle = Duration::from_secs(2);
    let (events, error) = call(&GeminiProvider::new(endpoint).unwrap(), request()).await;
    assert_eq!(events.len(), 1);
    assert_eq!(error.unwrap().code, ErrorCode::Timeout);
}

#[tokio::test]
async fn hazard_10_a_count_is_asked_with_the_bytes_of_the_call() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1beta/models/gemini-2.5-flash:countTokens" => {
            answer(200, "application/json", r#"{"totalTokens":4711,"promptTokensDetails":[]}"#)
        }
        _ => stream(HELLO, End::Whole),
    })
    .await;
    let provider = GeminiProvider::new(endpoint(&fake)).unwrap();
    let request = ModelRequest { system: "be brief".into(), max_output_tokens: Some(9), ..request() };
    assert_eq!(provider.count(&request).await.unwrap(), Some(4711));
    let sent = String::from_utf8(provider.render(&request).unwrap().to_vec()).unwrap();
    let counted = String::from_utf8(fake.received()[0].body.to_vec()).unwrap();
    // The count must be of exactly the bytes that the call will have.
    let expected =
        format!(r#"{{"generateContentRequest":{{"model":"models/gemini-2.5-flash",{}}}"#, &sent[1..]);
    assert_eq!(counted, expected);
    let silent = ScriptedUpstream::start(|_| answer(200, "application/json", "{}")).await;
    let error = GeminiProvider::new(endpoint(&silent)).unwrap().count(&request).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ThirdParty);
}

#[tokio::test]
async fn hazard_11_what_is_unknown_is_kept_or_let_pass() {
    let odd = r#"{"hologram":{"depth": 3.0}}"#;
    let chunks = [
        data(r#"{"heartbeat":true}"#),
        data(&format!(
            r#"{{"candidates":[{{"content":{{"parts":[{odd}],"mood":1}},"safetyRatings":[]}}],"news":{{"a": 1.0}}}}"#
        )),
        data(r#"{"candidates":[{"finishReason":"A_NEW_REASON"}]}"#),
    ];
    let found = finished(against(move |_| stream(&[&chunks[0], &chunks[1], &chunks[2]], End::Whole)).await);
    let opaque = Part::Opaque(OpaquePart { kind: "hologram".into(), native: RawJson(odd.into()) });
    assert_eq!((found.parts, found.finish), (vec![opaque], ModelStopReason::Other));
    let envelope = r#"{"heartbeat":true,"news":{"a": 1.0},"safetyRatings":[],"finishReason":"A_NEW_REASON"}"#;
    assert_eq!(found.envelope.unwrap().as_str(), envelope);
}

#[tokio::test]
async fn hazard_12_what_is_rendered_is_what_is_sent() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let provider = GeminiProvider::new(endpoint(&fake)).unwrap();
    let rendered = provider.render(&request()).unwrap();
    finished(call(&provider, request()).await);
    assert_eq!(fake.received()[0].body, rendered);
    assert_eq!(fake.received()[0].headers["content-type"], "application/json");
}
