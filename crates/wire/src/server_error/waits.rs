//! The reader of waiting times, in every form in which servers write them: as a field of the error, in words, or in a
//! header.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

mod rfc3339;

/// The longest plausible wait. A longer one is a garbled number, and says nothing.
const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// The depth of nesting to which an error is searched for a wait.
const MAX_DEPTH: usize = 8;

/// Numbers from here on are moments and not lengths of time: seconds, or milliseconds, since 1970.
const MIN_UNIX_SECONDS: f64 = 1e9;
const MIN_UNIX_MILLIS: f64 = 1e11;

/// Words before a wait: "Please try again in 3.5s.", "retry after 20 seconds".
const BEFORE_WAIT: &[&str] = &[
    "try again in ",
    "try again after ",
    "try after ",
    "retry in ",
    "retry after ",
    "retry your request in ",
    "retry your request after ",
    "please wait for ",
    "please wait ",
    "wait at least ",
    "available in ",
    "available again in ",
    "reset in ",
    "resets in ",
    "reset after ",
    "resets after ",
];

/// Words between those and the number.
const FILLERS: &[&str] = &["about ", "around ", "approximately ", "approx. ", "at least ", "another ", "~"];

/// The units of a wait, with their lengths in seconds.
const UNITS: &[(&[&str], f64)] = &[
    (&["ms", "msec", "msecs", "millisecond", "milliseconds"], 0.001),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hr", "hrs", "hour", "hours"], 3600.0),
    (&["d", "day", "days"], 86_400.0),
];

/// Fields with a wait, in lower case and without underscores and dashes, with their units in seconds. A field without a
/// unit has it in its value: Google's `retryDelay` (`34.07s`).
const FIELDS: &[(&str, Option<f64>)] = &[
    ("retrydelay", None),
    ("retryafterms", Some(0.001)),
    ("retryaftermillis", Some(0.001)),
    ("retryaftermilliseconds", Some(0.001)),
    ("retryafter", Some(1.0)),
    ("retryaftersec", Some(1.0)),
    ("retryafterseconds", Some(1.0)),
    ("retryinseconds", Some(1.0)),
    ("resetinseconds", Some(1.0)),
    ("resetsinseconds", Some(1.0)),
    // Hugging Face: the time until a model is loaded.
    ("estimatedtime", Some(1.0)),
    ("resetafter", Some(1.0)),
    ("resetafterseconds", Some(1.0)),
];

/// Fields with the moment of the next request, in lower case and without underscores and dashes: a number of seconds or
/// milliseconds since 1970, or a text in the form of RFC 3339. Codex writes `resets_at`.
const MOMENT_FIELDS: &[&str] = &[
    "resetsat",
    "resetat",
    "resettime",
    "resettimestamp",
    "retryat",
    "nextretryat",
    "availableat",
    "ratelimitreset",
];

/// Returns the wait until the moment that an error names as that of the next request: `resets_at` of Codex. A moment in
/// the past is no wait.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use longhaul_wire::server_error::wait_of_body;
///
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// let body = r#"{"error":{"type":"usage_limit_reached","resets_at":1800003600}}"#;
/// assert_eq!(wait_of_body(body, now), Some(Duration::from_secs(3_600)));
/// ```
pub fn wait_of_body(body: &str, now: SystemTime) -> Option<Duration> {
    let text = body.to_ascii_lowercase();
    if !["reset", "retry", "available"].iter().any(|word| text.contains(word)) {
        return None;
    }
    moment_in(&serde_json::from_str(body).ok()?, now, 0)
}

fn moment_in(value: &Value, now: SystemTime, depth: usize) -> Option<Duration> {
    match value {
        _ if depth > MAX_DEPTH => None,
        Value::Array(items) => items.iter().find_map(|item| moment_in(item, now, depth + 1)),
        Value::Object(fields) => {
            let own = fields.iter().find_map(|(name, field)| wait_of_moment(name, field, now));
            own.or_else(|| fields.values().find_map(|field| moment_in(field, now, depth + 1)))
        }
        _ => None,
    }
}

