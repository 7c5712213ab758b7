//! The form of a statement: its polarity, what limits it to a part of the work, and what its numbers say.
//!
//! Two orders of one wording may hold side by side. "Never restart server 3" and "never restart server 7" name two
//! things, and "reply to customers in French" leaves suppliers alone. The comparison of statements
//! ([`replaced`](super::replaced)) asks here whether a number is a value or a name, and whether two statements speak of
//! the same part of the work. All word classes are closed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::lexicon::{
    CHOOSING_VERBS, CONTRASTS, DEFINITE_ARTICLES, KIND_PREPOSITIONS, LEXICONS, LIMIT_WORDS, NEGATIONS,
    NUMBER_UNITS, OPENING_NEGATIONS, PROHIBITING_DETERMINERS, QUALIFYING_CONJUNCTIONS,
    QUALIFYING_PREPOSITIONS, UNQUALIFYING_WORDS, UNSPACED_NEGATIONS, WITHDRAWALS,
};
use super::mood::{CLAUSE, has_unspaced, is_auxiliary, is_function_word, is_lead_in, words_of};
use super::named_things::{NamedThing, named_things, proper_names};
use super::replaced::{number_and_unit, terms};
use super::subjects::{is_class_value, subject_of};
use crate::retention_report::facts::is_unspaced;

/// The most words behind a preposition that belong to its phrase.
const MAX_PHRASE_WORDS: usize = 3;

/// The parts of a statement that decide whether another one can replace it.
#[derive(Debug, Default)]
pub(super) struct StatementForm {
    /// `true` if the statement forbids or denies something.
    pub(super) is_negative: bool,
    /// The words that limit the statement to a part of the work: "in the report", "before you push".
    pub(super) qualifiers: BTreeSet<String>,
    /// The words that the statement takes back: "instead of 300", "not the first".
    pub(super) withdrawn: BTreeSet<String>,
    /// The numbers that are values of a limit or a setting. Other numbers name things.
    pub(super) settings: BTreeSet<String>,
    /// The numbers that name the subject of the statement: "invoice 4711 is paid".
    pub(super) subject_numbers: BTreeSet<String>,
    /// The things that the statement names, without its command, its values and the words of subjects: the logs of "use
    /// UTC in the logs".
    pub(super) things: BTreeSet<String>,
    /// The words that tell which one of its kind a subject is: the report of "the report deadline".
    pub(super) subject_kinds: BTreeSet<String>,
    /// The thing that the statement is about and the word before it: the port and the frontend of "the frontend port is
    /// 3000".
    pub(super) headed_subject: Option<(String, String)>,
    /// The things that the statement names by kind and name: server A.
    pub(super) named_things: Vec<NamedThing>,
    /// The terms of names.
    pub(super) proper_names: BTreeSet<String>,
    /// `true` if the statement chooses one of several things: "use tabs".
    pub(super) chooses: bool,
}

impl StatementForm {
    /// Reads the form of a statement.
    pub(super) fn of(text: &str) -> Self {
        let words = words_of(text);
        let settings = settings(text);
        let named_things = named_things(text, &settings);
        let mut qualifiers = qualifiers(&words);
        // "We moved to node 20" says what changes, and not where.
        qualifiers
            .retain(|word| !named_things.iter().any(|thing| thing.follows_change && thing.kind == *word));
        Self {
            is_negative: is_negative(&words) || has_unspaced(text, UNSPACED_NEGATIONS),
            qualifiers,
            withdrawn: withdrawn(&words),
            named_things,
            proper_names: proper_names(text),
            chooses: chooses(&words),
            settings,
            subject_numbers: subject_numbers(&words),
            things: things(&words),
            subject_kinds: subject_kinds(&words),
            headed_subject: headed_subject(&words),
        }
    }

    /// Returns whether both are limited, each to another part of the work.
    pub(super) fn differs_in_scope(&self, later: &Self) -> bool {
        // A statement without a limit speaks of all parts. One with more words may be the same part in other words.
        !self.qualifiers.is_subset(&later.qualifiers) && !later.qualifiers.is_subset(&self.qualifiers)
    }

    /// Returns whether both are about things of which numbers are the names, and about different ones.
    pub(super) fn names_other_thing(&self, later: &Self) -> bool {
        let (mine, others) = (&self.subject_numbers, &later.subject_numbers);
        !mine.is_empty() && !others.is_empty() && mine.is_disjoint(others)
    }

