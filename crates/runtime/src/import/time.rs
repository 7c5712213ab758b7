//! Time stamps of other programs.

use std::ops::Range;

use longhaul_core::ids::Millis;
use serde_json::value::RawValue;

/// Reads `2025-12-08T22:41:05.306Z` (fraction and offset optional); `None` for any other form or a time
/// before 1970.
pub(super) fn rfc3339(text: &str) -> Option<Millis> {
    let marks = text.get(4..5) == Some("-") && text.get(7..8) == Some("-") && text.get(13..14) == Some(":");
    let (year, month, day) = (digits(text, 0..4)?, digits(text, 5..7)?, digits(text, 8..10)?);
    let (hour, minute, second) = (digits(text, 11..13)?, digits(text, 14..16)?, digits(text, 17..19)?);
    if !marks
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let rest = text.get(19..)?;
    let (millis, zone) = fraction(rest)?;
    let seconds =
        days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
    // Times of a log are unsigned, so a time before 1970 counts as unreadable.
    u64::try_from(seconds * 1_000 + millis).ok()
}

fn digits(text: &str, range: Range<usize>) -> Option<i64> {
    let part = text.get(range)?;
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
}

/// The last second of the year 9999.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// Returns a time in a JSON value: seconds since 1970, or a text for [`rfc3339`].
pub(super) fn recorded(raw: &RawValue) -> Option<Millis> {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return rfc3339(&text);
    }
    // A time that cannot be read is no reason to refuse a recording.
    let seconds: f64 = serde_json::from_str(raw.get()).ok()?;
    let in_range = (0.0..=LAST_SECOND).contains(&seconds);
    // In range, so nothing is lost but the fraction of a millisecond.
    in_range.then_some((seconds * 1_000.0) as Millis)
}

fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(rest) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(end);
    let padded: String = digits.chars().chain("000".chars()).take(3).collect();
    Some((padded.parse().ok()?, zone))
}

/// Returns the offset of a time zone, in seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone {
        "Z" | "z" | "" => return Some(0),
        _ if zone.starts_with('+') => (1, zone.get(1..)?),
        _ if zone.starts_with('-') => (-1, zone.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    Some(sign * (hours.parse::<u8>().ok()? as i64 * 3_600 + minutes.parse::<u8>().ok()? as i64 * 60))
}

/// Returns the days from 1970-01-01 in the Gregorian calendar (H. Hinnant, "chrono-compatible low-level date
/// algorithms").
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years are counted from March, so that a leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{recorded, rfc3339};

    #[test]
    fn known_moments() {
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(rfc3339("2025-12-08T22:41:05.306Z"), Some(1_765_233_665_306));
        assert_eq!(rfc3339("2024-02-29T12:00:00+02:00"), Some(1_709_200_800_000));
        assert_eq!(rfc3339("2000-03-01T00:00:00.5"), Some(951_868_800_500));
    }

    #[test]
    fn seconds_and_texts() {
        let read = |text: &str| recorded(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(read("1757015046.707548"), Some(1_757_015_046_707));
        assert_eq!(read("1757015046"), Some(1_757_015_046_000));
        assert_eq!(read(r#""1970-01-01T00:00:01Z""#), Some(1_000));
        for text in ["-1", "1e300", "null", "[]", r#""soon""#] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn other_texts() {
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2025-13-01T00:00:00Z", "2025-12-08T22:41:05 é"]
        {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
