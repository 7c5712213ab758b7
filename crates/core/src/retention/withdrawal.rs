//! Words by which the user takes an order back: "forget the rule about tabs", "French is no longer needed".
//!
//! A withdrawal names its object, and often nothing else of the order. So the comparison of statements
//! ([`replaced`](super::replaced)) asks here what a statement takes back, and looks for the object in earlier orders.
//! All word classes are closed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::lexicon::{
    CESSATIONS, CHOOSING_VERBS, COMPARISONS, DROPPED_THINGS, ENDED_PHRASES, EXCEPTIONS, FORBIDDEN_WORDS,
    FORGETTING_PHRASES, HABIT_ENDS, NEED_WORDS, PERMISSIONS, RELEASING_PHRASES, REPLACING_CONJUNCTIONS,
    RETURNS, REVOKING_VERBS, RULE_NOUNS, SOURCES, UNSPACED_CESSATIONS, UNSPACED_PERMISSIONS,
};
use super::mood::{
    CLAUSE, MAX_REQUEST_START, PhraseSet, has_phrase, has_unspaced, is_function_word, plain_words,
    without_elision, words_of,
};
use super::statement_form::{compared, is_cue_word};
use super::subjects::is_subject_term;
use crate::retention_report::facts::is_unspaced;

/// The most words of an object that are compared.
const MAX_OBJECT_WORDS: usize = 3;

/// The share of an object's words that an order must have, as a fraction: two of three.
const OBJECT_SHARE: (usize, usize) = (2, 3);

/// The orders that a withdrawal can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithdrawalKind {
    /// Every order about the object: "forget the rule about tabs".
    AnyOrder,
    /// Orders to do something: "stop adding summaries". What was forbidden stays so.
    Action,
    /// Prohibitions: "tables are no longer forbidden".
    Prohibition,
}

/// A part of a statement that takes something back.
#[derive(Debug)]
pub(super) struct Withdrawal {
    kind: WithdrawalKind,
    /// The terms of the object.
    object: Vec<String>,
    /// `true` if the object begins with a verb, which the order may have had in another word.
    begins_with_verb: bool,
    /// `false` if the statement may only tell that something has ended: "the page is no longer slow".
    is_told: bool,
}

impl Withdrawal {
    /// Returns whether an order with such `terms` is about the object.
    pub(super) fn ends(&self, is_prohibition: bool, terms: &BTreeSet<String>) -> bool {
        let may_end = match self.kind {
            WithdrawalKind::AnyOrder => true,
            WithdrawalKind::Action => !is_prohibition,
            WithdrawalKind::Prohibition => is_prohibition,
        };
        // Short names are terms in capitals.
        let is_known =
            |word: &&String| terms.iter().any(|term| is_form_of(term, word) || term.to_lowercase() == **word);
        let known: Vec<&String> = self.object.iter().filter(is_known).collect();
        let is_verb_unknown = self.begins_with_verb
            && self.object.len() > 1
            && !self.object.first().is_some_and(|verb| is_known(&verb));
        let compared = self.object.len() - usize::from(is_verb_unknown);
        // "Answers" is in most orders, so it tells of none if the object says more.
        let is_only_subject = known.iter().all(|word| is_subject_term(word))
            && self.object.iter().any(|word| !is_subject_term(word));
        // Of a script without blanks the object is pairs of letters, and not all of them are words.
        let has_letters = known.iter().any(|term| term.chars().all(is_unspaced));
        may_end
            && !known.is_empty()
            && !is_only_subject
            && (has_letters || known.len() * OBJECT_SHARE.1 >= compared * OBJECT_SHARE.0)
    }
}

/// Endings by which forms of one word differ.
const ENDINGS: &[&str] = &["", "e", "s", "es", "ed", "en", "n", "in", "ing", "er", "t", "st", "te"];

/// Returns whether two terms are forms of one word: "add" and "adding".
fn is_form_of(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let common: usize =
        one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(char, _)| char.len_utf8()).sum();
    one[..common].chars().nth(2).is_some()
        && [one, other].iter().all(|word| ENDINGS.contains(&&word[common..]))
}

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

fn phrases_of(phrases: &'static str) -> PhraseSet {
    PhraseSet::of([phrases].into_iter())
}

static FORGETTING: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(FORGETTING_PHRASES));
static RELEASING: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(RELEASING_PHRASES));
static HABITS: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(HABIT_ENDS));
static ENDED: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(ENDED_PHRASES));
static RULES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(RULE_NOUNS));
static NEEDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NEED_WORDS));
static FORBIDDEN: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(FORBIDDEN_WORDS));

