//! Needed-later recall: the share of the items used by the recorded agent that a policy has at hand
//! at that moment.
//!
//! An item is an identifier, a path, a number or an error line in an answer's text or in its calls' arguments
//! that an earlier message holds. Under a policy an item is in view, among the top results of a recall, or
//! lost. The query of a recall uses only texts that the agent had then: see `look_up`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use longhaul_core::recall::{SHOWN_WEIGHT, SearchIndex, SearchLimits, search};

use crate::lab::policy::ViewSegment;
use crate::lab::recording::SessionRecording;

mod items;
mod query;

pub(crate) use items::{VerbatimItem, items};
use query::ViewBeforeAnswer;

/// The number of tokens written by the model for one call of the recall tool.
pub(crate) const RECALL_OUTPUT_TOKENS: u64 = 60;

/// The maximum number of results of one recall.
pub(crate) const RECALL_HITS: usize = 5;

/// The maximum number of words of one query.
pub(crate) const QUERY_WORDS: usize = 12;

/// The items used later in one recording, and the entries with them. Equal for all policies.
#[derive(Debug)]
pub(crate) struct NeedIndex {
    /// The search index over all messages.
    index: SearchIndex,
    /// The items of earlier entries needed by each entry. Empty for all but answers.
    needs: Vec<Vec<NeededItem>>,
    /// The lists of entries with an item, oldest first, for the items of all answers.
    holders: Vec<Vec<usize>>,
    /// Entries by the name of their text, the first of equals.
    by_id: HashMap<u64, usize>,
    /// For each entry, the first entry with the same text.
    first: Vec<usize>,
}

/// An item of an answer and of earlier messages.
#[derive(Clone, Debug)]
pub(crate) struct NeededItem {
    pub(crate) text: Arc<str>,
    /// The index of the item's list of holders, and the number of holders that are earlier than the answer.
    holders: (usize, usize),
}

/// The result of the needs of one answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerNeedResult {
    pub(crate) in_view: u64,
    pub(crate) recalled: u64,
    pub(crate) lost: u64,
    /// The text returned by the recall, if any.
    pub(crate) recall: Option<String>,
}

impl NeedIndex {
    pub(crate) fn of(recording: &SessionRecording) -> Self {
        let mut study = Self {
            index: SearchIndex::default(),
            needs: Vec::new(),
            holders: Vec::new(),
            by_id: HashMap::new(),
            first: Vec::new(),
        };
        // The search index splits words otherwise than items do, so items need an index of their own.
        let mut places = WordIndex::default();
        let answers: BTreeSet<usize> = recording.answers().collect();
        for (at, entry) in recording.entries.iter().enumerate() {
            // The entry's own words are read afterwards: only earlier entries can hold what it needs.
            let needs = if answers.contains(&at) { items(&entry.text) } else { BTreeSet::new() };
            let needs = needs.into_iter().filter_map(|item| {
                let holders = places.holders(&item, recording, at);
                (holders.1 > 0).then(|| NeededItem { text: item.text.into(), holders })
            });
            study.needs.push(needs.collect());
            // Read after the needs were looked up, so that an answer does not hold what it needs itself.
            places.read(at, &entry.text);
            study.index.add(&entry.text);
            // Equal texts have one id, which stands for the first entry.
            study.first.push(*study.by_id.entry(recording.id(at)).or_insert(at));
        }
        study.holders = places.found;
        study
    }

    /// Returns the entry whose text has an id.
    pub(crate) fn entry_of(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the first entry with the same text.
    fn first_of(&self, at: usize) -> usize {
        self.first[at]
    }

    /// Returns the earlier entries with the needed item, oldest first.
    fn holders(&self, need: &NeededItem) -> &[usize] {
        let (list, earlier) = need.holders;
        &self.holders[list][..earlier]
    }

    /// Returns the items needed by the answer `at`.
    pub(crate) fn needs(&self, at: usize) -> &[NeededItem] {
        &self.needs[at]
    }
}

/// An index from each run of letters and digits to the entries that hold it. It narrows the search for an
/// item.
#[derive(Default)]
struct WordIndex {
    entries: HashMap<Box<str>, Vec<usize>>,
    /// The index in `found` of each item's list, and the entry up to which the item was looked for.
    known: HashMap<String, (usize, usize)>,
    found: Vec<Vec<usize>>,
}

impl WordIndex {
    fn read(&mut self, at: usize, text: &str) {
        // A set, because an entry must be in a run's list once, however often it has the run.
        let runs: HashSet<&str> = alphanumeric_runs(text).collect();
        for run in runs {
            match self.entries.get_mut(run) {
                Some(entries) => entries.push(at),
                None => _ = self.entries.insert(run.into(), vec![at]),
            }
        }
    }

