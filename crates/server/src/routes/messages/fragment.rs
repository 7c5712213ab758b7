//! A fragment of a log: its messages, calls and edits in the form of
//! [`History`](longhaul_core::history::History). No token counts and no other part of the log are needed.
//!
//! At the edges a fragment cannot decide facts of neighbouring events. [`LogFragment::missing`] says on which
//! side more events are needed.

use std::borrow::Cow;
use std::collections::HashMap;

use longhaul_core::event::{Event, EventBody, PartialAnswerReason, ViewEdit, ViewOperation};
use longhaul_core::history::{LogEntryKind, join};
use longhaul_core::ids::{CallId, EditId, MessageId, Millis, Seq};
use longhaul_core::message::{Message, Part, Role, ToolResult, ToolStatus};

use super::log_window::WindowDirection;

const LOST: LogEntryKind = LogEntryKind::Assistant(Some(PartialAnswerReason::Lost));
const PAUSED: LogEntryKind = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));

/// A message of the fragment.
pub(super) struct LogFragmentEntry<'e> {
    pub(super) seq: Seq,
    pub(super) message: Cow<'e, Message>,
    /// The kind of the entry; `None` for a result whose call may lie before the fragment.
    pub(super) kind: Option<LogEntryKind>,
    /// The position of the answer's beginning.
    begins: Seq,
    /// Set if the answer may begin before the fragment.
    may_begin_before: bool,
}

/// A tool call of the fragment.
struct LogFragmentCall<'e> {
    /// The answer with the call.
    of: Seq,
    id: &'e CallId,
    tool: &'e str,
    started: bool,
    outcome: Option<ToolStatus>,
}

/// An edit of the view.
pub(super) struct LogFragmentEdit<'e> {
    pub(super) seq: Seq,
    pub(super) at: Millis,
    pub(super) edit: &'e ViewEdit,
}

/// The state of a tool call at the end of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFragmentCallState {
    /// The call has a result.
    Ended(ToolStatus),
    /// The call has no result. The tool has begun to run if `started`.
    Open { started: bool },
    /// The call belongs to a discarded answer.
    Void,
}

/// The messages, calls and edits of a part of a log.
#[derive(Default)]
pub(super) struct LogFragment<'e> {
    entries: Vec<LogFragmentEntry<'e>>,
    calls: Vec<LogFragmentCall<'e>>,
    /// The calls without an outcome, by id: indexes into `calls`, in call order.
    open: HashMap<&'e CallId, Vec<usize>>,
    edits: Vec<LogFragmentEdit<'e>>,
    restored: Vec<(Seq, &'e EditId)>,
    /// The positions where runs begin.
    runs: Vec<Seq>,
    /// Set if the fragment begins at the start of the log.
    begins_log: bool,
}

impl<'e> LogFragment<'e> {
    /// Folds events into a fragment. `begins_log`: the events begin at the start of the log.
    pub(super) fn fold(events: impl IntoIterator<Item = &'e Event>, begins_log: bool) -> Self {
        let mut fragment = Self { begins_log, ..Self::default() };
        events.into_iter().for_each(|event| fragment.apply(event));
        fragment
    }

    fn apply(&mut self, event: &'e Event) {
        let seq = event.seq;
        match &event.body {
            EventBody::MessagesTaken { message, .. } => {
                self.push(seq, Cow::Borrowed(message), Some(LogEntryKind::Typed));
            }
            EventBody::NoteAdded { message, .. } => {
                self.push(seq, Cow::Borrowed(message), Some(LogEntryKind::Note));
            }
            EventBody::AssistantAdded { message, cut, .. } => {
                // A lost answer does not count, so its calls are never run.
                if *cut != Some(PartialAnswerReason::Lost) {
                    self.open_calls(seq, message);
                }
                self.push(seq, Cow::Borrowed(message), Some(LogEntryKind::Assistant(*cut)));
            }
            EventBody::ToolStarted { call_id } => {
                // The oldest open call of this id, as for its result below.
                if let Some(call) = self.open.get(call_id).and_then(|open| open.first()) {
                    self.calls[*call].started = true;
                }
            }
            EventBody::ToolFinished { result } => self.add_result(seq, result),
            EventBody::ViewEdited(edit) => self.edits.push(LogFragmentEdit { seq, at: event.at, edit }),
            EventBody::ViewRestored { edit_id } => self.restored.push((seq, edit_id)),
            EventBody::RunStarted { .. } => self.runs.push(seq),
            _ => {}
        }
    }

