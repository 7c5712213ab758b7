//! Known hazards of adapters, a test for each hazard of the Messages API.
//!
//! The numbers are from the project's list: 2 and 6 are about other wires.

use super::*;

fn events(payloads: &[&str]) -> String {
    payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
}

async fn answered(payloads: &[&str]) -> Outcome {
    let body = events(payloads);
    against(move |_| stream(&[&body], End::Whole)).await
}

const BEGIN: &str = r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":7,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}}}"#;
const DONE: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":12}}"#;
const CLOSE: &str = r#"{"type":"message_stop"}"#;

/// The blocks to send back, in order.
const BLOCKS: [&str; 6] = [
    r#"{"type":"thinking","thinking":"Größe","signature":"EqQBCkgIARABGAIiQL+/8=="}"#,
    r#"{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3p"}"#,
    r#"{"type":"text","text":"See","citations":[{"type":"web","n":1.0, "u":"\u00e9"}]}"#,
    r#"{"type":"thinking","thinking":"","signature":"only-signed"}"#,
    r#"{"type":"a_kind_of_tomorrow","deep":{"x":1e2},"id":7}"#,
    r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{"n": 1.50, "t":"\u00e9"},"caller":{"type":"direct"}}"#,
];

/// The request of a second turn after a stored answer.
fn second_turn(answer: &ModelAnswer) -> String {
    let stored = serde_json::to_string(&written(answer.parts.clone())).unwrap();
    let back: Message = serde_json::from_str(&stored).unwrap();
    let mut messages = vec![user("hi"), back.clone()];
    for call in back.tool_calls() {
        messages.push(result(call.call_id.as_str(), ToolStatus::Completed, vec![Part::text("done")]));
    }
    if messages.len() == 2 {
        messages.push(user("go on"));
    }
    let provider = AnthropicProvider::new(AnthropicConfig::new("http://localhost/v1", "m")).unwrap();
    let body = provider.render(&ModelRequest { messages, ..ModelRequest::default() }).unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn hazard_01_items_go_back_verbatim_and_in_order() {
    let opened = [
        r#"{"type":"thinking","thinking":"","signature":""}"#,
        BLOCKS[1],
        r#"{"type":"text","text":"","citations":[]}"#,
        r#"{"type":"thinking","thinking":"","signature":""}"#,
        BLOCKS[4],
        r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{},"caller":{"type":"direct"}}"#,
    ];
    let grown: [&[&str]; 6] = [
        &[
            r#"{"type":"thinking_delta","thinking":"Gr\u00f6"}"#,
            r#"{"type":"thinking_delta","thinking":"ße"}"#,
            r#"{"type":"signature_delta","signature":"EqQBCkgIARABGAIiQL+/8=="}"#,
        ],
        &[],
        &[
            r#"{"type":"text_delta","text":"See"}"#,
            r#"{"type":"citations_delta","citation":{"type":"web","n":1.0, "u":"\u00e9"}}"#,
        ],
        &[r#"{"type":"signature_delta","signature":"only-signed"}"#],
        &[],
        &[
            r#"{"type":"input_json_delta","partial_json":"{\"n\": 1.50,"}"#,
            r#"{"type":"input_json_delta","partial_json":" \"t\":\"\\u00e9\"}"}"#,
        ],
    ];
    let mut payloads = vec![BEGIN.to_owned()];
    for (index, (open, deltas)) in opened.iter().zip(grown).enumerate() {
        payloads.push(format!(r#"{{"type":"content_block_start","index":{index},"content_block":{open}}}"#));
        payloads.extend(
            deltas
                .iter()
                .map(|delta| format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)),
        );
        payloads.push(format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
    }
    payloads.extend([DONE.to_owned(), CLOSE.to_owned()]);
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let sent = second_turn(&finished(answered(&payloads).await));
    assert!(sent.contains(&format!("[{}]", BLOCKS.join(","))), "{sent}");
    let whole = format!(r#"{{"type":"message","content":[{}],"stop_reason":"tool_use"}}"#, BLOCKS.join(","));
    let whole = finished(against(move |_| answer(200, "application/json", whole.clone())).await);
    assert_eq!(second_turn(&whole), sent);
}

#[tokio::test]
async fn hazard_03_counts_are_snapshots_and_survive_whatever_ends_the_answer() {
    let update = r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":9,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":5}}"#;
    let (events, _) = answered(&[BEGIN, update, DONE, CLOSE]).await;
    let counts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some((usage.input_tokens, usage.output_tokens)),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [(127, 1), (129, 5), (129, 12)]);
    let usage = finished((events, None)).usage.unwrap();
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (100, 20));
    assert!(usage.raw.unwrap().as_str().contains(r#""input_tokens":9"#));

    let (reply, _gone) = open_stream(&[START, OPEN, HEL]);
    let fake = ScriptedUpstream::start(reply).await;
    let provider = AnthropicProvider::new(config(&fake)).unwrap();
    let mut cancelled = provider.call(request()).await.unwrap();
    let Some(Ok(ModelEvent::Usage(usage))) = cancelled.next().await else { panic!("counts come first") };
    assert_eq!(usage.input_tokens, 127);
    let (_, broken) = against(|_| stream(&[START, OPEN, HEL], End::Broken)).await;
    let broken = broken.unwrap();
    assert_eq!((broken.code, broken.usage.unwrap().input_tokens), (ErrorCode::Network, 127));
}

#[tokio::test]
async fn hazard_04_a_call_cut_by_the_limit_keeps_its_pieces() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"write","input":{}}}"#;
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a"}}"#;
    let cut = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}"#;
    let answer = finished(answered(&[BEGIN, open, piece, cut, CLOSE]).await);
    let [Part::ToolCall(call)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    assert_eq!((answer.finish, call.arguments.as_str()), (ModelStopReason::Length, "{\"path\":\"a"));
    let sent = second_turn(&answer);
    assert!(sent.contains(r#""input":{"invalid_json":"{\"path\":\"a"}"#), "{sent}");
}

#[tokio::test]
async fn hazard_05_argument_texts_are_sent_as_they_came() {
    let odd = r#"{ "a" : 1.0,"a":"\u00e9",  "big":12345678901234567890123 }"#;
    let whole = format!(
        r#"{{"type":"message","content":[{{"type":"tool_use","id":"t1","name":"n","input":{odd}}}],"stop_reason":"tool_use"}}"#
    );
    let answer = finished(against(move |_| answer(200, "application/json", whole.clone())).await);
    assert!(second_turn(&answer).contains(&format!(r#""input":{odd}}}"#)));
}

#[tokio::test]
async fn hazard_07_an_answer_without_its_end_is_an_error_and_errors_inside_it_have_their_code() {
    // The stop reason behind whole blocks is an end, too.
    for count in 1..HELLO.len() - 1 {
        let (_, error) = against(move |_| stream(&HELLO[..count], End::Whole)).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.retryable), (ErrorCode::TruncatedStream, true), "{count} pieces");
        assert_eq!(error.usage.unwrap().input_tokens, 127);
    }
    finished(against(|_| stream(&HELLO[..HELLO.len() - 1], End::Whole)).await);
    finished(
        against(|_| stream(&[START, OPEN, HEL, LO, END, "data: {\"type\":\"message_stop\"}"], End::Whole))
            .await,
    );
    for (kind, code, retryable) in [
        ("overloaded_error", ErrorCode::ThirdParty, true),
        ("api_error", ErrorCode::ThirdParty, true),
        ("rate_limit_error", ErrorCode::RateLimitExceeded, true),
        ("timeout_error", ErrorCode::Timeout, true),
        ("authentication_error", ErrorCode::Auth, false),
        ("invalid_request_error", ErrorCode::InvalidRequest, false),
    ] {
        let error = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"So\"}}}}\n\n"
        );
        let (events, found) = against(move |_| stream(&[START, OPEN, HEL, &error], End::Whole)).await;
        let found = found.unwrap();
        assert_eq!((found.code, found.retryable, found.status), (code, retryable, None), "{kind}");
        assert_eq!((found.message.as_str(), found.usage.unwrap().input_tokens), ("So", 127));
        assert!(events.contains(&ModelEvent::Text("Hel".into())), "what came before stays");
    }
    let named = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}\n\n";
    let (_, found) = against(move |_| stream(&[named], End::Whole)).await;
    assert_eq!(found.unwrap().code, ErrorCode::ContextOverflow);
}

#[tokio::test]
async fn hazard_08_an_error_holds_its_status_the_time_to_wait_and_the_whole_body() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"req_011"}"#;
    let (_, error) = against(move |_| {
        let mut response = answer(429, "application/json", body);
        response.headers_mut().insert("retry-after", "17".parse().unwrap());
        response
    })
    .await;
    let error = error.unwrap();
    assert_eq!((error.code, error.status), (ErrorCode::RateLimitExceeded, Some(429)));
    assert_eq!((error.retry_after, error.body.as_deref()), (Some(Duration::from_secs(17)), Some(body)));
    let page = "<!doctype html><title>Bad gateway</title>";
    let error = refused(502, page).await;
    assert_eq!(
        (error.code, error.retryable, error.body.as_deref()),
        (ErrorCode::ThirdParty, true, Some(page))
    );
    let error = refused(200, page).await;
    assert!(error.message.contains("not an answer of a model"), "{error}");
    assert_eq!(refused(200, "{\"type\":\"message\",\"content\":").await.code, ErrorCode::TruncatedStream);
}

