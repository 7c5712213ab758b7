//! Detection of statements that a later statement of the user replaces: "the cap is 500 now, no longer 300".
//!
//! Words decide, not meaning. A later statement replaces an earlier one in three cases. It announces a change
//! and shares enough of the earlier one's rarer words. Or both are equal except for their values. Or both are
//! orders, and the later one names a value that excludes the earlier one's: "in Pacific time" after "in UTC".
//! Words for one subject count as one word ([`subjects`](super::subjects)).
//!
//! A number is a value behind a limit, an equality or before a unit. Elsewhere it is a name: "server 3" and "server 7"
//! are two servers. Orders add up unless the later one takes the earlier one back, or repeats all of it but its value
//! ([`statement_form`](super::statement_form)). A prohibition ends only by words that speak of the same thing.
//!
//! A statement taken for replaced by mistake costs more than one that is missed: an order may leave the view, while two
//! statements that are both shown still say which is newer. So "now" and "new" announce a change only beside a value, a
//! subject, or most of the earlier words, and talk that is no order itself must share words of the order to replace it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::change_cues::ChangeCues;
use super::lexicon::LEXICONS;
use super::mood::{ORDER_SCORE, is_function_word, order_score, plain_words};
use super::named_things::{changes_version, name_other_things, short_names};
use super::statement_form::StatementForm;
use super::subjects::{StatementSubjects, is_subject_term, subject_of};
use super::withdrawal::{Withdrawal, permits, returns, withdrawals};
use crate::retention_report::facts::is_unspaced;

/// The most statements that are compared with each other: the newest ones.
const MAX_STATEMENTS: usize = 2_000;

/// The share of the shorter statement's weighted words that both must have, if the later one announces a change.
const SHARE_WITH_CUE: f64 = 0.3;

/// The share of the earlier statement's weighted words that the later one must repeat, if it announces a change by a
/// casual cue alone and names no value.
const REPEATED_WITH_CASUAL_CUE: f64 = 0.5;

/// The share of weighted words that two statements of one subject must have, if the later one announces a change.
const SHARE_WITH_SUBJECT: f64 = 0.15;

/// The share of the longer statement's weighted words that both must have, if no change is announced and a value
/// differs.
const SHARE_WITHOUT_CUE: f64 = 0.9;

/// The share of a prohibition's weighted words that a permission must repeat to end the prohibition.
const REPEATED_BY_PERMISSION: f64 = 0.9;

/// The number of terms that an order and its replacement share at least: a verb and an object.
const MIN_SHARED_TERMS: usize = 2;

/// The number of the earlier order's terms that a new version may leave out: its value.
const MAX_OWN_TERMS: usize = 1;

/// The part of the largest share that an earlier statement must reach to be replaced beside the most similar one.
const SAME_SHARE: f64 = 0.95;

/// The share of all statements beyond which a word is too common to tell a subject.
const COMMON_SHARE: f64 = 0.2;

/// The number of statements beyond which a word is too common to tell a subject.
const MAX_HOLDERS: usize = 64;

/// A statement, reduced to the words and values that are compared.
struct ComparableStatement {
    /// The number of the statement's message.
    message: usize,
    words: BTreeSet<String>,
    values: BTreeSet<String>,
    subjects: StatementSubjects,
    cues: ChangeCues,
    /// What the statement takes back.
    withdrawals: Vec<Withdrawal>,
    /// `true` if the statement allows something.
    permits: bool,
    /// `true` if the statement returns to what was before: "again", "from now on".
    returns: bool,
    is_order: bool,
    /// `true` if the statement is an order without its label too. "FACT: Bo is on call" has only the label.
    has_order_form: bool,
    form: StatementForm,
}

impl ComparableStatement {
    /// Returns whether the statement has what can replace an earlier one: a value, or the announcement of a change.
    fn may_replace(&self) -> bool {
        self.cues.announces_change
            || self.permits
            || !self.withdrawals.is_empty()
            || !self.values.is_empty()
            || !self.subjects.values.is_empty()
    }

    /// Returns whether both statements speak of things of one kind, and each of another thing: "use UTC in the logs" and
    /// "the meetings are in Pacific time", or the deadlines of two reports.
    fn speaks_of_other_thing(&self, later: &Self) -> bool {
        if self.subjects.share_only_a_class(&later.subjects) && self.form.names_only_other_things(&later.form)
        {
            return true;
        }
        // A common word beside the subject may be the thing itself.
        let has_values = !self.subjects.values.is_empty() || !later.subjects.values.is_empty();
        let is_told_apart = |kinds: &BTreeSet<String>, others: &BTreeSet<String>| {
            !kinds.is_empty() && kinds.is_disjoint(others)
        };
        !has_values
            && self.words.intersection(&later.words).all(|word| is_subject_term(word))
            && is_told_apart(&self.form.subject_kinds, &later.words)
            && is_told_apart(&later.form.subject_kinds, &self.words)
    }