    /// Returns whether both name things, and none in common.
    pub(super) fn names_only_other_things(&self, later: &Self) -> bool {
        !self.things.is_empty() && !later.things.is_empty() && self.things.is_disjoint(&later.things)
    }
}

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// Returns whether a clause of a statement denies: "never push", "keine Tabellen". A clause that begins with "not" only
/// names what it is not: "the last column, not the first".
fn is_negative(words: &[String]) -> bool {
    static NEGATION_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NEGATIONS));
    static OPENING_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(OPENING_NEGATIONS));
    static CONTRAST_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CONTRASTS));
    words.split(|word| word == CLAUSE).filter(|clause| !clause.is_empty()).enumerate().any(|(at, clause)| {
        let is_contrast = at > 0 && CONTRAST_SET.contains(clause[0].as_str());
        let denies = clause.iter().any(|word| NEGATION_SET.contains(word.as_str()) || word.starts_with("n'"));
        let opening =
            clause.iter().find(|word| OPENING_SET.contains(word.as_str()) || !is_lead_in(word.as_str()));
        let opens = at == 0 && opening.is_some_and(|word| OPENING_SET.contains(word.as_str()));
        !is_contrast && (denies || opens)
    })
}

/// Returns whether the first verb of a statement is one of choice.
fn chooses(words: &[String]) -> bool {
    static CHOICES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CHOOSING_VERBS));
    let verb = words.iter().find(|word| {
        *word != CLAUSE && !is_lead_in(word) && !is_cue_word(word) && !OPENING_WORDS.contains(&word.as_str())
    });
    verb.is_some_and(|word| CHOICES.contains(word.as_str()))
}

/// Returns the terms of a word by which statements are compared.
pub(super) fn compared(word: &str) -> Vec<String> {
    match subject_of(word) {
        Some(subject) => vec![subject.to_owned()],
        None => word.split('-').filter(|part| !part.is_empty()).flat_map(terms).collect(),
    }
}

fn qualifiers(words: &[String]) -> BTreeSet<String> {
    static PREPOSITIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(QUALIFYING_PREPOSITIONS));
    static CONJUNCTIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(QUALIFYING_CONJUNCTIONS));
    static NO_QUALIFIERS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(UNQUALIFYING_WORDS));
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map_or("", String::as_str);
        // "From now on" and "after all" limit nothing.
        let is_cue = (at > 0 && words[at - 1] == "now") || ["all", "now", "here"].contains(&next);
        let most = match () {
            () if is_cue => continue,
            () if CONJUNCTIONS.contains(word.as_str()) => usize::MAX,
            () if PREPOSITIONS.contains(word.as_str()) => MAX_PHRASE_WORDS,
            () => continue,
        };
        let phrase = words[at + 1..].iter().map(String::as_str);
        let phrase = phrase
            .take_while(|word| *word != CLAUSE && (most == usize::MAX || !PREPOSITIONS.contains(word)))
            .filter(|word| !is_function_word(word) && !word.bytes().any(|byte| byte.is_ascii_digit()));
        // A value of a closed class is what an order says, and limits nothing: "in German".
        let limits = phrase.take(most).filter(|word| !NO_QUALIFIERS.contains(word) && !is_class_value(word));
        found.extend(limits.flat_map(compared));
    }
    found
}

/// Returns whether a word announces a change by itself.
pub(super) fn is_cue_word(word: &str) -> bool {
    static CUE_WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let cues = LEXICONS.iter().flat_map(|lexicon| lexicon.change_cues.split(','));
        cues.map(str::trim).collect()
    });
    CUE_WORDS.contains(word)
}

/// Returns whether a word may name a thing: no word of a closed class, no value, no number and no word of a subject.
fn is_thing(word: &str) -> bool {
    static NO_THINGS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(UNQUALIFYING_WORDS));
    let is_long = word.chars().nth(2).is_some() || word.chars().any(is_unspaced);
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let says_nothing =
        is_function_word(word) || is_cue_word(word) || is_negation(word) || NO_THINGS.contains(word);
    is_long && !has_digit && !says_nothing && !is_class_value(word) && subject_of(word).is_none()
}

/// Returns whether a word denies at some place of a clause.
fn is_negation(word: &str) -> bool {
    static DENYING: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let lists = [NEGATIONS, OPENING_NEGATIONS, PROHIBITING_DETERMINERS];
        lists.into_iter().flat_map(str::split_whitespace).collect()
    });
    DENYING.contains(word)
}