#[tokio::test]
async fn hazard_09_silence_ends_an_answer_and_length_does_not() {
    let (reply, _gone) = open_stream(&[START, OPEN, HEL]);
    let fake = ScriptedUpstream::start(reply).await;
    let mut config = config(&fake);
    // Long enough for a busy machine to hand over what was sent before the silence.
    config.endpoint.timeouts.idle = Duration::from_secs(2);
    let (events, error) = call(&AnthropicProvider::new(config).unwrap(), request()).await;
    assert!(events.contains(&ModelEvent::Text("Hel".into())));
    let error = error.unwrap();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::Timeout, "the answer stalled: no data for 2 s")
    );
    assert_eq!(error.usage.unwrap().input_tokens, 127);

    let pings = vec!["event: ping\ndata: {\"type\":\"ping\"}\n\n"; 1_100];
    let fake = ScriptedUpstream::start(move |_| {
        let pieces: Vec<&str> =
            [START, OPEN, HEL].into_iter().chain(pings.iter().copied()).chain([LO, END, STOP]).collect();
        stream(&pieces, End::Whole)
    })
    .await;
    let mut config = self::config(&fake);
    // The whole takes at least 2.2 s. The limit is long enough for the first piece on a busy machine.
    let first_byte = Duration::from_secs(2);
    config.endpoint.timeouts.first_byte = Some(first_byte);
    config.endpoint.timeouts.idle = Duration::from_secs(60);
    let begun = std::time::Instant::now();
    let whole = finished(call(&AnthropicProvider::new(config).unwrap(), request()).await);
    assert_eq!(whole.parts, [Part::text("Hello")]);
    assert!(begun.elapsed() > first_byte);
}

