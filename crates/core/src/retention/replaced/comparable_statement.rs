//! Statements in the form in which they are compared: words, values, subjects and cues.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::overlap::Overlap;
use crate::retention::change_cues::ChangeCues;
use crate::retention::lexicon::LEXICONS;
use crate::retention::mood::{ORDER_SCORE, is_function_word, order_score, plain_words};
use crate::retention::named_things::{name_other_things, short_names};
use crate::retention::statement_form::StatementForm;
use crate::retention::subjects::{StatementSubjects, is_subject_term, subject_of};
use crate::retention::withdrawal::{Withdrawal, permits, returns, withdrawals};
use crate::retention_report::facts::is_unspaced;

/// The share of a prohibition's weighted words that a permission must repeat to end the prohibition.
pub(super) const REPEATED_BY_PERMISSION: f64 = 0.9;

/// The number of terms that an order and its replacement share at least: a verb and an object.
pub(super) const MIN_SHARED_TERMS: usize = 2;

/// A statement, reduced to the words and values that are compared.
#[derive(Debug)]
pub(super) struct ComparableStatement {
    pub(super) words: BTreeSet<String>,
    pub(super) values: BTreeSet<String>,
    pub(super) subjects: StatementSubjects,
    pub(super) cues: ChangeCues,
    /// The orders or habits that the statement takes back.
    pub(super) withdrawals: Vec<Withdrawal>,
    /// `true` if the statement allows something.
    pub(super) permits: bool,
    /// `true` if the statement returns to what was before: "again", "from now on".
    pub(super) returns: bool,
    pub(super) is_order: bool,
    /// `true` if the statement is an order without its label too. "FACT: Bo is on call" has only the label.
    pub(super) has_order_form: bool,
    pub(super) form: StatementForm,
}

impl ComparableStatement {
    /// Reduces a statement to words and values.
    pub(super) fn of(text: &str) -> Self {
        static CUE_WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
            let cues = LEXICONS.iter().flat_map(|lexicon| lexicon.change_cues.split(','));
            cues.map(str::trim).collect()
        });
        let cues = ChangeCues::of(text);
        let is_order = order_score(text) >= ORDER_SCORE;
        let has_order_form = has_order_form(text);
        let form = StatementForm::of(without_kind(text));
        let all: Vec<String> =
            plain_words(without_kind(text)).into_iter().flat_map(number_and_unit).collect();
        let subjects = StatementSubjects::of(&all);
        let plain = all.iter().map(String::as_str);
        let (values, words): (Vec<&str>, Vec<&str>) =
            plain.partition(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
        // The words of a subject are one word. "Field-trip" and "the trip" have one in common. A name with a digit, such as
        // "LANTERN-1", is one value.
        let words =
            words.into_iter().filter(|word| subject_of(word).is_none()).flat_map(|word| word.split('-'));
        let words = words.filter(|word| !word.is_empty());
        // "Update: …" announces a change, but does not name the subject.
        let words = words.filter(|word| {
            let is_long = word.chars().nth(2).is_some() || word.chars().any(is_unspaced);
            is_long && !is_function_word(word) && !CUE_WORDS.contains(*word)
        });
        Self {
            words: words
                .flat_map(terms)
                .chain(subjects.terms.iter().map(|term| (*term).to_owned()))
                .chain(short_names(without_kind(text)))
                .collect(),
            values: values.into_iter().map(str::to_owned).collect(),
            subjects,
            cues,
            withdrawals: withdrawals(text, cues.takes_back),
            permits: permits(text) && !form.is_negative,
            returns: returns(text),
            is_order,
            has_order_form,
            form,
        }
    }

    /// Returns whether the statement has what can replace an earlier one: a value, or the announcement of a change.
    pub(super) fn may_replace(&self) -> bool {
        let says_something = self.cues.announces_change
            || self.permits
            || !self.withdrawals.is_empty()
            || !self.values.is_empty()
            || !self.subjects.values.is_empty();
        // A report says what happened, and not what holds from now on.
        says_something && (!self.cues.is_report || self.permits || !self.withdrawals.is_empty())
    }

    /// Returns whether both statements speak of things of one kind, and each of another thing: "use UTC in the logs" and
    /// "the meetings are in Pacific time", or the deadlines of two reports.
    pub(super) fn speaks_of_other_thing(&self, later: &Self) -> bool {
        if self.subjects.share_only_a_class(&later.subjects) && self.form.names_only_other_things(&later.form)
        {
            return true;
        }
        if self.names_other_kind(later) {
            return true;
        }
        // A common word beside the subject may be the thing itself.
        let has_values = !self.subjects.values.is_empty() || !later.subjects.values.is_empty();
        !has_values
            && self.words.intersection(&later.words).all(|word| is_subject_term(word))
            && is_told_apart(&self.form.subject_kinds, &later.words)
            && is_told_apart(&later.form.subject_kinds, &self.words)
    }

    /// Returns whether both are about a thing of one name, and each about another one: the ports of frontend and backend.
    fn names_other_kind(&self, later: &Self) -> bool {
        let (Some((kind, head)), Some((other_kind, other_head))) =
            (&self.form.headed_subject, &later.form.headed_subject)
        else {
            return false;
        };
        head == other_head && !later.words.contains(kind) && !self.words.contains(other_kind)
    }

    /// Returns whether a later statement takes back what this order is about: "forget the rule about tabs".
    pub(super) fn is_taken_back_by(&self, later: &Self) -> bool {
        if later.withdrawals.is_empty() {
            return false;
        }
        let terms: BTreeSet<String> = self.words.union(&self.values).cloned().collect();
        later.withdrawals.iter().any(|withdrawal| withdrawal.ends(self.form.is_negative, &terms))
    }

    /// Returns whether a later statement allows what this order forbids: "you may use tables again".
    pub(super) fn is_allowed_by(&self, later: &Self, overlap: &Overlap) -> bool {
        // A permission for a part of the work leaves the prohibition as it is elsewhere.
        let is_known = |word: &String| self.form.qualifiers.contains(word) || self.words.contains(word);
        let is_as_wide = later.form.qualifiers.iter().all(is_known);
        let object: BTreeSet<&String> = self.form.things.difference(&self.form.qualifiers).collect();
        let is_object_named = match object.is_empty() {
            true => !self.form.things.is_empty() && self.form.things.is_subset(&later.words),
            false => object.iter().all(|thing| later.words.contains(*thing)),
        };
        self.form.is_negative
            && later.permits
            && is_as_wide
            && (overlap.repeated() >= REPEATED_BY_PERMISSION
                || later.returns && (is_object_named || self.shares_letters(later)))
    }

    /// Returns whether two statements of a script without blanks have enough pairs of letters in common.
    fn shares_letters(&self, later: &Self) -> bool {
        let shared: Vec<&String> =
            self.words.intersection(&later.words).filter(|term| term.chars().all(is_unspaced)).collect();
        // A word of Korean is often a single pair.
        let is_korean = shared.iter().any(|term| term.chars().any(|char| char >= '\u{ac00}'));
        shared.len() >= if is_korean { 1 } else { MIN_SHARED_TERMS }
    }

    /// Returns whether both statements name things of one kind, and the later one another thing: "restart server B"
    /// after "restart server A".
    pub(super) fn is_of_other_thing(&self, later: &Self) -> bool {
        let (mine, others) = (&self.form.named_things, &later.form.named_things);
        // "We moved to node 20" names the new one, and "use server B" chooses between the two.
        let is_change = later.cues.takes_back && others.iter().any(|thing| thing.follows_change);
        self.has_order_form && name_other_things(mine, others) && !is_change && !self.form.chooses
    }

    /// Returns whether the words that differ are names of different things: "email Anna" and "email Bob".
    pub(super) fn differs_in_names(&self, later: &Self) -> bool {
        let is_choice = self.form.chooses || self.words.contains(NAME) && later.words.contains(NAME);
        !is_choice
            && are_names(&self.words, &later.words, &self.form.proper_names)
            && are_names(&later.words, &self.words, &later.form.proper_names)
    }

    /// Returns whether both statements are about one subject: the only one of its kind, or one that a further word
    /// tells.
    pub(super) fn has_subject_of(&self, later: &Self) -> bool {
        let common = self.words.intersection(&later.words);
        let (subjects, others): (Vec<&String>, Vec<&String>) = common.partition(|word| is_subject_term(word));
        !subjects.is_empty() && (!others.is_empty() || self.subjects.share_a_single(&later.subjects))
    }
}

