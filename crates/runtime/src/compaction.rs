//! What a compaction on request would do, and what an edit of the view leaves of what the model was shown.
//!
//! Every survival report is made here: of a preview, of an edit in a log, and of the one that watchers are told.

use std::sync::Arc;

use longhaul_core::event::{Event, EventBody, ViewEdit};
use longhaul_core::history::{Entry, EntryKind, History, ItemKind, ViewItem};
use longhaul_core::ids::{EditId, Seq};
use longhaul_core::message::Message;
use longhaul_core::plan::{Plan, Policy, SummaryDraft, Writer};
use longhaul_core::run::Run;
use longhaul_core::strategy::{self, Strategy};
use longhaul_core::survival::{self, SentenceFacts, Survival};

use crate::session::SessionError;

/// What a compaction would do. Nothing has happened, and no model was asked.
///
/// ```
/// use longhaul::testing;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (runtime, _folder) = testing::runtime_that_says("Hello!")?;
/// let session = runtime.create(None).await?;
/// let preview = session.preview_by(None, None).await?;
/// assert!(preview.survival.is_none(), "nothing was said, nothing can go");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What it would do.
    pub plan: Plan,
    /// What would be left of what the model is shown now; `None` if nothing would go, or nothing could be made.
    pub survival: Option<Survival>,
    /// Whether a summary that nobody has written yet belongs to it: the report is of the view without its words, which
    /// may keep more facts verbatim and loses none.
    pub without_summary: bool,
}

impl Preview {
    /// What a loop would do if it were asked for a compaction now, by the configured strategy or another.
    pub fn of(run: &Run, strategy: Option<Arc<dyn Strategy>>, instructions: Option<String>) -> Self {
        let plan = crate::driver::preview(run, strategy, instructions);
        let writer = run.settings().policy.writer;
        let without_summary = matches!(plan, Plan::Summarise(_)) && writer != Writer::Nobody;
        let edit = match &plan {
            Plan::Edit(edit) => Some(ViewEdit::clone(edit)),
            Plan::Summarise(draft) => surely(draft, writer, run.history()),
            Plan::Fits | Plan::DoesNotFit(_) => None,
        };
        let survival = edit.map(|edit| {
            let after = run.history().with(EventBody::ViewEdited(Box::new(edit)));
            Shown::of(run.history()).survival_in(&after)
        });
        let survival = survival.flatten();
        Self { plan, survival, without_summary }
    }
}

/// The edit as far as it is known before anybody has written a summary. A model's words need not contain what an
/// extract would, so its place stays empty.
fn surely(draft: &SummaryDraft, writer: Writer, history: &History) -> Option<ViewEdit> {
    if writer == Writer::Nobody {
        return draft.finish_extractive(history).ok();
    }
    draft.finish_bare(history).ok()
}

/// The strategy of that name: the configured one with its options, any other with its default options. `None` if
/// there is none.
pub fn strategy(configured: &Policy, name: &str) -> Option<Arc<dyn Strategy>> {
    match configured.strategy.name() == name {
        true => Some(Arc::clone(&configured.strategy)),
        false => strategy::by_name(name),
    }
}

/// Returns whether a strategy of that name only leaves messages out: it writes no summary and asks no model.
pub fn only_leaves_out(strategy: &str) -> bool {
    matches!(strategy, "middle-removal" | "truncation" | "importance")
}

/// Returns whether [`Session::undo`](crate::session::Session::undo) would be accepted now.
///
/// # Errors
/// Those of that undo.
pub fn check_undo(run: &Run, edit_id: &EditId) -> Result<(), SessionError> {
    crate::driver::undo(run, edit_id).map(drop)
}

/// What the edit of that name left of what the model was shown before it. `log` is given from its first event on;
/// `None` if there is no such edit in it, or it cannot be read.
pub fn survival(log: &[Event], edit_id: &EditId) -> Option<Survival> {
    let is_it = |event: &Event| matches!(&event.body, EventBody::ViewEdited(edit) if edit.id == *edit_id);
    let at = log.iter().position(is_it)?;
    let mut history = History::fold(&log[..at]).ok()?;
    let before = Shown::of(&history);
    history.apply(&log[at]).ok()?;
    before.survival_in(&history)
}

/// What the model is shown at one time.
#[derive(Clone, Debug)]
pub struct Shown {
    messages: Vec<Arc<Message>>,
    /// What was typed and answered behind the summaries among them.
    folded: Vec<Entry>,
    /// What was said up to this position.
    until: Seq,
}

impl Shown {
    /// What it is shown now.
    pub fn of(history: &History) -> Self {
        let messages = history.view().iter().map(|item| Arc::clone(&item.message)).collect();
        // Long views have few summaries: looking for them again at each entry made this quadratic.
        let is_summary = |item: &&ViewItem| matches!(item.kind, ItemKind::Summary(_));
        let summaries: Vec<&ViewItem> = history.view().iter().filter(is_summary).collect();
        let is_behind = |seq: Seq| {
            let mut ranges = summaries.iter().flat_map(|item| [&item.range].into_iter().chain(&item.covers));
            ranges.any(|range| range.contains(seq))
        };
        let said = history.entries().iter().filter(|entry| {
            matches!(entry.kind, EntryKind::Typed | EntryKind::Assistant(_)) && is_behind(entry.seq)
        });
        let folded = said.cloned().collect();
        Self { messages, folded, until: history.last_seq() }
    }

    /// How its facts have fared in a later view of the same session; what was said since then does not count. In a
    /// session the model can recall everything. `None` once the flag of that history is raised.
    pub fn survival_in(&self, history: &History) -> Option<Survival> {
        let before: Vec<&Message> = self.messages.iter().map(AsRef::as_ref).collect();
        let view = history.view().iter().filter(|item| item.range.from <= self.until);
        let after: String = view.map(|item| crate::recall::plain_text(&item.message) + "\n").collect();
        let stop_flag = history.stop_flag();
        let running = self.folded.iter().take_while(|_| !stop_flag.is_raised());
        let folded: Vec<&SentenceFacts> = running.filter_map(Entry::sentences).collect();
        survival::survey_sentences(&before, &folded, &after, stop_flag)
    }
}

#[cfg(test)]
mod tests;
