//! Numbers of tokens as servers write them. Each is capped, so that a sum of several cannot overflow.

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

/// The cap of a count, above the tokens that any model reads or writes in one call.
pub const MOST: u64 = 1 << 40;

/// A count of tokens. A count beyond [`MOST`] becomes [`MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedTokenCount(pub u64);

impl ReportedTokenCount {
    /// Returns the count; `None` for a number below zero.
    fn of(number: &Number) -> Option<Self> {
        let whole = number.as_u64().or_else(|| {
            // A whole number that does not fit is parsed as a float, and so is `12.0`.
            number.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64)
        });
        whole.map(|tokens| Self(tokens.min(MOST)))
    }

    /// Parses one JSON number.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl<'de> Deserialize<'de> for ReportedTokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        Self::of(&number)
            .ok_or_else(|| serde::de::Error::custom(format!("{number} is not a count of tokens")))
    }
}

/// Returns the limit that a server states. `None` for 0, and for a number that means "no limit".
pub fn limit(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64).filter(|tokens| (1..=MOST).contains(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(json: &str) -> Option<u64> {
        ReportedTokenCount::parse(json).map(|count| count.0)
    }

    fn limit_of(json: &str) -> Option<u64> {
        limit(serde_json::from_str::<Value>(json).ok().as_ref())
    }

    #[test]
    fn a_count_is_bounded_whatever_is_written() {
        assert_eq!(
            (count("0"), count("12"), count("12.0"), count("1e3")),
            (Some(0), Some(12), Some(12), Some(1000))
        );
        for huge in ["1099511627776", "18446744073709551615", "18446744073709551616", "1e300"] {
            assert_eq!(count(huge), Some(MOST), "{huge}");
        }
        for odd in ["-1", "-0.5", "\"7\"", "null", "{}", "", "NaN"] {
            assert_eq!(count(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_limit_that_is_none_is_not_known() {
        assert_eq!((limit_of("4096"), limit_of("1099511627776")), (Some(4096), Some(MOST)));
        for none in ["0", "-1", "18446744073709551615", "1000000000000000019884624838656", "\"4096\"", "null"]
        {
            assert_eq!(limit_of(none), None, "{none}");
        }
    }
}