/// Returns whether a statement names kinds, none of which the other statement has.
fn is_told_apart(kinds: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    !kinds.is_empty() && kinds.is_disjoint(others)
}

/// Returns whether the words that a statement has alone are all names, and there are any.
fn are_names(words: &BTreeSet<String>, others: &BTreeSet<String>, names: &BTreeSet<String>) -> bool {
    let mut own = words.difference(others).peekable();
    own.peek().is_some() && own.all(|word| names.contains(word))
}

/// The subject of statements that give a name.
const NAME: &str = "§name";

/// Returns whether a statement is an order without its label in capitals too: "FACT: Bo is on call" is none.
pub(crate) fn has_order_form(text: &str) -> bool {
    order_score(without_kind(text)) >= ORDER_SCORE
}

/// The longest label in capitals, in bytes.
const MAX_LABEL_BYTES: usize = 24;

/// Splits a number with a unit: "the 50-word limit" names the value 50. A name such as "lantern-1" stays whole.
pub(in crate::retention) fn number_and_unit(word: String) -> Vec<String> {
    match word.split_once('-') {
        Some((number, unit))
            if number.bytes().all(|byte| byte.is_ascii_digit()) && unit.chars().all(char::is_alphabetic) =>
        {
            vec![number.to_owned(), unit.to_owned()]
        }
        _ => vec![word],
    }
}

/// Returns a statement without a label in capitals, such as `FACT:`. The label says the kind of the statement, which is
/// no part of its subject.
fn without_kind(text: &str) -> &str {
    match text.split_once(':') {
        Some((label, body)) if is_capital_label(label) => body,
        _ => text,
    }
}

fn is_capital_label(label: &str) -> bool {
    let mut letters = label.chars().filter(|char| char.is_alphabetic()).peekable();
    label.len() <= MAX_LABEL_BYTES && letters.peek().is_some() && letters.all(char::is_uppercase)
}

/// Returns the terms by which a word is compared: its stem, or its pairs of letters in scripts without blanks.
pub(crate) fn terms(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    if !letters.iter().any(|letter| is_unspaced(*letter)) {
        return vec![stem(word)];
    }
    letters.windows(2).map(|pair| pair.iter().collect()).collect()
}

/// Returns the beginning of a word, which the forms of the word mostly share.
fn stem(word: &str) -> String {
    // A stemmer would need the language, which short sentences do not show.
    let chars = word.chars().count();
    let kept = if chars > 6 { 6 } else { chars - usize::from(chars > 3 && word.ends_with('s')) };
    word.chars().take(kept).collect()
}
