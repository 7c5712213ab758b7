//! The errors of failed calls, over every wire: the refusing server, the reason, the request, the sent key.

use longhaul_testkit::ScriptedUpstream;
use std::net::TcpListener;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelStopReason;
use longhaul_core::refusal::RefusedPartKind;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::Secret;
use longhaul_providers::{ModelEndpoint, ModelEvent, ProviderError, SharedProvider};

use crate::answers::{End, answer, stream};
use crate::wire::{Outcome, call, finished, hi, patient};

const KEY: &str = "sk-very-secret-0123456789";

fn client(kind: Kind, base: String, key: Option<&str>) -> SharedProvider {
    let mut endpoint = ModelEndpoint::new(kind.as_str(), base, "m");
    endpoint.api_key = key.map(Secret::new);
    endpoint.timeouts = patient();
    connect(kind, endpoint).unwrap()
}

async fn ask(kind: Kind, fake: &ScriptedUpstream, key: Option<&str>) -> Outcome {
    call(client(kind, fake.url("/v1"), key).as_ref(), hi()).await
}

/// The error of a call after an answer with the given status, body and header.
async fn refused(
    kind: Kind,
    key: Option<&str>,
    reply: (u16, &'static str, [&'static str; 2]),
) -> ProviderError {
    let (status, body, [name, value]) = reply;
    let fake = ScriptedUpstream::start(move |_| {
        let mut response: Response<Body> = answer(status, "application/json", body);
        response.headers_mut().insert(name, value.parse().unwrap());
        response
    })
    .await;
    ask(kind, &fake, key).await.1.unwrap()
}

/// The outcome of a stream in the given pieces.
async fn streamed(kind: Kind, pieces: &'static [&'static str]) -> Outcome {
    let fake = ScriptedUpstream::start(move |_| stream(pieces, End::Whole)).await;
    ask(kind, &fake, None).await
}

/// (wire, stream, the error's words); each stream shows "Hal" before the end.
#[rustfmt::skip]
const WITHHELD: &[(Kind, &[&str], &str)] = &[
    (
        Kind::Gemini,
        &[
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hal\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\n\n",
            "data: {\"candidates\":[{\"finishReason\":\"SAFETY\",\"finishMessage\":\"Not that.\",\"safetyRatings\":[{\"category\":\"HARM_CATEGORY_HARASSMENT\",\"probability\":\"LOW\"},{\"category\":\"HARM_CATEGORY_DANGEROUS_CONTENT\",\"probability\":\"HIGH\",\"blocked\":true}]}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\n\n",
        ],
        "Google's filter withheld the answer (SAFETY, HARM_CATEGORY_DANGEROUS_CONTENT): Not that.",
    ),
    (
        Kind::Anthropic,
        &[
            "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hal\"}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\",\"stop_details\":{\"type\":\"refusal\",\"category\":\"cyber\",\"explanation\":\"Not that.\"}},\"usage\":{\"output_tokens\":1}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
        ],
        "the provider refused to answer (refusal, cyber): Not that.",
    ),
    (
        Kind::OpenAiCompatible,
        &[
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hal\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\",\"native_finish_reason\":\"SAFETY\",\"content_filter_results\":{\"hate\":{\"filtered\":false,\"severity\":\"safe\"},\"violence\":{\"filtered\":true,\"severity\":\"high\"}}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
        ],
        "the provider's filter withheld the answer (content_filter, SAFETY, violence)",
    ),
    (
        Kind::OpenAi,
        &[
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[]}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hal\"}\n\n",
            "data: {\"type\":\"response.incomplete\",\"response\":{\"id\":\"r\",\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"content_filter\"},\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}}\n\n",
        ],
        "the provider's filter withheld the answer (content_filter)",
    ),
];