fn wait_of_moment(name: &str, field: &Value, now: SystemTime) -> Option<Duration> {
    let name = name.to_ascii_lowercase().replace(['_', '-'], "");
    if !MOMENT_FIELDS.contains(&name.as_str()) {
        return None;
    }
    match field {
        // A small number is no moment, and may be anything.
        Value::Number(number) if number.as_f64()? < MIN_UNIX_SECONDS => None,
        Value::Number(number) => wait_of_header(&number.to_string(), now),
        Value::String(text) if text.trim().parse().is_ok_and(|number: f64| number < MIN_UNIX_SECONDS) => None,
        Value::String(text) => wait_of_header(text, now),
        _ => None,
    }
}

/// Returns the wait that an error asks for: in a field of `body`, else in the words of `message`.
pub(super) fn read(message: &str, body: &str) -> Option<Duration> {
    in_fields(body).or_else(|| in_words(message))
}

/// Returns the wait that a header asks for: seconds (`7`, `0.5`), a length of time (`3s`, `1m30s`, `6ms`), or a moment
/// (`2026-01-01T00:00:00Z`, or a number of seconds or milliseconds since 1970). A moment in the past is no wait.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use longhaul_wire::server_error::wait_of_header;
///
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// assert_eq!(wait_of_header("1m30s", now), Some(Duration::from_secs(90)));
/// assert_eq!(wait_of_header("1800000005", now), Some(Duration::from_secs(5)));
/// assert_eq!(wait_of_header("2027-01-15T08:00:07Z", now), Some(Duration::from_secs(7)));
/// assert_eq!(wait_of_header("soon", now), None);
/// ```
pub fn wait_of_header(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim().to_lowercase();
    let since_1970 = match value.parse::<f64>() {
        Ok(number) if number >= MIN_UNIX_MILLIS => duration_of(number / 1000.0),
        Ok(number) if number >= MIN_UNIX_SECONDS => duration_of(number),
        Ok(number) => return duration_of(number).and_then(plausible),
        Err(_) => match length_at(&value) {
            Some((length, "")) => return plausible(length),
            _ => rfc3339::since_1970(&value),
        },
    };
    // A moment in the past means no wait: clocks differ.
    let left = UNIX_EPOCH.checked_add(since_1970?)?.duration_since(now).unwrap_or_default();
    plausible(left)
}

fn plausible(wait: Duration) -> Option<Duration> {
    (wait <= MAX_WAIT).then_some(wait)
}

