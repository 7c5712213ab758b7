//! The text that the agent had before an answer, and the recall queries that can be made of it.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};

use longhaul_core::history::LogEntryKind;

use super::{NeedIndex, NeededItem, QUERY_WORDS, items};
use crate::lab::policy::ViewSegment;
use crate::lab::recording::SessionRecording;

/// The view before the answer `next`.
pub(super) struct ViewBeforeAnswer<'a> {
    recording: &'a SessionRecording,
    study: &'a NeedIndex,
    next: usize,
    /// The entries that are shown. Of entries with the same text only the first is marked.
    shown: Vec<bool>,
    /// The shown texts other than unchanged messages: summaries, notes, remains of a message.
    others: Vec<&'a str>,
    /// The words of the shown texts.
    other_words: OnceCell<HashSet<String>>,
}

impl<'a> ViewBeforeAnswer<'a> {
    pub(super) fn new(recording: &'a SessionRecording, next: usize, view: &'a [ViewSegment]) -> Self {
        let study = recording.need_index();
        // Only entries before the answer can be in view, so the list ends there.
        let (mut shown, mut others) = (vec![false; next], Vec::new());
        for segment in view {
            match study.entry_of(segment.id).filter(|at| *at < next) {
                Some(at) => shown[at] = true,
                None => others.push(&*segment.text),
            }
        }
        // System prompt and tools are in every request, whatever the policy leaves out.
        let fixed = std::iter::once(&*recording.fixed_text);
        Self {
            recording,
            study,
            next,
            shown,
            others: others.into_iter().chain(fixed).collect(),
            other_words: OnceCell::new(),
        }
    }

    /// Returns true if an entry is shown unchanged.
    pub(super) fn shows(&self, entry: usize) -> bool {
        self.shown.get(self.study.first_of(entry)) == Some(&true)
    }

    pub(super) fn holds_need(&self, need: &NeededItem) -> bool {
        // The newest holders are the likeliest in view, so the search begins with them.
        self.study.holders(need).iter().rev().any(|at| self.shows(*at))
            || self.others.iter().any(|text| items::is_in(&need.text, text))
    }

    /// Reports whether a lower-case word is in view as a word of its own.
    fn holds_word(&self, word: &str) -> bool {
        // Recent entries are the likeliest in view.
        let mut entries = self.study.index.texts_with(word, self.next).rev();
        entries.any(|at| self.shows(at)) || self.other_words().contains(word)
    }

    fn other_words(&self) -> &HashSet<String> {
        self.other_words.get_or_init(|| self.others.iter().flat_map(|text| words(text)).collect())
    }

    /// Returns the answer's words in view, the rarest first.
    pub(super) fn words_of_answer(&self) -> Option<String> {
        let answer = words(&self.recording.entries[self.next].text).collect();
        self.rarest_words_query(answer)
    }

    /// Returns the rarest words of the person's last message.
    pub(super) fn words_of_task(&self) -> Option<String> {
        let entries = &self.recording.entries[..self.next];
        let typed = entries.iter().rposition(|entry| entry.kind == LogEntryKind::Typed);
        // A message that has left the view gives the agent no words to search for.
        let typed = typed.filter(|at| self.shows(*at))?;
        self.rarest_words_query(words(&entries[typed].text).collect())
    }

    fn rarest_words_query(&self, words: BTreeSet<String>) -> Option<String> {
        let known = words.into_iter().map(|word| (self.study.index.holders(&word, self.next), word));
        let mut known: Vec<(usize, String)> = known.filter(|(_, word)| self.holds_word(word)).collect();
        // Sorted by the number of entries with the word, then by the word: the order must not depend on a hash.
        known.sort();
        known.truncate(QUERY_WORDS);
        let words: Vec<String> = known.into_iter().map(|(_, word)| word).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// Splits a text into lower-case words as the search does.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|char: char| !char.is_alphanumeric() && !matches!(char, '_' | '-' | '.' | '/'))
        .map(|word| word.trim_matches(['.', '-']).to_lowercase())
        // A single letter is in nearly every text and would only fill the query.
        .filter(|word| word.chars().nth(1).is_some())
}
