//! The meaning of a server's error: one table over status, type and code, for every wire.

use std::time::Duration;

use longhaul_core::error::ErrorCode;
use serde_json::Value;

use crate::{ProviderError, overflow, refused_parameter, refused_part};

/// The number of characters of a body without JSON that go into the message.
const MAX_QUOTE_CHARS: usize = 300;

/// Returns the error of an answer outside 2xx.
pub fn from_response(status: u16, wait: Option<Duration>, body: String) -> ProviderError {
    let said = ServerErrorFields::read(&body);
    let verdict = ErrorClassification::of_status(status, &said.words);
    let mut error = build(verdict, said.message(&body), &body, Some(status));
    error.message = format!("{} (HTTP {status})", error.message);
    error.retry_after = wait;
    error.body = Some(body);
    error
}

/// Returns the error that a server put into an answer that began with 200.
pub fn from_answer(payload: &str) -> ProviderError {
    let said = ServerErrorFields::read(payload);
    // A status inside an answer is only a number that some proxy chose, so the words come first.
    let verdict = match (ErrorClassification::of_words(&said.words), said.status) {
        (Some(verdict), _) => verdict,
        (None, Some(status)) => ErrorClassification::of_status(status, &said.words),
        (None, None) => ErrorClassification::of_text(&said.message(payload)),
    };
    let mut error = build(verdict, said.message(payload), payload, None);
    error.body = Some(payload.to_owned());
    error
}

fn build(verdict: ErrorClassification, message: String, body: &str, status: Option<u16>) -> ProviderError {
    let mut error = ProviderError::new(verdict.code, message);
    error.retryable = verdict.retryable;
    error.status = status;
    // An overflow comes first, because its words match other rows too and only this code leads to a compaction.
    if let Some(overflow) = overflow::recognise(status, body) {
        error.code = ErrorCode::ContextOverflow;
        // The same request would overflow again. Only a compaction helps.
        error.retryable = false;
        error.used_tokens = overflow.used_tokens;
        error.limit_tokens = overflow.limit_tokens;
    } else {
        error.refuses_tools = refuses_tools(&error.message);
        if !error.refuses_tools {
            let text = said_and_typed(&error.message, body);
            error.refusal = refused_part::read(status, error.code, &text).map(Box::new);
        }
        let is_about_part = error.refusal.as_ref().is_some_and(|refusal| refusal.is_specific());
        if error.code == ErrorCode::InvalidRequest && !error.refuses_tools && !is_about_part {
            error.refused_parameter = refused_parameter::read(&error.message, body);
        }
        // A server that refuses a part of a request refuses the part again.
        error.retryable &= !error.refuses_tools && error.refusal.is_none();
    }
    error
}

/// Returns the message with its codes, which are more exact than some messages.
fn said_and_typed(message: &str, body: &str) -> String {
    let codes = ServerErrorFields::read(body).words.join(" ");
    format!("{message} {codes}")
}

/// The words of servers that refuse a request because it has tools. Sources: Ollama (`routes.go`), OpenRouter
/// (404), vLLM (`serving_chat.py`), llama.cpp (`common/chat.cpp`), Groq, DeepSeek, Together, LM Studio.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "doesn't support tool",
    "do not support tool",
    "not support tool use",
    "support tool use",
    "tool use is not supported",
    "tool calling is not supported",
    "tool calls are not supported",
    "tools is not supported",
    "tools are not supported",
    "tools not supported",
    "does not support function",
    "doesn't support function",
    "function calling is not supported",
    "function calling is not enabled",
    "functions are not supported",
    "requires --enable-auto-tool-choice",
    "tools param requires --jinja",
    "tool_choice is not supported",
];

/// Reports whether an error is about tools as such, not about one tool.
fn refuses_tools(message: &str) -> bool {
    // Servers quote the names of fields in different ways, or not at all.
    let text = message.to_lowercase().replace(['`', '"', '\''], "");
    NO_TOOLS.iter().any(|words| text.contains(words))
}

/// The code and the retry decision of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ErrorClassification {
    code: ErrorCode,
    retryable: bool,
}

const fn again(code: ErrorCode) -> ErrorClassification {
    ErrorClassification { code, retryable: true }
}

const fn permanent(code: ErrorCode) -> ErrorClassification {
    ErrorClassification { code, retryable: false }
}

/// Types and codes that are more exact than a status. The first row that matches wins.
#[rustfmt::skip]
const WORDS: &[(&[&str], ErrorClassification)] = &[
    // OpenAI and Moonshot: only a payment helps against a used-up quota, so the call is not repeated.
    (&["insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error"], permanent(ErrorCode::RateLimitExceeded)),
    // `resource_exhausted` is Google's word, `throttlingexception` Amazon Bedrock's.
    (&[ "rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error", "too_many_requests", "resource_exhausted", "throttling_error", "throttlingexception", "rate_limited", ], again(ErrorCode::RateLimitExceeded)),
    (&[ "authentication_error", "invalid_api_key", "api_key_invalid", "permission_error", "permission_denied", "unauthenticated", "unauthorized", "forbidden", "billing_error", "invalid_authentication_error", ], permanent(ErrorCode::Auth)),
    (&["content_policy_violation", "content_filter", "image_content_policy_violation"], permanent(ErrorCode::Refused)),
    (&["timeout", "timeout_error", "request_timeout", "deadline_exceeded"], again(ErrorCode::Timeout)),
    // `overloaded_error` and `api_error` are Anthropic's words, `engine_overloaded_error` is Moonshot's.
    (&[ "overloaded_error", "overloaded", "engine_overloaded", "engine_overloaded_error", "server_error", "api_error", "internal_error", "internal", "internal_server_error", "unavailable", "unavailable_error", "service_unavailable", ], again(ErrorCode::ThirdParty)),
    (&["not_found_error", "model_not_found", "not_found", "invalid_model"], permanent(ErrorCode::NotFound)),
    // `tool_use_failed` is Groq's word for a call that does not fit its tool.
    (&[ "invalid_request_error", "invalid_argument", "bad_request", "badrequesterror", "invalid_prompt", "tool_use_failed", "not_supported_error", ], permanent(ErrorCode::InvalidRequest)),
];