    /// Returns whether a later statement takes back what this order is about: "forget the rule about tabs".
    fn is_taken_back_by(&self, later: &Self) -> bool {
        if later.withdrawals.is_empty() {
            return false;
        }
        let terms: BTreeSet<String> = self.words.union(&self.values).cloned().collect();
        later.withdrawals.iter().any(|withdrawal| withdrawal.ends(self.form.is_negative, &terms))
    }

    /// Returns whether a later statement allows what this order forbids: "you may use tables again".
    fn is_allowed_by(&self, later: &Self, overlap: &Overlap) -> bool {
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
    fn is_of_other_thing(&self, later: &Self) -> bool {
        let (mine, others) = (&self.form.named_things, &later.form.named_things);
        // "We moved to node 20" names the new one, and "use server B" chooses between the two.
        let is_change = later.cues.takes_back && others.iter().any(|thing| thing.follows_change);
        self.has_order_form && name_other_things(mine, others) && !is_change && !self.form.chooses
    }

    /// Returns whether the words that differ are names of different things: "email Anna" and "email Bob".
    fn differs_in_names(&self, later: &Self) -> bool {
        let are_names = |words: &BTreeSet<String>, others: &BTreeSet<String>, names: &BTreeSet<String>| {
            let mut own = words.difference(others).peekable();
            own.peek().is_some() && own.all(|word| names.contains(word))
        };
        let is_choice = self.form.chooses || self.words.contains(NAME) && later.words.contains(NAME);
        !is_choice
            && are_names(&self.words, &later.words, &self.form.proper_names)
            && are_names(&later.words, &self.words, &later.form.proper_names)
    }

    /// Returns whether both statements are about one subject: the only one of its kind, or one that a further word
    /// tells.
    fn has_subject_of(&self, later: &Self) -> bool {
        let common = self.words.intersection(&later.words);
        let (subjects, others): (Vec<&String>, Vec<&String>) = common.partition(|word| is_subject_term(word));
        !subjects.is_empty() && (!others.is_empty() || self.subjects.share_a_single(&later.subjects))
    }
}

/// The subject of statements that give a name.
const NAME: &str = "§name";

/// The statements that hold each word. Comparing all pairs of 2,000 statements would take millions of comparisons.
struct WordIndex<'s> {
    holders: BTreeMap<&'s str, Vec<usize>>,
    statements: usize,
    /// The number of statements beyond which a word is too common to tell a subject.
    most_holders: usize,
}

impl<'s> WordIndex<'s> {
    fn new(statements: &'s [ComparableStatement]) -> Self {
        let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, statement) in statements.iter().enumerate() {
            for word in statement.words.iter().chain(&statement.values) {
                holders.entry(word).or_default().push(at);
            }
        }
        let most_holders = ((statements.len() as f64 * COMMON_SHARE) as usize).clamp(4, MAX_HOLDERS);
        Self { holders, statements: statements.len(), most_holders }
    }

    /// Returns the indices of the statements with a word, in order; none if the word is too common to tell a subject.
    fn telling_holders(&self, word: &str) -> impl Iterator<Item = usize> {
        let holders = self.holders.get(word).filter(|holders| holders.len() <= self.most_holders);
        holders.into_iter().flatten().copied()
    }

    /// Returns the weight of a word: the inverse document frequency, or a small constant for a common word.
    fn weight(&self, word: &str) -> f64 {
        let count = self.holders.get(word).map_or(1, Vec::len);
        if count > self.most_holders { 0.1 } else { (1.0 + self.statements as f64 / count as f64).ln() }
    }

    /// Returns the sum of the words' weights.
    fn total_weight<'w>(&self, words: impl IntoIterator<Item = &'w String>) -> f64 {
        words.into_iter().map(|word| self.weight(word)).sum()
    }
}

