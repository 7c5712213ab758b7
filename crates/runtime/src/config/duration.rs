//! Durations as people write them: `500ms`, `60s`, `10m`, `2h`, `90d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Returns a whole number and a unit; `None` if the text has another form, is zero or too long to count.
pub(super) fn parse(text: &str) -> Option<Duration> {
    parse_any(text).filter(|time| !time.is_zero())
}

/// Parses a length of time that may be zero.
pub(super) fn parse_any(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let millis_per_unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    let millis = number.parse::<u64>().ok()?.checked_mul(millis_per_unit)?;
    Some(Duration::from_millis(millis))
}