#[tokio::test]
async fn a_withheld_answer_says_who_withheld_it_and_what_was_seen_stays() {
    for (kind, pieces, words) in WITHHELD {
        let (events, error) = streamed(*kind, pieces).await;
        assert!(events.contains(&ModelEvent::Text("Hal".into())), "{kind:?}: {events:?}");
        let error = error.unwrap();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Refused, *words), "{kind:?}");
        assert!(!error.retryable, "{kind:?}: the same request would be refused again");
        let kind_of_part = error.refusal.as_ref().and_then(|refusal| refusal.kind);
        assert_eq!(
            kind_of_part,
            Some(RefusedPartKind::Content),
            "{kind:?}: what it has read may be to blame"
        );
        assert_eq!(error.usage.unwrap().input_tokens, 4, "{kind:?}: it has cost something");
        assert!(
            error.body.unwrap().to_lowercase().contains("reason\":"),
            "{kind:?}: the provider's own object is kept"
        );
    }
}

#[tokio::test]
async fn a_request_that_a_filter_stops_is_refused() {
    let blocked = &[
        "data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\",\"blockReasonMessage\":\"No.\"},\"usageMetadata\":{\"promptTokenCount\":4}}\n\n",
    ];
    let (_, error) = streamed(Kind::Gemini, blocked).await;
    let error = error.unwrap();
    assert_eq!(error.message, "Google's filter refused the request (PROHIBITED_CONTENT): No.");
    assert_eq!((error.code, error.retryable), (ErrorCode::Refused, false));
    // Azure stops a prompt with a status.
    let body = r#"{"error":{"message":"The response was filtered.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    let error = refused(Kind::OpenAiCompatible, Some(KEY), (400, body, ["x-a", "b"])).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::Refused, false));
    assert_eq!(error.message, "The response was filtered. (HTTP 400)");
}

#[tokio::test]
async fn an_answer_that_recites_a_work_blames_no_part_of_the_request() {
    let recited = &["data: {\"candidates\":[{\"content\":{},\"finishReason\":\"RECITATION\"}]}\n\n"];
    let error = streamed(Kind::Gemini, recited).await.1.unwrap();
    assert_eq!((error.code, error.refusal), (ErrorCode::Refused, None));
}

#[tokio::test]
async fn signs_of_life_and_a_break_are_a_broken_answer() {
    let pings: &[&str] = &[": ping\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n", ": ping\n\n"];
    for kind in [Kind::OpenAiCompatible, Kind::OpenAi, Kind::Anthropic, Kind::Gemini] {
        let fake = ScriptedUpstream::start(move |_| stream(pings, End::Broken)).await;
        let broken = ask(kind, &fake, None).await.1.unwrap();
        let over = streamed(kind, pings).await.1.unwrap();
        for error in [broken, over] {
            assert!(error.broke_off && error.retryable, "{kind:?}: {error:?}");
        }
    }
    let refused = refused(Kind::OpenAi, None, (503, "{}", ["x-a", "b"])).await;
    assert!(!refused.broke_off, "a busy server has begun no answer");
}

