//! The wait requested by a server.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// The longest accepted wait: a wrong clock must not stop a run for days.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Returns the wait requested by a server, at most a day. The headers are `retry-after-ms` (OpenAI, Azure), else
/// `retry-after` in seconds or as an HTTP date relative to `now`.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    // OpenAI and Azure send milliseconds beside the standard header's whole seconds.
    let exact = text_of(headers, "retry-after-ms").and_then(|value| seconds(value, 1000.0));
    exact.or_else(|| {
        let value = text_of(headers, "retry-after")?;
        seconds(value, 1.0).or_else(|| date(value, now))
    })
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn seconds(value: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = value.parse().ok()?;
    // Negative, endless and undefined numbers parse as `f64` but are no duration.
    Duration::try_from_secs_f64(number / per_second).ok().map(|wait| wait.min(MAX_WAIT))
}

fn date(value: &str, now: SystemTime) -> Option<Duration> {
    let at = httpdate::parse_http_date(value).ok()?;
    // A date in the past means no wait: clocks differ.
    Some(at.duration_since(now).unwrap_or_default().min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn seconds_and_dates_are_read() {
        assert_eq!(of("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(of("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(of("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(of("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(of("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_no_wait_and_long_waits_are_cut() {
        assert_eq!(of("retry-after", "soon"), None);
        assert_eq!(of("retry-after", "-3"), None);
        assert_eq!(of("retry-after", "1e300"), None);
        assert_eq!(of("retry-after", "9999999"), Some(MAX_WAIT));
    }
}
