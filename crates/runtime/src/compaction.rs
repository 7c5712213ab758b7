//! Previews of a compaction, and reports on the facts retained by an edit of the view.
//!
//! Every retention report is made here: of a preview, of an edit in a log, and of the edit in an announcement.

use std::sync::Arc;

use longhaul_core::event::{Event, EventBody, ViewEdit};
use longhaul_core::history::{History, LogEntry, LogEntryKind, ViewItemKind};
use longhaul_core::ids::{EditId, LogRange, Seq};
use longhaul_core::message::Message;
use longhaul_core::plan::{CompactionPolicy, Plan, SummaryDraft, SummaryWriterModel};
use longhaul_core::retention_report::{self, RetentionReport, SentenceFacts};
use longhaul_core::run::Run;
use longhaul_core::strategy::{self, CompactionStrategy};

use crate::session::SessionError;

/// The preview of a compaction. The preview changes nothing, and no model is asked.
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
pub struct CompactionPreview {
    /// The plan of a compaction.
    pub plan: Plan,
    /// The report on the facts left for the model; `None` if nothing would be removed, or no report could be made.
    pub survival: Option<RetentionReport>,
    /// True if the plan needs a summary not yet written. The report then covers the view without the summary's words.
    /// The summary may keep more facts verbatim and loses none.
    pub without_summary: bool,
}

impl CompactionPreview {
    /// Returns the plan of a compaction requested now, by the configured strategy or by another.
    pub fn of(
        run: &Run,
        strategy: Option<Arc<dyn CompactionStrategy>>,
        instructions: Option<String>,
    ) -> Self {
        let plan = crate::driver::preview(run, strategy, instructions);
        let writer = run.settings().policy.writer;
        let without_summary = matches!(plan, Plan::Summarise(_)) && writer != SummaryWriterModel::Nobody;
        let edit = match &plan {
            Plan::Edit(edit) => Some(ViewEdit::clone(edit)),
            Plan::Summarise(draft) => edit_before_summary(draft, writer, run.history()),
            _ => None,
        };
        let survival = edit.map(|edit| {
            let after = run.history().with(EventBody::ViewEdited(Box::new(edit)));
            ViewSnapshot::of(run.history()).survival_in(&after)
        });
        let survival = survival.flatten();
        Self { plan, survival, without_summary }
    }
}

/// Returns the edit of a draft before the summary is written. The place of the summary stays empty, because a model's
/// words need not contain those of an extract.
fn edit_before_summary(
    draft: &SummaryDraft,
    writer: SummaryWriterModel,
    history: &History,
) -> Option<ViewEdit> {
    if writer == SummaryWriterModel::Nobody {
        return draft.finish_extractive(history).ok();
    }
    draft.finish_bare(history).ok()
}

/// Returns the strategy named `name`: the configured strategy with the configured options, any other with default
/// options. Returns `None` if no strategy has the name.
pub fn strategy(configured: &CompactionPolicy, name: &str) -> Option<Arc<dyn CompactionStrategy>> {
    if configured.strategy.name() == name {
        return Some(Arc::clone(&configured.strategy));
    }
    strategy::by_name(name)
}

/// Returns whether the named strategy only leaves messages out, without a summary or a model.
pub fn only_leaves_out(strategy: &str) -> bool {
    matches!(strategy, "middle-removal" | "truncation" | "importance")
}

/// Returns whether [`Session::undo`](crate::session::Session::undo) would be accepted now.
///
/// # Errors
/// The errors of the undo.
pub fn check_undo(run: &Run, edit_id: &EditId) -> Result<(), SessionError> {
    crate::driver::undo(run, edit_id).map(drop)
}

/// Returns the retention report of the edit `edit_id`, against the view before the edit. `log` begins with the
/// session's first event. Returns `None` if `log` has no such edit or cannot be read.
pub fn survival(log: &[Event], edit_id: &EditId) -> Option<RetentionReport> {
    let at = log
        .iter()
        .position(|event| matches!(&event.body, EventBody::ViewEdited(edit) if edit.id == *edit_id))?;
    // The report compares texts and no token counts, so the default counter will do.
    let mut history = History::fold(&log[..at]).ok()?;
    let before = ViewSnapshot::of(&history);
    history.apply(&log[at]).ok()?;
    before.survival_in(&history)
}

/// The messages in the model's view at a given time.
#[derive(Clone, Debug)]
pub struct ViewSnapshot {
    messages: Vec<Arc<Message>>,
    /// The typed and answered messages behind the summaries of the view.
    folded: Vec<LogEntry>,
    /// The newest position of the log at the time.
    until: Seq,
}

impl ViewSnapshot {
    /// Returns the messages in the model's present view.
    pub fn of(history: &History) -> Self {
        let messages = history.view().iter().map(|item| Arc::clone(&item.message)).collect();
        // Long views have few summaries: looking for them again at each entry made this quadratic.
        let summaries = history.view().iter().filter(|item| matches!(item.kind, ViewItemKind::Summary(_)));
        let summarized: Vec<&LogRange> =
            summaries.flat_map(|item| std::iter::once(&item.range).chain(&item.covers)).collect();
        let folded = history.entries().iter().filter(|entry| {
            matches!(entry.kind, LogEntryKind::Typed | LogEntryKind::Assistant(_))
                && summarized.iter().any(|range| range.contains(entry.seq))
        });
        let folded = folded.cloned().collect();
        Self { messages, folded, until: history.last_seq() }
    }

    /// Reports which facts of this view survive in a later view of the same session; later messages do not count. In a
    /// session the model can recall everything. Returns `None` once the stop flag of `history` is raised.
    pub fn survival_in(&self, history: &History) -> Option<RetentionReport> {
        let before: Vec<&Message> = self.messages.iter().map(AsRef::as_ref).collect();
        // Messages after this snapshot would count as survival of facts that they merely repeat.
        let view = history.view().iter().filter(|item| item.range.from <= self.until);
        let after: String = view.map(|item| crate::recall::plain_text(&item.message) + "\n").collect();
        let stop_flag = history.stop_flag();
        let running = self.folded.iter().take_while(|_| !stop_flag.is_raised());
        let folded: Vec<&SentenceFacts> = running.filter_map(LogEntry::sentences).collect();
        retention_report::survey_sentences(&before, &folded, &after, stop_flag)
    }
}

#[cfg(test)]
mod tests;