#[tokio::test]
async fn a_limit_says_when_it_is_reset() {
    for (status, header, body, millis) in [
        (429, ["retry-after", "3s"], "{}", Some(3_000)),
        (429, ["x-ratelimit-reset-requests", "1m30s"], "{}", Some(90_000)),
        (429, ["x-ratelimit-reset-tokens", "6ms"], r#"{"error":"Please try again in 20s."}"#, Some(20_000)),
        (429, ["x-ratelimit-reset", "12"], "{}", Some(12_000)),
        (429, ["anthropic-ratelimit-requests-reset", "2020-01-01T00:00:00Z"], "{}", Some(0)),
        (500, ["x-ratelimit-reset-requests", "1m30s"], "{}", None),
    ] {
        let error = refused(Kind::OpenAiCompatible, Some(KEY), (status, body, header)).await;
        let wait = error.retry_after.map(|wait| wait.as_millis());
        assert_eq!(wait, millis, "{status} {header:?} {body}");
    }
}

/// A model's own words of refusal are an answer: shown as text, with the right stop reason.
#[tokio::test]
async fn a_refusal_in_the_models_own_words_is_an_answer_and_no_success() {
    let chat: &[&str] = &[
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",\"refusal\":\"I can't\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\" do that.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ];
    let whole: &[&str] = &[
        "{\"choices\":[{\"index\":0,\"message\":{\"content\":null,\"refusal\":\"I can't do that.\"},\"finish_reason\":\"stop\"}]}",
    ];
    let item: &[&str] = &[
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"m\",\"type\":\"message\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"I can't do that.\"}]}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\"}}\n\n",
    ];
    for (kind, pieces) in
        [(Kind::OpenAiCompatible, chat), (Kind::OpenAiCompatible, whole), (Kind::OpenAi, item)]
    {
        let found = finished(streamed(kind, pieces).await);
        assert_eq!(found.parts[0].as_text(), Some("I can't do that."), "{kind:?}");
        assert_eq!(found.finish, ModelStopReason::ContentFilter, "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_spoilt_may_be_asked_for_again_and_a_paused_one_not() {
    let spoilt = &[
        "data: {\"candidates\":[{\"content\":{},\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"Malformed function call: call:x{\"}]}\n\n",
    ];
    let (events, error) = streamed(Kind::Gemini, spoilt).await;
    let error = error.unwrap();
    let words =
        "the model's tool call could not be read (MALFORMED_FUNCTION_CALL): Malformed function call: call:x{";
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ThirdParty, words));
    assert!(error.retryable && events.is_empty());
    let thoughts = &[
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hm\",\"thought\":true}]}}]}\n\n",
        "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\"}]}\n\n",
    ];
    let (events, _) = streamed(Kind::Gemini, thoughts).await;
    assert_eq!(
        events,
        [ModelEvent::Reasoning("Hm".into())],
        "no part of it is kept: it may be asked for again"
    );

    let paused = &[
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hal\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"pause_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
    ];
    let (events, error) = streamed(Kind::Anthropic, paused).await;
    let error = error.unwrap();
    assert_eq!(events, [ModelEvent::Text("Hal".into())]);
    assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, false));
    assert!(error.message.starts_with("the provider paused its turn (pause_turn): "), "{error}");
}

#[tokio::test]
async fn a_failure_names_the_request() {
    let body = r#"{"error":{"message":"It broke"}}"#;
    for kind in Kind::ALL {
        for (header, status, words) in [
            (["request-id", "req_011"], 500, "It broke (HTTP 500) [request req_011]"),
            (["x-request-id", "2f-9"], 200, "It broke [request 2f-9]"),
            (["x-request-id", ""], 500, "It broke (HTTP 500)"),
        ] {
            let error = refused(kind, None, (status, body, header)).await;
            assert_eq!(error.message, words, "{kind:?}");
        }
    }
    let long: &'static str = "7".repeat(200).leak();
    let error = refused(Kind::OpenAi, None, (500, body, ["x-request-id", long])).await;
    assert_eq!(error.message, "It broke (HTTP 500)", "that is no name");
}

#[tokio::test]
async fn a_request_that_was_not_let_in_says_whether_a_key_was_sent() {
    let body = r#"{"error":{"message":"No entry"}}"#;
    for kind in Kind::ALL {
        let header = match kind {
            Kind::Anthropic => "x-api-key",
            Kind::Gemini => "x-goog-api-key",
            Kind::OpenAi | Kind::OpenAiCompatible | Kind::Ollama => "authorization",
        };
        for status in [401, 403] {
            let said = |key: Option<&'static str>| async move {
                refused(kind, key, (status, body, ["x-a", "b"])).await.message
            };
            let entry = format!("No entry (HTTP {status}); ");
            assert_eq!(
                said(None).await,
                entry.clone() + "no key was sent: set `model.api_key_env` in longhaul.yml"
            );
            assert_eq!(said(Some(KEY)).await, format!("{entry}a key was sent, as `{header}`"));
            let empty = format!("{entry}the key sent as `{header}` was empty");
            assert!(said(Some("")).await.starts_with(&empty), "{kind:?}");
        }
        let unpaid = refused(kind, Some(KEY), (402, body, ["x-a", "b"])).await;
        let words = "the account has no credit left, or a payment is due: No entry (HTTP 402)";
        assert_eq!((unpaid.code, unpaid.message.as_str()), (ErrorCode::Auth, words));
    }
}

