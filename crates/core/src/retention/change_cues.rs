//! Words that announce a change of what was said before: "from now on", "we upgraded", "no longer".

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::lexicon::{
    ADDING_CHANGE_CUES, ADDITIONS, BEFORE_CHANGE_NOUNS, CASUAL_CHANGE_CUES, CHANGE_NOUNS, CHANGE_TARGETS,
    CHANGING_SUBJECTS, DEFINITE_ARTICLES, LEXICONS, REPORTED_CHANGE_CUES, UNSPACED_AFTER, UNSPACED_CHANGES,
    UNSPACED_DONE_CHANGES,
};
use super::mood::{CLAUSE, PhraseSet, has_unspaced, words_of};
use super::past_reports;

/// The words of a clause's beginning among which a word of addition stands.
const ADDITION_WORDS: usize = 3;

fn all_cues() -> impl Iterator<Item = &'static str> {
    LEXICONS.iter().flat_map(|lexicon| lexicon.change_cues.split(','))
}

fn is_casual(cue: &str) -> bool {
    CASUAL_CHANGE_CUES.split_whitespace().any(|casual| casual == cue.trim())
}

fn is_adding(cue: &str) -> bool {
    ADDING_CHANGE_CUES.split(',').any(|adding| adding.trim() == cue.trim())
}

static CHANGE_CUES: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of(all_cues()));

static CLEAR_CUES: LazyLock<PhraseSet> =
    LazyLock::new(|| PhraseSet::of(all_cues().filter(|cue| !is_casual(cue))));

/// Cues that take something back. The others only say from when on a statement holds.
pub(super) static WITHDRAWING_CUES: LazyLock<PhraseSet> =
    LazyLock::new(|| PhraseSet::of(all_cues().filter(|cue| !is_casual(cue) && !is_adding(cue))));

static ALL_PHRASES: LazyLock<BTreeMap<&'static str, CueClass>> = LazyLock::new(|| {
    let listed =
        |list: &'static str, separator| list.split(separator).map(str::trim).filter(|cue| !cue.is_empty());
    let reported = listed(REPORTED_CHANGE_CUES, ',').map(|cue| (cue, CueClass::Reported));
    all_cues()
        .map(str::trim)
        .map(|cue| (cue, if is_casual(cue) { CueClass::Casual } else { CueClass::Change }))
        .chain(reported)
        .chain(listed(ADDING_CHANGE_CUES, ',').map(|cue| (cue, CueClass::Adding)))
        .chain(listed(CHANGE_NOUNS, ' ').map(|cue| (cue, CueClass::Noun)))
        .collect()
});

/// The meaning of a cue for the tense of its clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CueClass {
    /// A word that is as common in other talk: "now".
    Casual,
    /// A word that tells what happened if its clause is in the past: "instead".
    Reported,
    /// A noun, which may name a change that is known: "after the update".
    Noun,
    /// A phrase that says from when on something holds: "from now on".
    Adding,
    /// A verb or a phrase of a change: "we switched", "no longer".
    Change,
}

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// Returns whether the cue at a place of a clause announces a change, and does not only tell of one.
fn announces(clause: &[&str], at: usize, length: usize, is_past: &mut Option<bool>) -> bool {
    static KNOWN: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        [BEFORE_CHANGE_NOUNS, DEFINITE_ARTICLES].into_iter().flat_map(str::split_whitespace).collect()
    });
    static TARGETS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CHANGE_TARGETS));
    static SUBJECTS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(CHANGING_SUBJECTS));
    let cue = clause[at..at + length].join(" ");
    let class = ALL_PHRASES.get(cue.as_str()).copied().unwrap_or(CueClass::Change);
    let is_known = at > 0 && KNOWN.contains(clause[at - 1]);
    if class == CueClass::Noun && is_known {
        return false;
    }
    if class == CueClass::Adding || !*is_past.get_or_insert_with(|| past_reports::is_past(clause)) {
        return true;
    }
    // "We switched", "migramos" and "moved to Node 20" change something. "The formatter replaced half of the tabs" tells
    // what went wrong.
    // German and Dutch have the participle at the end, behind the target.
    let target_start = if at + length == clause.len() { 0 } else { at + length };
    let changes = length > 1
        || clause.iter().any(|word| SUBJECTS.contains(word))
        || clause[0] == "on"
        || ["mos", "śmy", "iamo", "dik", "tik", "tık", "dık"].iter().any(|ending| cue.ends_with(ending))
        || clause[target_start..].iter().any(|word| TARGETS.contains(word));
    class == CueClass::Change && changes
}

