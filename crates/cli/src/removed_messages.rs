//! The messages removed from the view by a compaction. A message counts at the first compaction that removed it.
//! Summaries of earlier compactions are counted apart. So the messages of all compactions add up.

use std::collections::BTreeMap;

use longhaul_core::event::{Event, EventBody, ViewEdit, ViewOperation};
use longhaul_core::history::History;
use longhaul_core::ids::{LogRange, Seq};

use crate::term::human::count;

/// The messages removed by a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedMessages {
    /// Messages that were shown until then.
    pub(crate) messages: u64,
    /// Summaries of earlier compactions.
    pub(crate) summaries: u64,
    /// Notes of earlier compactions on omitted messages.
    pub(crate) notes: u64,
}

impl RemovedMessages {
    /// Creates a count of removed messages of unknown kind.
    pub(crate) fn from_message_count(messages: u64) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Returns the counts of an edit alone.
    pub(crate) fn of_edit(edit: &ViewEdit) -> Self {
        let replaced =
            edit.ops.iter().filter(|op| matches!(op, ViewOperation::Replace { .. })).count() as u64;
        Self::from_message_count(
            // Each replaced range leaves one message, which is not among the removed ones.
            (edit.original_messages + replaced.max(1)).saturating_sub(edit.compressed_messages),
        )
    }

    /// Returns the messages removed by `ops` from a view in which the edits of `before` were
    /// active.
    pub(crate) fn by(ops: &[ViewOperation], before: &[&ViewEdit], history: &History) -> Self {
        let mine = ranges(ops);
        // Ranges of earlier edits were removed already, and each message counts once.
        let taken: Vec<LogRange> = before.iter().flat_map(|edit| ranges(&edit.ops)).collect();
        let removed_now =
            history.entries().iter().filter(|entry| is_in(&mine, entry.seq) && !is_in(&taken, entry.seq));
        let messages = removed_now.count() as u64;
        let mut gone = Self::from_message_count(messages);
        for (at, edit) in before.iter().enumerate() {
            // A summary that a later edit removed already is counted there.
            let later: Vec<LogRange> = before[at + 1..].iter().flat_map(|edit| ranges(&edit.ops)).collect();
            for op in &edit.ops {
                let ViewOperation::Replace { range, summary, .. } = op else { continue };
                if !is_in(&mine, range.from) || is_in(&later, range.from) {
                    continue;
                }
                if *summary {
                    gone.summaries += 1;
                } else {
                    gone.notes += 1;
                }
            }
        }
        gone
    }

    /// Describes the removed messages in words.
    pub(crate) fn words(&self) -> String {
        let summaries = match self.summaries {
            1 => "1 earlier summary".to_owned(),
            many => format!("{many} earlier summaries"),
        };
        let told = [
            (self.messages > 0 || self.summaries + self.notes == 0, count(self.messages, "message")),
            (self.summaries > 0, summaries),
            (self.notes > 0, count(self.notes, "earlier note")),
        ];
        let told: Vec<String> =
            told.into_iter().filter(|(is_told, _)| *is_told).map(|(_, words)| words).collect();
        match &*told {
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            all => all.concat(),
        }
    }
}

/// Returns the removed ranges. A cleared result stays a message.
fn ranges(ops: &[ViewOperation]) -> Vec<LogRange> {
    ops.iter()
        .filter(|op| !matches!(op, ViewOperation::Placeholder { .. }))
        .map(ViewOperation::range)
        .collect()
}

/// Returns the active edits of a history before an edit, or all active edits without one.
pub(crate) fn active_edits_before<'a>(history: &'a History, edit: Option<&ViewEdit>) -> Vec<&'a ViewEdit> {
    let earlier = history.edits().iter().take_while(|state| edit.is_none_or(|edit| state.edit.id != edit.id));
    earlier.filter(|state| state.active).map(|state| &*state.edit).collect()
}

/// Returns the removed messages of every edit of a log, by the edit's id.
pub(crate) fn removed_by_edit(events: &[Event]) -> BTreeMap<String, RemovedMessages> {
    let Ok(history) = History::fold(events) else { return BTreeMap::new() };
    let (mut hold, mut gone): (Vec<&ViewEdit>, _) = (Vec::new(), BTreeMap::new());
    for event in events {
        match &event.body {
            EventBody::ViewEdited(edit) => {
                gone.insert(edit.id.to_string(), RemovedMessages::by(&edit.ops, &hold, &history));
                hold.push(edit);
            }
            // An undone edit removes nothing any more, so a later edit may count its messages.
            EventBody::ViewRestored { edit_id } => hold.retain(|edit| edit.id != *edit_id),
            _ => {}
        }
    }
    gone
}

fn is_in(ranges: &[LogRange], seq: Seq) -> bool {
    ranges.iter().any(|range| range.contains(seq))
}

#[cfg(test)]
mod tests {
    use crate::lab::synthetic;
    use longhaul_core::event::FORMAT;

    use super::*;
    use crate::sample;

    fn edit(id: &str, ops: Vec<ViewOperation>) -> ViewEdit {
        ViewEdit { id: id.into(), ops, ..sample::edit() }
    }

    fn replace(from: u64, to: u64, summary: bool) -> ViewOperation {
        ViewOperation::Replace { range: LogRange { from, to }, parts: Vec::new(), summary }
    }

    #[test]
    fn a_message_counts_once_and_the_sum_is_what_the_table_says() {
        let mut events = synthetic::support(1, 60).unwrap().events;
        let edits = [
            edit("e1", vec![replace(2, 20, true)]),
            edit("e2", vec![replace(2, 40, false), ViewOperation::clear(50)]),
            edit("e3", vec![replace(2, 60, true)]),
        ];
        for edit in edits {
            let seq = events.len() as u64 + 1;
            events.push(Event { seq, at: 0, format: FORMAT, body: EventBody::ViewEdited(Box::new(edit)) });
        }
        let history = History::fold(&events).unwrap();
        let upto = |to| history.entries().iter().filter(|entry| (2..=to).contains(&entry.seq)).count() as u64;
        let gone = removed_by_edit(&events);
        assert_eq!(gone["e1"], RemovedMessages::from_message_count(upto(20)));
        assert_eq!(gone["e2"], RemovedMessages { messages: upto(40) - upto(20), summaries: 1, notes: 0 });
        assert_eq!(gone["e3"], RemovedMessages { messages: upto(60) - upto(40), summaries: 0, notes: 1 });
        assert_eq!(gone.values().map(|gone| gone.messages).sum::<u64>(), upto(60));
        let newest = history.edits().last().unwrap();
        assert_eq!(
            RemovedMessages::by(
                &newest.edit.ops,
                &active_edits_before(&history, Some(&newest.edit)),
                &history
            ),
            gone["e3"]
        );
    }

    #[test]
    fn it_is_told_in_words() {
        assert_eq!(words(41, 0, 0), "41 messages");
        assert_eq!(words(1, 1, 0), "1 message and 1 earlier summary");
        assert_eq!(words(3, 2, 1), "3 messages, 2 earlier summaries and 1 earlier note");
        assert_eq!((words(0, 0, 1), words(0, 0, 0)), ("1 earlier note".to_owned(), "0 messages".to_owned()));
    }

    fn words(messages: u64, summaries: u64, notes: u64) -> String {
        RemovedMessages { messages, summaries, notes }.words()
    }
}