/// Returns each clause without the words before its command, and without the command's verb.
fn named_in_clauses(words: &[String]) -> impl Iterator<Item = &[String]> {
    words.split(|word| word == CLAUSE).map(|clause| {
        let opens = |word: &&String| {
            is_lead_in(word)
                || is_cue_word(word)
                || is_negation(word)
                || OPENING_WORDS.contains(&word.as_str())
        };
        let start = clause.iter().take_while(opens).count();
        // A command begins with its verb. The subject of a statement has an article before it or a verb behind it.
        let is_command = match &clause[start..] {
            [first, second, ..] => !is_function_word(first) && !is_auxiliary(second),
            _ => false,
        };
        &clause[start + usize::from(is_command && subject_of(&clause[start]).is_none())..]
    })
}

/// The words of "from now on" and the like that are no cue alone.
const OPENING_WORDS: &[&str] = &["from", "on", "here"];

fn things(words: &[String]) -> BTreeSet<String> {
    let named = named_in_clauses(words).flatten().filter(|word| is_thing(word));
    named.flat_map(|word| compared(word)).collect()
}

/// Returns the word before a subject ("the report deadline") and the one behind it ("the deadline for the report").
fn subject_kinds(words: &[String]) -> BTreeSet<String> {
    static PREPOSITIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(KIND_PREPOSITIONS));
    static ARTICLES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(DEFINITE_ARTICLES));
    let mut found = BTreeSet::new();
    for clause in named_in_clauses(words) {
        for pair in clause.windows(2).filter(|pair| is_thing(&pair[0]) && subject_of(&pair[1]).is_some()) {
            found.extend(compared(&pair[0]));
        }
        for phrase in clause.windows(3) {
            // Without an article the phrase may be a value: "scheduled for Friday".
            let is_kind = PREPOSITIONS.contains(phrase[0].as_str()) && ARTICLES.contains(phrase[1].as_str());
            if is_kind && is_thing(&phrase[2]) {
                found.extend(compared(&phrase[2]));
            }
        }
    }
    found
}

/// Returns the last two words of a subject of three or more, as terms.
fn headed_subject(words: &[String]) -> Option<(String, String)> {
    let verb = words.iter().position(|word| is_auxiliary(word))?;
    let [_, .., kind, head] = &words[..verb] else { return None };
    if !is_thing(kind) || !is_thing(head) {
        return None;
    }
    Some((compared(kind).into_iter().next()?, compared(head).into_iter().next()?))
}

fn withdrawn(words: &[String]) -> BTreeSet<String> {
    static CONTRAST_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CONTRASTS));
    static WITHDRAWAL_PHRASES: LazyLock<Vec<Vec<&'static str>>> =
        LazyLock::new(|| WITHDRAWALS.split(',').map(|phrase| phrase.split_whitespace().collect()).collect());
    let mut found = BTreeSet::new();
    for at in 0..words.len() {
        let is_contrast = at > 0 && words[at - 1] == CLAUSE && CONTRAST_SET.contains(words[at].as_str());
        let rest = &words[at..];
        let length = WITHDRAWAL_PHRASES
            .iter()
            .filter(|phrase| phrase.len() <= rest.len() && phrase.iter().zip(rest).all(|(a, b)| a == b))
            .map(Vec::len)
            .max()
            .or(is_contrast.then_some(1));
        let Some(length) = length else { continue };
        let object = rest[length..].iter().map(String::as_str);
        let object = object.take_while(|word| *word != CLAUSE).filter(|word| !is_function_word(word));
        found.extend(object.take(MAX_PHRASE_WORDS).flat_map(compared));
    }
    found
}

