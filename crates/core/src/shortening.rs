//! Decisions about the shortening of a conversation: who waits for a summary, when one is written in the background,
//! what stands in its place, and what a hook may forbid.
//!
//! A session's [`Run`](crate::run::Run) and the gateway shorten views in different surroundings, but by the same rules.
//! The functions of this module are asked by both. The values [`EditChoice`] and [`BackgroundSummaryState`] are the
//! gateway's engine: they take inputs and return effects, as [`Exchange`](crate::exchange::Exchange) does. The
//! gateway performs the effects: it makes the plan, asks the hook or a model, and stores the edit.

mod background;
mod edit_choice;
mod fallback;
mod stored_edits;
mod summary_writing;
#[cfg(test)]
mod tests;

pub use background::{
    BackgroundSummaryEffect, BackgroundSummaryInput, BackgroundSummaryState, FittedViewFacts, SummaryPurpose,
    SummaryStart,
};
pub use edit_choice::{EditChoice, EditChoiceEffect, EditChoiceInput, EditSource, PlanKind};
pub use fallback::{CompactionPace, FallbackSummary, MissingSummaryCause};
pub use stored_edits::{StoredEditFacts, StoredEditUse};
pub use summary_writing::SummaryWriting;

use crate::event::ViewEdit;
use crate::history::History;
use crate::plan::{PlanTrigger, SummaryDraft, SummaryRejection};
use crate::strategy::CompactionStrategy;

/// Returns whether a request waits for a summary that it needs. `waits` tells whether the settings want that.
///
/// Without a wait an extract takes the summary's place at once.
#[doc(hidden)]
pub fn may_wait_for_summary(waits: bool, writer_rests: bool, trigger: &PlanTrigger) -> bool {
    // A person who asks for a compaction asks for its summary, so this writer is asked in any case.
    waits && !writer_rests || matches!(trigger, PlanTrigger::Requested { .. })
}

/// Returns whether a plan that needs a summary lets it take the place of the extract that stands in the view. Otherwise the
/// summary would cover an extract, which holds only a part of the messages.
#[doc(hidden)]
pub fn may_replace_extract(waits: bool, has_extract: bool, trigger: &PlanTrigger) -> bool {
    // A client's own request, a pause and a refusal have a plan of their own.
    waits && has_extract && *trigger == PlanTrigger::Routine
}

/// The facts that decide whether a background summary may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundConditions {
    /// `true` if a summary is being written, or waits for its use.
    pub has_summary: bool,
    /// `true` if an extract waits for its summary.
    pub has_extract: bool,
    /// `true` if the writer is left alone after failures.
    pub writer_rests: bool,
    /// `true` if a hook, or the end of the run, forbids a compaction.
    pub is_forbidden: bool,
}

impl BackgroundConditions {
    /// Returns whether a background summary may begin.
    pub fn allow_start(self) -> bool {
        // An extract has a summary of its own, which covers everything up to then.
        !self.has_summary && !self.has_extract && !self.writer_rests && !self.is_forbidden
    }
}

/// The consequence of a cancelled compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelledCompaction {
    /// The one who asked for the compaction gets the hook's refusal.
    Refuse,
    /// The view stays as it is.
    Leave,
    /// Messages are left out without a summary, because the request would not fit otherwise.
    DropMessages,
}

/// Returns what follows a compaction that a hook cancelled. A hook may prevent a compaction, but must not keep a
/// request from fitting. `fits_the_window` tells whether the request fits with less room for the answer than usual.
#[doc(hidden)]
pub fn after_cancellation(trigger: &PlanTrigger, fits_the_window: impl Fn() -> bool) -> CancelledCompaction {
    match trigger {
        PlanTrigger::Requested { .. } => CancelledCompaction::Refuse,
        // The room that is kept for the answer may be used: the answer is shorter then, and the hook is obeyed.
        PlanTrigger::Routine | PlanTrigger::Pause if fits_the_window() => CancelledCompaction::Leave,
        // After a refusal for length the own count has been proven wrong.
        _ => CancelledCompaction::DropMessages,
    }
}

/// Returns whether a hook's earlier cancellation still holds, so that the hook is not asked again. A cancellation must not
/// make a request fail that a compaction would save.
#[doc(hidden)]
pub fn is_cancellation_in_force(
    trigger: &PlanTrigger,
    was_cancelled: bool,
    fits_the_window: impl FnOnce() -> bool,
) -> bool {
    *trigger == PlanTrigger::Routine && was_cancelled && fits_the_window()
}

/// Returns whether a hook's answer is kept for the next requests of a conversation. A cancellation ends once an edit had to
/// be made anyway.
#[doc(hidden)]
pub fn keeps_hook_answer(is_cancelled: bool, is_edited: bool) -> bool {
    !(is_cancelled && is_edited)
}

/// The reason why a written summary is not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryProblem {
    /// The planner refuses the summary.
    #[error("{0}")]
    Rejected(SummaryRejection),
    /// The strategy refuses the edit.
    #[error("{0}")]
    Invalid(String),
}

/// Returns the edit of a draft whose requests are all answered: valid for the planner and for the strategy.
///
/// # Errors
/// [`SummaryProblem`] if one of them refuses the edit.
#[doc(hidden)]
pub fn finish_summary(
    draft: &SummaryDraft,
    history: &History,
    strategy: &dyn CompactionStrategy,
) -> Result<ViewEdit, SummaryProblem> {
    let edit = draft.finish(history).map_err(SummaryProblem::Rejected)?;
    strategy.validate(history, &edit).map_err(SummaryProblem::Invalid)?;
    Ok(edit)
}