    /// Returns the index of the list of entries that hold an item, and the list's length so far.
    fn holders(
        &mut self,
        item: &VerbatimItem,
        recording: &SessionRecording,
        before: usize,
    ) -> (usize, usize) {
        // A new item gets the next free list. The entry of the map tells whether the item is new.
        let next = self.found.len();
        let (list, upto) = self.known.entry(item.text.clone()).or_insert((next, 0));
        if *list == next {
            self.found.push(Vec::new());
        }
        let found = &mut self.found[*list];
        // An item can only be in entries that have all of its words, so the rarest word leaves the fewest to read.
        let rarest = alphanumeric_runs(&item.text)
            .map(|run| self.entries.get(run))
            .min_by_key(|entries| entries.map_or(0, Vec::len));
        let candidates = rarest.flatten().map_or(&[][..], Vec::as_slice);
        // Only entries since the last look: long sessions ask for the same item again and again.
        let new = &candidates[candidates.partition_point(|at| *at < *upto)..];
        // An entry without tokens was never sent, so no view can hold its words.
        let is_held =
            |at: &&usize| recording.entries[**at].tokens > 0 && item.is_in(&recording.entries[**at].text);
        found.extend(new.iter().filter(is_held));
        *upto = before;
        (*list, found.len())
    }
}

fn alphanumeric_runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|run| !run.is_empty())
}

/// Looks for the items that the answer `next` needs: first in view, then, if the agent can recall, with one
/// recall for all missing items. An item is found if a returned passage holds it. Passages are as long as the
/// room of `room_tokens` allows.
///
/// The query has the words of this answer that are in view, the rarest in the recording so far first. An
/// answer without such words asks with the rarest words of the person's last message.
pub(crate) fn look_up(
    recording: &SessionRecording,
    next: usize,
    view: &[ViewSegment],
    can_recall: bool,
    room_tokens: u64,
) -> AnswerNeedResult {
    let study = recording.need_index();
    // Most answers need nothing, and the view before such an answer need not be built.
    let needs = study.needs(next);
    if needs.is_empty() {
        return AnswerNeedResult::default();
    }
    let shown = ViewBeforeAnswer::new(recording, next, view);
    // Items in view cost the agent nothing, so only the others are looked for.
    let mut missing: Vec<&NeededItem> = needs.iter().filter(|need| !shown.holds_need(need)).collect();
    let mut found =
        AnswerNeedResult { in_view: (needs.len() - missing.len()) as u64, ..AnswerNeedResult::default() };
    let query = (can_recall && !missing.is_empty())
        .then(|| shown.words_of_answer().or_else(|| shown.words_of_task()));
    if let Some(query) = query.flatten() {
        let returned = recall(recording, next, &shown, &query, room_tokens);
        let before = missing.len();
        missing.retain(|need| !items::is_in(&need.text, &returned));
        found.recalled = (before - missing.len()) as u64;
        found.recall = Some(returned);
    }
    found.lost = missing.len() as u64;
    found
}

/// Returns the answer of the recall tool. Messages that are unchanged in view weigh less, as in the tool.
fn recall(
    recording: &SessionRecording,
    next: usize,
    shown: &ViewBeforeAnswer<'_>,
    query: &str,
    room_tokens: u64,
) -> String {
    let hits = search(
        &recording.need_index().index,
        query,
        next,
        SearchLimits::in_room(RECALL_HITS, room_tokens),
        |at| match recording.entries[at].tokens {
            // An entry that is never sent, like an answer lost in a crash, cannot be recalled.
            0 => 0.0,
            _ if shown.shows(at) => SHOWN_WEIGHT,
            _ => 1.0,
        },
        |at: usize| &*recording.entries[at].text,
    );
    let mut answer = String::new();
    for hit in hits {
        answer.push_str(&format!("<lh:{}>\n{}\n\n", recording.entries[hit.at].seq, hit.snippet));
    }
    // The blank line behind the last result is no part of what the tool returns.
    answer.truncate(answer.trim_end().len());
    answer
}
