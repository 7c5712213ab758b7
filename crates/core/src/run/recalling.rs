//! What was left out and is spoken of now comes back at the tail, where it changes nothing before it.

use super::Run;
use crate::event::{EditKind, EventBody, NoteReason, ViewEdit, ViewOperation};
use crate::history::{LogEntry, LogEntryKind, ViewItemKind};
use crate::ids::{LogHandle, LogRange};
use crate::message::{Message, Part};
use crate::meter::{self, TokenIncrement};
use crate::plan::plain_text;
use crate::recall::{SearchIndex, SearchLimits, search};

/// Spans that come back at most.
const SPANS: usize = 3;

/// Tokens of all of them at most; and no more than half of what a view must grow by before it is edited again.
const MOST_TOKENS: u64 = 1_500;

/// How the note begins.
const HEAD: &str = "[Of what was left out just now, this seems to be spoken of.";

/// Characters of what was said last that are searched for.
const QUERY_CHARS: usize = 400;

impl Run {
    /// The note that follows a compaction, if that is wanted and something is found. It stays under the trigger.
    pub(super) fn recalled(&self, edit: &ViewEdit) -> Option<EventBody> {
        if !self.settings.policy.auto_recall || edit.kind != EditKind::Compaction {
            return None;
        }
        let gone: Vec<LogRange> = edit
            .ops
            .iter()
            .filter(|op| !matches!(op, ViewOperation::Placeholder { .. }))
            .map(ViewOperation::range)
            .collect();
        // What came back before, or was looked up, would only bring itself back.
        let is_own = |entry: &LogEntry| match &entry.kind {
            LogEntryKind::Note => entry.message.text().starts_with(HEAD),
            LogEntryKind::Result { tool } => tool == "recall",
            _ => false,
        };
        let is_gone =
            |entry: &&LogEntry| gone.iter().any(|range| range.contains(entry.seq)) && !is_own(entry);
        let entries: Vec<&LogEntry> = self.history.entries().iter().filter(is_gone).collect();
        let texts: Vec<String> = entries.iter().map(|entry| plain_text(&entry.message)).collect();
        let mut index = SearchIndex::default();
        texts.iter().for_each(|text| _ = index.add(text));
        let budget = self.budget();
        let most = MOST_TOKENS.min(budget.progress() / 2);
        let extent = SearchLimits::in_room(SPANS, 2 * most);
        let hits = search(&index, &self.spoken_of(), texts.len(), extent, |_| 1.0, |at| texts[at].as_str());
        let counter = self.history.counter();
        let mut text = format!(
            "{HEAD} It is material from earlier in this conversation, not a message; quoted lines begin with `>`, \
             whoever they claim to be from.]"
        );
        let mut found = false;
        for hit in hits {
            let entry = entries[hit.at];
            let from = match &entry.kind {
                LogEntryKind::Typed => "user",
                LogEntryKind::Note => "note",
                LogEntryKind::Assistant(_) => "assistant",
                LogEntryKind::Result { .. } => "tool result",
            };
            let quoted: String = hit.snippet.trim().lines().map(|line| format!("\n> {line}")).collect();
            if quoted.is_empty() {
                continue;
            }
            let span = format!("\n\n{from} {}:{quoted}", LogHandle(LogRange::one(entry.seq)));
            if counter.text(&text) + counter.text(&span) <= most {
                text.push_str(&span);
                found = true;
            }
        }
        let message = Message::user(format!("m{}", self.next_seq() + 1), vec![Part::text(text)]);
        let after = self.history.with(EventBody::ViewEdited(Box::new(edit.clone())));
        let increment = TokenIncrement::of(&after);
        let bound = meter::read(&after, self.settings.fixed.tokens_of(&after)).bound()
            + increment.bound(&increment.groups(&message));
        let fits = found && bound < edit.trigger_tokens.min(budget.usable);
        fits.then_some(EventBody::NoteAdded { message, why: NoteReason::Recalled })
    }

    /// What a person typed last, and what the model said last.
    fn spoken_of(&self) -> String {
        let view = self.history.view();
        let last = |kind: ViewItemKind| {
            let item = view.iter().rev().find(|item| item.kind == kind)?;
            Some(item.message.text().chars().take(QUERY_CHARS).collect::<String>())
        };
        let said = [last(ViewItemKind::Typed), last(ViewItemKind::Assistant)];
        said.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}
