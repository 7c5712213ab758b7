//! Conversion of values for PostgreSQL: signed 64-bit numbers, and texts without the character U+0000.

use std::borrow::Cow;

/// The first character of an escape for an unstorable character.
const ESCAPE: char = '\u{1a}';

/// Converts text for the database without U+0000. Equal texts stay equal, and different ones stay different; only
/// the rarest texts change.
pub(crate) fn text_to_db(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// Converts text from [`text_to_db`] back.
pub(crate) fn text_from_db(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            // The guard takes the second character of an escape in both cases. For `1` the escape itself is left.
            ESCAPE if characters.next() == Some('0') => '\0',
            other => other,
        });
    }
    text
}

/// Converts a count, a time or a position for the database. A number above `i64::MAX` becomes `i64::MAX`.
pub(crate) fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a limit for the database.
pub(crate) fn limit_to_db(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a number from [`to_db`] back.
pub(crate) fn from_db(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a count from the database.
pub(crate) fn count_from_db(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ESCAPE, from_db, text_from_db, text_to_db, to_db};

    proptest! {
        #[test]
        fn text_comes_back_and_has_no_zero(text in "[\u{0}\u{1a}01a🦀]{0,12}") {
            let stored = text_to_db(&text).into_owned();
            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(text_from_db(stored), text);
        }
    }

    #[test]
    fn ordinary_text_is_stored_as_it_is() {
        assert_eq!(text_to_db("plain\n\u{1b}é"), "plain\n\u{1b}é");
        assert_eq!(text_to_db("\0"), format!("{ESCAPE}0"));
    }

    #[test]
    fn times_survive_and_absurd_ones_do_not_wrap() {
        assert_eq!(from_db(to_db(1_700_000_000_000)), 1_700_000_000_000);
        assert_eq!(to_db(u64::MAX), i64::MAX);
        assert_eq!(from_db(-1), 0);
    }
}
