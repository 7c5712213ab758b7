//! Figures as people read them.

use std::time::Duration;

use longhaul_core::ids::Millis;
use longhaul_core::time_text::format_utc;

/// Formats a number: `52.1K` for 52,100.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        // From 999,950 on, rounding would give 1000K.
        1_000..999_950 => tenths(number, 1_000, "K"),
        _ => tenths(number, 1_000_000, "M"),
    }
}

/// Formats with one decimal, unless it is zero: `200K`, not `200.0K`.
fn tenths(number: u64, unit: u64, name: &str) -> String {
    // Rounded in whole numbers, because a floating-point value could show a tenth too many.
    let tenths = (number.saturating_mul(10).saturating_add(unit / 2)) / unit;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{name}"),
        (whole, tenth) => format!("{whole}.{tenth}{name}"),
    }
}

/// Groups digits: `2,000` for 2000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count: `1 message`, `41 messages`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// Formats a duration: `14 s`, `3 min 05 s`. Empty below one second.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => String::new(),
        secs @ 1..60 => format!("{secs} s"),
        secs @ 60..3_600 => format!("{} min {:02} s", secs / 60, secs % 60),
        secs => format!("{} h {:02} min", secs / 3_600, secs / 60 % 60),
    }
}

/// Formats a limit of time from the configuration: `20 s`, `30 min`, `24 h`. Nothing counts up here, so zeros go.
pub(crate) fn limit(limit: Duration) -> String {
    match limit.as_secs() {
        secs if secs > 0 && secs.is_multiple_of(3_600) => format!("{} h", secs / 3_600),
        secs if secs > 0 && secs.is_multiple_of(60) => format!("{} min", secs / 60),
        _ => time(limit),
    }
}

/// The shortest wait that is told with the moment of its end.
const FAR_AHEAD: Duration = Duration::from_secs(600);

/// Formats a wait from `now` on: `8 s`, `1 h 00 min (at 14:05 UTC)`. On another day the moment has its date.
pub(crate) fn wait(after_ms: u64, now: Millis) -> String {
    // Rounded up, because "in 0 s" would look like no wait at all.
    let length = Duration::from_secs(after_ms.div_ceil(1_000));
    if length < FAR_AHEAD {
        return if length.is_zero() { "0 s".to_owned() } else { time(length) };
    }
    format!("{} (at {})", time(length), format_utc(now.saturating_add(after_ms), now))
}

/// Formats a time in the past: `3 min ago`.
pub(crate) fn ago(then: Millis, now: Millis) -> String {
    // The clock may have been set back, so a time in the future counts as now.
    match now.saturating_sub(then) / 60_000 {
        0 => "just now".to_owned(),
        minutes @ 1..60 => format!("{minutes} min ago"),
        minutes @ 60..1_440 => format!("{} h ago", minutes / 60),
        minutes if minutes < 2_880 => "yesterday".to_owned(),
        minutes => format!("{} days ago", minutes / 1_440),
    }
}

/// Formats a percentage with significant digits: `0.6`, `12`.
pub(crate) fn percent(percent: f64) -> String {
    // From 9.95 on, one decimal would round to 10.0.
    if percent >= 9.95 || percent == 0.0 { format!("{percent:.0}") } else { format!("{percent:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_exact_enough() {
        let all = [0, 999, 1_000, 52_149, 99_950, 200_000, 999_949, 999_950, 1_250_000].map(short);
        assert_eq!(all, ["0", "999", "1K", "52.1K", "100K", "200K", "999.9K", "1M", "1.3M"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 41].map(|number| count(number, "message")), ["1 message", "41 messages"]);
    }

    #[test]
    fn a_wait_is_told_as_a_length_and_far_ahead_with_its_end() {
        let now = 1_800_000_000_000;
        let all = [0, 1, 8_000, 75_000, 599_000, 600_000, 3_600_000, 86_400_000].map(|ms| wait(ms, now));
        let far = [
            "10 min 00 s (at 08:10 UTC)",
            "1 h 00 min (at 09:00 UTC)",
            "24 h 00 min (at 2027-01-16 08:00 UTC)",
        ];
        assert_eq!(all[..5], ["0 s", "1 s", "8 s", "1 min 15 s", "9 min 59 s"]);
        assert_eq!(all[5..], far);
    }

    #[test]
    fn times_are_those_of_a_person_who_waits() {
        let all = [400, 1_000, 14_900, 185_000, 7_260_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(all, ["", "1 s", "14 s", "3 min 05 s", "2 h 01 min"]);
        let limits = [20, 60, 90, 1_800, 7_200, 7_260].map(|secs| limit(Duration::from_secs(secs)));
        assert_eq!(limits, ["20 s", "1 min", "1 min 30 s", "30 min", "2 h", "121 min"]);
        let minute = 60_000;
        let all = [0, 3, 59, 60, 1_500, 5_000].map(|minutes| ago(0, minutes * minute));
        assert_eq!(all, ["just now", "3 min ago", "59 min ago", "1 h ago", "yesterday", "3 days ago"]);
    }
}