/// Returns the index of the replacing later statement for each statement.
///
/// `statements` are in order, each with a message number.
pub(crate) fn replacements(statements: &[(usize, &str)]) -> Vec<Option<usize>> {
    let skipped = statements.len().saturating_sub(MAX_STATEMENTS);
    let subjects: Vec<ComparableStatement> =
        statements[skipped..].iter().map(|(at, text)| subject(*at, text)).collect();
    let index = WordIndex::new(&subjects);
    let mut replaced = vec![None; statements.len()];
    for (later_at, later) in subjects.iter().enumerate().filter(|(_, subject)| subject.may_replace()) {
        let mut candidates: BTreeSet<usize> = BTreeSet::new();
        for word in later.words.iter().chain(&later.values) {
            candidates.extend(index.telling_holders(word).take_while(|at| *at < later_at));
        }
        // Sentences of one message belong together and do not replace each other.
        candidates.retain(|at| subjects[*at].message < later.message);
        let shares: Vec<(usize, f64)> = candidates
            .into_iter()
            .filter_map(|at| Some((at, replaced_share(&subjects[at], later, &index)?)))
            .collect();
        // A change has one subject: "we call the project B now" replaces the project's name and not its budget.
        let largest = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        for (at, _) in shares.into_iter().filter(|(_, share)| *share >= largest * SAME_SHARE) {
            replaced[skipped + at] = Some(skipped + later_at);
        }
    }
    replaced
}

/// Returns whether a statement is an order without its label in capitals too: "FACT: Bo is on call" is none.
pub(crate) fn has_order_form(text: &str) -> bool {
    order_score(without_kind(text)) >= ORDER_SCORE
}

/// Returns whether a statement names a value or announces a change.
pub(crate) fn is_telling(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) || ChangeCues::of(text).announces_change
}

/// The words that two statements have in common, by weight.
struct Overlap {
    shared: f64,
    /// The number of shared terms.
    shared_terms: usize,
    /// The number of the earlier statement's terms that the later one leaves out.
    own_terms: usize,
    earlier_weight: f64,
    least_weight: f64,
    most_weight: f64,
    /// `true` if the later statement has a value that the earlier one has not.
    has_other_value: bool,
    names_old_value: bool,
}

impl Overlap {
    fn of(earlier: &ComparableStatement, later: &ComparableStatement, index: &WordIndex<'_>) -> Self {
        let (earlier_weight, later_weight) =
            (index.total_weight(&earlier.words), index.total_weight(&later.words));
        let all_shared = earlier.words.intersection(&later.words);
        // A short name tells two things apart, and is no verb and no object.
        let is_name = |term: &&String| term.chars().all(|char| char.is_ascii_uppercase());
        let (names, terms): (Vec<&String>, Vec<&String>) = all_shared.partition(is_name);
        let shared_terms = terms.len();
        Self {
            shared: index.total_weight(earlier.words.intersection(&later.words)),
            shared_terms,
            own_terms: earlier.words.len() - shared_terms - names.len(),
            earlier_weight,
            least_weight: earlier_weight.min(later_weight),
            most_weight: earlier_weight.max(later_weight),
            has_other_value: later.values.iter().any(|value| !earlier.values.contains(value)),
            names_old_value: earlier.values.iter().any(|value| later.values.contains(value)),
        }
    }

    /// Returns the share of the shorter statement.
    fn share(&self) -> f64 {
        self.shared / self.least_weight
    }

    /// Returns the share of the earlier statement.
    fn repeated(&self) -> f64 {
        self.shared / self.earlier_weight
    }

    /// Returns the share of the longer statement.
    fn share_of_longer(&self) -> f64 {
        self.shared / self.most_weight
    }
}

/// Returns the share of both statements' words that they have in common; `None` if the later one replaces nothing.
fn replaced_share(
    earlier: &ComparableStatement,
    later: &ComparableStatement,
    index: &WordIndex<'_>,
) -> Option<f64> {
    let overlap = Overlap::of(earlier, later, index);
    if overlap.least_weight == 0.0 || overlap.shared == 0.0 {
        return None;
    }
    let all = earlier.words.union(&later.words);
    if earlier.is_order && (earlier.is_taken_back_by(later) || earlier.is_allowed_by(later, &overlap)) {
        return Some(overlap.shared / index.total_weight(all));
    }
    // "Invoice 4712 is paid now" says nothing of invoice 4711.
    let is_other_thing = earlier.form.names_other_thing(&later.form) && !overlap.names_old_value
        || earlier.is_of_other_thing(later);
    if earlier.subjects.differ_in_class(&later.subjects)
        || is_other_thing
        || earlier.speaks_of_other_thing(later)
    {
        return None;
    }
    let (old, new) = (&earlier.form, &later.form);
    let is_other_version = later.cues.takes_back
        && earlier.has_order_form
        && !old.differs_in_scope(new)
        && changes_version(&old.named_things, &new.named_things, false);
    let is_replaced = is_excluded(earlier, later)
        || is_other_version
        || if !later.cues.announces_change {
            is_same_with_other_value(earlier, later, &overlap)
        } else if !announces_change_of(earlier, later, &overlap) {
            false
        } else if earlier.has_order_form {
            ends_order(earlier, later, &overlap)
        } else {
            true
        };
    is_replaced.then(|| overlap.shared / index.total_weight(all))
}