fn has_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}

impl ErrorClassification {
    fn of_words(words: &[String]) -> Option<Self> {
        let row = WORDS.iter().find(|(known, _)| words.iter().any(|word| known.contains(&word.as_str())))?;
        Some(row.1)
    }

    /// Classifies a status. The status decides, except for words that are known to be more exact: an exhausted
    /// quota comes as 429, a bad key or an overload as 400.
    fn of_status(status: u16, words: &[String]) -> Self {
        let said = Self::of_words(words);
        match status {
            // Other words under 429 are taken for a limit all the same, because the status is clear.
            429 => said
                .filter(|verdict| verdict.code == ErrorCode::RateLimitExceeded)
                .unwrap_or(again(ErrorCode::RateLimitExceeded)),
            401..=403 | 407 => permanent(ErrorCode::Auth),
            404 | 410 => permanent(ErrorCode::NotFound),
            408 => again(ErrorCode::Timeout),
            409 => again(ErrorCode::Conflict),
            // The server lacks the method or the version of HTTP, and no repetition changes that.
            501 | 505 => permanent(ErrorCode::InvalidRequest),
            // Anthropic reports an overload as 529.
            425 | 500..=599 => again(ErrorCode::ThirdParty),
            400..=499 => said.unwrap_or(permanent(ErrorCode::InvalidRequest)),
            _ => permanent(ErrorCode::ThirdParty),
        }
    }

    /// Classifies an error without status, type or code.
    fn of_text(message: &str) -> Self {
        let text = message.to_lowercase();
        if has_any(&text, &["unexpected endpoint"]) {
            // LM Studio answers an unknown path with status 200 and a text.
            permanent(ErrorCode::NotFound)
        } else if has_any(&text, &["rate limit", "too many requests", "quota"]) {
            again(ErrorCode::RateLimitExceeded)
        } else if has_any(&text, &["timed out", "timeout", "deadline exceeded"]) {
            again(ErrorCode::Timeout)
        } else if has_any(&text, &["api key", "unauthorized", "authentication"]) {
            permanent(ErrorCode::Auth)
        } else {
            again(ErrorCode::ThirdParty)
        }
    }
}

/// The fields of an error object, in one shape for all servers.
#[derive(Debug, Default)]
struct ServerErrorFields {
    message: Option<String>,
    /// The values of `type`, `code`, `status` and `reason`, in lower case.
    words: Vec<String>,
    /// A status given as a number inside the object.
    status: Option<u16>,
}

impl ServerErrorFields {
    fn read(body: &str) -> Self {
        let mut said = Self::default();
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            said.take(&value, 0);
        }
        said
    }

    /// Reads the innermost `error` first: it is the most exact.
    fn take(&mut self, value: &Value, depth: usize) {
        let object = match value {
            Value::Object(object) => object,
            // Gemini puts the error object of a stream into a list.
            Value::Array(items) if depth < 8 => {
                return items.iter().for_each(|item| self.take(item, depth + 1));
            }
            Value::String(text) => return self.say(text),
            _ => return,
        };
        // Deeper nesting is no error object any more.
        if depth < 8
            && let Some(inner) = object.get("error").or_else(|| object.get("errors"))
        {
            self.take(inner, depth + 1);
        }
        // FastAPI, which vLLM and SGLang are built on, names the message `detail`, or `msg` in a list of details.
        for key in ["message", "detail", "msg", "error_description", "error_message"] {
            if let Some(Value::String(text)) = object.get(key) {
                self.say(text);
            }
        }
        for key in ["type", "code", "status", "reason", "status_code", "statusCode"] {
            self.word(object.get(key));
        }
        if let Some(Value::Array(details)) = object.get("details") {
            details.iter().for_each(|detail| self.word(detail.get("reason")));
        }
    }

    fn say(&mut self, text: &str) {
        // The first message wins, which is the innermost one.
        if self.message.is_none() && !text.trim().is_empty() {
            self.message = Some(text.trim().to_owned());
        }
    }

    fn word(&mut self, value: Option<&Value>) {
        match value {
            // LiteLLM gives the status as a text (`"code": "429"`).
            Some(Value::String(text)) => match text.parse() {
                Ok(number) => self.number(number),
                // Servers write the same code with blanks, dashes or underscores.
                Err(_) => self.words.push(text.to_lowercase().replace([' ', '-'], "_")),
            },
            Some(Value::Number(number)) => self.number(number.as_u64().unwrap_or_default()),
            _ => {}
        }
    }

    fn number(&mut self, number: u64) {
        if let (None, Ok(status @ 400..=599)) = (self.status, u16::try_from(number)) {
            self.status = Some(status);
        }
    }

    /// Returns the server's message, or the beginning of the body.
    fn message(&self, body: &str) -> String {
        if let Some(message) = &self.message {
            return message.clone();
        }
        match body.trim() {
            "" => "the server gave no reason".to_owned(),
            html if html.starts_with('<') => {
                "the server answered with a page, not with an error object".to_owned()
            }
            text => text.chars().take(MAX_QUOTE_CHARS).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
