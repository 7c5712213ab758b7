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

mod comparable_statement;
mod overlap;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) use self::comparable_statement::number_and_unit;
use self::comparable_statement::{ComparableStatement, MIN_SHARED_TERMS, REPEATED_BY_PERMISSION};
pub(crate) use self::comparable_statement::{has_order_form, terms};
use self::overlap::{Overlap, WordIndex};
use super::change_cues::ChangeCues;
use super::named_things::changes_version;

/// The most statements that are compared with each other: the newest ones.
const MAX_STATEMENTS: usize = 2_000;

/// The most statements whose comparable forms are kept.
const MAX_CACHED_STATEMENTS: usize = 2 * MAX_STATEMENTS;

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

/// The number of the earlier order's terms that a new version may leave out: its value.
const MAX_OWN_TERMS: usize = 1;

/// The part of the largest share that an earlier statement must reach to be replaced beside the most similar one.
const SAME_SHARE: f64 = 0.95;

/// The comparable forms of statements by their texts. Reading a statement takes much longer than comparing it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementCache(BTreeMap<Box<str>, Arc<ComparableStatement>>);

impl StatementCache {
    /// Returns the comparable form of a statement.
    fn get(&mut self, text: &str) -> Arc<ComparableStatement> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        // Old statements leave with the others: which ones are still needed is not known here.
        if self.0.len() >= MAX_CACHED_STATEMENTS {
            self.0.clear();
        }
        let statement = Arc::new(ComparableStatement::of(text));
        self.0.insert(text.into(), Arc::clone(&statement));
        statement
    }
}

/// Returns the index of the replacing later statement for each statement.
///
/// `statements` are in order, each with a message number. `known` keeps their comparable forms for the next call.
pub(crate) fn replacements(statements: &[(usize, &str)], known: &mut StatementCache) -> Vec<Option<usize>> {
    let skipped = statements.len().saturating_sub(MAX_STATEMENTS);
    let compared = &statements[skipped..];
    let subjects: Vec<Arc<ComparableStatement>> = compared.iter().map(|(_, text)| known.get(text)).collect();
    let index = WordIndex::new(&subjects);
    let mut replaced = vec![None; statements.len()];
    for (later_at, later) in subjects.iter().enumerate().filter(|(_, subject)| subject.may_replace()) {
        let mut candidates: BTreeSet<usize> = BTreeSet::new();
        for word in later.words.iter().chain(&later.values) {
            candidates.extend(index.telling_holders(word).take_while(|at| *at < later_at));
        }
        // Sentences of one message belong together and do not replace each other.
        candidates.retain(|at| compared[*at].0 < compared[later_at].0);
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

/// Returns whether a statement names a value or announces a change.
pub(crate) fn is_telling(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) || ChangeCues::of(text).announces_change
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
