//! Replacements for terminals that show ASCII only. Each takes as many columns as the original character.

use std::borrow::Cow;

use crate::environment::CliEnvironment;
use crate::term::text::char_width;

/// The set of characters that the terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GlyphSet {
    /// All characters.
    #[default]
    Unicode,
    /// ASCII characters only.
    Ascii,
}

impl GlyphSet {
    /// Returns the glyph set that the locale allows. A locale that says nothing is no reason for ASCII.
    pub(crate) fn of(place: &CliEnvironment) -> Self {
        // In the order of POSIX, where the first one that is set wins.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| place.variable(name));
        if locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }) {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }

    /// Returns the text as the terminal can show it, in its old width.
    pub(crate) fn set(self, text: &str) -> Cow<'_, str> {
        if self == Self::Unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let mut set = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                c if c.is_ascii() => set.push(c),
                c => set.extend(std::iter::repeat_n(plain(c), char_width(c))),
            }
        }
        Cow::Owned(set)
    }
}

fn plain(c: char) -> char {
    match c {
        '▓' => '#',
        '▒' => '=',
        '░' => '.',
        '┊' => ':',
        '│' => '|',
        '─' => '-',
        '·' => '-',
        '…' => '~',
        '›' | '▸' | '→' => '>',
        '✗' => 'x',
        '▍' => '_',
        '↑' => '^',
        '⏎' => '<',
        '’' | '‘' => '\'',
        '“' | '”' => '"',
        '–' | '—' => '-',
        '\u{a0}' => ' ',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::text::width;

    #[test]
    fn every_sign_of_ours_has_one_of_the_same_width() {
        let text = "▓▒░┊│ 26 % · › ▸ ✗ ─ 9K → 1K … ▍ é 日本";
        let set = GlyphSet::Ascii.set(text);
        assert_eq!(set, "#=.:| 26 % - > > x - 9K > 1K ~ _ ? ????");
        assert_eq!(width(&set), width(text));
        assert_eq!(GlyphSet::Unicode.set(text), text);
    }
}
