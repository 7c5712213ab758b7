//! Names in statements: server A and server B, Anna and Bob, Node 18 and Node 20.
//!
//! Two things of one kind are told apart by their names, which are often short: a letter, two letters, a number. What is
//! said of one of them says nothing of the other. A version is a name as well, but a thing has one version at a time.

use std::collections::BTreeSet;

use super::change_cues::WITHDRAWING_CUES;
use super::lexicon::{CHOOSING_VERBS, LIMIT_WORDS, NUMBER_UNITS, UNSPACED_CHANGES};
use super::mood::{has_unspaced, is_function_word};
use super::statement_form::{compared, is_cue_word};
use super::subjects::is_class_value;
use crate::retention_report::facts::is_unspaced;

/// The most letters of a short name.
const SHORT_CHARS: usize = 2;

/// The most characters of a name of letters and digits, such as "v2".
const CODE_CHARS: usize = 3;

/// Short words that are no names.
const NO_NAMES: &[&str] =
    &["i", "am", "pm", "ok", "vs", "eg", "ie", "id", "px", "s", "h", "m", "g", "l", "d", "t", "re"];

/// A kind of things with the name of one of them: server A.
#[derive(Debug, PartialEq)]
pub(super) struct NamedThing {
    /// The term of the kind.
    pub(super) kind: String,
    /// The name, in capitals.
    pub(super) name: String,
    /// `true` if the name is a number with points. A thing has one version at a time.
    pub(super) is_version: bool,
    /// `true` if the thing follows words of a change: "we moved to node 20".
    pub(super) follows_change: bool,
}

/// A word of a statement in its own spelling.
struct Token<'t> {
    text: &'t str,
    /// `true` for the first word of a sentence or clause.
    is_first: bool,
}

/// Prepositions before what a thing is changed to: "Node was upgraded to 20".
const TARGETS: &str = "to auf à a para na на naar till sang ke إلى";

/// The most words between a thing and such a preposition.
const MAX_TARGET_WORDS: usize = 4;

/// Returns a text with blanks between letters of scripts without blanks and others: "Node 18を使う".
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut before: Option<char> = None;
    for char in text.chars() {
        let is_border = before.is_some_and(|before| is_unspaced(before) != is_unspaced(char));
        if is_border && char != ' ' && before != Some(' ') {
            spaced.push(' ');
        }
        spaced.push(char);
        before = Some(char);
    }
    spaced
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut is_first = true;
    for raw in text.split_whitespace() {
        let text = raw.trim_matches(|char: char| !char.is_alphanumeric());
        if text.is_empty() {
            // A dash or a sign of equality separates a name from the word before it.
            is_first = true;
            continue;
        }
        found.push(Token { text, is_first });
        is_first = raw.ends_with(['.', '!', '?', ':', ';', ',', '–', '—', ')']);
    }
    found
}