    fn open_calls(&mut self, seq: Seq, message: &'e Message) {
        for call in message.tool_calls() {
            self.open.entry(&call.call_id).or_default().push(self.calls.len());
            let (id, tool) = (&call.call_id, call.name.as_str());
            self.calls.push(LogFragmentCall { of: seq, id, tool, started: false, outcome: None });
        }
    }

    fn add_result(&mut self, seq: Seq, result: &'e ToolResult) {
        let open = self.open.get_mut(&result.call_id).filter(|open| !open.is_empty());
        // A later answer may use an id again. The result belongs to the oldest open call.
        let kind = match open.map(|open| open.remove(0)) {
            Some(call) => {
                self.calls[call].outcome = Some(result.status);
                Some(LogEntryKind::Result { tool: self.calls[call].tool.to_owned() })
            }
            // A run begins without open calls. A result without a call since then belongs to no call at all.
            None if self.begins_log || !self.runs.is_empty() => return,
            None => None,
        };
        let parts = vec![Part::ToolResult(result.clone())];
        let message = Message { id: format!("m{seq}").into(), role: Role::Tool, parts, origin: None };
        self.push(seq, Cow::Owned(message), kind);
    }

    fn push(&mut self, seq: Seq, message: Cow<'e, Message>, kind: Option<LogEntryKind>) {
        let is_answer = matches!(kind, Some(LogEntryKind::Assistant(_)));
        // A lost attempt may lie between two pieces of one answer.
        let before = self.entries.iter().rfind(|entry| entry.kind.as_ref() != Some(&LOST));
        let (begins, may_begin_before) = match before {
            Some(before) if is_answer && self.goes_on(before) => (before.begins, before.may_begin_before),
            Some(_) => (seq, false),
            None => (seq, is_answer && !self.begins_log),
        };
        self.entries.push(LogFragmentEntry { seq, message, kind, begins, may_begin_before });
    }

    /// Returns whether the next answer continues `piece`: a paused answer with content still in the view.
    fn goes_on(&self, piece: &LogFragmentEntry<'_>) -> bool {
        let is_shown = piece.begins < piece.seq || piece.message.parts.iter().any(has_content);
        piece.kind.as_ref() == Some(&PAUSED) && is_shown && !self.is_removed(piece.seq)
    }

    /// Reports whether an edit in force removes the message at `seq` from the view.
    fn is_removed(&self, seq: Seq) -> bool {
        let later = self.edits.iter().filter(|edit| edit.seq > seq);
        let mut in_force =
            later.filter(|edit| !self.restored.iter().any(|(at, id)| *at > edit.seq && **id == edit.edit.id));
        in_force.any(|edit| {
            // A placeholder keeps the message in its place.
            let removing = edit.edit.ops.iter().filter(|op| !matches!(op, ViewOperation::Placeholder { .. }));
            removing.map(ViewOperation::range).any(|range| range.contains(seq))
        })
    }

    /// Returns the messages, in order.
    pub(super) fn entries(&self) -> &[LogFragmentEntry<'e>] {
        &self.entries
    }

    /// Returns the edits of the view in order, including undone ones.
    pub(super) fn edits(&self) -> &[LogFragmentEdit<'e>] {
        &self.edits
    }