/// A local port without a listener.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_server_that_is_not_running_is_named_and_may_come_back() {
    for kind in Kind::ALL {
        let server = format!("http://127.0.0.1:{}", free_port());
        let (_, error) = call(client(kind, format!("{server}/v1"), Some(KEY)).as_ref(), hi()).await;
        let error = error.unwrap();
        let words = format!(
            "cannot connect to {server}: connection refused; nothing listens there: is the server running?"
        );
        assert_eq!(
            (error.code, error.message, error.retryable),
            (ErrorCode::Network, words, true),
            "{kind:?}"
        );
    }
}

/// The time of a restart varies, so several servers restart soon, and at least one must be met.
#[tokio::test]
async fn a_server_that_comes_back_at_once_is_met() {
    for _ in 0..10 {
        let port = free_port();
        let server = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let app = axum::Router::new().fallback(|| async { answer(500, "application/json", "{}") });
            axum::serve(tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap(), app)
                .await
                .unwrap();
        });
        let base = format!("http://127.0.0.1:{port}/v1");
        let (_, error) = call(client(Kind::OpenAi, base, None).as_ref(), hi()).await;
        server.abort();
        if error.unwrap().status == Some(500) {
            return;
        }
    }
    panic!("nobody was asked twice");
}

/// (wire, stream) with impossible counts.
#[rustfmt::skip]
const ABSURD: &[(Kind, &[&str])] = &[
    (Kind::Gemini, &["data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":18446744073709551615,\"toolUsePromptTokenCount\":18446744073709551615,\"candidatesTokenCount\":1e300,\"thoughtsTokenCount\":18446744073709551616}}\n\n"]),
    (Kind::Anthropic, &[
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":18446744073709551615,\"cache_read_input_tokens\":18446744073709551615,\"cache_creation_input_tokens\":18446744073709551616,\"output_tokens\":1}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":18446744073709551615,\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1e300}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
    ]),
    (Kind::OpenAiCompatible, &[
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\",\"tool_calls\":[{\"index\":9223372036854775807,\"id\":\"a\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":18446744073709551615,\"completion_tokens\":18446744073709551616,\"total_tokens\":1e300,\"completion_tokens_details\":{\"reasoning_tokens\":18446744073709551615}}}\n\ndata: [DONE]\n\n",
    ]),
    (Kind::OpenAi, &[
        "data: {\"type\":\"response.output_item.added\",\"output_index\":18446744073709551615,\"item\":{\"id\":\"m\",\"type\":\"message\",\"content\":[]}}\n\n",
        "data: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"n\",\"type\":\"message\",\"content\":[]}}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"n\",\"delta\":\"x\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":18446744073709551615,\"output_tokens\":1e300,\"output_tokens_details\":{\"reasoning_tokens\":18446744073709551615}}}}\n\n",
    ]),
    (Kind::Ollama, &["{\"message\":{\"content\":\"x\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":18446744073709551615,\"eval_count\":1e300}\n"]),
];

#[tokio::test]
async fn absurd_counts_are_bounded() {
    const MOST: u64 = 1 << 40;
    for (kind, pieces) in ABSURD {
        let found = finished(streamed(*kind, pieces).await);
        let usage = found.usage.unwrap();
        assert!((MOST..=3 * MOST).contains(&usage.input_tokens), "{kind:?}: {usage:?}");
        assert!((MOST..=3 * MOST).contains(&usage.output_tokens), "{kind:?}: {usage:?}");
        assert!(usage.reasoning_tokens <= MOST && usage.cache_read_tokens <= MOST, "{kind:?}: {usage:?}");
    }
    let fake = ScriptedUpstream::start(|_| {
        answer(200, "application/json", r#"{"input_tokens":18446744073709551615,"totalTokens":1e300}"#)
    })
    .await;
    for kind in [Kind::OpenAi, Kind::Anthropic, Kind::Gemini] {
        assert_eq!(client(kind, fake.url("/v1"), None).count(&hi()).await, Ok(Some(MOST)), "{kind:?}");
    }
    let body = r#"{"error":{"message":"prompt is too long: 18446744073709551615 tokens > 200000 maximum","n_ctx":18446744073709551615}}"#;
    let error = refused(Kind::Anthropic, None, (400, body, ["x-a", "b"])).await;
    assert_eq!(
        (error.code, error.used_tokens, error.limit_tokens),
        (ErrorCode::ContextOverflow, None, Some(200_000))
    );
}
