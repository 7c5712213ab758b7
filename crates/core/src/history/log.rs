//! The messages of the log.

use super::omissions::Omissions;
use super::{LogEntry, LogEntryKind, ViewItem, ViewItemKind, join};
use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::event::PartialAnswerReason;
use crate::ids::{EditId, LogRange, Millis, Seq, StepId};
use crate::message::Message;

/// The messages of the log, and the log's newest position and time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SessionLog {
    pub(super) last_seq: Seq,
    pub(super) now: Millis,
    pub(super) entries: Vec<LogEntry>,
    /// Position of the newest piece in view whose stream broke off.
    pub(super) broken_piece: Option<Seq>,
}

impl SessionLog {
    /// Returns the message that is stored at `seq`.
    pub(super) fn entry(&self, seq: Seq) -> Option<&LogEntry> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok().map(|at| &self.entries[at])
    }

    /// Returns the estimated tokens, by the kind of writing, of the view without any edit.
    pub(super) fn unedited_groups(&self) -> TokensByScript {
        let mut newer = None;
        let mut sum = TokensByScript::default();
        // Backwards, because the last piece of an answer holds the earlier pieces too.
        for entry in self.entries.iter().rev() {
            if let Some(groups) = entry.shown_groups().filter(|_| newer != Some(entry.begins)) {
                sum += groups;
                newer = Some(entry.begins);
            }
        }
        sum
    }

    /// Returns the position of the newest typed message that contains `text`. Letter case and spacing do not matter.
    pub(super) fn said_in(&self, text: &str) -> Option<Seq> {
        let key = crate::orders::key(text);
        let typed = self.entries.iter().rev().filter(|entry| entry.kind == LogEntryKind::Typed);
        let mut said = typed.filter(|entry| crate::orders::key(&entry.message.text()).contains(&key));
        said.next().map(|entry| entry.seq)
    }

    /// Marks the newest piece as broken off if the failed step wrote the piece. A broken piece does not count as a
    /// pause, because no room was made.
    pub(super) fn mark_broken_answer(&mut self, step: &StepId) {
        let broken = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));
        if let Some(entry) = self.entries.last_mut()
            && entry.kind == broken
            // The step that writes a message gives the message its id: `m-` and the step's own id.
            && entry.message.id.as_str().strip_prefix("m-") == Some(step.as_str())
        {
            entry.pauses = entry.pauses.saturating_sub(1);
            self.broken_piece = Some(entry.seq);
        }
    }

    /// Returns the paused answer that the next answer continues.
    pub(super) fn paused_piece(&self, view: &[ViewItem]) -> Option<&LogEntry> {
        let newest = self
            .entries
            .iter()
            // The model never saw a lost answer, so the model continues the piece before that answer.
            .rfind(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))?;
        // An edit may have removed the piece, or a note may stand behind. The model has nothing to continue then.
        let shown = view.last().is_some_and(|item| {
            item.kind == ViewItemKind::Assistant
                && item.range == (LogRange { from: newest.begins, to: newest.seq })
        });
        (shown && newest.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused))).then_some(newest)
    }

    /// Returns an answer from its beginning up to `piece`, in the stored form.
    pub(super) fn whole(&self, piece: &LogEntry) -> Message {
        // A lost piece was replaced by the next attempt. The caller's own piece counts even if lost: people read it.
        let first = self.entries.partition_point(|entry| entry.seq < piece.begins);
        let pieces =
            self.entries[first..].iter().take_while(|entry| entry.seq <= piece.seq).filter(|entry| {
                entry.seq == piece.seq
                    || entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))
            });
        let whole =
            pieces.map(|entry| Message::clone(&entry.message)).reduce(|whole, piece| join(&whole, &piece));
        whole.unwrap_or_else(|| Message::clone(&piece.message))
    }

    /// Returns whether a later piece that counts continues the answer of `piece`.
    pub(super) fn is_continued(&self, piece: &LogEntry) -> bool {
        let after = self.entries.partition_point(|entry| entry.seq <= piece.seq);
        let mut more =
            self.entries[after..].iter().take_while(|entry| entry.goes_on() && entry.begins == piece.begins);
        piece.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused))
            && more.any(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))
    }

    /// Builds the shown form of the message at `seq` again. The last piece of an answer shows the whole answer, so
    /// later pieces of the same answer are built again too.
    pub(super) fn show_entry_again(
        &mut self,
        seq: Seq,
        omissions: &Omissions,
        counter: &MessageTokenCounter,
    ) {
        let Ok(first) = self.entries.binary_search_by_key(&seq, |entry| entry.seq) else { return };
        let begins = self.entries[first].begins;
        for at in first..self.entries.len() {
            if self.entries[at].begins != begins {
                continue;
            }
            let paused = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));
            let before =
                self.entries[..at].iter().rfind(|entry| entry.begins == begins && entry.kind == paused);
            let before = before.and_then(LogEntry::shown).cloned();
            let active: Vec<(EditId, usize, String)> = omissions.parts_of(self.entries[at].seq).collect();
            self.entries[at].show_without(&active, before.as_deref(), counter);
        }
    }
}