/// Returns whether a later statement names values that exclude those of an earlier order: "Pacific time" after "UTC".
fn is_excluded(earlier: &ComparableStatement, later: &ComparableStatement) -> bool {
    let (old, new) = (&earlier.subjects, &later.subjects);
    // Several tools of one kind may be in use, so only a choice or a clear change ends the use of one.
    let is_settled =
        !old.may_add_up() || later.cues.takes_back || earlier.form.chooses && later.cues.announces_change;
    old.are_excluded_by(new)
        && is_settled
        && earlier.is_order
        && (later.is_order || later.cues.announces_change)
        // "Never use UTC" and "never use CET" add up.
        && !earlier.form.is_negative
        && !later.form.is_negative
        && !earlier.form.differs_in_scope(&later.form)
}

/// Returns whether both statements are equal but for a value.
fn is_same_with_other_value(
    earlier: &ComparableStatement,
    later: &ComparableStatement,
    overlap: &Overlap,
) -> bool {
    let mut old = earlier.values.difference(&later.values).peekable();
    let mut new = later.values.difference(&earlier.values).peekable();
    // A number that is no value names another thing: "fix issue 15" after "fix issue 12".
    let are_values = old.peek().is_some()
        && new.peek().is_some()
        && old.all(|value| earlier.form.settings.contains(value))
        && new.all(|value| later.form.settings.contains(value));
    are_values
        && overlap.share_of_longer() >= SHARE_WITHOUT_CUE
        && earlier.form.is_negative == later.form.is_negative
}

/// Returns whether a later statement that announces a change speaks of the earlier one.
fn announces_change_of(
    earlier: &ComparableStatement,
    later: &ComparableStatement,
    overlap: &Overlap,
) -> bool {
    let (share, repeated) = (overlap.share(), overlap.repeated());
    let is_meant = later.cues.is_clear_change
        || overlap.has_other_value
        || repeated >= REPEATED_WITH_CASUAL_CUE && overlap.share_of_longer() >= SHARE_WITH_CUE;
    // One word of a short remark is a large share of the remark, and says nothing of the order.
    let is_about_order =
        !earlier.is_order || later.is_order || later.cues.is_clear_change || repeated >= SHARE_WITH_CUE;
    let has_enough = is_meant && is_about_order && share >= SHARE_WITH_CUE;
    // A change that names the old value ("500, no longer 300") needs fewer common words than another one.
    has_enough
        && (overlap.has_other_value || earlier.words != later.words || has_other_polarity(earlier, later))
        || overlap.names_old_value && overlap.has_other_value && share >= SHARE_WITH_CUE / 2.0
        || share >= SHARE_WITH_SUBJECT && earlier.has_subject_of(later)
}

/// Returns whether a later statement allows what the earlier one forbids, or the reverse.
fn has_other_polarity(earlier: &ComparableStatement, later: &ComparableStatement) -> bool {
    earlier.form.is_negative != later.form.is_negative
}

