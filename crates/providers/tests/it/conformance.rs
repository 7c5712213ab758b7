//! The suite for every provider, run for the clients of the five wires and for the scripted model.

use longhaul_providers::ModelEndpoint;
use longhaul_providers::conformance::{
    ConformanceCase, ConformanceServer, ConformanceUpstream, PARTIAL_TEXT, ResponseEnd, ScriptedResponse,
    TEXT,
};
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::Secret;

use crate::wire::patient;

fn halves() -> (&'static str, &'static str) {
    TEXT.split_at(8)
}

/// Returns the server-sent events of `payloads` in pieces of a few bytes.
fn events(payloads: &[String]) -> Vec<Vec<u8>> {
    cut(&payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect::<String>())
}

/// Cuts `text` into pieces. A network, too, cuts inside names, and inside characters of several bytes.
fn cut(text: &str) -> Vec<Vec<u8>> {
    text.as_bytes().chunks(7).map(<[u8]>::to_vec).collect()
}

fn complete(payloads: &[String]) -> ScriptedResponse {
    ScriptedResponse::stream(events(payloads), ResponseEnd::Complete)
}

fn rate_limit() -> ScriptedResponse {
    ScriptedResponse::json(429, r#"{"error":{"message":"Too many requests."}}"#).header("retry-after", "2")
}

/// Returns the provider of `kind` before a server with `response`.
async fn upstream(kind: Kind, path: &str, response: ScriptedResponse) -> ConformanceUpstream {
    let server = ConformanceServer::start(response).await.unwrap();
    let mut endpoint = ModelEndpoint::new(kind.as_str(), server.url(path), "m");
    endpoint.api_key = Some(Secret::new("key-0123456789"));
    endpoint.timeouts = patient();
    ConformanceUpstream::new(connect(kind, endpoint).unwrap()).server(server)
}

mod chat {
    use super::*;

    fn response(case: ConformanceCase) -> Option<ScriptedResponse> {
        let (first, second) = halves();
        let text = |text: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
        let call = |index: u8, rest: &str| {
            format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},{rest}}}]}}}}]}}"#)
        };
        let end =
            |why: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{why}"}}]}}"#);
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}"#.to_owned();
        let done = "[DONE]".to_owned();
        Some(match case {
            ConformanceCase::Text => complete(&[text(first), text(second), end("stop"), usage, done]),
            ConformanceCase::ToolCalls => complete(&[
                call(0, r#""id":"c0","type":"function","function":{"name":"read","arguments":""}"#),
                call(0, r#""function":{"arguments":"{\"path\":"}"#),
                call(0, r#""function":{"arguments":"\"notes.md\"}"}"#),
                call(
                    1,
                    r#""id":"c1","type":"function","function":{"name":"list","arguments":"{\"folder\""}"#,
                ),
                call(1, r#""function":{"arguments":":\"docs\",\"depth\":1.50}"}"#),
                end("tool_calls"),
                usage,
                done,
            ]),
            ConformanceCase::Length => complete(&[text(PARTIAL_TEXT), end("length"), usage, done]),
            ConformanceCase::Held => {
                ScriptedResponse::stream(events(&[text(PARTIAL_TEXT)]), ResponseEnd::Held)
            }
            ConformanceCase::Overflow => ScriptedResponse::json(
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            ConformanceCase::RateLimit => rate_limit(),
            ConformanceCase::Withheld => complete(&[text(PARTIAL_TEXT), end("content_filter"), usage, done]),
            ConformanceCase::Truncated => complete(&[text(PARTIAL_TEXT)]),
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        Some(upstream(Kind::OpenAiCompatible, "/v1", response(case)?).await)
    }

    longhaul_providers::provider_conformance!(make);
}

mod responses {
    use super::*;

    fn response(case: ConformanceCase) -> Option<ScriptedResponse> {
        let (first, second) = halves();
        let added = |at: u8, item: &str| {
            format!(r#"{{"type":"response.output_item.added","output_index":{at},"item":{item}}}"#)
        };
        let done = |at: u8, item: &str| {
            format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{item}}}"#)
        };
        let delta = |text: &str| {
            format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#)
        };
        let arguments = |at: u8, text: &str| {
            format!(
                r#"{{"type":"response.function_call_arguments.delta","output_index":{at},"delta":"{text}"}}"#
            )
        };
        let end = |kind: &str, rest: &str| {
            format!(
                r#"{{"type":"response.{kind}","response":{{"id":"r","status":"{kind}",{rest}"usage":{{"input_tokens":11,"output_tokens":7}}}}}}"#
            )
        };
        let open = added(0, r#"{"id":"m","type":"message","content":[]}"#);
        let message = |text: &str| {
            done(
                0,
                &format!(
                    r#"{{"id":"m","type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}"#
                ),
            )
        };
        let call = |at: u8, name: &str, arguments: &str| {
            format!(
                r#"{{"id":"fc_{at}","type":"function_call","call_id":"c{at}","name":"{name}","arguments":"{arguments}"}}"#
            )
        };
        let (read, list) = (r#"{\"path\":\"notes.md\"}"#, r#"{\"folder\":\"docs\",\"depth\":1.50}"#);
        Some(match case {
            ConformanceCase::Text => {
                complete(&[open, delta(first), delta(second), message(TEXT), end("completed", "")])
            }
            ConformanceCase::ToolCalls => complete(&[
                added(0, &call(0, "read", "")),
                arguments(0, r#"{\"path\":"#),
                arguments(0, r#"\"notes.md\"}"#),
                done(0, &call(0, "read", read)),
                added(1, &call(1, "list", "")),
                arguments(1, list),
                done(1, &call(1, "list", list)),
                end("completed", ""),
            ]),
            ConformanceCase::Length => complete(&[
                open,
                delta(PARTIAL_TEXT),
                message(PARTIAL_TEXT),
                end("incomplete", r#""incomplete_details":{"reason":"max_output_tokens"},"#),
            ]),
            ConformanceCase::Held => {
                ScriptedResponse::stream(events(&[open, delta(PARTIAL_TEXT)]), ResponseEnd::Held)
            }
            ConformanceCase::Overflow => ScriptedResponse::json(
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
            ),
            ConformanceCase::RateLimit => rate_limit(),
            ConformanceCase::Withheld => complete(&[
                open,
                delta(PARTIAL_TEXT),
                end("incomplete", r#""incomplete_details":{"reason":"content_filter"},"#),
            ]),
            ConformanceCase::Truncated => complete(&[open, delta(PARTIAL_TEXT)]),
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        Some(upstream(Kind::OpenAi, "/v1", response(case)?).await)
    }

    longhaul_providers::provider_conformance!(make);
}

mod messages {
    use super::*;

    fn response(case: ConformanceCase) -> Option<ScriptedResponse> {
        let (first, second) = halves();
        // Messages reports cached input beside the rest; the suite wants all of it: 3 + 6 + 2.
        let start = r#"{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":3,"cache_read_input_tokens":6,"cache_creation_input_tokens":2,"output_tokens":1}}}"#.to_owned();
        let block = |at: u8, block: &str| {
            format!(r#"{{"type":"content_block_start","index":{at},"content_block":{block}}}"#)
        };
        let text = r#"{"type":"text","text":""}"#;
        let delta = |text: &str| {
            format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
            )
        };
        let input = |at: u8, json: &str| {
            format!(
                r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"input_json_delta","partial_json":"{json}"}}}}"#
            )
        };
        let close = |at: u8| format!(r#"{{"type":"content_block_stop","index":{at}}}"#);
        let end = |why: &str| {
            format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"{why}"}},"usage":{{"output_tokens":7}}}}"#
            )
        };
        let stop = r#"{"type":"message_stop"}"#.to_owned();
        Some(match case {
            ConformanceCase::Text => complete(&[
                start,
                block(0, text),
                delta(first),
                delta(second),
                close(0),
                end("end_turn"),
                stop,
            ]),
            ConformanceCase::ToolCalls => complete(&[
                start,
                block(0, r#"{"type":"tool_use","id":"toolu_0","name":"read","input":{}}"#),
                input(0, r#"{\"path\":"#),
                input(0, r#"\"notes.md\"}"#),
                close(0),
                block(1, r#"{"type":"tool_use","id":"toolu_1","name":"list","input":{}}"#),
                input(1, r#"{\"folder\":\"docs\",\"depth\":1.50}"#),
                close(1),
                end("tool_use"),
                stop,
            ]),
            ConformanceCase::Length => {
                complete(&[start, block(0, text), delta(PARTIAL_TEXT), close(0), end("max_tokens"), stop])
            }
            ConformanceCase::Held => ScriptedResponse::stream(
                events(&[start, block(0, text), delta(PARTIAL_TEXT)]),
                ResponseEnd::Held,
            ),
            ConformanceCase::Overflow => ScriptedResponse::json(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9000 tokens > 8192 maximum"}}"#,
            ),
            ConformanceCase::RateLimit => rate_limit(),
            ConformanceCase::Withheld => {
                complete(&[start, block(0, text), delta(PARTIAL_TEXT), end("refusal"), stop])
            }
            ConformanceCase::Truncated => complete(&[start, block(0, text), delta(PARTIAL_TEXT)]),
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        Some(upstream(Kind::Anthropic, "/v1", response(case)?).await)
    }

    longhaul_providers::provider_conformance!(make);
}

mod gemini {
    use super::*;

    fn response(case: ConformanceCase) -> Option<ScriptedResponse> {
        let (first, second) = halves();
        let part = |part: &str| {
            format!(r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}},"index":0}}]}}"#)
        };
        let text = |text: &str| part(&format!(r#"{{"text":"{text}"}}"#));
        let end = |why: &str| {
            format!(
                r#"{{"candidates":[{{"finishReason":"{why}","index":0}}],"usageMetadata":{{"promptTokenCount":11,"candidatesTokenCount":7}}}}"#
            )
        };
        Some(match case {
            ConformanceCase::Text => complete(&[text(first), text(second), end("STOP")]),
            ConformanceCase::ToolCalls => complete(&[
                part(r#"{"functionCall":{"name":"read","args":{"path":"notes.md"}}}"#),
                part(r#"{"functionCall":{"name":"list","args":{"folder":"docs","depth":1.50}}}"#),
                end("STOP"),
            ]),
            ConformanceCase::Length => complete(&[text(PARTIAL_TEXT), end("MAX_TOKENS")]),
            ConformanceCase::Held => {
                ScriptedResponse::stream(events(&[text(PARTIAL_TEXT)]), ResponseEnd::Held)
            }
            ConformanceCase::Overflow => ScriptedResponse::json(
                400,
                r#"{"error":{"code":400,"message":"The input token count (9000) exceeds the maximum number of tokens allowed (8192).","status":"INVALID_ARGUMENT"}}"#,
            ),
            ConformanceCase::RateLimit => rate_limit(),
            ConformanceCase::Withheld => complete(&[text(PARTIAL_TEXT), end("SAFETY")]),
            ConformanceCase::Truncated => complete(&[text(PARTIAL_TEXT)]),
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        Some(upstream(Kind::Gemini, "/v1beta", response(case)?).await)
    }

    longhaul_providers::provider_conformance!(make);
}

mod ollama {
    use super::*;

    fn lines(lines: &[String], end: ResponseEnd) -> ScriptedResponse {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut response = ScriptedResponse::stream(cut(&text), end);
        response.headers = vec![("content-type".to_owned(), "application/x-ndjson".to_owned())];
        response
    }

    fn response(case: ConformanceCase) -> Option<ScriptedResponse> {
        let (first, second) = halves();
        let text = |text: &str| {
            format!(r#"{{"model":"m","message":{{"role":"assistant","content":"{text}"}},"done":false}}"#)
        };
        let end = |why: &str| {
            format!(
                r#"{{"model":"m","message":{{"role":"assistant","content":""}},"done":true,"done_reason":"{why}","prompt_eval_count":11,"eval_count":7}}"#
            )
        };
        let calls = r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"index":0,"name":"read","arguments":{"path":"notes.md"}}},{"function":{"index":1,"name":"list","arguments":{"folder":"docs","depth":1.50}}}]},"done":false}"#;
        let complete = |all: &[String]| lines(all, ResponseEnd::Complete);
        Some(match case {
            ConformanceCase::Text => complete(&[text(first), text(second), end("stop")]),
            ConformanceCase::ToolCalls => complete(&[calls.to_owned(), end("stop")]),
            ConformanceCase::Length => complete(&[text(PARTIAL_TEXT), end("length")]),
            ConformanceCase::Held => lines(&[text(PARTIAL_TEXT)], ResponseEnd::Held),
            ConformanceCase::Overflow => {
                ScriptedResponse::json(400, r#"{"error":"the input length exceeds the context length"}"#)
            }
            ConformanceCase::RateLimit => rate_limit(),
            ConformanceCase::Truncated => lines(&[text(PARTIAL_TEXT)], ResponseEnd::Broken),
            // Ollama's wire has no word for a withheld answer.
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        Some(upstream(Kind::Ollama, "", response(case)?).await)
    }

    longhaul_providers::provider_conformance!(make);
}

mod scripted {
    use std::sync::Arc;
    use std::time::Duration;

    use longhaul_core::error::ErrorCode;
    use longhaul_core::message::ModelStopReason;
    use longhaul_core::usage::Usage;
    use longhaul_providers::conformance::{INPUT_TOKENS, OUTPUT_TOKENS, TOOL_CALLS};
    use longhaul_providers::scripted::{
        ModelScript, ScriptedAnswer, ScriptedCallOutcome, ScriptedFault, ScriptedProvider, ScriptedUsage,
    };

    use super::*;

    fn answer(case: ConformanceCase) -> Option<ScriptedAnswer> {
        let partial = ScriptedAnswer::text(PARTIAL_TEXT);
        Some(match case {
            ConformanceCase::Text => {
                let usage =
                    Usage { input_tokens: INPUT_TOKENS, output_tokens: OUTPUT_TOKENS, ..Usage::default() };
                ScriptedAnswer::text(TEXT).usage(ScriptedUsage::Exactly(usage))
            }
            ConformanceCase::ToolCalls => TOOL_CALLS
                .iter()
                .fold(ScriptedAnswer::default(), |answer, (name, arguments)| answer.call(*name, *arguments)),
            ConformanceCase::Length => partial.finish(ModelStopReason::Length),
            ConformanceCase::Held => partial.fail(ScriptedFault::Stall { after: 1 }),
            ConformanceCase::Overflow => {
                partial.fail(ScriptedFault::Overflow { used: Some(9_000), limit: Some(8_192) })
            }
            ConformanceCase::RateLimit => {
                partial.fail(ScriptedFault::Status { status: 429, retry_after: Some(Duration::from_secs(2)) })
            }
            ConformanceCase::Withheld => partial.fail(ScriptedFault::InBand {
                after: 1,
                code: ErrorCode::Refused,
                message: "withheld".to_owned(),
            }),
            ConformanceCase::Truncated => partial.fail(ScriptedFault::Truncated { after: 1 }),
            _ => return None,
        })
    }

    async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
        let provider = Arc::new(ScriptedProvider::new(ModelScript::turns([answer(case)?])));
        let log = Arc::clone(&provider);
        let dropped = async move {
            // The log changes with the drop itself, so a yield or none is enough.
            while log.log().last().is_none_or(|call| call.outcome != ScriptedCallOutcome::Dropped) {
                tokio::task::yield_now().await;
            }
        };
        Some(ConformanceUpstream::new(provider).disconnect(dropped))
    }

    longhaul_providers::provider_conformance!(make);
}
