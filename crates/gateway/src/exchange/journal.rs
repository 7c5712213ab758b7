//! The journal of a conversation's log: all that shaped the log beside its items. The memo stores the journal.
//! The meter reads the same after a restart.

use longhaul_core::usage::Usage;
use longhaul_store::prefix_cache::{PrefixCacheKey, PrefixCacheScope};
use serde::{Deserialize, Serialize};

use super::conversation::{ConversationState, ItemDigest, chain};
use super::log::{ConversationLog, ReportedUsage, RequestSnapshot};
use super::memo_lookup::{self, DecidedEdit};
use super::memo_lookup::{ConversationMemo, MAX_KEYS};
use super::prepare::OutboundRequest;
use super::request_budget::RequestBudget;
use super::targeted_request::TargetedRequest;
use crate::response_store::ResponseEntry;

/// The version of the stored form; other versions are ignored.
const VERSION: u32 = 1;

/// The maximum number of reports: the first and the newest. A meter ignores older ones.
const MOST_REPORTS: usize = 200;

/// The fraction of the trigger (one in so many) below which a conversation's journal is not stored.
const STORED_FROM_SHARE: u64 = 4;

/// The fraction of the trigger below which no journal is looked up. The factor two to the other constant allows for a
/// wrong count.
const READ_FROM_SHARE: u64 = 8;

/// The memo scope for entries of this kind only.
const SCOPE: &str = "reports-1";

/// The journal of one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogJournal {
    version: u32,
    /// The name of the prefix up to the newest note.
    prefix: String,
    /// The name of the edits among the notes; empty without edits. Reports about a view with other edits would mislead
    /// the meter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    edits: String,
    notes: Vec<JournalNote>,
}

/// An event that shaped a log, with the number of items at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum JournalNote {
    /// The next edit of the memo entry.
    #[serde(rename = "e")]
    Edit(usize),
    /// A usage report of the upstream.
    #[serde(rename = "r")]
    Report(usize, JournalUsage),
    /// A count of the request by the upstream whose answer has not come back, or never does.
    #[serde(rename = "c")]
    Count(usize, JournalCount),
    /// A refusal of the request for its length.
    #[serde(rename = "x")]
    Refusal(usize, JournalRefusal),
}

/// The token counts of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalUsage {
    #[serde(rename = "i")]
    input: u64,
    #[serde(rename = "o")]
    output: u64,
    #[serde(rename = "t", default)]
    reasoning: u64,
    #[serde(rename = "f")]
    fixed: u64,
    #[serde(rename = "e")]
    estimated: u64,
    #[serde(rename = "w", default)]
    window: Option<u64>,
}

/// The token counts of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalCount {
    #[serde(rename = "i")]
    pub(super) tokens: u64,
    #[serde(rename = "f")]
    pub(super) fixed: u64,
}

/// The figures of a refusal, in tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalRefusal {
    #[serde(rename = "f")]
    fixed: u64,
    #[serde(rename = "w", default)]
    window: Option<u64>,
    #[serde(rename = "u", default)]
    used: Option<u64>,
    #[serde(rename = "l", default)]
    limit: Option<u64>,
}

impl JournalUsage {
    pub(super) fn of(reported: &ReportedUsage) -> Self {
        let ReportedUsage { usage, start, estimated } = reported;
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            reasoning: usage.reasoning_tokens,
            fixed: start.fixed_tokens,
            estimated: *estimated,
            window: start.window,
        }
    }

    /// Returns the report for a log whose view is the one that was sent.
    fn reported(&self, log: &ConversationLog) -> ReportedUsage {
        let usage = Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            reasoning_tokens: self.reasoning,
            ..Usage::default()
        };
        ReportedUsage { usage, start: start(log, self.fixed, self.window), estimated: self.estimated }
    }
}

impl JournalRefusal {
    pub(super) fn of(start: &RequestSnapshot, used: Option<u64>, limit: Option<u64>) -> Self {
        Self { fixed: start.fixed_tokens, window: start.window, used, limit }
    }
}

