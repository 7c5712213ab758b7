//! Times and durations as text for people.

use crate::ids::Millis;

const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// Returns a time as text in UTC: the time of day, and the date if the date is not that of `now`.
///
/// ```
/// use longhaul_core::time_text::format_utc;
///
/// assert_eq!(format_utc(1_800_000_000_000, 1_799_990_000_000), "08:00 UTC");
/// assert_eq!(format_utc(1_800_000_000_000, 1_799_900_000_000), "2027-01-15 08:00 UTC");
/// ```
pub fn format_utc(at: Millis, now: Millis) -> String {
    let minutes = at / 60_000;
    let time = format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60);
    if at / DAY_MS == now / DAY_MS {
        return time;
    }
    let (year, month, day) = civil_date(at / DAY_MS);
    format!("{year:04}-{month:02}-{day:02} {time}")
}

/// Returns year, month and day of a number of days since 1970-01-01.
///
/// The formula is Howard Hinnant's `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>), for days
/// from 1970 on.
pub fn civil_date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is a year's last day. Day 0 is 0000-03-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Returns a duration as text, rounded down in the largest fitting unit.
pub(crate) fn format_duration(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_786, (2026, 11, 29)),
            (20_818, (2026, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_date(day), date, "{day}");
        }
    }

    #[test]
    fn a_date_is_told_on_another_day_only() {
        let midnight = 20_787 * DAY_MS;
        assert_eq!(format_utc(midnight - 60_000, midnight - 120_000), "23:59 UTC");
        assert_eq!(format_utc(midnight, midnight - 1), "2026-11-30 00:00 UTC");
        assert_eq!(format_utc(midnight + DAY_MS, midnight), "2026-12-01 00:00 UTC");
    }
}
