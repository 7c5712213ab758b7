//! Moments in the form of RFC 3339: `2026-01-01T00:00:00Z`.

use std::time::Duration;

const DAY_SECONDS: i64 = 86_400;

/// Returns the time from 1970 to a moment in lower case. `None` for another text, and for moments before 1970.
pub(super) fn since_1970(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once(['t', ' '])?;
    let date = numbers(date, '-')?;
    let (clock, offset_seconds) = split_offset(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let clock = numbers(clock, ':')?;
    let days = days_from_civil(date[0], date[1], date[2])?;
    if clock[0] > 24 || clock[1] > 59 || clock[2] > 60 {
        return None;
    }
    let seconds = days * DAY_SECONDS + clock[0] * 3_600 + clock[1] * 60 + clock[2] - offset_seconds;
    let nanos = format!("{fraction:0<9.9}").parse::<u32>().ok()?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// Returns the three numbers of a date or of a time of day.
fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = text.split(separator).map(|number| {
        is_number(number).then(|| number.get(..9.min(number.len()))?.parse::<i64>().ok()).flatten()
    });
    numbers.collect::<Option<Vec<i64>>>()?.try_into().ok()
}

/// Splits a time of day from its offset to UTC, in seconds.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix('z') {
        return Some((clock, 0));
    }
    let at = time.find(['+', '-'])?;
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let offset = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
    let is_plausible = (0..=DAY_SECONDS).contains(&offset);
    is_plausible.then(|| (&time[..at], if time[at..].starts_with('-') { -offset } else { offset }))
}

/// Returns the number of days from 1970-01-01 to a date.
///
/// The formula is Howard Hinnant's `days_from_civil` (<https://howardhinnant.github.io/date_algorithms.html>), for years
/// from 1970 on.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is a year's last day.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_to_the_nanosecond() {
        for (text, millis) in [
            ("1970-01-01t00:00:00z", 0),
            ("2000-02-29t12:00:00z", 951_825_600_000),
            ("2027-01-15t08:00:00z", 1_800_000_000_000),
            ("2027-01-15t08:00:00.25z", 1_800_000_000_250),
            ("2027-01-15t08:00:00.123456789012z", 1_800_000_000_123),
            ("2027-01-15t10:30:00+02:30", 1_800_000_000_000),
            ("2027-01-15t03:00:00-05:00", 1_800_000_000_000),
        ] {
            assert_eq!(since_1970(text).map(|time| time.as_millis()), Some(millis), "{text}");
        }
        for text in
            ["", "t", "2027-01-15", "2027-01-15t08:00", "2027-1x-15t08:00:00z", "1969-01-01t00:00:00z"]
        {
            assert_eq!(since_1970(text), None, "{text}");
        }
    }
}