fn start(log: &ConversationLog, fixed_tokens: u64, window: Option<u64>) -> RequestSnapshot {
    RequestSnapshot { view_hash: log.history.view_hash(), fixed_tokens, window }
}

impl JournalNote {
    fn items(&self) -> usize {
        match self {
            Self::Edit(items) | Self::Report(items, _) | Self::Count(items, _) | Self::Refusal(items, _) => {
                *items
            }
        }
    }

    /// Returns whether the note is a report of the upstream about tokens.
    fn is_report(&self) -> bool {
        matches!(self, Self::Report(..) | Self::Count(..))
    }

    /// Applies the note to a log with the items of that time; `None` if an edit is missing.
    fn apply(&self, log: &mut ConversationLog, edits: &mut impl Iterator<Item = DecidedEdit>) -> Option<()> {
        match self {
            Self::Edit(_) => {
                let (edit, stopgap) = edits.next()?;
                log.commit(log.placed(edit), stopgap);
            }
            Self::Report(_, report) => log.report(report.reported(log)),
            Self::Count(_, JournalCount { tokens, fixed }) => log.count(*tokens, &start(log, *fixed, None)),
            Self::Refusal(_, JournalRefusal { fixed, window, used, limit }) => {
                log.refused(&start(log, *fixed, *window), *used, *limit);
            }
        }
        Some(())
    }
}

/// Removes the second oldest report if there are too many. The first report, the newest ones and all other notes stay.
pub(super) fn thinned(notes: &mut Vec<JournalNote>) {
    if notes.iter().filter(|note| note.is_report()).count() > MOST_REPORTS
        && let Some(second) = notes.iter().enumerate().filter(|(_, note)| note.is_report()).nth(1)
    {
        // The index is taken out, because the iterator borrows the notes.
        let at = second.0;
        notes.remove(at);
    }
}

impl LogJournal {
    /// Returns whether the conversation extends the one of the journal.
    fn is_of(&self, chain: &[ItemDigest]) -> bool {
        let newest = self.notes.last().and_then(|note| note.items().checked_sub(1));
        let prefix = newest.and_then(|at| chain.get(at)).map(hex);
        // The client may have gone back and changed its history. Counts of other items would mislead the meter.
        self.version == VERSION && prefix.as_ref() == Some(&self.prefix)
    }
}