#[tokio::test]
async fn hazard_10_tokens_are_counted_by_the_same_encoder() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1/messages/count_tokens" => answer(200, "application/json", r#"{"input_tokens":2095}"#),
        _ => stream(HELLO, End::Whole),
    })
    .await;
    let mut config = config(&fake);
    config.endpoint.body.insert("temperature".into(), json!(0));
    let provider = AnthropicProvider::new(config).unwrap();
    assert_eq!(provider.count(&request()).await, Ok(Some(2095)));
    let asked = &fake.received()[0];
    assert_eq!(
        (&asked.headers["x-api-key"], &asked.headers["anthropic-version"]),
        (&KEY.parse().unwrap(), &VERSION.parse().unwrap())
    );
    let counted: Value = serde_json::from_slice(&asked.body).unwrap();
    let mut called: Value = serde_json::from_slice(&provider.render(&request()).unwrap()).unwrap();
    for name in ["stream", "max_tokens", "temperature"] {
        called.as_object_mut().unwrap().remove(name).unwrap();
    }
    assert_eq!(counted, called);

    let count = |status: u16, body: &'static str| async move {
        let fake = ScriptedUpstream::start(move |_| answer(status, "application/json", body)).await;
        AnthropicProvider::new(self::config(&fake)).unwrap().count(&request()).await
    };
    assert_eq!(count(404, "{}").await, Ok(None), "a gateway without this endpoint");
    let busy = count(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#)
        .await
        .unwrap_err();
    assert_eq!((busy.code, busy.retryable, busy.status), (ErrorCode::ThirdParty, true, Some(529)));
    let long = count(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#).await.unwrap_err();
    assert_eq!(
        (long.code, long.used_tokens, long.limit_tokens),
        (ErrorCode::ContextOverflow, Some(9), Some(8))
    );
    for odd in ["<html>", "{}", r#"{"input_tokens":"many"}"#] {
        let error = count(200, odd).await.unwrap_err();
        assert_eq!((error.code, error.body.as_deref()), (ErrorCode::ThirdParty, Some(odd)));
    }
}

#[tokio::test]
async fn hazard_11_what_is_unknown_is_no_error_and_is_kept() {
    let unknown = [
        r#"{"type":"an_event_of_tomorrow","x":[1]}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"odd","state":{"a": 1.0},"log":""},"more":1}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"odd_delta","log":"a","state":{"a": 2.0}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"odd_delta","log":"b"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"reason_of_tomorrow","hint":1},"usage":{"output_tokens":2,"new_tokens":3}}"#,
    ];
    let mut payloads = vec![BEGIN];
    payloads.extend(unknown);
    payloads.push(CLOSE);
    let answer = finished(answered(&payloads).await);
    assert_eq!(answer.finish, ModelStopReason::Other);
    let envelope = answer.envelope.clone().unwrap();
    assert_eq!(envelope.as_str(), r#"{"id":"m","stop_reason":"reason_of_tomorrow","hint":1}"#);
    assert!(answer.usage.as_ref().unwrap().raw.as_ref().unwrap().as_str().contains(r#""new_tokens":3"#));
    let sent = second_turn(&answer);
    assert!(sent.contains(r#"[{"type":"odd","state":{"a": 2.0},"log":"ab"}]"#), "{sent}");
}

#[tokio::test]
async fn hazard_12_what_is_sent_is_what_was_rendered() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let provider = AnthropicProvider::new(config(&fake)).unwrap();
    let rendered = provider.render(&request()).unwrap();
    assert_eq!(provider.render(&request()).unwrap(), rendered);
    finished(call(&provider, request()).await);
    assert_eq!(fake.received()[0].body, rendered);
}