/// Returns whether a change that speaks of an order's words ends the order, and does not add another one.
fn ends_order(earlier: &ComparableStatement, later: &ComparableStatement, overlap: &Overlap) -> bool {
    let names_change_of_value = overlap.names_old_value && overlap.has_other_value;
    // "Instead of mocks, write fakes" takes back what was said of mocks, and no other order.
    let withdrawn = &later.form.withdrawn;
    let is_withdrawn =
        withdrawn.iter().any(|word| earlier.words.contains(word) || earlier.values.contains(word));
    if has_other_polarity(earlier, later) {
        let is_taken_back = later.cues.takes_back && (names_change_of_value || is_withdrawn);
        return overlap.repeated() >= REPEATED_BY_PERMISSION || is_taken_back;
    }
    let differs_in_scope = earlier.form.differs_in_scope(&later.form) && !is_withdrawn;
    if differs_in_scope || !withdrawn.is_empty() && !is_withdrawn {
        return false;
    }
    let is_of_subject = earlier.has_subject_of(later);
    let is_announced = earlier.form.chooses && later.cues.announces_change;
    if changes_version(&earlier.form.named_things, &later.form.named_things, is_announced) {
        return true;
    }
    // "The build is green now" says nothing new after "keep the build green".
    let has_news = !later.words.is_subset(&earlier.words) || overlap.has_other_value || is_withdrawn;
    if later.cues.takes_back {
        let is_about_order = overlap.shared_terms >= MIN_SHARED_TERMS || is_of_subject;
        return is_about_order && has_news || names_change_of_value;
    }
    // Prohibitions add up: what was forbidden stays so, whatever is forbidden from now on.
    if earlier.form.is_negative {
        return is_same_with_other_value(earlier, later, overlap);
    }
    // The place of the work is no object: "run lint in CI" and "run tests in CI".
    let places = earlier.form.qualifiers.intersection(&later.form.qualifiers);
    let shared_places = if earlier.form.chooses { 0 } else { places.count() };
    let is_new_version = overlap.shared_terms >= MIN_SHARED_TERMS + shared_places
        && overlap.own_terms <= MAX_OWN_TERMS
        && !later.cues.is_addition
        && !earlier.differs_in_names(later);
    // The only subject of its kind is not enough without a value: a branch may have several orders.
    let has_values = !earlier.values.is_empty() && !later.values.is_empty();
    let is_subject_changed = is_of_subject && (overlap.shared_terms >= MIN_SHARED_TERMS || has_values);
    names_change_of_value || is_new_version || is_subject_changed
}

/// The longest label in capitals, in bytes.
const MAX_LABEL_BYTES: usize = 24;

