//! The wait that a server asks for inside an error, and not in a header.

use std::time::Duration;

use serde_json::Value;

/// The longest accepted wait: a garbled number must not stop a run for days.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Words before a wait: "Please try again in 3.5s.", "retry after 20 seconds".
const BEFORE_WAIT: &[&str] =
    &["try again in ", "try again after ", "retry in ", "retry after ", "please wait "];

/// The units of a wait, with their lengths in seconds.
const UNITS: &[(&[&str], f64)] = &[
    (&["ms", "millisecond", "milliseconds"], 0.001),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hour", "hours"], 3600.0),
];

/// Returns the wait that an error asks for, at most a day: Google's `RetryInfo` in `body`, else the words of `message`.
pub(super) fn read(message: &str, body: &str) -> Option<Duration> {
    retry_info(body).or_else(|| in_words(message)).map(|wait| wait.min(MAX_WAIT))
}

/// Returns the `retryDelay` of `google.rpc.RetryInfo`, a duration in the form of protocol buffers: `34.07s`.
fn retry_info(body: &str) -> Option<Duration> {
    // Most errors have no such field, and need no second parse.
    if !body.contains("retryDelay") {
        return None;
    }
    let body: Value = serde_json::from_str(body).ok()?;
    // Gemini puts the error object of a stream into a list.
    let details = body.get(0).unwrap_or(&body).pointer("/error/details")?.as_array()?;
    details
        .iter()
        .find_map(|detail| seconds(detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok()?))
}

/// Returns a duration. `None` for a negative, endless or undefined number.
fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn in_words(message: &str) -> Option<Duration> {
    let text = message.to_lowercase();
    BEFORE_WAIT
        .iter()
        .find_map(|words| text.match_indices(words).find_map(|(at, _)| duration(&text[at + words.len()..])))
}

/// Reads a duration at the beginning of a text: `3.5s`, `7m12s`, `20 seconds`, `1 minute and 5 seconds`.
fn duration(mut text: &str) -> Option<Duration> {
    let mut total = None;
    loop {
        let rest = text.trim_start_matches([' ', ',']);
        let rest = rest.strip_prefix("and ").unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else { return total };
        let behind = rest[end..].trim_start();
        let unit_end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let Some((_, factor)) = UNITS.iter().find(|(names, _)| names.contains(&&behind[..unit_end])) else {
            return total;
        };
        total = Some(total.unwrap_or_default() + seconds(number * factor)?.min(MAX_WAIT));
        text = &behind[unit_end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_words_is_read() {
        for (message, millis) in [
            ("Rate limit reached. Please try again in 3.5s.", 3_500),
            ("Please retry in 12.338s.", 12_338),
            ("try again in 7m12s", 432_000),
            ("Please try again in 250ms. Visit x", 250),
            ("Retry after 20 seconds", 20_000),
            ("try again in 1 minute and 5 seconds, or pay", 65_000),
            ("try again in 2h", 7_200_000),
            ("try again in 999999h", 86_400_000),
        ] {
            assert_eq!(read(message, ""), Some(Duration::from_millis(millis)), "{message}");
        }
    }

    #[test]
    fn other_numbers_are_no_wait() {
        for message in [
            "try again in a moment",
            "please try again",
            "retry after 5",
            "try again in 7 messages",
            "the request took 12.3s",
            "please wait until the model is loaded",
        ] {
            assert_eq!(read(message, "{}"), None, "{message}");
        }
    }
}
