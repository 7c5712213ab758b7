//! Moments in the protocol's form.

use longhaul_core::ids::Millis;
use longhaul_core::time_text::civil_date;

/// Formats milliseconds since the Unix epoch in ISO 8601: `2026-11-22T18:08:03.250Z`.
pub(super) fn iso8601(at: Millis) -> String {
    let (secs, millis) = (at / 1_000, at % 1_000);
    let (days, of_day) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::iso8601;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (at, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_735_689_600_001, "2025-01-01T00:00:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(at), expected);
        }
    }
}
