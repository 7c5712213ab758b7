//! Answers of real servers in the place of a model's: refusals, outages, quotas, filters, pages and half bodies.

use longhaul_core::refusal::RefusedPartKind;

use super::*;

/// The parts of the conversation that an error leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspects {
    /// No part is at fault.
    Nobody,
    /// The error names nothing, so parts are left out on a guess.
    Anybody,
    /// The error names this kind.
    Kind(RefusedPartKind),
}

use Suspects::{Anybody, Kind, Nobody};

const AUTH: (ErrorCode, bool) = (ErrorCode::Auth, false);
const ABSENT: (ErrorCode, bool) = (ErrorCode::NotFound, false);
const INVALID: (ErrorCode, bool) = (ErrorCode::InvalidRequest, false);
const OVERFLOW: (ErrorCode, bool) = (ErrorCode::ContextOverflow, false);
const REFUSED: (ErrorCode, bool) = (ErrorCode::Refused, false);
const LIMITED: (ErrorCode, bool) = (ErrorCode::RateLimitExceeded, true);
const OUTAGE: (ErrorCode, bool) = (ErrorCode::ThirdParty, true);

/// A server, the status of its answer (`None` inside an answer with 200), the body, the code with the decision about a
/// repetition, and the suspects.
type Case = (&'static str, Option<u16>, &'static str, (ErrorCode, bool), Suspects);

