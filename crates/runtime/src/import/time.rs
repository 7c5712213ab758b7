//! Time stamps as other programs write them.

use longhaul_core::ids::Millis;

/// Reads `2025-12-08T22:41:05.306Z` (fraction and offset optional); `None` for any other form or a time
/// before 1970.
pub(super) fn rfc3339(text: &str) -> Option<Millis> {
    let digits = |from: usize, to: usize| {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten()
    };
    let marks = text.get(4..5) == Some("-") && text.get(7..8) == Some("-") && text.get(13..14) == Some(":");
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
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
    u64::try_from(seconds * 1_000 + millis).ok()
}

fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(rest) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(end);
    let padded: String = digits.chars().chain("000".chars()).take(3).collect();
    Some((padded.parse().ok()?, zone))
}

/// Seconds east of UTC.
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

/// Days from 1970-01-01 in the Gregorian calendar (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn known_moments() {
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(rfc3339("2025-12-08T22:41:05.306Z"), Some(1_765_233_665_306));
        assert_eq!(rfc3339("2024-02-29T12:00:00+02:00"), Some(1_709_200_800_000));
        assert_eq!(rfc3339("2000-03-01T00:00:00.5"), Some(951_868_800_500));
    }

    #[test]
    fn other_texts() {
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2025-13-01T00:00:00Z", "2025-12-08T22:41:05 é"]
        {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
