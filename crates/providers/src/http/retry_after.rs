//! The wait requested by a server's headers.

use std::time::{Duration, SystemTime};

use longhaul_wire::server_error::wait_of_header;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Returns the wait requested by a server. The headers are `retry-after-ms` (OpenAI, Azure), else `retry-after` in
/// seconds, as a length of time (`3s`), or as a date relative to `now`.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    // OpenAI and Azure send milliseconds beside the standard header's whole seconds.
    let exact =
        text_of(headers, "retry-after-ms").and_then(|value| wait_of_header(&format!("{value} ms"), now));
    exact.or_else(|| {
        let value = text_of(headers, "retry-after")?;
        wait_of_header(value, now).or_else(|| date(value, now))
    })
}

/// Returns the wait until a used-up rate limit is reset, from headers such as `x-ratelimit-reset-requests` (OpenAI,
/// Groq), `anthropic-ratelimit-tokens-reset`, `x-ratelimit-reset` and `ratelimit-reset`.
///
/// Servers send a header for each limit. Where `remaining` tells that a limit is not used up, its reset is not waited
/// for, unless all are so: a request may be larger than the rest of the tokens.
pub(super) fn rate_limit_reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    longest_reset(&headers.map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>(), now)
}

/// Returns the same wait from the headers that OpenRouter puts into its error.
pub(super) fn rate_limit_reset_in(body: &str, now: SystemTime) -> Option<Duration> {
    let body: Value = serde_json::from_str(body).ok()?;
    let headers = body.pointer("/error/metadata/headers")?.as_object()?;
    let headers = headers.iter().filter_map(|(name, value)| Some((name.to_lowercase(), value.as_str()?)));
    longest_reset(&headers.collect::<Vec<_>>(), now)
}

fn longest_reset(headers: &[(String, &str)], now: SystemTime) -> Option<Duration> {
    let (mut used_up, mut of_tokens) = (None, None);
    for (name, value) in headers {
        let is_reset = name.contains("reset") && (name.contains("ratelimit") || name.contains("rate-limit"));
        let Some(wait) = is_reset.then(|| wait_of_header(value, now).or_else(|| date(value, now))).flatten()
        else {
            continue;
        };
        let remaining = name.replace("reset", "remaining");
        let remaining = headers.iter().find(|(name, _)| *name == remaining);
        let is_left =
            remaining.is_some_and(|(_, left)| left.trim().parse().is_ok_and(|left: f64| left > 0.0));
        if !is_left {
            used_up = used_up.max(Some(wait));
        } else if name.contains("tokens") {
            of_tokens = of_tokens.max(Some(wait));
        }
    }
    used_up.or(of_tokens)
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn date(value: &str, now: SystemTime) -> Option<Duration> {
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    // A date in the past means no wait: clocks differ.
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn of(name: &'static str, value: &str) -> Option<Duration> {
        retry_after(&headers(&[(name, value)]), now())
    }

    #[test]
    fn seconds_lengths_and_dates_are_read() {
        assert_eq!(of("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(of("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(of("retry-after", "3s"), Some(Duration::from_secs(3)));
        assert_eq!(of("retry-after", "1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(of("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(of("retry-after-ms", "1250.5"), Some(Duration::from_micros(1_250_500)));
        assert_eq!(of("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(of("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
        assert_eq!(of("retry-after", "259200"), Some(Duration::from_secs(259_200)), "three days are told");
    }

    #[test]
    fn nonsense_is_no_wait() {
        for value in ["soon", "-3", "1e300", "99999999", ""] {
            assert_eq!(of("retry-after", value), None, "{value}");
        }
    }

    #[test]
    fn the_reset_of_the_limit_that_is_used_up_is_waited_for() {
        let reset = |all: &[(&'static str, &str)]| {
            rate_limit_reset(&headers(all), now()).map(|wait| wait.as_millis())
        };
        assert_eq!(reset(&[("x-ratelimit-reset-requests", "1m30s")]), Some(90_000));
        assert_eq!(reset(&[("x-ratelimit-reset-tokens", "6ms")]), Some(6));
        assert_eq!(reset(&[("x-ratelimit-reset", "12")]), Some(12_000));
        assert_eq!(reset(&[("ratelimit-reset", "12")]), Some(12_000));
        let at = [("anthropic-ratelimit-requests-reset", "1994-11-06T08:49:47Z")];
        assert_eq!(reset(&at), Some(10_000));
        let several = [
            ("x-ratelimit-remaining-requests", "9999"),
            ("x-ratelimit-reset-requests", "17h"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "8.64s"),
        ];
        assert_eq!(reset(&several), Some(8_640));
        let left = [
            ("x-ratelimit-remaining-requests", "3"),
            ("x-ratelimit-reset-requests", "17h"),
            ("x-ratelimit-remaining-tokens", "120"),
            ("x-ratelimit-reset-tokens", "9s"),
        ];
        assert_eq!(reset(&left), Some(9_000), "the request may be larger than the rest");
        assert_eq!(reset(&[("x-ratelimit-limit-requests", "5"), ("x-reset", "5")]), None);
    }

    #[test]
    fn the_headers_in_a_routers_error_count() {
        let body = r#"{"error":{"code":429,"metadata":{"headers":{
            "X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"784111787000"}}}}"#;
        assert_eq!(rate_limit_reset_in(body, now()), Some(Duration::from_secs(10)));
        assert_eq!(rate_limit_reset_in("{}", now()), None);
    }
}
