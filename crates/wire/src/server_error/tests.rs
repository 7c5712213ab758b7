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
    (404, r#"{"error":"Specified model not found: x"}"#, ErrorCode::NotFound, false),
    (408, "", ErrorCode::Timeout, true),
    (425, "", ErrorCode::ThirdParty, true),
    (409, "", ErrorCode::Conflict, true),
    (413, r#"{"error":{"message":"file too large","type":"invalid_request_error"}}"#, ErrorCode::InvalidRequest, false),
    (422, r#"{"detail":[{"msg":"field required"}]}"#, ErrorCode::InvalidRequest, false),
    (429, "", ErrorCode::RateLimitExceeded, true),
    (429, r#"{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}"#, ErrorCode::RateLimitExceeded, true),
    (429, r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#, ErrorCode::RateLimitExceeded, false),
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
    (r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, ErrorCode::RateLimitExceeded, false),
    (r#"{"error":{"type":"authentication_error","message":"who"}}"#, ErrorCode::Auth, false),
    (r#"{"error":{"type":"timeout_error","message":"late"}}"#, ErrorCode::Timeout, true),
    (r#"{"error":{"code":"tool_use_failed","type":"invalid_request_error","message":"m","status_code":400}}"#, ErrorCode::InvalidRequest, false),
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
    assert_eq!(of(&"x".repeat(1000)).chars().count(), MAX_QUOTE_CHARS + " (HTTP 400)".len());
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
    ] {
        let body = serde_json::json!({ "error": { "message": message } }).to_string();
        assert!(!from_response(400, None, body).refuses_tools, "{message}");
    }
}