/// Returns a name of the operations of edits; empty without edits.
fn name_of_edits(edits: &[DecidedEdit]) -> String {
    if edits.is_empty() {
        return String::new();
    }
    let mut hasher = blake3::Hasher::new();
    for (edit, _) in edits {
        // Serialising operations cannot fail.
        hasher.update(serde_json::to_string(&edit.ops).unwrap_or_default().as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn hex(name: &ItemDigest) -> String {
    blake3::Hash::from_bytes(*name).to_hex().to_string()
}

/// The store of one conversation's journal.
pub(super) struct JournalStore<'a> {
    pub(super) request: &'a TargetedRequest,
    pub(super) memo: &'a ConversationMemo,
    pub(super) budget: &'a RequestBudget,
}

impl JournalStore<'_> {
    /// Returns the journal to be stored; `None` as long as the conversation is far from the trigger.
    pub(super) fn journal(&self, log: &ConversationLog, input: u64) -> Option<ResponseEntry> {
        // Most conversations end far below the trigger, and a restart costs them no more than a new estimate.
        let is_near =
            input.saturating_mul(STORED_FROM_SHARE) >= self.budget.threshold_tokens() || log.is_shortened();
        if !is_near || log.notes.is_empty() {
            return None;
        }
        let chain = chain(&self.memo.names(log.items));
        let prefix = chain.last()?;
        let (edits, touched) = log.portable().map(|(edits, item)| (edits, Some(item))).unwrap_or_default();
        let journal = LogJournal {
            version: VERSION,
            prefix: hex(prefix),
            edits: name_of_edits(&edits),
            notes: log.notes.clone(),
        };
        // The key must be found before the log exists: the last item of an edit, or the beginning.
        let name = chain.get(touched.unwrap_or(1)).or(chain.first())?;
        let text = serde_json::to_string(&journal).ok()?;
        Some(ResponseEntry::new(self.journal_key(name), text))
    }

    /// Restores the log of a conversation that this process does not know, for example after a restart. Its edits and
    /// reports then still apply.
    pub(super) async fn recover(&self, state: &mut ConversationState, tokens: u64) {
        let names = self.memo.names(usize::MAX);
        // Most conversations are short, and a look-up costs each new one a read of the store.
        if names.len() < 2 || tokens.saturating_mul(READ_FROM_SHARE) < self.budget.threshold_tokens() {
            return;
        }
        let chain = self.request.work(|| chain(&names)).await;
        if let Some(log) = self.recovered(&chain).await {
            tracing::info!(
                items = log.items,
                notes = log.notes.len(),
                edits = log.history.edits().len(),
                "a conversation was restored from its journal"
            );
            state.log = log;
        }
    }

    /// Returns the log that the stored journal describes; `None` if there is no journal for this conversation.
    async fn recovered(&self, chain: &[ItemDigest]) -> Option<ConversationLog> {
        let memo = &self.request.proxied.inner.parts.memo;
        let keys: Vec<PrefixCacheKey> =
            chain.iter().rev().take(MAX_KEYS).map(|name| self.memo.memo_key(name)).collect();
        // A read error is reported by the later lookup that needs the entry.
        let found = memo.find(&keys).await.ok().flatten();
        let (edits, places) = match found {
            Some(found) => (memo_lookup::from_memo(found.edits), vec![chain.len() - 1 - found.index]),
            // Without an edit, the journal is under one of the first two items.
            None => (Vec::new(), vec![1, 0]),
        };
        for name in places.into_iter().filter_map(|at| chain.get(at)) {
            let text = memo.find_text(&self.journal_key(name)).await.ok().flatten();
            let Some(journal) = text.and_then(|text| serde_json::from_str::<LogJournal>(&text).ok()) else {
                continue;
            };
            if journal.is_of(chain) && journal.edits == name_of_edits(&edits) {
                return self.request.work(|| self.replayed(&journal, edits)).await;
            }
        }
        None
    }

    /// Replays the journal on the request's items; `None` if the notes do not match.
    fn replayed(&self, journal: &LogJournal, edits: Vec<DecidedEdit>) -> Option<ConversationLog> {
        let envelope = &self.request.proxied.envelope;
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        // The journal only speeds things up. What cannot be read again costs a new count.
        let mut pieces = self.request.proxied.wire.parse_segments(&items, 0).ok()?;
        let mut log = self.request.reader().new_state().log;
        let mut edits = edits.into_iter();
        for note in &journal.notes {
            // Notes out of order belong to a damaged entry.
            let more = note.items().checked_sub(log.items).filter(|more| *more <= pieces.len())?;
            let rest = pieces.split_off(more);
            log.feed(std::mem::replace(&mut pieces, rest)).ok()?;
            note.apply(&mut log, &mut edits)?;
        }
        log.feed(pieces).ok()?;
        // An edit without a note belongs to another state of the log.
        edits.next().is_none().then_some(log)
    }

    /// Returns the key of the journal that is stored under an item.
    fn journal_key(&self, name: &ItemDigest) -> PrefixCacheKey {
        let upstream = format!("{}/{}", self.request.target.server.upstream.name, self.request.target.model);
        let policy = format!("{SCOPE}/{}", self.memo.policy_name());
        let scope = PrefixCacheScope {
            credential: &self.request.proxied.caller,
            upstream: &upstream,
            policy: &policy,
        };
        PrefixCacheKey::new(&scope, name)
    }

    /// Records the reported usage as the anchor of the next estimate, also after a restart. Hidden output is excluded,
    /// because replays of it are counted separately.
    pub(super) async fn remember_usage(&self, usage: Usage, prepared: &OutboundRequest) {
        if let Some(entry) = self.reported(usage, prepared).await {
            self.request.proxied.inner.answers.write(entry).await;
        }
    }

    /// Records the usage at the end of a stream, and stores it in the background.
    pub(super) async fn remember_usage_beside(&self, usage: Usage, prepared: &OutboundRequest) {
        if let Some(entry) = self.reported(usage, prepared).await {
            self.request.proxied.inner.answers.write_beside(entry);
        }
    }

    /// Adds the reported usage to the log, and returns the entry to be stored.
    pub(super) async fn reported(&self, usage: Usage, prepared: &OutboundRequest) -> Option<ResponseEntry> {
        // Some servers report zeros where they have not counted.
        if usage.input_tokens == 0 {
            return None;
        }
        // The window's lower bound holds for a request with hidden steps as well.
        self.request.target.saw_call(usage.total_tokens());
        // The input contained hidden steps, so its count does not match the client's request.
        if prepared.rounds.answered > 0 {
            tracing::debug!(
                steps = prepared.rounds.answered,
                actual = usage.input_tokens,
                "the upstream's count includes hidden steps, and does not correct the estimate"
            );
            return None;
        }
        tracing::info!(
            estimated = prepared.input,
            bound = prepared.bound,
            actual = usage.input_tokens,
            "the upstream's count"
        );
        let mut state = self.memo.state(self.memo.conversation.as_ref()?, prepared.items).await?;
        state.log.report(ReportedUsage { usage, start: prepared.start.clone(), estimated: prepared.input });
        self.journal(&state.log, prepared.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(items: usize) -> JournalNote {
        let report =
            JournalUsage { input: 7, output: 1, reasoning: 0, fixed: 3, estimated: 8, window: Some(9) };
        JournalNote::Report(items, report)
    }

    #[test]
    fn of_many_reports_the_first_and_the_newest_stay_and_every_edit() {
        let mut notes = Vec::new();
        for items in 1..=3 * MOST_REPORTS {
            if items % 50 == 0 {
                notes.push(JournalNote::Edit(items));
            }
            notes.push(report(items));
            thinned(&mut notes);
        }
        let edits = notes.iter().filter(|note| matches!(note, JournalNote::Edit(_))).count();
        let reports: Vec<usize> = notes
            .iter()
            .filter(|note| matches!(note, JournalNote::Report(..)))
            .map(JournalNote::items)
            .collect();
        assert_eq!((edits, reports.len()), (3 * MOST_REPORTS / 50, MOST_REPORTS));
        assert_eq!(reports[..2], [1, 2 * MOST_REPORTS + 2]);
        assert!(notes.is_sorted_by_key(JournalNote::items));
    }

    #[test]
    fn only_what_is_about_the_same_beginning_is_taken() {
        let chain = [[1; 32], [2; 32], [3; 32]];
        let journal = |version, name: u8| LogJournal {
            version,
            prefix: hex(&[name; 32]),
            edits: String::new(),
            notes: vec![report(2)],
        };
        assert!(journal(VERSION, 2).is_of(&chain));
        assert!(!journal(VERSION, 3).is_of(&chain), "of another number of items");
        assert!(!journal(VERSION + 1, 2).is_of(&chain), "in another form");
        assert!(!journal(VERSION, 2).is_of(&chain[..1]), "of more than was sent");
        let stored = serde_json::to_string(&journal(VERSION, 2)).unwrap();
        let form = r#""notes":[{"r":[2,{"i":7,"o":1,"t":0,"f":3,"e":8,"w":9}]}]}"#;
        assert!(stored.ends_with(form), "{stored}");
        assert_eq!(serde_json::from_str::<LogJournal>(&stored).unwrap(), journal(VERSION, 2));
    }
}
