//! Prepares text of models, tools and files for a terminal. Control sequences that move the cursor, change
//! colours or turn the reading direction are removed.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns harmless text: control sequences removed, tabs as spaces, line breaks kept.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                // Parameters and intermediates, then one final byte.
                while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
                rest.next_if(|c| ('@'..='~').contains(c));
            }
            '\n' => shown.push('\n'),
            '\t' => shown.push_str("    "),
            // Of other sequences only the ESC goes, which turns the rest into plain text. A carriage return is a
            // control too: with it text could overwrite what stands before it.
            c if c.is_control() || turns_direction(c) => {}
            c => shown.push(c),
        }
    }
    shown
}

fn turns_direction(c: char) -> bool {
    // With overrides of the direction a command could look different from the one that will run.
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the first line, with `…` for the rest.
pub(crate) fn one_line(text: &str) -> String {
    // Made visible first, because an escape sequence could hide a line break.
    let text = visible(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    if lines.next().is_some() { format!("{first} …") } else { first }
}

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the columns that a character takes.
pub(crate) fn char_width(c: char) -> usize {
    // Control characters have no width. They are removed before anything is measured.
    c.width().unwrap_or(0)
}

/// Returns a text of at most `columns`. A longer one ends in `…`.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut shown = String::new();
    // One column is for the `…`.
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > columns {
            break;
        }
        shown.push(c);
    }
    if columns > 0 {
        shown.push('…');
    }
    shown
}

/// Returns a text of at most `columns`. A longer one begins with `…`: the end of a path says more.
pub(crate) fn fit_end(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    // One column is for the `…`.
    let mut used = 1;
    let kept: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            used += char_width(*c);
            used <= columns
        })
        .collect();
    std::iter::once('…').chain(kept.into_iter().rev()).take(columns).collect()
}

/// Returns a text of exactly `columns`: shortened, or with spaces behind it.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let mut shown = fit(text, columns);
    let missing = columns.saturating_sub(width(&shown));
    shown.extend(std::iter::repeat_n(' ', missing));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        assert_eq!(visible("a\u{1b}[31mred\u{1b}[0m\tb\r\nc\u{7}"), "ared    b\nc");
        assert_eq!(visible("\u{1b}]0;title\u{7}x"), "]0;titlex", "no title is set");
        assert_eq!(visible("safe\u{202e}evil"), "safeevil");
        assert_eq!(visible("\u{9b}2Jx"), "2Jx");
    }

    #[test]
    fn texts_take_the_columns_they_are_given() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit_end("/a/b/c.rs", 6), "…/c.rs");
        assert_eq!((fit_end("abc", 3), fit_end("abc", 0)), ("abc".to_owned(), String::new()));
        assert_eq!(pad("ab", 4), "ab  ");
        assert_eq!(pad("日本語", 4), "日… ");
        assert_eq!(one_line("\n first\nsecond"), "first …");
    }
}