fn is_one_of(word: &str, list: &'static str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

/// Returns whether a word is a name of one or two letters: "A", "Go", "db".
fn is_short_name(token: &Token<'_>) -> bool {
    let lower = token.text.to_lowercase();
    let is_short = token.text.chars().count() <= SHORT_CHARS;
    if !is_short || !token.text.chars().all(|char| char.is_alphabetic() && !is_unspaced(char)) {
        return false;
    }
    let is_plain_word = is_function_word(&lower) || is_cue_word(&lower);
    let is_capital = token.text.chars().all(char::is_uppercase);
    // "A" at the beginning is the article, and "Y" in another place is no conjunction.
    // In small letters a name has no vowel: "db" and "js", but not "up".
    let is_abbreviation = token.text.starts_with(char::is_uppercase)
        || !lower.chars().any(|char| "aeiouy".contains(char)) && lower.is_ascii();
    let may_be_name =
        if is_capital { !token.is_first || !is_plain_word } else { is_abbreviation && !is_plain_word };
    may_be_name && !NO_NAMES.contains(&&*lower) && !is_one_of(&lower, NUMBER_UNITS)
}

/// Returns the names of one or two letters in a text, in capitals.
pub(super) fn short_names(text: &str) -> BTreeSet<String> {
    tokens(text).iter().filter(|token| is_short_name(token)).map(|token| token.text.to_uppercase()).collect()
}

/// Returns the terms of words that have a capital letter within a sentence.
pub(super) fn proper_names(text: &str) -> BTreeSet<String> {
    let mut found = short_names(text);
    for token in tokens(text).iter().filter(|token| !token.is_first) {
        let lower = token.text.to_lowercase();
        if token.text.starts_with(char::is_uppercase) && !is_function_word(&lower) && !is_class_value(&lower)
        {
            found.extend(compared(&lower));
        }
    }
    found
}

/// Returns whether a word may be the kind of a thing: the server of "server A".
fn is_kind(token: &Token<'_>) -> bool {
    let lower = token.text.to_lowercase();
    token.text.chars().all(|char| char.is_alphabetic() || char == '-')
        && token.text.chars().nth(1).is_some()
        && !is_function_word(&lower)
        && !is_cue_word(&lower)
        && !is_one_of(&lower, LIMIT_WORDS)
        && !is_one_of(&lower, CHOOSING_VERBS)
}

/// Returns whether a word is a number, a number with points, or a short name with digits.
fn is_code(text: &str) -> bool {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_short = text.chars().count() <= CODE_CHARS && text.chars().all(char::is_alphanumeric);
    has_digit && (is_number || is_short)
}

/// Returns the place of the kind of which the word at `name` is the name.
fn kind_of(tokens: &[Token<'_>], words: &[&str], name: usize, has_change: bool) -> Option<usize> {
    let before = name.checked_sub(1)?;
    if !has_change || !is_one_of(words[before], TARGETS) {
        return is_kind(&tokens[before]).then_some(before);
    }
    // "React was upgraded to 18" has words of the change between.
    let start = before.saturating_sub(MAX_TARGET_WORDS);
    let kind = (start..before).rev().find(|at| !is_function_word(words[*at]) && !is_cue_word(words[*at]))?;
    is_kind(&tokens[kind]).then_some(kind)
}

/// Returns the named things of a statement. `settings` are the numbers that are values and no names.
pub(super) fn named_things(text: &str, settings: &BTreeSet<String>) -> Vec<NamedThing> {
    let text = spaced(text);
    let tokens = tokens(&text);
    let lower: Vec<String> = tokens.iter().map(|token| token.text.to_lowercase()).collect();
    let words: Vec<&str> = lower.iter().map(String::as_str).collect();
    let change = (0..words.len()).find(|at| WITHDRAWING_CUES.prefix_len(&words[*at..]) > 0);
    // Japanese and Korean have the words of a change at the end.
    let is_changed = has_unspaced(&text, UNSPACED_CHANGES);
    let mut found = Vec::new();
    for (at, name) in tokens.iter().enumerate() {
        let follows_change = is_changed || change.is_some_and(|change| change < at);
        // "The x-axis" names one of the axes.
        if let Some((letter, kind)) = words[at].split_once('-')
            && letter.chars().count() == 1
        {
            let named =
                |kind| NamedThing { kind, name: letter.to_uppercase(), is_version: false, follows_change };
            found.extend(compared(kind).into_iter().map(named));
        }
        // "To 20" is a limit, unless something was changed to it.
        let is_target = follows_change && at > 0 && is_one_of(words[at - 1], TARGETS);
        let is_value = settings.contains(name.text) && !is_target;
        let is_name = is_code(name.text) && !is_value || is_short_name(name);
        if name.is_first || !is_name {
            continue;
        }
        let Some(kind) = kind_of(&tokens, &words, at, follows_change) else { continue };
        found.extend(compared(words[kind]).into_iter().map(|kind| NamedThing {
            kind,
            name: name.text.to_uppercase(),
            is_version: name.text.contains('.'),
            follows_change,
        }));
    }
    found
}

/// Returns whether both name things of one kind, and none in common.
pub(super) fn name_other_things(earlier: &[NamedThing], later: &[NamedThing]) -> bool {
    let mut is_other = false;
    for thing in later {
        let mut of_kind = earlier.iter().filter(|other| other.kind == thing.kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        if of_kind.any(|other| other.name == thing.name || other.is_version && thing.is_version) {
            return false;
        }
        is_other = true;
    }
    is_other
}

/// Returns whether a later statement names another version of a thing: "we moved to node 20" after "use node 18". The
/// version follows words of a change, unless `is_announced`.
pub(super) fn changes_version(earlier: &[NamedThing], later: &[NamedThing], is_announced: bool) -> bool {
    later.iter().filter(|thing| (thing.follows_change || is_announced) && has_digit(thing)).any(|thing| {
        earlier.iter().any(|other| other.kind == thing.kind && other.name != thing.name && has_digit(other))
    })
}

/// Returns whether the name of a thing has a digit.
fn has_digit(thing: &NamedThing) -> bool {
    thing.name.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let things = named_things(text, &BTreeSet::new());
        things.into_iter().map(|thing| format!("{} {}", thing.kind, thing.name)).collect()
    }

    #[test]
    fn short_names_are_names_and_articles_are_none() {
        for (text, names) in [
            ("Restart server A every night.", vec!["A"]),
            ("A commit must be signed.", vec![]),
            ("Use Go for the tools.", vec!["GO"]),
            ("Back up the db before I deploy.", vec!["DB"]),
            ("Put X before Y.", vec!["X", "Y"]),
        ] {
            assert_eq!(short_names(text).into_iter().collect::<Vec<_>>(), names, "{text}");
        }
    }

    fn things(text: &str) -> Vec<NamedThing> {
        named_things(text, &BTreeSet::new())
    }

    #[test]
    fn a_name_behind_its_kind_names_a_thing() {
        assert_eq!(named("Restart server A every night."), ["server A"]);
        assert_eq!(named("We moved to Node 20."), ["node 20"]);
        assert_eq!(named("Use Python 3.11."), ["python 3.11"]);
        assert!(named("Use A, then B.").is_empty());
        let (old, new) = ("Use Node 18.", "We moved to Node 20.");
        assert!(changes_version(&things(old), &things(new), false));
        assert!(!changes_version(&things(new), &things(old), false));
        assert!(name_other_things(&things("Restart server A."), &things("Restart server B.")));
        assert!(!name_other_things(&things("Use Python 3.11."), &things("Use Python 3.12.")));
    }
}