/// Returns what a statement takes back. With `announces_change` the thing that was left ("from npm to pnpm") is among
/// it.
pub(super) fn withdrawals(text: &str, announces_change: bool) -> Vec<Withdrawal> {
    static EXCEPTED: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(EXCEPTIONS));
    let words = words_of(text);
    let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != CLAUSE).collect();
    // "Skip the summary this time" leaves the order as it is.
    if has_phrase(&EXCEPTED, &plain) {
        return Vec::new();
    }
    let names_rule = plain.iter().any(|word| RULES.contains(word));
    let clauses: Vec<Vec<&str>> = words
        .split(|word| word == CLAUSE)
        .map(|clause| clause.iter().map(String::as_str).collect::<Vec<&str>>())
        .filter(|clause| !clause.is_empty())
        .collect();
    let mut found = Vec::new();
    for (at, clause) in clauses.iter().enumerate() {
        let clause = &without_elision(clause);
        let next = clauses.get(at + 1).map_or(&[][..], Vec::as_slice);
        found.extend(taken_back(clause, next, names_rule));
        found.extend(ended(clause, names_rule));
        found.extend(ceased(clause, names_rule));
        if announces_change {
            found.extend(left(clause));
        }
    }
    if has_unspaced(text, UNSPACED_CESSATIONS) {
        let object: Vec<String> = unspaced_object(text).iter().flat_map(|word| compared(word)).collect();
        found.push(Withdrawal {
            kind: WithdrawalKind::AnyOrder,
            object,
            begins_with_verb: false,
            is_told: true,
        });
    }
    found.retain(|withdrawal| !withdrawal.object.is_empty());
    found
}

/// Returns whether a statement tells the model to give up an order.
pub(super) fn is_told(text: &str) -> bool {
    withdrawals(text, false).iter().any(|withdrawal| withdrawal.is_told)
}

/// Returns the words of a text in a script without blanks, without the marks of a withdrawal.
fn unspaced_object(text: &str) -> Vec<String> {
    let marks = UNSPACED_CESSATIONS.split(' ').chain(["现在", "現在", "了", "再", "我们", "我們"]);
    plain_words(&marks.fold(text.to_owned(), |text, mark| text.replace(mark, " ")))
}

/// Returns whether a word belongs to no object: a function word, or a word by which people withdraw or order.
fn is_word_of_withdrawal(word: &str) -> bool {
    static CHOICES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CHOOSING_VERBS));
    is_function_word(word)
        || is_cue_word(word)
        || [&*RULES, &*NEEDS, &*FORBIDDEN, &*CHOICES].iter().any(|set| set.contains(word))
}

/// Returns the terms of an object, up to the words for what holds instead.
fn object_of(words: &[&str]) -> Vec<String> {
    static INSTEAD: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(REPLACING_CONJUNCTIONS));
    words
        .iter()
        .take_while(|word| !INSTEAD.contains(**word))
        .filter(|word| !is_word_of_withdrawal(word))
        .take(MAX_OBJECT_WORDS)
        .flat_map(|word| compared(word))
        .collect()
}

/// Returns the object behind words such as "forget", "you don't have to" and "stop".
fn taken_back(clause: &[&str], next: &[&str], names_rule: bool) -> Option<Withdrawal> {
    static REVOKING: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(REVOKING_VERBS));
    static DROPPED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(DROPPED_THINGS));
    let kind = if names_rule { WithdrawalKind::AnyOrder } else { WithdrawalKind::Action };
    for at in 0..clause.len().min(MAX_REQUEST_START) {
        let rest = &clause[at..];
        let (forgotten, released) = (FORGETTING.prefix_len(rest), RELEASING.prefix_len(rest));
        let habit = match rest {
            // "Stop the server" is a task. "Stop adding emojis" ends a habit.
            ["stop" | "quit" | "cease", verb, ..] if verb.ends_with("ing") => 1,
            ["no", "more", next, ..] if *next != "than" => 2,
            _ => HABITS.prefix_len(rest),
        };
        let length = forgotten.max(released).max(habit);
        let is_revoked = at == 0 && names_rule && REVOKING.contains(rest[0]);
        if length == 0 && !is_revoked {
            continue;
        }
        let behind = &rest[length.max(1)..];
        if rest[0] == "drop" && !names_rule && behind.iter().any(|word| DROPPED.contains(word)) {
            return None;
        }
        let mut object = object_of(behind);
        if object.is_empty() {
            object = object_of(next);
        }
        let begins_with_verb = released > 0 || habit > 0;
        return Some(Withdrawal { kind, object, begins_with_verb, is_told: true });
    }
    None
}

