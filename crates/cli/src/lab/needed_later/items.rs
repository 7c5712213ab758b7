//! The items used by an agent by their exact letters.

use std::collections::BTreeSet;

use longhaul_core::retention_report::facts::{
    is_error_line, is_identifier, is_path, is_unit, without_position,
};

/// The maximum length of items, in bytes. Longer items are compared by their start.
const LONGEST: usize = 200;

/// A path, an identifier, a number or an error line, letter for letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VerbatimItem {
    /// The letters of the item.
    pub(crate) text: String,
    /// The class of the item: `paths`, `identifiers`, `numbers`, `errorLines`.
    pub(crate) class: &'static str,
}

impl VerbatimItem {
    /// Returns whether a text holds the item, and not merely as a part of a longer word or number.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        is_in(&self.text, text)
    }
}

/// Returns the items of an answer: of its text and its calls' arguments. Each once.
pub(crate) fn items(text: &str) -> BTreeSet<VerbatimItem> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        read_error_lines(line, &mut found);
        read_words(line, &mut found);
    }
    found
}

/// Finds the line of an error, or the quoted part of the line.
fn read_error_lines(line: &str, found: &mut BTreeSet<VerbatimItem>) {
    if !is_error_line(line) {
        return;
    }
    // Agents quote an error in backticks inside a sentence. Then the quoted part is what must be found again.
    for piece in line.split('`').chain([line]) {
        let piece = piece.trim().trim_end_matches(['.', ',', ':', ';']);
        // A word such as `error:` is everywhere, so it tells nothing about one failure.
        let says_something = piece.split_whitespace().nth(2).is_some();
        if says_something && is_error_line(piece) {
            found.insert(VerbatimItem { text: start(piece), class: "errorLines" });
        }
    }
}

fn read_words(line: &str, found: &mut BTreeSet<VerbatimItem>) {
    let mut number_before = None;
    for raw in line.split(|char: char| !char.is_alphanumeric() && !"_-./~:%@+#$".contains(char)) {
        let word = raw.trim_start_matches(['.', ':', '-', '+', '#', '$']).trim_start_matches("//");
        // At the start of a relative path the dots are part of it.
        let word = if raw.starts_with("./") || raw.starts_with("../") { raw } else { word };
        let word = word.trim_end_matches(['.', ':', '-', '+', '/', '#', '$']);
        // A number and its unit may be two words, as in `250 ms`. The number alone may be too common.
        if let Some(number) = number_before.filter(|_| is_unit(raw)) {
            let text = [number, " ", raw].concat();
            // The text must be on the line unchanged: its words may have been further apart there.
            if line.contains(&text) {
                found.insert(VerbatimItem { text, class: "numbers" });
            }
        }
        if let Some(class) = class_of(word) {
            // A path is needed without the line and column that an error message adds to it.
            let text = if class == "paths" { without_position(word) } else { word };
            found.insert(VerbatimItem { text: start(text), class });
        }
        number_before = is_plain_number(word).then_some(word);
    }
}

fn start(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()
}

fn class_of(word: &str) -> Option<&'static str> {
    if is_number(word) {
        return Some("numbers");
    }
    if is_path(without_position(word)) {
        return Some("paths");
    }
    (is_identifier(word) || is_code(word) || is_version(word)).then_some("identifiers")
}

fn is_plain_number(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Reports whether a word is a telling number: at least three digits, or a unit. Smaller numbers are
/// everywhere. Dates and times count too.
fn is_number(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let end = word.find(|char: char| !char.is_ascii_digit() && !".:-/".contains(char)).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let starts = number.starts_with(|char: char| char.is_ascii_digit());
    starts && if unit.is_empty() { digits >= 3 && !is_version(word) } else { is_unit(unit) }
}

/// Reports whether a word is a code of letters and digits, like a booking code: `ZFA04Y`, `HAT170`, `ERR-4412`.
fn is_code(word: &str) -> bool {
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-#@.".contains(&byte));
    word.len() >= 5
        && plain
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Reports whether a word is a version, like `1.2.3` or `v0.11.0-rc.1`.
fn is_version(word: &str) -> bool {
    let numbers = word.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let mut parts = numbers.split('.');
    // Two numbers with a point are as likely a decimal number, so a version needs three.
    parts.clone().count() >= 3
        && parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether `text` holds `item`, not merely as a part of a longer word or number.
pub(super) fn is_in(item: &str, text: &str) -> bool {
    text.match_indices(item).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + item.len()..].chars();
        is_apart(item.chars().next(), before) && {
            let next = after.next();
            is_apart(item.chars().next_back(), next) && !goes_on(item, next, after.next())
        }
    })
}

fn is_apart(edge: Option<char>, beside: Option<char>) -> bool {
    !(edge.is_some_and(is_word_part) && beside.is_some_and(is_word_part))
}

fn is_word_part(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Reports whether an item continues in the text: `100` is not in `100.5`.
fn goes_on(item: &str, next: Option<char>, then: Option<char>) -> bool {
    is_digit(item.chars().next_back()) && next == Some('.') && is_digit(then)
}

fn is_digit(char: Option<char>) -> bool {
    char.is_some_and(|char| char.is_ascii_digit())
}