#[rustfmt::skip]
const CASES: &[Case] = &[
    // A model that is not there, told as a bad request
    ("OpenRouter, recorded", Some(400), r#"{"error":{"code":400,"message":"openai/gpt-nonexistent-routed-model is not a valid model ID"},"user_id":"user_x"}"#, ABSENT, Nobody),
    ("xAI, recorded", Some(400), r#"{"code":"invalid-argument","error":"Model not found: grok-nonexistent-model-for-identity-edge"}"#, ABSENT, Nobody),
    ("OpenAI, recorded", Some(400), r#"{"error":{"code":"invalid_value","message":"The model 'rig-nonexistent-image-model' does not exist.","param":"model","type":"image_generation_user_error"}}"#, ABSENT, Nobody),
    ("Bedrock", Some(400), r#"{"message":"The provided model identifier is invalid."}"#, ABSENT, Nobody),
    ("Bedrock, recorded", Some(400), r#"{"message":"Invocation of model ID deepseek.r1-v1:0 with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}"#, ABSENT, Nobody),
    ("Copilot", Some(400), r#"{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model","type":"invalid_request_error"}}"#, ABSENT, Nobody),
    ("Codex with ChatGPT", Some(400), r#"{"detail":"The 'gpt-5.1-codex-mini' model is not supported when using Codex with a ChatGPT account."}"#, ABSENT, Nobody),
    ("LM Studio, nothing loaded", Some(400), r#"{"error":"No models loaded. Please load a model in the developer page or use the `lms load` command."}"#, ABSENT, Nobody),
    ("LM Studio, cannot load", Some(404), r#"{"error":{"message":"Failed to load model \"qwen\". Error: insufficient system resources","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#, ABSENT, Nobody),
    ("vLLM", Some(404), r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#, ABSENT, Nobody),
    ("Ollama", Some(404), r#"{"error":"model \"x\" not found, try pulling it first"}"#, ABSENT, Nobody),
    ("Ollama, in a stream", None, r#"{"error":"model 'x' not found"}"#, ABSENT, Nobody),
    ("Azure", Some(404), r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#, ABSENT, Nobody),
    ("Cohere, recorded", Some(404), r#"{"id":"2da0d1db","message":"model 'command-does-not-exist' not found, make sure the correct model ID was used."}"#, ABSENT, Nobody),
    ("LiteLLM", Some(400), r#"{"error":{"message":"/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view available models for your key.","type":"None","param":"None","code":"400"}}"#, ABSENT, Nobody),
    ("Vertex", Some(400), r#"{"error":{"code":400,"message":"Publisher Model `projects/p/models/x` is not servable in region us-east9.","status":"FAILED_PRECONDITION"}}"#, ABSENT, Nobody),

    // An account, told as a bad request
    ("Anthropic, disabled", Some(400), r#"{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}}"#, AUTH, Nobody),
    ("Anthropic, another program's key", Some(400), r#"{"type":"error","error":{"type":"invalid_request_error","message":"This credential is only authorized for use with Claude Code and cannot be used for other API requests."}}"#, AUTH, Nobody),
    ("Anthropic, a spent limit", Some(400), r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}"#, AUTH, Nobody),
    ("Gemini, a place", Some(400), r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#, AUTH, Nobody),
    ("Gemini, no free tier", Some(400), r#"{"error":{"code":400,"message":"Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.","status":"FAILED_PRECONDITION"}}"#, AUTH, Nobody),
    ("Gemini, a bad key", Some(400), r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#, AUTH, Nobody),
    ("Bedrock, an expired token", Some(400), r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}"#, AUTH, Nobody),
    ("Bedrock, no access", Some(403), r#"{"message":"You don't have access to the model with the specified model ID."}"#, AUTH, Nobody),
    ("LiteLLM, a spent budget", Some(400), r#"{"error":{"message":"Budget has been exceeded! Current cost: 12.01, Max budget: 12.0","type":"budget_exceeded","param":null,"code":"400"}}"#, AUTH, Nobody),
    ("Fireworks, suspended", Some(412), r#"{"error":"Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices."}"#, AUTH, Nobody),
    ("Zhipu, no balance", Some(429), r#"{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}"#, AUTH, Nobody),
    ("Moonshot, suspended", Some(429), r#"{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}"#, AUTH, Nobody),
    ("OpenRouter, too few credits", Some(402), r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 2345.","code":402}}"#, AUTH, Nobody),
    ("Azure, no token", Some(401), r#"{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}"#, AUTH, Nobody),
    ("ChatGPT, recorded", Some(401), r#"{"detail":"Could not parse your authentication token. Please try signing in again."}"#, AUTH, Nobody),
    ("Cloudflare, a challenge", Some(403), "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>", AUTH, Nobody),

    // Limits that pass
    ("OpenRouter, free models of the day", Some(429), r#"{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0"}}}}"#, LIMITED, Nobody),
    ("Azure", Some(429), r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current pricing tier. Please retry after 26 seconds."}}"#, LIMITED, Nobody),
    ("Bedrock, in a bad request", Some(400), r#"{"__type":"com.amazon.coral.service#ThrottlingException","message":"Too many tokens, please wait before trying again."}"#, LIMITED, Nobody),
    ("Mistral", Some(429), r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#, LIMITED, Nobody),
    ("Cerebras", Some(429), r#"{"message":"Tokens per day limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}"#, LIMITED, Nobody),
    ("LiteLLM, cooling down", Some(429), r#"{"error":{"message":"No deployments available for selected model, Try again in 60 seconds. Passed model=gpt-4. pre-call-checks=False","type":"None","param":"None","code":"429"}}"#, LIMITED, Nobody),
    ("TGI", Some(429), r#"{"error":"Model is overloaded","error_type":"overloaded"}"#, LIMITED, Nobody),
    ("Cloudflare", Some(429), "error code: 1015", LIMITED, Nobody),
    ("Copilot, in a stream", None, r#"{"error":{"message":"Sorry, you have exceeded your rate limits. Please try again later.","code":"rate_limited"}}"#, LIMITED, Nobody),

    // Outages
    ("vLLM, a dead engine", Some(500), r#"{"object":"error","message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}"#, OUTAGE, Nobody),
    ("Ollama, too little memory", Some(500), r#"{"error":"model requires more system memory (8.0 GiB) than is available (5.6 GiB)"}"#, OUTAGE, Nobody),
    ("Ollama, a full queue", Some(503), r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#, OUTAGE, Nobody),
    ("Ollama, a dead runner", None, r#"{"error":"an error was encountered while running the model: unexpected EOF"}"#, OUTAGE, Nobody),
    ("llama.cpp, an unreadable call", Some(500), r#"{"error":{"code":500,"message":"Failed to parse input at pos 0: <tool_call>","type":"server_error"}}"#, OUTAGE, Nobody),
    ("TGI, in a stream", None, r#"{"error":"Request failed during generation: Server error: CUDA out of memory","error_type":"generation"}"#, OUTAGE, Nobody),
    ("Hugging Face, loading", Some(503), r#"{"error":"Model mistralai/x is currently loading","estimated_time":20.0}"#, OUTAGE, Nobody),
    ("LiteLLM around Anthropic", Some(500), r#"{"error":{"message":"litellm.InternalServerError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}","type":null,"param":null,"code":"500"}}"#, OUTAGE, Nobody),
    ("Groq, flex tier", Some(498), r#"{"error":{"message":"Flex tier capacity exceeded","type":"capacity_exceeded"}}"#, OUTAGE, Nobody),
    ("Together", Some(503), r#"{"error":{"message":"The server is overloaded or not ready yet.","type":"service_unavailable","code":"service_unavailable"}}"#, OUTAGE, Nobody),
    ("OpenRouter", Some(503), r#"{"error":{"message":"No instances available (yet)","code":503}}"#, OUTAGE, Nobody),
    ("Gemini", Some(504), r#"{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}"#, OUTAGE, Nobody),
    ("SGLang, a full queue", Some(503), r#"{"error":{"object":"error","message":"The request queue is full.","type":"service_unavailable","code":503}}"#, OUTAGE, Nobody),
    ("Envoy", Some(503), "upstream connect error or disconnect/reset before headers. reset reason: connection termination", OUTAGE, Nobody),
    ("Cloudflare, a tunnel that is down", Some(530), "error code: 1033", OUTAGE, Nobody),
    ("Cloudflare, a time-out", Some(524), "<html><head><title>box.example | 524: A timeout occurred</title></head></html>", OUTAGE, Nobody),
    ("nginx", Some(504), "<html>\r\n<head><title>504 Gateway Time-out</title></head></html>", OUTAGE, Nobody),
    ("Bedrock, a model that is not ready", Some(429), r#"{"__type":"ModelNotReadyException","message":"Model is not ready for inference."}"#, LIMITED, Nobody),
    ("Bedrock, a failed model", Some(424), r#"{"message":"Model error","originalStatusCode":500,"resourceName":"m"}"#, OUTAGE, Nobody),
    ("LocalAI", Some(500), r#"{"error":{"code":500,"message":"rpc error: code = Unavailable desc = error reading from server: EOF","type":""}}"#, OUTAGE, Nobody),
    ("KoboldCpp", Some(503), r#"{"detail":{"msg":"Server is busy; please try again later.","type":"service_unavailable"}}"#, OUTAGE, Nobody),
    ("Cloudflare Workers AI", Some(400), r#"{"errors":[{"message":"AiError: Capacity temporarily exceeded, please try again.","code":3040}],"success":false,"result":{},"messages":[]}"#, OUTAGE, Nobody),
    ("Moonshot", Some(429), r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}"#, LIMITED, Nobody),

    // Filters
    ("OpenAI, a flagged prompt", Some(400), r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt: https://platform.openai.com/docs","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#, REFUSED, Kind(RefusedPartKind::Content)),
    ("OpenAI, safety system", Some(400), r#"{"error":{"message":"Your request was rejected as a result of our safety system.","type":"invalid_request_error","code":"moderation_blocked"}}"#, REFUSED, Kind(RefusedPartKind::Content)),
    ("Azure", Some(400), r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#, REFUSED, Kind(RefusedPartKind::Content)),
    ("Alibaba", Some(400), r#"{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content.","type":"data_inspection_failed"}}"#, REFUSED, Kind(RefusedPartKind::Content)),
    ("Zhipu", Some(400), r#"{"contentFilter":[{"level":1,"role":"user"}],"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入易产生敏感内容的提示语，感谢您的配合。"}}"#, REFUSED, Kind(RefusedPartKind::Content)),
    ("DeepSeek", Some(400), r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#, REFUSED, Kind(RefusedPartKind::Content)),

    // Overflows
    ("TGI", Some(422), r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`","error_type":"validation"}"#, OVERFLOW, Nobody),
    ("SGLang", Some(400), r#"{"object":"error","message":"The input (40000 tokens) is longer than the model's context length (32768 tokens).","type":"BadRequestError","param":null,"code":400}"#, OVERFLOW, Nobody),
    ("Groq, above the budget of a minute", Some(413), r#"{"error":{"message":"Request too large for model `llama` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14441, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#, OVERFLOW, Nobody),
    ("nginx", Some(413), "<html>\r\n<head><title>413 Request Entity Too Large</title></head></html>", OVERFLOW, Nobody),
    ("LiteLLM around vLLM", Some(400), r#"{"error":{"message":"litellm.ContextWindowExceededError: ContextWindowExceededError: Hosted_vllmException - This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":null,"param":null,"code":"400"}}"#, OVERFLOW, Nobody),

    // Parts and forms
    ("llama.cpp, recorded", Some(500), r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#, OUTAGE, Kind(RefusedPartKind::Image)),
    ("llama.cpp, a wrong type", Some(400), r#"{"error":{"code":400,"message":"Field 'temperature': [json.exception.type_error.302] type must be number, but is string","type":"invalid_request_error"}}"#, INVALID, Nobody),
    ("DeepSeek, a picture", Some(400), r#"{"error":{"message":"Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 250","type":"invalid_request_error"}}"#, INVALID, Kind(RefusedPartKind::Image)),
    ("Anthropic, a schema", Some(400), r#"{"type":"error","error":{"type":"invalid_request_error","message":"tools.0.custom.input_schema.type: Input should be 'object'"}}"#, INVALID, Kind(RefusedPartKind::ToolSchema)),
    ("nothing at all", Some(400), "", INVALID, Anybody),
    ("a page of nginx", Some(400), "<html>\r\n<head><title>400 Bad Request</title></head></html>", INVALID, Anybody),
    ("words that no table knows", Some(422), r#"{"message":"kérés elutasítva"}"#, INVALID, Anybody),
    ("a redirect", Some(302), "", (ErrorCode::ThirdParty, false), Nobody),
    ("a redirect to a page", Some(307), "<html><head><title>Sign in</title></head></html>", (ErrorCode::ThirdParty, false), Nobody),

    // Half bodies
    ("half an object", Some(500), r#"{"error":{"message":"Internal"#, OUTAGE, Nobody),
    ("half an object of a bad request", Some(400), r#"{"error":{"message":"The mod"#, INVALID, Anybody),
    ("half a page", Some(502), "<html><head><tit", OUTAGE, Nobody),
];

#[test]
fn every_answer_of_a_server_is_read_as_what_it_is() {
    let mut wrong = Vec::new();
    for (server, status, body, expected, suspects) in CASES {
        let error = match status {
            Some(status) => from_response(*status, None, (*body).to_owned()),
            None => from_answer(body),
        };
        let found = match error.refusal.as_deref() {
            None => Nobody,
            Some(refusal) => refusal.kind.map_or(Anybody, Kind),
        };
        // A refused part is refused again, whatever the status says of the server.
        let retryable = expected.1 && *suspects == Nobody;
        if (error.code, error.retryable, found) != (expected.0, retryable, *suspects) {
            wrong.push(format!("{server}: {:?} {} {found:?}: {body}", error.code, error.retryable));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[test]
fn a_wait_that_a_server_names_in_its_own_way_is_read() {
    for (body, seconds) in [
        (r#"{"error":"Model mistralai/x is currently loading","estimated_time":20.0}"#, 20),
        (r#"{"statusCode":429,"message":"Rate limit is exceeded. Try again in 23 seconds."}"#, 23),
        (
            r#"{"error":{"code":"429","message":"You have exceeded the rate limit. Please retry after 26 seconds."}}"#,
            26,
        ),
        (
            r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":5400}}"#,
            5_400,
        ),
    ] {
        let error = from_response(429, None, body.to_owned());
        assert_eq!(error.retry_after, Some(Duration::from_secs(seconds)), "{body}");
    }
}

#[test]
fn only_an_account_without_credit_is_one_of_payment() {
    let is_payment = |server: &str| {
        let (_, status, body, ..) = CASES.iter().find(|case| case.0 == server).unwrap();
        from_response(status.unwrap(), None, (*body).to_owned()).is_payment_due
    };
    for server in
        ["Anthropic, a spent limit", "LiteLLM, a spent budget", "Fireworks, suspended", "Zhipu, no balance"]
    {
        assert!(is_payment(server), "{server}");
    }
    for server in ["Anthropic, disabled", "Gemini, a place", "Cerebras", "OpenRouter, free models of the day"]
    {
        assert!(!is_payment(server), "{server}");
    }
}