    /// Returns whether the answer of `piece` continues in a later piece that counts.
    pub(super) fn is_continued(&self, piece: &LogFragmentEntry<'_>) -> bool {
        piece.kind.as_ref() == Some(&PAUSED)
            && self.next_counted(piece.seq).is_some_and(|next| next.begins == piece.begins)
    }

    fn next_counted(&self, seq: Seq) -> Option<&LogFragmentEntry<'e>> {
        let after = self.entries.partition_point(|entry| entry.seq <= seq);
        self.entries[after..].iter().find(|entry| entry.kind.as_ref() != Some(&LOST))
    }

    /// Returns the pieces of an answer up to `last`. Lost pieces do not count and are skipped.
    fn pieces(&self, last: &LogFragmentEntry<'_>) -> impl Iterator<Item = &LogFragmentEntry<'e>> {
        let (begins, ends) = (last.begins, last.seq);
        let first = self.entries.partition_point(|entry| entry.seq < begins);
        self.entries[first..]
            .iter()
            .take_while(move |entry| entry.seq <= ends)
            .filter(|entry| entry.kind.as_ref() != Some(&LOST))
    }

    /// Returns the message of an entry as a page shows it: an answer from the beginning up to `last`, and only the
    /// entry's own parts of a lost attempt. The beginning of that answer is a message of its own.
    pub(super) fn shown(&self, last: &LogFragmentEntry<'_>) -> Message {
        if last.kind.as_ref() == Some(&LOST) {
            return last.message.clone().into_owned();
        }
        let pieces = self.pieces(last).map(|piece| piece.message.clone().into_owned());
        pieces
            .reduce(|whole, piece| join(&whole, &piece))
            .unwrap_or_else(|| last.message.clone().into_owned())
    }

    /// Returns the id of the paused answer that a lost attempt was to continue; `None` for any other message.
    pub(super) fn attempted(&self, attempt: &LogFragmentEntry<'_>) -> Option<&MessageId> {
        let is_attempt = attempt.kind.as_ref() == Some(&LOST) && attempt.begins < attempt.seq;
        let begun = self.entries.iter().find(|entry| is_attempt && entry.seq == attempt.begins)?;
        Some(&begun.message.id)
    }

    /// Returns the state of a call in the answer up to `last`.
    pub(super) fn call_state(&self, last: &LogFragmentEntry<'_>, id: &CallId) -> LogFragmentCallState {
        let calls = self.calls_of(last).filter(|call| call.id == id);
        // A continued answer may have the id in several pieces, and the newest one counts.
        calls.last().map_or(LogFragmentCallState::Void, |call| match call.outcome {
            Some(status) => LogFragmentCallState::Ended(status),
            None => LogFragmentCallState::Open { started: call.started },
        })
    }

    fn calls_of(&self, last: &LogFragmentEntry<'_>) -> impl Iterator<Item = &LogFragmentCall<'e>> {
        let (begins, ends) = (last.begins, last.seq);
        let first = self.calls.partition_point(|call| call.of < begins);
        self.calls[first..].iter().take_while(move |call| call.of <= ends)
    }

    /// Returns the side on which more events are needed to show `entry`, if any.
    pub(super) fn missing(&self, entry: &LogFragmentEntry<'_>) -> Option<WindowDirection> {
        if entry.may_begin_before || entry.kind.is_none() {
            return Some(WindowDirection::Older);
        }
        if entry.kind.as_ref() == Some(&PAUSED) && self.next_counted(entry.seq).is_none() {
            return Some(WindowDirection::Newer);
        }
        // A run begins without open calls, so a later run shows that the calls have ended.
        let has_later_run = self.runs.last().is_some_and(|run| *run >= entry.seq);
        let is_open = !has_later_run && self.calls_of(entry).any(|call| call.outcome.is_none());
        is_open.then_some(WindowDirection::Newer)
    }
}

fn has_content(part: &Part) -> bool {
    match part {
        Part::Text(text) => !text.text.is_empty(),
        // Reasoning goes back to the provider only in its native form.
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    }
}
