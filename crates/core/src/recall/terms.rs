//! The terms of a text in a search: words, and the pieces of long words.

use std::collections::BTreeSet;

/// The longest word or piece that is indexed, in bytes. Longer words are found by their pieces only, longer pieces
/// not at all, because queries do not contain them.
const LONGEST: usize = 160;

/// Returns the first `most` words of a query in lower case. Single letters say nothing.
pub(super) fn query_words(query: &str, most: usize) -> BTreeSet<String> {
    let useful = words(query).map(str::to_lowercase).filter(|word| word.chars().nth(1).is_some());
    let mut found = BTreeSet::new();
    for word in useful {
        found.insert(word);
        if found.len() == most {
            break;
        }
    }
    found
}

/// The number of words up to which a text with a question mark at its end is a question. A longer text is an answer
/// that ends with a question.
const QUESTION_WORDS: u64 = 60;

/// The largest number of words before a colon that label a text.
const LABEL_WORDS: usize = 3;

/// Returns whether a text of `words` words asks a question.
pub(super) fn is_question(text: &str, words: u64) -> bool {
    words <= QUESTION_WORDS && text.trim_end().ends_with(['?', '？', '؟'])
}

/// Returns the words before a colon at the start of a text, in lower case: a speaker's name in a conversation, or the
/// kind of a line in a log.
pub(super) fn label_words(text: &str) -> Vec<String> {
    let start: String = text.chars().take(LONGEST).collect();
    let Some((label, rest)) = start.split_once(':') else { return Vec::new() };
    // Text before the colon that is a path, or longer than a sentence or a line, is no label. Nor is a colon within a
    // word the end of one: `https://…`, `C:\…`, `std::fmt`.
    if label.contains(['\n', '.', '/']) || rest.starts_with(['/', '\\', ':']) {
        return Vec::new();
    }
    let words: Vec<String> = words(label).map(str::to_lowercase).collect();
    if words.len() <= LABEL_WORDS { words } else { Vec::new() }
}

/// Calls `take` with every word of a text in lower case, and with the pieces of long words: of `src/main.rs` also
/// `src`, `main` and `rs`. Scripts without blanks between words are cut into pairs of letters.
pub(super) fn terms_of(text: &str, mut take: impl FnMut(&str)) {
    let lower = text.to_lowercase();
    for word in words(&lower) {
        // The fast path of most words: ASCII letters and digits have no pieces and no pairs.
        if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            take_if_useful(word, &mut take);
            continue;
        }
        take_if_useful(word, &mut take);
        for piece in word.split(|char: char| !char.is_alphanumeric()).filter(|piece| piece.len() < word.len())
        {
            take_if_useful(piece, &mut take);
        }
        pairs(word, &mut take);
    }
}

fn take_if_useful(term: &str, take: &mut impl FnMut(&str)) {
    if term.len() <= LONGEST && term.chars().nth(1).is_some() {
        take(term);
    }
}

/// Returns the words of a text. Identifiers, paths and versions are words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && !matches!(char, '_' | '-' | '.' | '/'))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(|word| !word.is_empty())
}

fn pairs(word: &str, take: &mut impl FnMut(&str)) {
    let ends = word.char_indices().map(|(at, char)| (at, at + char.len_utf8(), is_dense(char)));
    let ends: Vec<(usize, usize, bool)> = ends.collect();
    for pair in ends.windows(2) {
        if let [(from, _, true), (_, to, true)] = pair {
            take(&word[*from..*to]);
        }
    }
}

/// Returns whether a character belongs to a script without blanks between words: kana, Han, Hangul, Thai.
fn is_dense(char: char) -> bool {
    matches!(char, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
