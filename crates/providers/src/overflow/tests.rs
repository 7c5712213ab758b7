use super::*;

/// Tokens used, and the limit.
type Numbers = (Option<u64>, Option<u64>);

const NONE: Numbers = (None, None);

/// (where it comes from, status, body, numbers). The wording is the one recorded in peers' own tables or,
/// for llama.cpp, seen on a running server.
#[rustfmt::skip]
const OVERFLOWS: &[(&str, Option<u16>, &str, Numbers)] = &[
    // structured codes
    ("OpenAI code", Some(400), r#"{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}"#, NONE),
    ("OpenAI response.failed", None, r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"m"}}}"#, NONE),
    ("llama.cpp server", Some(400), r#"{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#, (Some(4031), Some(2048))),
    ("llama.cpp, fields only", Some(400), r#"{"error":{"message":"m","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}"#, (Some(9), Some(4))),
    ("Anthropic 413", Some(413), r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#, NONE),
    ("proxy 413", Some(413), "<html><h1>413 Request Entity Too Large</h1></html>", NONE),
    ("empty 400", Some(400), "", NONE),
    ("empty 413", Some(413), " \n", NONE),
    ("empty, in words", None, "413 status code (no body)", NONE),
    ("Anthropic stop reason", None, r#"{"stop_reason":"model_context_window_exceeded"}"#, NONE),
    ("Anthropic stop reason as text", Some(400), "stopped: model_context_window_exceeded", NONE),
    ("Google status", Some(400), r#"{"error":{"code":400,"message":"The input tokens of the request exceeds what the model can take","status":"INVALID_ARGUMENT"}}"#, NONE),
    ("GitHub Copilot", Some(400), r#"{"error":{"code":"model_max_prompt_tokens_exceeded","message":"prompt token count of 140000 exceeds the limit of 128000"}}"#, (Some(140_000), Some(128_000))),
    ("GitHub Copilot as text", Some(400), "model_max_prompt_tokens_exceeded", NONE),
    // texts
    ("Anthropic", Some(400), "prompt is too long: 210,543 tokens > 200,000 maximum", (Some(210_543), Some(200_000))),
    ("Anthropic on Vertex", Some(413), "Prompt is too long", NONE),
    ("Anthropic with max_tokens", Some(400), "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again", (Some(190_000), Some(200_000))),
    ("Bedrock", Some(400), "Input is too long for requested model.", NONE),
    ("OpenAI chat", Some(400), "This model's maximum context length is 4097 tokens. However, your messages resulted in 4927 tokens. Please reduce the length of the messages.", (Some(4927), Some(4097))),
    ("OpenAI legacy, vLLM 1", Some(400), "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion). Please reduce the length of the messages or completion.", (Some(4500), Some(4096))),
    ("vLLM 2", Some(400), r#"{"error":{"message":"You passed 9000 input tokens and requested 100 output tokens. However, the model's context length is only 8192 tokens","type":"BadRequestError","param":"input_tokens","code":400}}"#, (Some(9000), Some(8192))),
    ("vLLM 3", Some(400), "This model's maximum context length is 8192 tokens. However, you requested 512 output tokens and your prompt contains 8000 input tokens, for a total of 8512 tokens.", (Some(8000), Some(8192))),
    ("vLLM 3, a floor", Some(400), "This model's maximum context length is 8192 tokens. However, you requested 512 output tokens and your prompt contains at least 7681 input tokens, for a total of at least 8193 tokens.", (None, Some(8192))),
    ("vLLM max_tokens", Some(400), "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (5000 > 4096 - 1000).", (Some(1000), Some(4096))),
    ("vLLM input limit", Some(400), "The prompt exceeds the maximum allowed input length of 32768 tokens", (None, Some(32_768))),
    ("vLLM only", Some(400), "the context length is only 4096", (None, Some(4096))),
    ("vLLM family", Some(400), "Input length (5000) exceeds model's maximum context length (4096).", (Some(5000), Some(4096))),
    ("Groq", Some(400), "Please reduce the length of the messages or completion.", NONE),
    ("OpenAI responses", None, "Your input exceeds the context window of this model. Please adjust your input and try again.", NONE),
    ("Google", Some(400), r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#, (Some(1_200_000), Some(1_048_576))),
    ("Google without count", Some(400), "The input token count exceeds the maximum number of tokens allowed 1048575.", (None, Some(1_048_575))),
    ("xAI", Some(400), "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", (Some(537_812), Some(131_072))),
    ("xAI, short", Some(400), "maximum prompt length is 131072", (None, Some(131_072))),
    ("OpenRouter", Some(400), r#"{"error":{"message":"This endpoint's maximum context length is 128000 tokens. However, you requested about 150000 tokens (149000 of text input, 1000 in the output).","code":400}}"#, (None, Some(128_000))),
    ("OpenRouter, upstream in a string", Some(400), r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}"}}}"#, (Some(9), Some(8))),
    ("others", Some(400), "Requested token count exceeds the model's maximum context length of 131,072 tokens.", (None, Some(131_072))),
    ("DeepSeek", Some(400), "This model's maximum context length is 65536 tokens.", (None, Some(65_536))),
    ("NEAR", Some(400), "The input (40000 tokens) is longer than the model's context length (32768 tokens).", (Some(40_000), Some(32_768))),
    ("Copilot and others", Some(400), "The number of tokens in your prompt exceeds the limit of 8192", (None, Some(8192))),
    ("llama.cpp, older", Some(400), "the request exceeds the available context size. try increasing the context size or enable context shift", NONE),
    ("llama.cpp, configured", Some(400), "prompt has 9000 tokens, but the configured context size is 8192 tokens", (Some(9000), Some(8192))),
    ("LM Studio", Some(400), r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5103>= n_ctx: 4096). Try to load the model with a larger context length."}"#, (Some(5103), Some(4096))),
    ("LM Studio, older", None, "Trying to keep the first 5103 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", (Some(5103), Some(4096))),
    ("LM Studio, n_keep", Some(400), "Cannot truncate prompt with n_keep (5103) >= n_ctx (4096)", (Some(5103), Some(4096))),
    ("LM Studio, MLX", None, "Context size has been exceeded.", NONE),
    ("LM Studio, while answering", None, "Reached context length of 4096 tokens with model (arch: qwen) that does not currently support mid-generation context overflow.", (None, Some(4096))),
    ("MiniMax", Some(400), "invalid params, context window exceeds limit", NONE),
    ("Kimi", Some(400), "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", (Some(9000), Some(8192))),
    ("Kimi, short", Some(400), "Your request exceeded model token limit", NONE),
    ("Mistral", Some(400), r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}"#, (Some(40_000), Some(32_768))),
    ("Mistral, short", Some(400), "too large for model with 32768 maximum context length", (None, Some(32_768))),
    ("Ollama", Some(400), r#"{"error":"prompt too long; exceeded max context length by 12 tokens"}"#, NONE),
    ("Ollama, shift off", Some(400), "the prompt is longer than the context length currently available", NONE),
    ("Alibaba", Some(400), "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", (None, Some(129_024))),
    ("Vercel gateway", Some(400), "Input too long: 250000 input tokens, limit is 200000", (Some(250_000), Some(200_000))),
    ("other compatibles", Some(400), "tokens in request more than max tokens allowed", NONE),
    ("other compatibles, length", Some(400), "requested input length 9000 exceeds maximum input length 8192", (Some(9000), Some(8192))),
    ("kronk", Some(400), "input tokens [9000] exceed context window [8192]", (Some(9000), Some(8192))),
    ("kronk, full", None, "context window is full", NONE),
    ("GitLab", Some(400), "context overflow", NONE),
    ("GitLab, prompt", Some(400), "prompt too long", NONE),
    ("GitLab, maximum", Some(400), "your prompt has more tokens than the maximum", NONE),
    ("anybody", Some(422), "context length exceeded", NONE),
    ("anybody, window", Some(400), "the conversation exceeds the model's context window", NONE),
    ("anybody, limit", Some(400), "context limit reached", NONE),
    ("anybody, too many", Some(400), "too many tokens in the request", NONE),
    ("anybody, token limit", Some(400), "Token limit exceeded", NONE),
    ("anybody, comparison", Some(400), "9_000 tokens > 8_192 limit", (Some(9000), Some(8192))),
    ("anybody, tokens exceed", Some(400), "The tokens exceed what is possible", NONE),
    ("anybody, decrease", Some(400), "please decrease input length", NONE),
    // statuses that are believed only with proof
    ("gateway 403", Some(403), "prompt is too long: 210543 tokens > 200000 maximum", (Some(210_543), Some(200_000))),
    ("wrapper 500 with code", Some(500), r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, NONE),
    // wrappings
    ("sentence around JSON", Some(400), r#"litellm.BadRequestError: OpenAIException - {"error":{"code":"context_length_exceeded","message":"m"}}"#, NONE),
    ("last of several attempts", None, "Failed after 3 attempts. Last error: prompt is too long: 9 tokens > 8 maximum", (Some(9), Some(8))),
    ("FastAPI", Some(422), r#"{"detail":[{"msg":"prompt is too long: 9 tokens > 8 maximum"}]}"#, (Some(9), Some(8))),
];

#[test]
fn every_wording_is_recognised_with_its_numbers() {
    for (source, status, body, numbers) in OVERFLOWS {
        let found = recognise(*status, body).map(|overflow| (overflow.used_tokens, overflow.limit_tokens));
        assert_eq!(found, Some(*numbers), "{source}: {body}");
    }
}

/// (what it is, status, body)
#[rustfmt::skip]
const OTHERS: &[(&str, Option<u16>, &str)] = &[
    ("429, whatever it says", Some(429), "prompt is too long: 210543 tokens > 200000 maximum"),
    ("404", Some(404), "prompt is too long"),
    ("503", Some(503), r#"{"error":{"code":"context_length_exceeded"}}"#),
    ("403 without numbers", Some(403), "prompt is too long"),
    ("403 with one number", Some(403), "maximum context length is 4096 tokens"),
    ("500 without proof", Some(500), "too many tokens"),
    ("rate limit", Some(400), "Rate limit reached: too many tokens"),
    ("too many requests", Some(400), "Too many requests, tokens exceed your plan"),
    ("tokens per minute", Some(413), "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce the length of the messages"),
    ("rate limit by code", Some(413), r#"{"error":{"message":"Request too large, reduce the length of the messages","type":"tokens","code":"rate_limit_exceeded"}}"#),
    ("throttling", Some(400), "Throttling error: too many tokens, please wait before trying again"),
    ("unavailable", Some(400), "Service Unavailable: context length exceeded upstream"),
    ("deadline", Some(400), "context deadline exceeded"),
    ("deadline, other", None, "deadline exceeded while the context limit was checked"),
    ("request time-out", None, "the request timed out; tokens exceed"),
    ("connection time-out", None, "connection timeout, prompt too long"),
    ("read time-out", None, "read timeout: context window is full"),
    ("context time-out", None, "context timed out, context overflow"),
    ("an earlier attempt", None, "Failed after 2 attempts: prompt is too long. Last error: connection refused"),
    ("an earlier attempt, as a list", None, r#"{"errors":[{"message":"prompt is too long"},{"message":"bad gateway"}]}"#),
    ("output limit", Some(400), "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    ("output limit, Anthropic", Some(400), "max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens for claude"),
    ("output limit, Google", Some(400), r#"{"error":{"message":"max_output_tokens value of 100000 exceeds the supported range","status":"INVALID_ARGUMENT"}}"#),
    ("images", Some(400), "the number of images exceeds the limit of 20"),
    ("file size", Some(413), "file exceeds the limit of 20 MB"),
    ("the request repeated", Some(422), r#"{"detail":[{"msg":"field required","input":"prompt is too long: 9 tokens > 8 maximum"}]}"#),
    ("the answer repeated", None, r#"{"error":{"message":"bad call","code":"tool_use_failed","failed_generation":"context length exceeded"}}"#),
    ("wrong model", Some(400), "Invalid model: x"),
    ("empty 401", Some(401), ""),
    ("nothing said", None, ""),
    ("a key", Some(401), "Invalid API key"),
];

#[test]
fn what_only_sounds_alike_is_not_overflow() {
    for (what, status, body) in OTHERS {
        assert_eq!(recognise(*status, body), None, "{what}: {body}");
    }
}

#[test]
fn every_pattern_compiles_and_is_needed_by_a_case() {
    let bodies: Vec<String> = OVERFLOWS.iter().flat_map(|case| Found::read(case.2).texts).collect();
    for sentence in patterns::SENTENCES {
        let regex = patterns::compile(sentence).unwrap_or_else(|| panic!("{sentence}"));
        assert!(bodies.iter().any(|body| regex.is_match(body)), "no case for {sentence}");
    }
    for veto in patterns::VETOES {
        let regex = patterns::compile(veto).unwrap_or_else(|| panic!("{veto}"));
        assert!(OTHERS.iter().any(|case| regex.is_match(case.2)), "no case for {veto}");
    }
}

#[test]
fn nesting_is_followed_to_depth_eight_and_no_further() {
    let wrap = |times: usize| {
        (0..times).fold("prompt is too long".to_owned(), |inner, _| {
            serde_json::json!({ "error": inner }).to_string()
        })
    };
    assert!(recognise(Some(400), &wrap(3)).is_some());
    assert!(recognise(Some(400), &"{\"error\":".repeat(5_000)).is_none(), "no stack is lost on nonsense");
}
