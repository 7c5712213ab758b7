//! Errors that a server sends with status 200 in place of an answer, in a shape of its own.
//!
//! Sources: MiniMax (`base_resp`), FastAPI (`detail`), Baidu (`error_code`), Cloudflare (`errors`), and the `code` and
//! `msg` of many Chinese servers.

use serde_json::{Map, Value};

use crate::ProviderError;

/// Fields of an answer, on any wire. An object with one of them is no error.
const ANSWER_FIELDS: &[&str] = &[
    "choices",
    "content",
    "candidates",
    "output",
    "response",
    "delta",
    "usage",
    "usageMetadata",
    "promptFeedback",
    "done",
    "item",
    "part",
];

/// Fields that only errors have.
const ERROR_FIELDS: &[&str] =
    &["detail", "error_msg", "errmsg", "error_message", "errorMessage", "errors", "exception"];

/// Fields with words that are an error's only beside the code of one.
const MESSAGE_FIELDS: &[&str] = &["msg", "message", "Message", "reason", "title"];

/// Fields with the code of an error, or with 0 or 200 for a success.
const CODE_FIELDS: &[&str] = &["code", "error_code", "errorCode", "errcode", "status_code", "statusCode"];

/// Returns the error that a server sent in place of an answer. `None` for a payload of another meaning, such as a sign of
/// life or a report of usage.
pub(crate) fn error_in_place_of_answer(payload: &str) -> Option<ProviderError> {
    let Ok(Value::Object(fields)) = serde_json::from_str(payload) else { return None };
    is_error(&fields).then(|| super::from_answer(payload))
}

fn is_error(fields: &Map<String, Value>) -> bool {
    // MiniMax sends `base_resp` with every answer.
    if let Some(code) = fields.get("base_resp").and_then(|status| status.get("status_code")) {
        return is_failure(code);
    }
    let is_answer = ANSWER_FIELDS.iter().any(|name| fields.get(*name).is_some_and(|field| !field.is_null()));
    if is_answer || fields.get("type").is_some_and(|kind| !is_error_type(kind)) {
        return false;
    }
    let has_code = CODE_FIELDS.iter().filter_map(|name| fields.get(*name)).any(is_failure);
    // `status` is a word for progress, too.
    let has_status = fields.get("status").is_some_and(|status| match status {
        Value::Number(number) => number.as_u64().is_some_and(|number| number >= 400),
        Value::String(word) => matches!(word.to_lowercase().as_str(), "error" | "fail" | "failed"),
        _ => false,
    });
    let has_failed = has_code || has_status || fields.get("success") == Some(&Value::Bool(false));
    has_content(fields, ERROR_FIELDS) || has_failed && has_content(fields, MESSAGE_FIELDS)
}

fn has_content(fields: &Map<String, Value>, names: &[&str]) -> bool {
    names.iter().filter_map(|name| fields.get(*name)).any(|field| match field {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    })
}

/// Reports whether a code means a failure.
fn is_failure(code: &Value) -> bool {
    let is_failed_number = |number: i64| number != 0 && !(200..300).contains(&number);
    match code {
        Value::Number(number) => number.as_i64().is_some_and(is_failed_number),
        Value::String(word) => match word.parse() {
            Ok(number) => is_failed_number(number),
            Err(_) => !matches!(word.to_lowercase().as_str(), "" | "ok" | "success"),
        },
        _ => false,
    }
}

/// Reports whether the type of an object is that of an error. Problem details (RFC 9457) have an address as their type.
fn is_error_type(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| {
        kind.is_empty() || kind.starts_with("about:") || kind.starts_with("http") || kind.contains("error")
    })
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;

    #[test]
    fn an_error_of_another_shape_keeps_its_words_and_gets_its_code() {
        for (payload, code, retryable, words) in [
            (
                r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}"#,
                ErrorCode::Auth,
                false,
                "the account has no credit left, or a payment is due: insufficient balance",
            ),
            (
                r#"{"base_resp":{"status_code":1002,"status_msg":"slow down"}}"#,
                ErrorCode::RateLimitExceeded,
                true,
                "slow down",
            ),
            (r#"{"detail":"Not authenticated"}"#, ErrorCode::Auth, false, "Not authenticated"),
            (
                r#"{"code":500,"msg":"系统繁忙，请稍后再试","success":false}"#,
                ErrorCode::ThirdParty,
                true,
                "系统繁忙，请稍后再试",
            ),
            (r#"{"code":429,"msg":"请求过多"}"#, ErrorCode::RateLimitExceeded, true, "请求过多"),
            (r#"{"code":"401","message":"who"}"#, ErrorCode::Auth, false, "who"),
            (
                r#"{"error_code":6,"error_msg":"No permission: rate limit"}"#,
                ErrorCode::RateLimitExceeded,
                true,
                "No permission: rate limit",
            ),
            (
                r#"{"type":"about:blank","title":"Unauthorized","status":401,"detail":"no key"}"#,
                ErrorCode::Auth,
                false,
                "no key",
            ),
            (
                r#"{"base_resp":{"status_code":2013,"status_msg":"invalid params, context window exceeds limit"}}"#,
                ErrorCode::ContextOverflow,
                false,
                "invalid params, context window exceeds limit",
            ),
        ] {
            let error = error_in_place_of_answer(payload).unwrap_or_else(|| panic!("no error: {payload}"));
            assert_eq!(
                (error.code, error.retryable, error.message.as_str()),
                (code, retryable, words),
                "{payload}"
            );
        }
    }

    #[test]
    fn other_objects_are_no_errors() {
        for payload in [
            r#"{"base_resp":{"status_code":0,"status_msg":""}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":5}}"#,
            r#"{"id":"x","choices":null,"usage":null,"error":null,"service_tier":"y"}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"warning","code":"w1","message":"a word"}"#,
            r#"{"code":0,"msg":"ok"}"#,
            r#"{"code":"200","message":"success"}"#,
            r#"{"status":"processing","message":"wait"}"#,
            r#"{"message":{"role":"assistant","content":"Hi"},"done":false}"#,
            r#"{"detail":""}"#,
            "{}",
            "null",
        ] {
            assert!(error_in_place_of_answer(payload).is_none(), "{payload}");
        }
    }
}