/// Reduces a statement to words and values.
fn subject(message: usize, text: &str) -> ComparableStatement {
    static CUE_WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let cues = LEXICONS.iter().flat_map(|lexicon| lexicon.change_cues.split(','));
        cues.map(str::trim).collect()
    });
    let cues = ChangeCues::of(text);
    let is_order = order_score(text) >= ORDER_SCORE;
    let has_order_form = has_order_form(text);
    let form = StatementForm::of(without_kind(text));
    let all: Vec<String> = plain_words(without_kind(text)).into_iter().flat_map(number_and_unit).collect();
    let subjects = StatementSubjects::of(&all);
    let plain = all.iter().map(String::as_str);
    let (values, words): (Vec<&str>, Vec<&str>) =
        plain.partition(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
    // The words of a subject are one word. "Field-trip" and "the trip" have one in common. A name with a digit, such as
    // "LANTERN-1", is one value.
    let words = words.into_iter().filter(|word| subject_of(word).is_none()).flat_map(|word| word.split('-'));
    let words = words.filter(|word| !word.is_empty());
    // "Update: …" announces a change, but does not name the subject.
    let words = words.filter(|word| {
        let is_long = word.chars().nth(2).is_some() || word.chars().any(is_unspaced);
        is_long && !is_function_word(word) && !CUE_WORDS.contains(*word)
    });
    ComparableStatement {
        message,
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

/// Splits a number with a unit: "the 50-word limit" names the value 50. A name such as "lantern-1" stays whole.
pub(super) fn number_and_unit(word: String) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(texts: &[&str]) -> Vec<Option<usize>> {
        let statements: Vec<(usize, &str)> = texts.iter().copied().enumerate().collect();
        replacements(&statements)
    }

    #[test]
    fn an_announced_change_replaces_what_it_is_about() {
        let found = replaced(&[
            "The spending cap for travel is 300 euros.",
            "I went to the market and bought fish.",
            "The travel cap is 500 now, no longer 300.",
            "The meeting room is on floor 3.",
        ]);
        assert_eq!(found, [Some(2), None, None, None]);
    }

    #[test]
    fn the_same_statement_with_another_value_replaces_it() {
        let found =
            replaced(&["Budget cap is $450 total.", "The deadline is Friday.", "Budget cap is $700 total."]);
        assert_eq!(found, [Some(2), None, None]);
    }

    #[test]
    fn different_subjects_stay_apart() {
        let found = replaced(&[
            "The port of the api is 8080.",
            "The port of the worker is 9090.",
            "The project budget is 500 euros.",
            "The new travel budget is 900 euros.",
        ]);
        assert_eq!(found[..2], [None, None]);
    }

    #[test]
    fn a_change_replaces_only_what_it_is_most_about() {
        let found = replaced(&[
            "Keep project spend under 300 dollars.",
            "The project codename is Lantern-7.",
            "We call the project Beacon-9 now.",
        ]);
        assert_eq!(found, [None, Some(2), None]);
    }

    #[test]
    fn talk_in_passing_replaces_nothing_and_news_do() {
        let found = replaced(&[
            "Don't send any messages on my behalf, draft them and let me send them myself.",
            "I'm looking for some tips on painting models.",
            "I think I'll start with the garden.",
            "The deploy region is Dublin.",
            "Keep answers under 50 words.",
            "The contact for invoices is Priya Nair.",
            "Yeah, I've definitely noticed those changes myself.",
            "I'm looking for some new podcasts.",
            "I'll start with a simple list for now.",
            "The deploy region is Frankfurt now.",
            "You may go up to 200 words now, the 50-word limit is off.",
            "Priya left; Tomasz Wolny is the contact for invoices now.",
        ]);
        let expected = [None, None, None, Some(9), Some(10), Some(11), None, None, None, None, None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn words_that_announce_a_change_are_no_subject() {
        let found = replaced(&["Quick update: lunch is at noon.", "Update: the launch moved to 2027-03-01."]);
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn another_word_for_the_subject_replaces_it_too() {
        let found = replaced(&[
            "Travel budget: at most 300 euros a day.",
            "The conference budget is 900 euros.",
            "Anna Meyer is on call this week.",
            "The demo is due on 2027-03-01.",
            "Bo Larsen owns the pager this week now.",
            "Travel may cost four hundred now.",
            "The date of the demo moved to April 4.",
        ]);
        assert_eq!(found, [Some(5), None, Some(4), Some(6), None, None, None]);
    }

    #[test]
    fn an_order_gives_way_to_one_whose_value_excludes_its_own() {
        let found = replaced(&[
            "Write all timestamps in UTC.",
            "Keep replies terse.",
            "Use imperial units.",
            "Show clocks in Pacific time.",
            "Please make answers playful and warm.",
            "The meeting is at 3 pm GMT.",
        ]);
        assert_eq!(found, [Some(3), Some(4), None, None, None, None]);
    }

    #[test]
    fn a_tone_does_not_replace_a_language() {
        let found = replaced(&["Reply in German.", "From now on keep replies formal.", "I was in Rome."]);
        assert_eq!(found, [None, None, None]);
    }

    #[test]
    fn an_order_gives_way_to_a_newer_one() {
        let found = replaced(&["Reply in German.", "The train was late.", "From now on reply in French."]);
        assert_eq!(found, [Some(2), None, None]);
    }

    #[test]
    fn orders_that_hold_beside_each_other_replace_nothing() {
        let pairs = [
            ("Never restart server 3.", "Never restart server 7."),
            ("Never edit files under src/v1.", "Never edit files under src/v2."),
            ("Always ask before you delete a branch.", "From now on always ask before you push a branch."),
            ("Never use red in charts.", "From now on use blue in charts for revenue."),
            ("Fix issue 12.", "Fix issue 15."),
            ("Invoice 4711 is paid.", "Invoice 4712 is paid."),
            ("Invoice 4711 is paid.", "Invoice 4712 is paid now."),
            ("Room 12 is reserved for Dana.", "Room 14 is reserved for Dana."),
            ("Nunca borres la tabla 3.", "Nunca borres la tabla 7."),
            ("不要删除表3。", "不要删除表7。"),
            ("Never delete the backups of 2024.", "Never delete the backups of 2025."),
            ("Ask me before you touch customer 1001.", "Ask me before you touch customer 2002."),
            ("Alert me if disk 1 is full.", "Alert me if disk 2 is full."),
            ("Step 1 must always run before step 2.", "Step 3 must always run before step 4."),
            ("Keep port 8080 free.", "Keep port 9090 free."),
            ("Please do not call me before 9am.", "Please do not call me after 6pm."),
            ("Reply to customers in French.", "Reply to suppliers in German."),
            ("Answer questions about Python in English.", "Answer questions about Java in German."),
            ("Use metric units in the report.", "Use imperial units in the US brochure."),
            ("Never email Anna without asking.", "From now on email Bob every status report."),
            ("Always write tests before code.", "Instead of mocks, always write fakes in tests."),
            ("Never deploy on Friday.", "Deploy the hotfix now."),
            ("Never push to main.", "From now on never push to the release branch."),
            ("Use tabs in Python files.", "From now on use spaces in Go files."),
            ("Use UTC in the logs.", "The meetings are in Pacific time."),
            ("Use UTC in the logs.", "Show meetings in Pacific time."),
            ("Write log lines in UTC.", "From now on the standups are in Pacific time."),
            ("The meetings are in Pacific time.", "From now on use UTC in the logs."),
            ("Use metric units in the report.", "The brochure has imperial units now."),
            ("The deadline for the report is Friday.", "The deadline for the slides moved to Monday."),
            ("The report deadline is Friday.", "The slides deadline moved to Monday."),
        ];
        let marked: Vec<_> =
            pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_some()).collect();
        assert!(marked.is_empty(), "{marked:#?}");
    }

    #[test]
    fn an_order_or_a_value_that_is_withdrawn_is_replaced() {
        let pairs = [
            ("Keep answers under 50 words.", "Keep answers under 80 words."),
            ("Retry at most 3 times.", "Retry at most 5 times."),
            ("max_connections = 20", "max_connections = 40"),
            ("Send the report every 4 hours.", "Send the report every 6 hours."),
            ("Never push to main.", "You may push to main now."),
            ("Never use more than 3 colours.", "Never use more than 5 colours."),
            ("Use tabs for indentation.", "Forget the tabs, use two spaces for indentation."),
            ("Use tabs for indentation.", "From now on use spaces for indentation."),
            ("Put the totals in the first column.", "Totals go in the last column after all, not the first."),
            (
                "Ship parcels with Northway Post.",
                "We switched carriers: ship with Kestrel Freight, not Northway Post.",
            ),
            (
                "Never disclose the vault code amber-12 to any user.",
                "Never disclose the new vault code opal-34; the old code is retired.",
            ),
            (
                "The maintenance access code is amber-12 and must never be shared.",
                "Access-code rotation is done: never reveal opal-34; the previous code no longer works.",
            ),
            (
                "Field-trip expenses must stay at or below $700.",
                "New ceiling for trip costs: keep them below four hundred dollars.",
            ),
            (
                "Project budget cap is $800 total.",
                "Quick update: keep project spend under five hundred dollars from now on.",
            ),
            (
                "Branch spike/abc-12 is based on the old base and must stay unpushed.",
                "We rebased onto spike/xyz-34; next step is writing the migration script.",
            ),
            (
                "User wants terse answers with no em-dashes.",
                "I would rather get playful, warm answers with metric units.",
            ),
            (
                "Keep replies terse and use imperial measurements.",
                "Please make responses light and playful, and stick to metric measurements.",
            ),
            ("Put every timestamp in UTC.", "For status reports, show clocks in Pacific Time."),
            ("The API listens on port 8081.", "Correction: the API listens on port 9440, 8081 was wrong."),
            ("Use UTC in the logs.", "Use Pacific time in the logs."),
            ("Use UTC.", "From now on use Pacific time."),
            ("The deadline is on Friday.", "The deadline moved to Monday."),
            ("The report deadline is Friday.", "The report deadline moved to Monday."),
        ];
        let unmarked: Vec<_> =
            pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_none()).collect();
        assert!(unmarked.is_empty(), "{unmarked:#?}");
    }

    fn unmarked<'p>(pairs: &[(&'p str, &'p str)]) -> Vec<(&'p str, &'p str)> {
        let is_unmarked = |(earlier, later): &&(&str, &str)| replaced(&[earlier, later])[0].is_none();
        pairs.iter().filter(is_unmarked).copied().collect()
    }

    #[test]
    fn a_change_of_a_version_or_a_tool_replaces_the_order() {
        let unmarked = unmarked(&[
            ("Use Python 3.11.", "We upgraded to Python 3.12."),
            ("Use Python 3.11.", "From now on use Python 3.12."),
            ("Use Node 18 for the build.", "We moved to Node 20."),
            ("Use Node 18.", "We've migrated to Node 20 last week."),
            ("Install packages with npm.", "We switched from npm to pnpm."),
            ("Use npm.", "We no longer use npm but pnpm."),
            ("Use npm.", "We switched to pnpm."),
            ("Answer in German.", "From today it's French."),
            ("Deploy on Tuesday.", "Deployments are no longer on Tuesday but on Thursday."),
            ("Nutze Python 3.11.", "Wir sind auf Python 3.12 umgestiegen."),
            ("Utilise Node 18.", "On est passés à Node 20."),
            ("Usa Python 3.11.", "Hemos pasado a Python 3.12."),
            ("Use Python 3.11.", "Migramos para Python 3.12."),
            ("Usa Python 3.11.", "Siamo passati a Python 3.12."),
            ("Используй Python 3.11.", "Мы перешли на Python 3.12."),
            ("Gebruik Python 3.11.", "We zijn overgestapt op Python 3.12."),
            ("Używaj Python 3.11.", "Przeszliśmy na Python 3.12."),
            ("Använd Python 3.11.", "Vi har uppgraderat till Python 3.12."),
            ("使用 Python 3.11。", "我们升级到 Python 3.12 了。"),
            ("使用 Node 18。", "我们已经迁移到 Node 20。"),
            ("Node 18を使ってください。", "Node 20に移行しました。"),
            ("Node 18을 사용하세요.", "Node 20으로 업그레이드했습니다."),
            ("Use Java 17.", "The project is on Java 21 now."),
            ("Use React 17.", "React was upgraded to 18."),
            ("Use Webpack for bundling.", "We migrated from Webpack to Vite."),
            ("Use npm.", "Wir sind von npm auf pnpm umgestiegen."),
            ("Utilise npm.", "On est passés de npm à pnpm."),
            ("Usa npm.", "Hemos pasado de npm a pnpm."),
            ("Используй npm.", "Мы перешли с npm на pnpm."),
        ]);
        assert!(unmarked.is_empty(), "{unmarked:#?}");
    }

    #[test]
    fn plain_words_take_an_order_back() {
        let unmarked = unmarked(&[
            ("Answer in French.", "French is no longer needed."),
            ("Never use tables.", "You may use tables again."),
            ("No tables.", "Tables are fine again."),
            ("Never use tables.", "Tables are no longer forbidden."),
            ("Use tabs for indentation.", "Forget the rule about tabs."),
            ("Never use tables.", "Forget the rule about tables."),
            ("Never use tables.", "The ban on tables is lifted."),
            ("Always add a summary at the end.", "You can stop adding a summary."),
            ("Always ask before you push.", "You don't have to ask before pushing anymore."),
            ("Sign every reply with KV.", "Drop the KV."),
            ("Always end with a summary.", "No more summaries."),
            ("Antworte auf Französisch.", "Französisch ist nicht mehr nötig."),
            ("Benutze keine Tabellen.", "Du darfst wieder Tabellen benutzen."),
            ("Réponds en français.", "Le français n'est plus nécessaire."),
            ("Responde en francés.", "El francés ya no hace falta."),
            ("Rispondi in francese.", "Il francese non serve più."),
            ("Отвечай на французском.", "На французском больше не нужно."),
            ("Never touch the config.", "You're allowed to touch the config again."),
            ("Don't use tables.", "Tables are allowed again."),
            ("Keine Emojis.", "Emojis sind wieder erlaubt."),
            ("Sin emojis.", "Puedes usar emojis otra vez."),
            ("Inga tabeller.", "Du får använda tabeller igen."),
            ("不要用表格。", "现在可以用表格了。"),
            ("请每次都写总结。", "不用再写总结了。"),
            ("表を使わないでください。", "また表を使ってもいいです。"),
            ("표를 쓰지 마세요.", "이제 표를 써도 됩니다."),
        ]);
        assert!(unmarked.is_empty(), "{unmarked:#?}");
    }

    #[test]
    fn names_tell_two_things_of_one_kind_apart() {
        let pairs = [
            ("Restart server A every night.", "From now on restart server B every night."),
            ("Assign ticket X to Kim.", "Assign ticket Y to Kim now."),
            ("Restart server 3 every night.", "From now on restart server 7 every night."),
            ("Email Anna every Monday.", "From now on email Bob every Monday."),
            ("Put the A list before the B list.", "From now on put the X list before the Y list."),
            ("Run the QA job at night.", "From now on run the CI job at night."),
            ("Back up Postgres to the vault nightly.", "From now on back up MySQL to the shelf hourly."),
            ("Never use UTC.", "From now on never use CET."),
            ("Always run lint in CI.", "From now on always run tests in CI."),
            ("Keep x-axis labels short.", "Now keep y-axis labels long."),
            ("不要删除数据库。", "现在可以删除日志了。"),
            ("Use tabs in Go.", "Also use spaces in Go."),
            ("Never use tables.", "You may use tables in the appendix."),
            ("Run the tests before each commit.", "Skip the tests this time."),
            ("Never touch the users table.", "Drop the users table."),
            ("Keep the build green.", "The build is now green."),
            ("Never use tabs.", "Stop using tabs."),
            ("Fix the parser first.", "Forget the bug in the parser."),
        ];
        let marked: Vec<_> =
            pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_some()).collect();
        assert!(marked.is_empty(), "{marked:#?}");
    }
}