/// Returns the object before words such as "is lifted".
fn ended(clause: &[&str], names_rule: bool) -> Option<Withdrawal> {
    let at = (1..clause.len()).find(|at| ENDED.prefix_len(&clause[*at..]) > 0)?;
    let kind = if names_rule { WithdrawalKind::AnyOrder } else { WithdrawalKind::Action };
    let object = object_of(&clause[..at]);
    Some(Withdrawal { kind, object, begins_with_verb: false, is_told: names_rule })
}

/// Returns the object around words such as "no longer".
fn ceased(clause: &[&str], names_rule: bool) -> Option<Withdrawal> {
    static COMPARING: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(COMPARISONS));
    let (first, last) = CESSATIONS.iter().find_map(|(first, last)| {
        // French contracts its first word with the verb: "n'utilise plus".
        let first =
            clause.iter().position(|word| word == first || *first == "ne" && word.starts_with("n'"))?;
        let last = first + 1 + clause[first + 1..].iter().position(|word| word == last)?;
        let is_comparison = clause.get(last + 1).is_some_and(|next| COMPARING.contains(next));
        // "Ne … pas plus de 3" is a comparison, too.
        (!is_comparison && !clause[first..last].contains(&"pas")).then_some((first, last))
    })?;
    let kind = match () {
        () if clause.iter().any(|word| FORBIDDEN.contains(word)) => WithdrawalKind::Prohibition,
        () if names_rule || clause.iter().any(|word| NEEDS.contains(word)) => WithdrawalKind::AnyOrder,
        () => WithdrawalKind::Action,
    };
    let mut words: Vec<&str> = clause[..first].to_vec();
    words.extend(&clause[first + 1..last]);
    words.extend(&clause[last + 1..]);
    let is_told = kind != WithdrawalKind::Action;
    Some(Withdrawal { kind, object: object_of(&words), begins_with_verb: false, is_told })
}

/// Returns the thing that was left for another one: "from npm to pnpm".
fn left(clause: &[&str]) -> Option<Withdrawal> {
    SOURCES.iter().find_map(|(from, to)| {
        let start = clause.iter().position(|word| word == from)? + 1;
        let end = start + clause[start..].iter().position(|word| word == to)?;
        (end > start && end - start <= MAX_OBJECT_WORDS).then(|| Withdrawal {
            kind: WithdrawalKind::Action,
            object: object_of(&clause[start..end]),
            begins_with_verb: false,
            is_told: false,
        })
    })
}

/// The words of a return that are no longer phrases.
static RETURN_WORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| RETURNS.split(',').map(str::trim).filter(|phrase| !phrase.contains(' ')).collect());

/// Returns whether a statement allows something.
pub(super) fn permits(text: &str) -> bool {
    static ALLOWING: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(PERMISSIONS));
    let words = plain_words(text);
    // "Emojis sind wieder erlaubt" has the word of the return within the phrase.
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !RETURN_WORDS.contains(word)).collect();
    has_phrase(&ALLOWING, &words[..words.len().min(MAX_REQUEST_START + 2)])
        || has_unspaced(text, UNSPACED_PERMISSIONS)
}

/// Returns whether a statement returns to what was before: "you may use tables again".
pub(super) fn returns(text: &str) -> bool {
    static RETURNING: LazyLock<PhraseSet> = LazyLock::new(|| phrases_of(RETURNS));
    let words = plain_words(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    has_phrase(&RETURNING, &words) || has_unspaced(text, "再 又 现在 現在 了 また もう 다시 이제")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Vec<String> {
        withdrawals(text, true).into_iter().flat_map(|withdrawal| withdrawal.object).collect()
    }

    #[test]
    fn withdrawals_name_their_object() {
        for (text, object) in [
            ("Forget the rule about tabs.", vec!["tab"]),
            ("French is no longer needed.", vec!["french"]),
            ("We no longer use npm but pnpm.", vec!["npm"]),
            ("We switched from npm to pnpm.", vec!["npm"]),
            ("The ban on tables is lifted.", vec!["table"]),
            ("No more emojis.", vec!["emoji"]),
            ("Tabellen sind nicht mehr nötig.", vec!["tabell"]),
            ("Le français n'est plus nécessaire.", vec!["frança"]),
        ] {
            assert_eq!(objects(text), object, "{text}");
        }
    }

    #[test]
    fn tasks_and_comparisons_take_nothing_back() {
        for text in [
            "Stop the server.",
            "Use no more than three colours.",
            "Nicht mehr als 50 Wörter.",
            "Drop the users table.",
            "Cancel the job.",
            "Forget the summary for now.",
            "Never push to main.",
        ] {
            assert!(objects(text).is_empty(), "{text}: {:?}", objects(text));
        }
    }
}