/// Returns the numbers of a statement that are values: those behind a word of limit or equality, and those before a
/// unit. "Under 50 words", "= 20", "every 4 hours".
fn settings(text: &str) -> BTreeSet<String> {
    static LIMITS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(LIMIT_WORDS));
    static UNITS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NUMBER_UNITS));
    // The signs of a value are no words, and words of them are needed below.
    let spelled = text.replace('=', " is ").replace(": ", " is ").replace('%', " percent ");
    let words: Vec<String> = words_of(&spelled).into_iter().flat_map(number_and_unit).collect();
    let mut found = BTreeSet::new();
    let mut is_value = false;
    for (at, word) in words.iter().enumerate() {
        if !begins_with_digit(word) {
            // A name such as "atlas-7" is what a setting is set to, too.
            let follows = at > 0 && LIMITS.contains(words[at - 1].as_str());
            if follows && word.bytes().any(|byte| byte.is_ascii_digit()) {
                found.insert(word.clone());
            }
            continue;
        }
        // The comma or point of "1,400 euros" splits one number into two words.
        let earlier: Vec<&str> =
            words[..at].iter().rev().map(String::as_str).filter(|word| *word != CLAUSE).take(2).collect();
        let before = earlier.first().copied().unwrap_or_default();
        if !begins_with_digit(before) {
            let mut rest = words[at + 1..].iter().map(String::as_str);
            let unit = rest.find(|word| !begins_with_digit(word) && *word != CLAUSE);
            // "A limit of 5" names a value, and "the backups of 2024" does not.
            let is_of = ["of", "von", "de", "di"].contains(&before);
            let limit = if is_of { earlier.get(1).copied().unwrap_or_default() } else { before };
            is_value = LIMITS.contains(limit) || unit.is_some_and(|unit| UNITS.contains(unit));
        }
        if is_value {
            found.insert(word.clone());
        }
    }
    found
}

/// Returns whether a word is a number, with or without a unit behind it.
fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_digit())
}

/// Returns whether a word is a number without a sign or a unit.
fn has_digits_only(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn subject_numbers(words: &[String]) -> BTreeSet<String> {
    let Some(verb) = words.iter().position(|word| is_auxiliary(word)) else { return BTreeSet::new() };
    let subject = words[..verb].windows(2);
    subject
        .filter(|pair| pair[0] != CLAUSE && !is_function_word(&pair[0]) && !has_digits_only(&pair[0]))
        .filter(|pair| has_digits_only(&pair[1]))
        .map(|pair| pair[1].clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn numbers_behind_a_limit_or_before_a_unit_are_values() {
        for (text, numbers) in [
            ("Keep answers under 50 words.", vec!["50"]),
            ("max_connections = 20", vec!["20"]),
            ("timeout: 30", vec!["30"]),
            ("Send it every 4 hours.", vec!["4"]),
            ("The budget is $1,400.", vec!["1", "400"]),
            ("Never restart server 3.", vec![]),
            ("Never edit src/v1.", vec![]),
            ("Fix issue 12.", vec![]),
        ] {
            assert_eq!(words(&StatementForm::of(text).settings), numbers, "{text}");
        }
    }

    #[test]
    fn a_contrast_does_not_deny() {
        for text in [
            "Never push.",
            "From now on, don't push.",
            "No tables.",
            "Ne pousse jamais.",
            "Bitte keine Listen.",
        ] {
            assert!(StatementForm::of(text).is_negative, "{text}");
        }
        for text in ["Use the last column, not the first.", "The cap is 500 now, no longer 300.", "Use tabs."]
        {
            assert!(!StatementForm::of(text).is_negative, "{text}");
        }
        let form = StatementForm::of("Use the last column, not the left one.");
        assert_eq!(words(&form.withdrawn), ["left"]);
    }

    #[test]
    fn things_are_neither_commands_nor_values() {
        for (text, things) in [
            ("Use UTC in the logs.", vec!["log"]),
            ("From now on use Pacific time for meetings.", vec!["meetin"]),
            ("The meetings are in Pacific time.", vec!["meetin"]),
            ("Meetings are in Pacific time.", vec!["meetin"]),
            ("Show clocks in Pacific time.", vec![]),
            ("Use metric units.", vec![]),
        ] {
            assert_eq!(words(&StatementForm::of(text).things), things, "{text}");
        }
        for (text, kinds) in [
            ("The report deadline is Friday.", vec!["report"]),
            ("The deadline for the report is Friday.", vec!["report"]),
            ("The demo is scheduled for Friday.", vec![]),
            ("Keep answers short.", vec![]),
        ] {
            assert_eq!(words(&StatementForm::of(text).subject_kinds), kinds, "{text}");
        }
    }

    #[test]
    fn phrases_limit_a_statement_and_values_do_not() {
        assert!(StatementForm::of("Reply in German.").qualifiers.is_empty());
        assert!(
            StatementForm::of("Reply to customers in French.")
                .differs_in_scope(&StatementForm::of("Reply to suppliers in German."))
        );
        assert!(
            !StatementForm::of("Put every timestamp in UTC.")
                .differs_in_scope(&StatementForm::of("In the report use Pacific time."))
        );
        assert!(
            StatementForm::of("Ask before you delete a branch.")
                .differs_in_scope(&StatementForm::of("Ask before you push a branch."))
        );
    }
}