/// Returns a number of seconds as a duration. `None` for a negative, endless or undefined number.
fn duration_of(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn in_fields(body: &str) -> Option<Duration> {
    // Most errors have no such field, and need no second parse.
    let text = body.to_ascii_lowercase();
    if !["retry", "reset", "estimated_time"].iter().any(|word| text.contains(word)) {
        return None;
    }
    field_in(&serde_json::from_str(body).ok()?, 0)
}

fn field_in(value: &Value, depth: usize) -> Option<Duration> {
    match value {
        _ if depth > MAX_DEPTH => None,
        Value::Array(items) => items.iter().find_map(|item| field_in(item, depth + 1)),
        Value::Object(fields) => {
            let own = fields.iter().find_map(|(name, field)| wait_of_field(name, field));
            own.or_else(|| fields.values().find_map(|field| field_in(field, depth + 1)))
        }
        _ => None,
    }
}

fn wait_of_field(name: &str, field: &Value) -> Option<Duration> {
    let name = name.to_ascii_lowercase().replace(['_', '-'], "");
    let (_, unit) = FIELDS.iter().find(|(known, _)| *known == name)?;
    let number = match field {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let wait = match (number, unit, field) {
        (Some(number), Some(unit), _) => duration_of(number * unit),
        (None, _, Value::String(text)) => length_at(text.trim()).map(|(length, _)| length),
        _ => None,
    };
    wait.and_then(plausible)
}

fn in_words(message: &str) -> Option<Duration> {
    let text = message.to_lowercase();
    let wait = |words: &&str| {
        text.match_indices(*words).find_map(|(at, _)| {
            let rest = &text[at + words.len()..];
            let rest = FILLERS.iter().find_map(|filler| rest.strip_prefix(filler)).unwrap_or(rest);
            plausible(length_at(rest)?.0)
        })
    };
    BEFORE_WAIT.iter().find_map(wait)
}

/// Reads a length of time at the beginning of a text: `3.5s`, `7m12s`, `20 seconds`, `1 minute and 5 seconds`. Returns
/// the rest of the text, too.
fn length_at(mut text: &str) -> Option<(Duration, &str)> {
    let mut total: Option<Duration> = None;
    loop {
        let rest = text.trim_start_matches([' ', ',']);
        let rest = rest.strip_prefix("and ").unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else { break };
        let behind = rest[end..].trim_start();
        let unit_end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let unit = UNITS.iter().find(|(names, _)| names.contains(&&behind[..unit_end]));
        let Some((_, factor)) = unit else { break };
        total = Some(total.unwrap_or_default().saturating_add(duration_of(number * factor)?));
        text = &behind[unit_end..];
    }
    total.map(|total| (total, text))
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
            ("Please retry your request after about 20 seconds.", 20_000),
            ("Your limit resets in 1h30m", 5_400_000),
            ("try again in 1 minute and 5 seconds, or pay", 65_000),
            ("try again in 2h", 7_200_000),
            ("try again in 3 days", 3 * 86_400_000),
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
            "try again in 999999h",
        ] {
            assert_eq!(read(message, "{}"), None, "{message}");
        }
    }

    #[test]
    fn a_wait_in_a_field_is_read_wherever_it_stands() {
        for (body, millis) in [
            (r#"{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"21s"}]}}"#, 21_000),
            (r#"[{"error":{"details":[{"retryDelay":"34.07s"}]}}]"#, 34_070),
            (r#"{"retry_after":7}"#, 7_000),
            (r#"{"error":{"metadata":{"retryAfter":"2.5"}}}"#, 2_500),
            (r#"{"detail":{"retry_after_ms":250}}"#, 250),
            (r#"{"retry-after":"1m30s"}"#, 90_000),
            (r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":259200}}"#, 259_200_000),
        ] {
            assert_eq!(read("", body), Some(Duration::from_millis(millis)), "{body}");
        }
        for body in
            [r#"{"retryDelay":5}"#, r#"{"retry_after":-3}"#, r#"{"retry_after":null}"#, "retry_after: 5"]
        {
            assert_eq!(read("", body), None, "{body}");
        }
    }

    #[test]
    fn a_moment_in_a_field_is_a_wait_from_now() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (body, seconds) in [
            (r#"{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_at":1800010800}}"#, 10_800),
            (r#"{"detail":{"code":"usage_limit_reached","resets_at":"1800000060"}}"#, 60),
            (r#"{"error":{"reset_at":1800000007000}}"#, 7),
            (r#"[{"error":{"metadata":{"resetAt":"2027-01-15T08:00:07Z"}}}]"#, 7),
            (r#"{"error":{"resets_at":1700000000}}"#, 0),
        ] {
            assert_eq!(wait_of_body(body, now), Some(Duration::from_secs(seconds)), "{body}");
        }
        for body in [
            r#"{"error":{"resets_at":5}}"#,
            r#"{"error":{"resets_at":"5"}}"#,
            r#"{"error":{"resets_at":null}}"#,
            r#"{"error":{"resets_at":9999999999999999}}"#,
            r#"{"error":{"message":"resets_at 1800000007"}}"#,
            "resets_at",
        ] {
            assert_eq!(wait_of_body(body, now), None, "{body}");
        }
    }

    #[test]
    fn a_header_is_read_in_every_form() {
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        for (value, millis) in [
            ("7", 7_000),
            (" 0.5 ", 500),
            ("3s", 3_000),
            ("1m30s", 90_000),
            ("6ms", 6),
            ("250 ms", 250),
            ("20 Seconds", 20_000),
            ("1800000010", 9_500),
            ("1800000010500", 10_000),
            ("2027-01-15T08:00:10.5Z", 10_000),
            ("2027-01-15T09:00:10+01:00", 9_500),
            ("2020-01-01T00:00:00Z", 0),
            ("1000000000", 0),
            ("259200", 259_200_000),
        ] {
            assert_eq!(wait_of_header(value, now), Some(Duration::from_millis(millis)), "{value}");
        }
        for value in
            ["", "soon", "-3", "nan", "inf", "1e300", "99999999", "3 messages", "2027-13-01T00:00:00Z"]
        {
            assert_eq!(wait_of_header(value, now), None, "{value}");
        }
    }
}
