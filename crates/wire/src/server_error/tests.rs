mod servers;

use super::*;

/// (status, body, code, retryable)
#[rustfmt::skip]
const BY_STATUS: &[(u16, &str, ErrorCode, bool)] = &[
    (400, r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#, ErrorCode::InvalidRequest, false),
    (400, "no JSON at all", ErrorCode::InvalidRequest, false),
    // Google answers a wrong key with 400, and only the reason names the key.
    (400, r#"{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}],"status":"INVALID_ARGUMENT"}}"#, ErrorCode::Auth, false),
    // Mistral answers an unknown model with 400.
    (400, r#"{"code":"1500","message":"Invalid model: x","object":"error","type":"invalid_model"}"#, ErrorCode::NotFound, false),
    (401, r#"{"detail":"Invalid API Key"}"#, ErrorCode::Auth, false),
    // OpenRouter: the key is right, but the account is empty.
    (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, ErrorCode::Auth, false),
    (403, r#"{"error":{"code":"forbidden","message":"Forbidden","type":"invalid_request_error"}}"#, ErrorCode::Auth, false),
    // OpenRouter and xAI: the key is right, but a filter refuses the request.
    (403, r#"{"error":{"code":403,"message":"m requires moderation on openai. Your input was flagged for \"violence\".","metadata":{"reasons":["violence"]}}}"#, ErrorCode::Refused, false),
    (403, r#"{"error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}"#, ErrorCode::Refused, false),
    (403, r#"{"error":{"message":"Your account was flagged for moderation"}}"#, ErrorCode::Auth, false),
    (403, r#"{"error":{"message":"This key has no permission for moderation"}}"#, ErrorCode::Auth, false),
    (404, r#"{"error":{"message":"Item with id 'rs_1' not found. Try again with `store` set to true, or remove this item from your input.","type":"invalid_request_error","param":"input"}}"#, ErrorCode::InvalidRequest, false),
    (404, r#"{"error":"Specified model not found: x"}"#, ErrorCode::NotFound, false),
    (408, "", ErrorCode::Timeout, true),
    (425, "", ErrorCode::ThirdParty, true),
    (409, "", ErrorCode::Conflict, true),
    (413, r#"{"error":{"message":"file too large","type":"invalid_request_error"}}"#, ErrorCode::InvalidRequest, false),
    (422, r#"{"detail":[{"msg":"field required"}]}"#, ErrorCode::InvalidRequest, false),
    (429, "", ErrorCode::RateLimitExceeded, true),
    (429, r#"{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}"#, ErrorCode::RateLimitExceeded, true),
    (429, r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#, ErrorCode::Auth, false),
    // Codex: the limit of a plan passes.
    (429, r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1800000000}}"#, ErrorCode::RateLimitExceeded, true),
    (500, r#"{"error":{"code":500,"message":"boom","type":"server_error"}}"#, ErrorCode::ThirdParty, true),
    (501, r#"{"error":{"code":501,"message":"no","type":"not_supported_error"}}"#, ErrorCode::InvalidRequest, false),
    (502, "<html><body>Bad Gateway</body></html>", ErrorCode::ThirdParty, true),
    // llama.cpp is still loading, so the call is worth another attempt.
    (503, r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#, ErrorCode::ThirdParty, true),
    (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, ErrorCode::ThirdParty, true),
    (302, "", ErrorCode::ThirdParty, false),
    (400, r#"{"error":{"code":400,"message":"request (10 tokens) exceeds the available context size (5 tokens)","type":"exceed_context_size_error"}}"#, ErrorCode::ContextOverflow, false),
];

#[test]
fn every_status_has_its_code() {
    for (status, body, code, retryable) in BY_STATUS {
        let error = from_response(*status, None, (*body).to_owned());
        assert_eq!((error.code, error.retryable), (*code, *retryable), "{status} {body}");
        assert_eq!(error.status, Some(*status));
        assert_eq!(error.body.as_deref(), Some(*body));
    }
}

/// (payload, code, retryable)
#[rustfmt::skip]
const IN_BAND: &[(&str, ErrorCode, bool)] = &[
    (r#"{"error":{"message":"m","type":"server_error","code":null}}"#, ErrorCode::ThirdParty, true),
    (r#"{"error":{"message":"m","type":"overloaded_error"}}"#, ErrorCode::ThirdParty, true),
    (r#"{"error":{"code":502,"message":"Provider disconnected"}}"#, ErrorCode::ThirdParty, true),
    // OpenRouter gives the upstream's status as a number inside the error.
    (r#"{"error":{"code":429,"message":"Provider returned error"}}"#, ErrorCode::RateLimitExceeded, true),
    (r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#, ErrorCode::RateLimitExceeded, true),
    (r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, ErrorCode::Auth, false),
    (r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached"}}"#, ErrorCode::RateLimitExceeded, true),
    (r#"{"error":{"type":"authentication_error","message":"who"}}"#, ErrorCode::Auth, false),
    (r#"{"error":{"type":"timeout_error","message":"late"}}"#, ErrorCode::Timeout, true),
    (r#"{"error":{"code":"tool_use_failed","type":"invalid_request_error","message":"m","status_code":400}}"#, ErrorCode::ThirdParty, true),
    (r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#, ErrorCode::ContextOverflow, false),
    (r#"{"error":"Rate limit reached"}"#, ErrorCode::RateLimitExceeded, true),
    (r#"{"error":"The model has crashed"}"#, ErrorCode::ThirdParty, true),
    ("something broke", ErrorCode::ThirdParty, true),
];

#[test]
fn errors_in_an_answer_are_read_by_type_and_code() {
    for (payload, code, retryable) in IN_BAND {
        let error = from_answer(payload);
        assert_eq!((error.code, error.retryable), (*code, *retryable), "{payload}");
        assert_eq!(error.status, None);
    }
}

#[test]
fn the_message_is_the_servers_own() {
    let of = |body: &str| from_response(400, None, body.to_owned()).message;
    assert_eq!(of(r#"{"error":{"message":" inner "},"message":"outer"}"#), "inner (HTTP 400)");
    assert_eq!(of(r#"{"error":"plain"}"#), "plain (HTTP 400)");
    assert_eq!(of(r#"{"detail":"FastAPI"}"#), "FastAPI (HTTP 400)");
    assert_eq!(
        of("<!doctype html><h1>x"),
        "the server answered with a page, not with an error object (HTTP 400)"
    );
    assert_eq!(of(&"x".repeat(1000)).chars().count(), fields::MAX_QUOTE_CHARS + " (HTTP 400)".len());
}

#[test]
fn a_model_without_tools_says_so_in_many_words() {
    for (status, message) in [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit: x"),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
        (500, "tools param requires --jinja flag"),
        (400, "`tools` is not supported with this model"),
        (400, "deepseek-reasoner does not support Function Calling"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it"),
        (422, "Tool use is not supported for this model."),
        (400, "Function call is not supported for this model."),
        (400, "x is not supported for JSON mode/function calling"),
        (400, "model features function calling not support"),
        (400, "API 调用参数有误，tools 参数不支持"),
        (400, "当前模型不支持工具调用"),
        (400, "Unknown parameter: 'tools'."),
        (400, "json: unknown field \"tools\""),
        (400, "litellm.UnsupportedParamsError: ollama does not support parameters: ['tools'], for model=x"),
        (400, "litellm.UnsupportedParamsError: x does not support parameters: {'tools': [{}]}, for model=x"),
    ] {
        let body = serde_json::json!({ "error": { "message": message, "code": status } }).to_string();
        let error = from_response(status, None, body);
        assert!(error.refuses_tools && !error.retryable, "{message}");
    }
    for message in [
        // These errors are about one tool, or about no tool at all.
        "tools.3.custom.input_schema: JSON schema is invalid",
        "messages.4: `tool_use` ids were found without `tool_result` blocks",
        "Invalid schema for function 'x': object schema missing properties",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Unknown parameter: 'tools[0].function.strict'.",
        "Unknown parameter: 'tools_choice'.",
        "litellm.UnsupportedParamsError: x does not support parameters: ['temperature'], for model=y",
        "tools 参数不能为空",
        // NVIDIA calls a hosted model a function.
        "Function 'abc': Not found for account 'x'",
    ] {
        let body = serde_json::json!({ "error": { "message": message } }).to_string();
        assert!(!from_response(400, None, body).refuses_tools, "{message}");
    }
}

#[test]
fn an_extra_field_for_tools_is_a_model_without_tools() {
    let refuses = |place: &str| {
        let body = format!(
            r#"{{"detail":[{{"type":"extra_forbidden","loc":{place},"msg":"Extra inputs are not permitted"}}]}}"#
        );
        from_response(422, None, body).refuses_tools
    };
    assert!(refuses(r#"["body","tools"]"#));
    assert!(!refuses(r#"["body","tools",0,"function","strict"]"#), "one tool");
    assert!(!refuses(r#"["body","stream_options"]"#));
}

#[test]
fn a_wait_in_the_body_counts_where_no_header_names_one() {
    let wait = |status: u16, header: Option<u64>, body: &str| {
        from_response(status, header.map(Duration::from_secs), body.to_owned()).retry_after
    };
    let said = r#"{"error":{"message":"Rate limit reached. Please try again in 3.5s.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    assert_eq!(wait(429, None, said), Some(Duration::from_millis(3_500)));
    assert_eq!(wait(429, Some(7), said), Some(Duration::from_secs(7)), "the header is more exact");
    let google = r#"{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}}"#;
    assert_eq!(wait(429, None, google), Some(Duration::from_secs(3)));
    assert_eq!(wait(503, None, google), Some(Duration::from_secs(3)));
    let refused = r#"{"error":{"message":"Invalid value. Fix it and try again in 5s"}}"#;
    assert_eq!(wait(400, None, refused), None, "no wait helps");
    let inside = r#"{"error":{"code":"rate_limit_exceeded","message":"Please retry in 12.3s."}}"#;
    assert_eq!(from_answer(inside).retry_after, Some(Duration::from_millis(12_300)));
}

#[test]
fn a_refused_include_is_a_parameter_and_not_only_a_part() {
    let refused = |param: &str| {
        let body = format!(
            r#"{{"error":{{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"{param}"}}}}"#
        );
        from_response(400, None, body).refused_parameter
    };
    assert_eq!(refused("include").as_deref(), Some("include"));
    assert_eq!(refused("include[0]").as_deref(), Some("include"));
    assert_eq!(refused("input[3]"), None);
}

#[test]
fn a_fault_of_a_field_is_named_with_its_place() {
    let of = |body: &str| from_response(422, None, body.to_owned()).message;
    let detail = r#"[{"type":"missing","loc":["body","messages",3,"content"],"msg":"Field required"}]"#;
    assert_eq!(of(&format!(r#"{{"detail":{detail}}}"#)), "messages.3.content: Field required (HTTP 422)");
    assert_eq!(
        of(&format!(r#"{{"message":"Request validation failed","detail":{detail}}}"#)),
        "Request validation failed (messages.3.content: Field required) (HTTP 422)"
    );
    let printed = "[{'type': 'missing', 'loc': ('body', 'messages', 3, 'content'), 'msg': 'Field required'}]";
    assert_eq!(
        of(&format!(r#"{{"object":"error","message":"{printed}","code":400}}"#)),
        "messages.3.content: Field required (HTTP 422)"
    );
}

#[test]
fn a_list_in_the_place_of_a_text_is_a_refusal_of_pictures() {
    let body = r#"{"detail":[{"type":"string_type","loc":["body","messages",0,"content"],"msg":"Input should be a valid string","input":[{"type":"image_url"}]}]}"#;
    let refusal = from_response(422, None, body.to_owned()).refusal.unwrap();
    assert_eq!((refusal.kind, refusal.takes_none), (Some(RefusedPartKind::Image), true));
}

#[test]
fn trouble_that_passes_is_told_from_a_bad_request_under_400() {
    for message in [
        "Rate limit exceeded, please try again later",
        "当前分组上游负载已饱和，请稍后再试",
        "Model unloaded by user or crashed, it has crashed",
        "Request to load model is already in progress",
        "ServiceUnavailableException: Too many connections, please wait before trying again.",
        "The model is currently unavailable. Please retry.",
    ] {
        let body = serde_json::json!({ "error": { "message": message, "type": "invalid_request_error" } });
        let error = from_response(400, None, body.to_string());
        assert!(error.retryable && error.refusal.is_none(), "{message}: {error:?}");
    }
    let picture = r#"{"error":{"message":"Could not process image, please try again later"}}"#;
    let error = from_response(400, None, picture.to_owned());
    assert!(!error.retryable && error.refusal.is_some(), "a named part is refused again: {error:?}");
}

#[test]
fn statuses_of_a_failed_generation_are_tried_again() {
    for status in [421, 423, 424, 499] {
        let error = from_response(status, None, r#"{"error":"Request failed during generation"}"#.to_owned());
        assert!(error.retryable, "{status}");
    }
}

#[test]
fn a_bad_sample_is_no_fault_of_the_request() {
    let body = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error",
        "code":"tool_use_failed","failed_generation":"<function=read>"}}"#;
    for error in [from_response(400, None, body.to_owned()), from_answer(body)] {
        assert!(error.retryable && error.is_bad_sample && error.refusal.is_none(), "{error:?}");
    }
}

#[test]
fn the_error_of_a_provider_behind_a_router_is_told() {
    let body = r#"{"error":{"message":"Provider returned error","code":400,
        "metadata":{"raw":"{\"error\":{\"message\":\"messages.2: tool_use ids must be unique\"}}","provider_name":"X"}}}"#;
    let error = from_response(400, None, body.to_owned());
    assert_eq!(error.message, "messages.2: tool_use ids must be unique (HTTP 400)");
    let body =
        r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"engine died"}}}"#;
    assert_eq!(from_response(502, None, body.to_owned()).message, "engine died (HTTP 502)");
}

#[test]
fn an_inner_text_is_told_only_if_it_says_more_than_the_outer_one() {
    for (outer, raw, told) in [
        ("Provider returned error", r#""ERROR""#, "Provider returned error"),
        ("Provider returned error", r#""""#, "Provider returned error"),
        ("Provider returned error", r#""null""#, "Provider returned error"),
        ("Provider returned error", r#""{}""#, "Provider returned error"),
        ("Provider returned error", r#""Internal Server Error""#, "Provider returned error"),
        ("Provider returned error", r#""<html>502</html>""#, "Provider returned error"),
        ("Provider returned error", r#"{"error":{"message":"ERROR"}}"#, "Provider returned error"),
        ("Provider returned error", r#"{"error":{"message":"no such image"}}"#, "no such image"),
        ("Provider returned error", "17", "Provider returned error"),
        (
            "The model x is not available in your region",
            r#""ERROR""#,
            "The model x is not available in your region",
        ),
        ("Error", r#""Bad request from upstream provider""#, "Bad request from upstream provider"),
    ] {
        let body = format!(r#"{{"error":{{"message":"{outer}","code":400,"metadata":{{"raw":{raw}}}}}}}"#);
        assert_eq!(from_response(400, None, body).message, format!("{told} (HTTP 400)"), "{raw}");
    }
}

#[test]
fn an_error_of_any_shape_is_told_in_short_words() {
    let of = |status: u16, body: &str| from_response(status, None, body.to_owned());
    let long = "x".repeat(900);
    for (body, words) in [
        (r#"{"detail":{"error":"Bad input","code":7}}"#.to_owned(), "Bad input"),
        (r#"{"detail":{"messages":["This field may not be blank."]}}"#.to_owned(), "messages: This field may not be blank."),
        (r#"{"message":{"error":{"message":"Too many pictures"}}}"#.to_owned(), "Too many pictures"),
        (r#"{"error":{"message":{"temperature":["Must be at most 2."]}}}"#.to_owned(), "temperature: Must be at most 2."),
        (r#"{"error":["First fault.","Second fault."]}"#.to_owned(), "First fault."),
        (r#"{"errors":{"messages":{"2":{"content":["Not a string."]}}}}"#.to_owned(), "messages.2.content: Not a string."),
        (r#"{"statusCode":400,"message":["messages.0.content must be a string"],"error":"Bad Request"}"#.to_owned(), "messages.0.content must be a string"),
        (r#"{"message":"{\"error\":{\"message\":\"inner\"}}"}"#.to_owned(), "inner"),
        (r#"{"error":{"message":"litellm.BadRequestError: OpenAIException - {\"error\":{\"message\":\"inner\",\"code\":\"x\"}}"}}"#.to_owned(), "litellm.BadRequestError: OpenAIException: inner"),
        (r#"{"error":{"message":"Error code: 400 - {'error': {'message': 'inner', 'type': 'x', 'param': None}}"}}"#.to_owned(), "Error code: 400: inner"),
        (format!(r#"{{"trace_id":"{long}","why":"No."}}"#), "why: No."),
        (r#"{"error":{"code":400,"type":"x","message":null}}"#.to_owned(), "the server gave no reason but the code x"),
        ("{}".to_owned(), "the server gave no reason"),
    ] {
        assert_eq!(of(400, &body).message, format!("{words} (HTTP 400)"), "{body}");
    }
    let deep =
        of(400, &serde_json::json!({ "detail": { "a": long, "b": [{ "c": long }] } }).to_string()).message;
    assert!(deep.chars().count() < 350 && !deep.contains('{'), "{deep}");
}

#[test]
fn a_field_that_an_error_names_in_a_shape_of_its_own_counts() {
    let refused = |body: &str| from_response(400, None, body.to_owned()).refused_parameter;
    assert_eq!(refused(r#"{"errors":{"top_k":["Unknown field."]}}"#).as_deref(), Some("top_k"));
    assert_eq!(
        refused(r#"{"detail":{"loc":["body","store"],"type":"extra_forbidden","msg":"Extra inputs are not permitted"}}"#)
            .as_deref(),
        Some("store")
    );
    let inner = r#"{"error":{"message":"Error code: 400 - {'error': {'message': \"Unsupported parameter: 'seed'\", 'code': 'x'}}"}}"#;
    assert_eq!(refused(inner).as_deref(), Some("seed"));
}