/// The cues of a change in a statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeCues {
    /// `true` if the statement announces a change.
    pub(super) announces_change: bool,
    /// `true` if the statement announces a change by a cue that is rare in other talk.
    pub(super) is_clear_change: bool,
    /// `true` if the statement announces a change by a cue that takes something back: "forget", "no longer".
    pub(super) takes_back: bool,
    /// `true` if the statement stands beside earlier ones, and not in their place: "also", "as well".
    pub(super) is_addition: bool,
    /// `true` if the statement only tells what happened: it announces no change and has verbs of the past alone.
    pub(super) is_report: bool,
}

impl ChangeCues {
    /// Reads the cues of a statement.
    pub(super) fn of(text: &str) -> Self {
        let words = words_of(text);
        let mut cues = Self { is_addition: is_addition(&words), ..Self::default() };
        let (mut has_past, mut has_present) = (false, false);
        // A change that the clause before tells of, and whether it takes something back.
        let mut told_change = None;
        for clause in words.split(|word| word == CLAUSE).filter(|clause| !clause.is_empty()) {
            let clause: Vec<&str> = clause.iter().map(String::as_str).collect();
            let mut is_past = None;
            let (announced, mut has_casual) = (told_change.take(), false);
            for at in 0..clause.len() {
                let length = CHANGE_CUES.prefix_len(&clause[at..]);
                if length == 0 {
                    continue;
                }
                let is_clear = CLEAR_CUES.prefix_len(&clause[at..]) > 0;
                let takes_back = WITHDRAWING_CUES.prefix_len(&clause[at..]) > 0;
                if announces(&clause, at, length, &mut is_past) {
                    cues.announces_change = true;
                    cues.is_clear_change |= is_clear;
                    cues.takes_back |= takes_back;
                    has_casual |= !is_clear;
                } else if is_clear {
                    told_change = Some(takes_back);
                }
            }
            // "She changed schools, it is Brunnmatt now": the first clause tells of a change, and the next one what holds.
            if let Some(takes_back) = announced.filter(|_| has_casual) {
                cues.is_clear_change = true;
                cues.takes_back |= takes_back;
            }
            if !cues.announces_change {
                has_past |= is_past.unwrap_or_else(|| past_reports::is_past(&clause));
                has_present |= past_reports::is_present(&clause);
            }
        }
        let is_past = !text.is_ascii() && past_reports::is_unspaced_past(text);
        if announces_unspaced(text, is_past) {
            cues = Self { announces_change: true, is_clear_change: true, takes_back: true, ..cues };
        }
        cues.is_report = !cues.announces_change && (has_past && !has_present || is_past);
        cues
    }
}

/// Returns whether a text in Chinese, Japanese or Korean announces a change.
fn announces_unspaced(text: &str, is_past: bool) -> bool {
    if text.is_ascii() {
        return false;
    }
    // "After the update" says only when something happened.
    let times = UNSPACED_AFTER.split(',').filter(|mark| text.contains(mark));
    let rest = times.fold(Cow::Borrowed(text), |text, mark| Cow::Owned(text.replace(mark, " ")));
    has_unspaced(&rest, if is_past { UNSPACED_DONE_CHANGES } else { UNSPACED_CHANGES })
}

/// Returns whether a clause begins or ends with a word of addition. Elsewhere such a word may belong to another one:
/// "too long".
fn is_addition(words: &[String]) -> bool {
    static ADDING: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([ADDITIONS].into_iter()));
    words.split(|word| word == CLAUSE).any(|clause| {
        let clause: Vec<&str> = clause.iter().map(String::as_str).collect();
        let length = clause.len();
        let ends = |from: usize| {
            let words = &clause[length.saturating_sub(from)..];
            !words.is_empty() && ADDING.prefix_len(words) == words.len()
        };
        let begins = (0..length.min(ADDITION_WORDS)).any(|at| {
            let found = ADDING.prefix_len(&clause[at..]);
            // A word of addition that is a clause of its own only leads to the next one.
            found > 0 && found < length && clause[at] != "too"
        });
        begins || length > 3 && (1..=3).any(ends)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_differ_in_what_they_take_back() {
        let cues = ChangeCues::of("We upgraded to Python 3.12.");
        assert!(cues.announces_change && cues.is_clear_change && cues.takes_back);
        let cues = ChangeCues::of("From today the standup is at nine.");
        assert!(cues.announces_change && cues.is_clear_change && !cues.takes_back);
        let cues = ChangeCues::of("The standup is at nine now.");
        assert!(cues.announces_change && !ChangeCues::of("The standup is at nine.").announces_change);
        assert!(!cues.takes_back);
    }

    #[test]
    fn additions_begin_or_end_a_clause() {
        for text in ["Also use tabs in Go.", "Email Bob on Mondays as well.", "Schick auch Bob den Bericht."]
        {
            assert!(ChangeCues::of(text).is_addition, "{text}");
        }
        for text in ["Also, use tabs.", "Lines of 100 characters are too long now.", "Use tabs."] {
            assert!(!ChangeCues::of(text).is_addition, "{text}");
        }
    }
}
