//! Text in which nothing hides, for what a person is asked to allow.
//!
//! `docs/visible-text.json` describes the rules. The page has the same ones (`web/js/text/exact.js`), and the tests of
//! both are held against that file.

use std::ops::RangeInclusive;

/// Columns that a tab takes.
const TAB_COLUMNS: usize = 4;

/// The longest indentation that is shown as blanks, in columns.
const MAX_LEADING_COLUMNS: usize = 40;

/// The longest run of blanks between two words that is shown as blanks, in columns.
const MAX_INNER_COLUMNS: usize = 8;

/// Blank lines in a row that are shown as such.
const MAX_BLANK_LINES: usize = 2;

/// Characters that a reader does not see, or that change how others are shown: controls, marks of direction, blanks of
/// other widths, joiners, tags, marks that are drawn over a letter, private use. A line break is none of them.
const ESCAPED: [RangeInclusive<u32>; 44] = [
    0x0000..=0x0009,
    0x000B..=0x001F,
    0x007F..=0x00A0,
    // The soft hyphen, which is drawn at the end of a line only.
    0x00AD..=0x00AD,
    // Marks over and under letters: enough of them cover the lines above and below.
    0x0300..=0x036F,
    0x0483..=0x0489,
    // The Arabic letter mark: it turns the direction.
    0x061C..=0x061C,
    // Fillers of Hangul: letters by their class, and blank on the screen.
    0x115F..=0x1160,
    // The blank of Ogham, which many fonts draw as a line.
    0x1680..=0x1680,
    // Vowels of Khmer that are never drawn.
    0x17B4..=0x17B5,
    0x180B..=0x180F,
    0x1AB0..=0x1AFF,
    0x1DC0..=0x1DFF,
    0x2000..=0x200F,
    0x2028..=0x202F,
    0x205F..=0x206F,
    0x20D0..=0x20FF,
    // Braille without a dot.
    0x2800..=0x2800,
    0x3000..=0x3000,
    // Another filler of Hangul.
    0x3164..=0x3164,
    // Surrogates, which no text of Rust has but texts of the page may have, and private use.
    0xD800..=0xF8FF,
    0xFDD0..=0xFDEF,
    0xFE00..=0xFE0F,
    0xFE20..=0xFE2F,
    0xFEFF..=0xFEFF,
    // The filler of Hangul in half width.
    0xFFA0..=0xFFA0,
    // Marks of annotations, and the stand-in for an object.
    0xFFF0..=0xFFFC,
    0xFFFE..=0xFFFF,
    // Controls of shorthand.
    0x1BCA0..=0x1BCA3,
    // The head of a note that is not drawn, and below the controls of beams and slurs.
    0x1D159..=0x1D159,
    0x1D173..=0x1D17A,
    0x1FFFE..=0x1FFFF,
    0x2FFFE..=0x2FFFF,
    0x3FFFE..=0x3FFFF,
    0x4FFFE..=0x4FFFF,
    0x5FFFE..=0x5FFFF,
    0x6FFFE..=0x6FFFF,
    0x7FFFE..=0x7FFFF,
    0x8FFFE..=0x8FFFF,
    0x9FFFE..=0x9FFFF,
    0xAFFFE..=0xAFFFF,
    0xBFFFE..=0xBFFFF,
    0xCFFFE..=0xCFFFF,
    // Tags, with which a whole text can be hidden, further selectors of variants, and private use.
    0xDFFFE..=0x10FFFF,
];

/// Returns the lines of a text as a person has to see them before anything is allowed. A break at the very end adds no
/// line.
pub(crate) fn exact_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop_if(|last| last.is_empty());
    let mut shown = Vec::with_capacity(lines.len());
    // Many blank lines could push a part of a command out of sight.
    for run in lines.chunk_by(|one, next| is_blank(one) && is_blank(next)) {
        if run.len() > MAX_BLANK_LINES {
            shown.push(format!("⏎×{}", run.len()))
        } else {
            shown.extend(run.iter().map(|line| exact(line)))
        }
    }
    shown
}

/// Returns one line as a person has to see it; a line break in it is escaped.
pub(crate) fn exact(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let words = line.trim_end_matches([' ', '\t']).len();
    let mut rest = line;
    while !rest.is_empty() {
        let begin = line.len() - rest.len();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if blanks > 0 {
            let max_columns = match begin {
                // Blanks at the end of a line cannot be seen, so they are always counted.
                trailing if trailing >= words => 0,
                0 => MAX_LEADING_COLUMNS,
                _ => MAX_INNER_COLUMNS,
            };
            push_blanks(&rest[..blanks], max_columns, &mut shown);
            rest = &rest[blanks..];
        } else {
            let mut chars = rest.chars();
            match chars.next() {
                Some(c) if c == '\n' || is_escaped(c) => shown.extend(c.escape_unicode()),
                Some(c) => shown.push(c),
                None => {}
            }
            rest = chars.as_str();
        }
    }
    shown
}

/// Writes a run of spaces and tabs: as spaces up to `max_columns`, as counts beyond.
fn push_blanks(blanks: &str, max_columns: usize, shown: &mut String) {
    let columns: usize = blanks.bytes().map(|byte| if byte == b'\t' { TAB_COLUMNS } else { 1 }).sum();
    if columns <= max_columns {
        return shown.extend(std::iter::repeat_n(' ', columns));
    }
    for same in blanks.as_bytes().chunk_by(|one, next| one == next) {
        let sign = if same.starts_with(b"\t") { '⇥' } else { '␣' };
        shown.push_str(&format!("{sign}×{}", same.len()));
    }
}

fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| matches!(byte, b' ' | b'\t'))
}

fn is_escaped(c: char) -> bool {
    ESCAPED.iter().any(|range| range.contains(&u32::from(c)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn description() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/visible-text.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_characters_are_those_of_the_description() {
        let described: Vec<RangeInclusive<u32>> = description()["escaped"]
            .as_array()
            .unwrap()
            .iter()
            .map(|range| range.as_str().unwrap())
            .map(|range| range.split_once('-').unwrap_or((range, range)))
            .map(|(first, last)| code_point(first)..=code_point(last))
            .collect();
        assert_eq!(described, ESCAPED);
        let blanks = &description()["blanks"];
        for (name, figure) in [
            ("tabColumns", TAB_COLUMNS),
            ("leadingColumns", MAX_LEADING_COLUMNS),
            ("innerColumns", MAX_INNER_COLUMNS),
            ("blankLines", MAX_BLANK_LINES),
        ] {
            assert_eq!(blanks[name], figure, "{name}");
        }
    }

    fn code_point(text: &str) -> u32 {
        u32::from_str_radix(text, 16).unwrap()
    }

    #[test]
    fn the_cases_of_the_description_are_shown_as_it_says() {
        let cases = description()["cases"].as_array().unwrap().clone();
        assert!(!cases.is_empty());
        for case in cases {
            let expected: Vec<&str> =
                case["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
            assert_eq!(exact_lines(case["text"].as_str().unwrap()), expected, "{case}");
        }
    }
}
