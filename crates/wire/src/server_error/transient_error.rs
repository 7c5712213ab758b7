//! Transient errors with the status of a bad request.
//!
//! Several servers and proxies answer every error with 400. Their words alone tell a busy server from a request that is
//! wrong, which would be refused again.

use longhaul_core::error::ErrorCode;

use super::{ErrorClassification, again, has_any};

/// Words of a limit on the rate of requests.
const RATE: &[&str] =
    &["rate limit", "too many requests", "ratelimit", "限流", "频率", "请求过多", "请求数限制", "速率限制"];

/// Words of a server that is busy, starting, or restarting.
const BUSY: &[&str] = &[
    "try again later",
    "retry later",
    "please retry",
    "please wait",
    "overloaded",
    "over capacity",
    "at capacity",
    "is busy",
    "currently busy",
    "temporarily",
    "currently unavailable",
    "service unavailable",
    "serviceunavailable",
    "too many connections",
    "is loading",
    "currently loading",
    "loading model",
    "load model is already in progress",
    "model unloaded",
    "has crashed",
    "负载",
    "饱和",
    "稍后",
    "稍候",
    "繁忙",
];

/// Classifies an error by words about a busy server or a rate limit; `None` if there are none.
pub(super) fn classify(message: &str) -> Option<ErrorClassification> {
    let text = message.to_lowercase();
    if has_any(&text, RATE) {
        return Some(again(ErrorCode::RateLimitExceeded));
    }
    has_any(&text, BUSY).then(|| again(ErrorCode::ThirdParty))
}
