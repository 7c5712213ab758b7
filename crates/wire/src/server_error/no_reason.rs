//! Refusals without a reason: "Bad Request", "invalid request", `{}`, or nothing at all.
//!
//! Proxies answer so in passing, and the same request often succeeds a moment later.

use super::ServerErrorFields;

/// The statuses of a bad request. Others, such as 413, are a reason.
const BAD_REQUEST: [u16; 2] = [400, 422];

/// Words that say no more than that a request failed. A text of these words alone gives no reason.
#[rustfmt::skip]
const EMPTY_WORDS: &[&str] = &[
    "a", "an", "and", "the", "this", "that", "your", "it", "its", "is", "was", "were", "has", "have", "had", "been",
    "be", "could", "can", "cannot", "not", "with", "from", "by", "for", "of", "to", "in", "at", "on", "due",
    "http", "https", "status", "code", "error", "errors", "err", "exception", "fail", "fails", "failed", "failure",
    "bad", "invalid", "malformed", "unprocessable", "entity", "request", "requests", "badrequest", "badrequesterror",
    "apierror", "apistatuserror", "argument", "arguments", "parameter", "parameters", "contains",
    "upstream", "provider", "internal", "server", "client", "backend", "gateway", "proxy", "model", "api", "service",
    "returned", "returns", "body", "responded", "response", "sent", "got", "received",
    "unknown", "unexpected", "unspecified", "generic", "something", "went", "wrong", "occurred", "happened",
    "processing", "process", "processed", "handle", "handled", "please", "try", "again", "check", "see",
    "reason", "no", "none", "null", "undefined", "rejected", "refused", "nginx", "cloudflare", "openresty",
    "请求错误", "错误的请求", "无效请求", "无效的请求", "请求无效", "请求失败", "错误", "参数错误", "请求参数错误",
];

/// Returns whether an error is a refusal without a reason. `status` is `None` inside an answer.
pub(super) fn gives_no_reason(status: Option<u16>, said: &ServerErrorFields, body: &str) -> bool {
    let has_status = status.is_none_or(|status| BAD_REQUEST.contains(&status));
    has_status && is_empty(&said.own_words(body)) && said.words.iter().all(|word| is_empty(word))
}

/// Returns whether a text has only empty words.
pub(super) fn is_empty(text: &str) -> bool {
    // RFC 9110 has renamed "Unprocessable Entity". Alone, "content" is a reason.
    let text = text.to_lowercase().replace("unprocessable content", "unprocessable");
    words_of(&text).all(|word| EMPTY_WORDS.contains(&word))
}

/// Returns whether a text says more than the message that is known so far. A message with a reason is not replaced.
///
/// Between two messages without a reason, the outer one counts unless the inner one has more words: "Provider returned
/// error" tells who failed, and "ERROR" tells nothing.
pub(super) fn says_more(text: &str, known: &str) -> bool {
    is_empty(known) && (!is_empty(text) || words_of(text).count() >= words_of(known).count())
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::server_error::{from_answer, from_response};

    fn gives_no_reason(status: u16, body: &str) -> bool {
        let error = from_response(status, None, body.to_owned());
        error.gives_no_reason && error.refusal.is_none_or(|refusal| !refusal.is_specific())
    }

    #[test]
    fn a_refusal_in_empty_words_gives_no_reason() {
        for body in [
            "",
            " \n",
            "{}",
            "null",
            "Bad Request",
            "400 Bad Request\n",
            "400 status code (no body)",
            "invalid request",
            r#"{"error":null}"#,
            r#"{"error":{}}"#,
            r#"{"error":"Bad Request"}"#,
            r#"{"error":{"message":"","type":"invalid_request_error","code":null}}"#,
            r#"{"error":{"message":"Invalid request.","type":"invalid_request_error"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Error"}}"#,
            r#"{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}"#,
            r#"{"error":{"message":"Provider returned error","code":400}}"#,
            r#"{"detail":"Bad Request"}"#,
            r#"{"status":400,"error":"Bad Request","path":"/v1/chat/completions","timestamp":"2026-01-01T00:00:00Z"}"#,
            "<html>\r\n<head><title>400 Bad Request</title></head>\r\n<body><hr><center>nginx/1.27</center></body></html>",
            "<p>no title</p>",
            r#"{"code":"400","msg":"请求错误"}"#,
        ] {
            assert!(gives_no_reason(400, body), "{body:?}");
        }
        assert!(gives_no_reason(422, r#"{"detail":"Unprocessable Content"}"#));
        let inside = from_answer(r#"{"error":{"type":"invalid_request_error","message":"Bad Request"}}"#);
        assert!(inside.gives_no_reason, "inside an answer");
    }

    #[test]
    fn a_refusal_that_says_more_gives_a_reason() {
        for body in [
            "no JSON at all",
            r#"{"error":{"message":"Bad Request","code":"invalid_value"}}"#,
            r#"{"error":{"message":"messages.3.content: field required"}}"#,
            r#"{"detail":[{"type":"missing","loc":["body","messages",3,"content"],"msg":"Field required"}]}"#,
            r#"{"messages":["This field is required."]}"#,
            "<html><head><title>400 Request Header Or Cookie Too Large</title></head></html>",
            "kérés elutasítva",
        ] {
            assert!(!gives_no_reason(400, body), "{body:?}");
        }
        assert!(!gives_no_reason(413, ""), "the status is a reason");
        assert!(!gives_no_reason(415, "{}"), "the status is a reason");
    }
}
