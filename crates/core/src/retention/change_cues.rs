//! Words that announce a change of what was said before: "from now on", "we upgraded", "no longer".

use std::sync::LazyLock;

use super::lexicon::{ADDING_CHANGE_CUES, ADDITIONS, CASUAL_CHANGE_CUES, LEXICONS, UNSPACED_CHANGES};
use super::mood::{CLAUSE, PhraseSet, has_phrase, has_unspaced, words_of};

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
}

impl ChangeCues {
    /// Reads the cues of a statement.
    pub(super) fn of(text: &str) -> Self {
        let words = words_of(text);
        let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != CLAUSE).collect();
        let is_unspaced = has_unspaced(text, UNSPACED_CHANGES);
        Self {
            announces_change: has_phrase(&CHANGE_CUES, &plain) || is_unspaced,
            is_clear_change: has_phrase(&CLEAR_CUES, &plain) || is_unspaced,
            takes_back: has_phrase(&WITHDRAWING_CUES, &plain) || is_unspaced,
            is_addition: is_addition(&words),
        }
    }
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
