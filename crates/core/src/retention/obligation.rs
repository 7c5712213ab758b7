//! Obligations in the third person: "tests have to pass before a merge", "every endpoint needs a test".
//!
//! The assistant is not named, and no verb is in the imperative. The subject is a thing, because what a person has to
//! do ("I have to leave") is no order. All word classes are closed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::lexicon::{
    ADDRESSED_PERSONS, DEFINITE_ARTICLES, LEXICONS, LIVING_BEINGS, MODAL_VERBS, NEGATIONS, NONE_CONDITIONS,
    NONE_WORDS, OBLIGATIONS, PROHIBITING_DETERMINERS, TEAM_POSSESSIVES, WEAK_OBLIGATIONS,
};
use super::mood::{MAX_REQUEST_START, PhraseSet, has_standing_scope, is_each, is_function_word};
use super::polite::ANSWERS;
use super::subjects::subject_of;

/// Articles before a thing of which there are many: "a commit must be signed".
const INDEFINITE_ARTICLES: &[&str] =
    &["a", "an", "ein", "eine", "un", "une", "una", "uno", "um", "uma", "een", "en", "ett"];

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// Returns whether words oblige a thing to something.
pub(super) fn obliges_things(words: &[&str]) -> bool {
    static STRONG: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([OBLIGATIONS].into_iter()));
    static WEAK: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(WEAK_OBLIGATIONS));
    if forbids_by_none(words) {
        return true;
    }
    let strong = (1..words.len()).find_map(|at| {
        let length = STRONG.prefix_len(&words[at..]);
        // Verbs of obligation stand at the end in Hindi and Turkish.
        let is_near = at <= MAX_REQUEST_START || at + length == words.len();
        (length > 0 && is_near).then_some((at, length))
    });
    if let Some((at, length)) = strong
        && (is_thing(&words[..at]) || begins_with_italian_article(words) && is_thing(&words[1..at]))
    {
        // "It must have been late" tells of the past, and "không phải" of what is not.
        let is_of_past = matches!(words[at + length..], ["have", past, ..] if past.ends_with("en") || past.ends_with("ed"));
        let is_denied = words[at] == "phải" && words[at - 1] == "không";
        return !is_of_past && !is_denied;
    }
    let start = &words[..words.len().min(MAX_REQUEST_START)];
    // "No code may be merged" forbids by a verb of permission.
    let is_none = words.first().is_some_and(|first| is_one_of(first, PROHIBITING_DETERMINERS));
    let weak = (1..start.len())
        .find(|at| WEAK.contains(start[*at]) || is_none && is_one_of(start[*at], MODAL_VERBS));
    weak.is_some_and(|at| is_thing(&words[..at]) && names_kind(&words[..at]))
}

/// Returns whether words oblige the model to something or forbid it: "you must not push to release".
pub(super) fn obliges_model(words: &[&str]) -> bool {
    static STRONG: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([OBLIGATIONS].into_iter()));
    let [first, rest @ ..] = words else { return false };
    let length = STRONG.prefix_len(rest);
    // "You must be kidding" and "you must have seen it" suppose something.
    let is_guess = matches!(rest, ["must" | "can't" | "cannot", "be" | "have", ..]);
    is_one_of(first, ADDRESSED_PERSONS) && length > 0 && rest.len() > length && !is_guess
}

/// The most words before the subject of a general truth: "all the people".
const MAX_WORDS_BEFORE_SUBJECT: usize = 2;

/// Verbs of being. With them the beings may be things of the work: "children must be sorted by name".
const BEING_VERBS: &[&str] = &[
    "be", "sein", "werden", "être", "ser", "estar", "essere", "быть", "бути", "zijn", "worden", "być", "vara",
];

/// Returns whether words tell of living beings in general, and not of the work: "people have to eat". A prohibition, a
/// condition or a verb of being may be about the work.
pub(super) fn is_general_truth(words: &[&str]) -> bool {
    static BEINGS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(LIVING_BEINGS));
    static ARTICLES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(DEFINITE_ARTICLES));
    let before = words.iter().take(MAX_WORDS_BEFORE_SUBJECT);
    let before = before.take_while(|word| is_each(word) || ARTICLES.contains(*word)).count();
    let begins = words.get(before).is_some_and(|subject| BEINGS.contains(subject));
    begins && !has_standing_scope(words) && !words.iter().any(|word| may_be_of_work(word))
}

/// Returns whether a word is a verb of being, a condition or a prohibition, which may be about the work.
fn may_be_of_work(word: &str) -> bool {
    BEING_VERBS.contains(&word) || is_one_of(word, NONE_CONDITIONS) || is_one_of(word, NEGATIONS)
}

/// Returns whether words before a verb name a thing, and not a person who speaks or is spoken of.
fn is_thing(subject: &[&str]) -> bool {
    static ARTICLES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(DEFINITE_ARTICLES));
    static PERSONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        LEXICONS.iter().flat_map(|lexicon| lexicon.first_person.split_whitespace()).collect()
    });
    let Some(first) = subject.first() else { return false };
    let is_determiner = ARTICLES.contains(first)
        || INDEFINITE_ARTICLES.contains(first)
        || is_each(first)
        || is_of_team(first);
    (is_determiner || !is_function_word(first) || subject.iter().any(is_answer))
        && subject.iter().any(|word| !is_function_word(word) && !is_each(word))
        && !subject
            .iter()
            .any(|word| PERSONS.contains(*word) && !is_of_team(word) && !INDEFINITE_ARTICLES.contains(word))
}

/// Returns whether a subject names all things of a kind, or the model's answers. "Dinner should be ready" names one.
fn names_kind(subject: &[&str]) -> bool {
    is_each(subject[0]) || subject.iter().any(is_answer) || matches!(subject, [word] if is_plural(word))
}

/// Returns whether a word names the model's answers.
fn is_answer(word: &&str) -> bool {
    subject_of(word) == Some(ANSWERS)
}

/// Returns whether a word has the form of an English plural.
fn is_plural(word: &str) -> bool {
    word.ends_with('s') && !word.ends_with("ss")
}

/// Returns whether the words exclude a thing without a condition: "nothing ships without a review".
fn forbids_by_none(words: &[&str]) -> bool {
    static NONE_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NONE_WORDS));
    static CONDITIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NONE_CONDITIONS));
    words.first().is_some_and(|first| NONE_SET.contains(first))
        && words.iter().skip(2).any(|word| CONDITIONS.contains(word))
}

fn is_one_of(word: &str, list: &'static str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

fn is_of_team(word: &str) -> bool {
    is_one_of(word, TEAM_POSSESSIVES)
}

/// Returns whether the first word is the Italian article, and not the English pronoun: "I test devono passare".
fn begins_with_italian_article(words: &[&str]) -> bool {
    let mut verbs = words.iter().take(MAX_REQUEST_START);
    words.first() == Some(&"i") && verbs.any(|word| ["devono", "vanno", "hanno"].contains(word))
}

/// Returns whether a statement begins with what belongs to a team ("our commits must be signed"), or with an article
/// that looks like a pronoun.
pub(super) fn speaks_of_thing(words: &[&str]) -> bool {
    words.first().is_some_and(|first| is_of_team(first)) || begins_with_italian_article(words)
}
