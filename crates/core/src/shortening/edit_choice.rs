//! The choice of one edit for one request: plan, hook, summary or extract.

use super::{CancelledCompaction, after_cancellation};
use crate::event::EditKind;
use crate::plan::{Plan, PlanTrigger};

/// The maximum number of plans for one request. Another plan follows only if the first one did not help.
const MAX_PLANS: u32 = 3;

/// The kinds of a plan, as far as the choice depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanKind {
    /// The request fits as it is.
    Fits,
    /// The edit is complete, and is no compaction.
    Prune,
    /// The compaction is complete.
    Compaction,
    /// The compaction needs a summary.
    Summary,
    /// Nothing makes the request fit.
    DoesNotFit,
}

impl PlanKind {
    /// Returns the kind of a plan.
    pub fn of(plan: &Plan) -> Self {
        match plan {
            Plan::Fits => Self::Fits,
            Plan::Edit(edit) if edit.kind == EditKind::Compaction => Self::Compaction,
            Plan::Edit(_) => Self::Prune,
            Plan::Summarise(_) => Self::Summary,
            Plan::DoesNotFit(_) => Self::DoesNotFit,
        }
    }

    /// Returns whether the plan drops messages, so that a hook is asked before.
    pub fn is_compaction(self) -> bool {
        matches!(self, Self::Compaction | Self::Summary)
    }
}

/// An input of an edit's choice: the outcome of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditChoiceInput {
    /// The choice starts.
    Begin,
    /// The plan is made.
    Planned(PlanKind),
    /// The hook has answered, or there is none.
    HookAnswered {
        /// `true` if the hook cancels the compaction.
        is_cancelled: bool,
        /// `true` if the hook supplies the summary.
        gives_summary: bool,
        /// `true` if the request fits the window without an edit.
        fits_the_window: bool,
    },
    /// Tells whether a valid summary was written.
    SummaryWritten(bool),
    /// Tells whether an extract makes the request fit.
    ExtractMade(bool),
}

/// An effect of an edit's choice. The last five end the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditChoiceEffect {
    /// Make a plan. Ends with [`Planned`](EditChoiceInput::Planned).
    MakePlan {
        /// `false` if messages are left out without a summary.
        with_summaries: bool,
    },
    /// Ask the hook about the plan. Ends with [`HookAnswered`](EditChoiceInput::HookAnswered).
    AskHook,
    /// Write the summary of the plan. Ends with [`SummaryWritten`](EditChoiceInput::SummaryWritten).
    WriteSummary,
    /// Make an extract in the place of the summary. Ends with [`ExtractMade`](EditChoiceInput::ExtractMade).
    MakeExtract,
    /// Commit an edit.
    Commit(EditSource),
    /// Leave the view as it is: it fits.
    Leave,
    /// Leave the view as it is, because the hook wants it so.
    LeaveForHook,
    /// Refuse the request with the hook's words.
    RefuseForHook,
    /// Refuse the request, because nothing makes it fit.
    RefuseForSize,
}

/// The source of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditSource {
    /// The planner made the edit alone.
    Plan,
    /// The edit holds a summary, by a model or by a hook.
    Summary,
    /// The edit holds an extract in the place of the summary.
    Extract,
}

/// The choice of one edit for one request.
///
/// ```
/// use longhaul_core::plan::PlanTrigger;
/// use longhaul_core::shortening::{EditChoice, EditChoiceEffect, EditChoiceInput, EditSource, PlanKind};
///
/// let mut choice = EditChoice::new(PlanTrigger::Routine, false);
/// choice.handle(EditChoiceInput::Begin);
/// choice.handle(EditChoiceInput::Planned(PlanKind::Summary));
/// let no_hook = EditChoiceInput::HookAnswered { is_cancelled: false, gives_summary: false, fits_the_window: true };
/// // Nobody waits for a summary, so an extract stands in its place.
/// assert_eq!(choice.handle(no_hook), Some(EditChoiceEffect::MakeExtract));
/// let done = choice.handle(EditChoiceInput::ExtractMade(true));
/// assert_eq!(done, Some(EditChoiceEffect::Commit(EditSource::Extract)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EditChoice {
    trigger: PlanTrigger,
    phase: EditChoicePhase,
    /// `true` if a model may be asked for a summary now.
    may_ask_writer: bool,
    is_hook_asked: bool,
    plans: u32,
}

/// The phases of a choice. Each phase but the last waits for one kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditChoicePhase {
    New,
    Planning,
    AskingHook(PlanKind),
    WritingSummary,
    MakingExtract,
    Ended,
}

impl EditChoice {
    /// Creates a choice before its first input. `may_ask_writer` is `false` if the request does not wait for a summary,
    /// or if one has just failed.
    pub fn new(trigger: PlanTrigger, may_ask_writer: bool) -> Self {
        Self { trigger, phase: EditChoicePhase::New, may_ask_writer, is_hook_asked: false, plans: 0 }
    }

    /// Takes an input and returns the effect to perform; `None` if the input does not belong to the present phase.
    pub fn handle(&mut self, input: EditChoiceInput) -> Option<EditChoiceEffect> {
        Some(match (self.phase, input) {
            (EditChoicePhase::New, EditChoiceInput::Begin) => self.make_plan(true),
            (EditChoicePhase::Planning, EditChoiceInput::Planned(kind)) => {
                // The hook is asked once for a request, although several plans may follow.
                if kind.is_compaction() && !std::mem::replace(&mut self.is_hook_asked, true) {
                    self.phase = EditChoicePhase::AskingHook(kind);
                    EditChoiceEffect::AskHook
                } else {
                    self.carry_out(kind, false)
                }
            }
            (
                EditChoicePhase::AskingHook(kind),
                EditChoiceInput::HookAnswered { is_cancelled, gives_summary, fits_the_window },
            ) => match is_cancelled {
                true => self.obey_cancellation(fits_the_window),
                false => self.carry_out(kind, gives_summary),
            },
            (EditChoicePhase::WritingSummary, EditChoiceInput::SummaryWritten(true)) => {
                self.end_with(EditChoiceEffect::Commit(EditSource::Summary))
            }
            (EditChoicePhase::WritingSummary, EditChoiceInput::SummaryWritten(false)) => self.make_extract(),
            (EditChoicePhase::MakingExtract, EditChoiceInput::ExtractMade(true)) => {
                self.end_with(EditChoiceEffect::Commit(EditSource::Extract))
            }
            // Neither the summary nor an extract fits.
            (EditChoicePhase::MakingExtract, EditChoiceInput::ExtractMade(false)) => self.make_plan(false),
            _ => return None,
        })
    }

    fn make_plan(&mut self, with_summaries: bool) -> EditChoiceEffect {
        if self.plans == MAX_PLANS {
            return self.end_with(EditChoiceEffect::Leave);
        }
        self.plans += 1;
        self.phase = EditChoicePhase::Planning;
        EditChoiceEffect::MakePlan { with_summaries }
    }

    fn make_extract(&mut self) -> EditChoiceEffect {
        self.phase = EditChoicePhase::MakingExtract;
        EditChoiceEffect::MakeExtract
    }

    fn carry_out(&mut self, kind: PlanKind, has_summary: bool) -> EditChoiceEffect {
        match kind {
            PlanKind::Fits => self.end_with(EditChoiceEffect::Leave),
            PlanKind::Prune | PlanKind::Compaction => {
                self.end_with(EditChoiceEffect::Commit(EditSource::Plan))
            }
            PlanKind::DoesNotFit => self.end_with(EditChoiceEffect::RefuseForSize),
            // A summary that the hook gives needs no writer.
            PlanKind::Summary if self.may_ask_writer || has_summary => {
                self.phase = EditChoicePhase::WritingSummary;
                EditChoiceEffect::WriteSummary
            }
            PlanKind::Summary => self.make_extract(),
        }
    }

    fn obey_cancellation(&mut self, fits_the_window: bool) -> EditChoiceEffect {
        match after_cancellation(&self.trigger, || fits_the_window) {
            CancelledCompaction::Refuse => self.end_with(EditChoiceEffect::RefuseForHook),
            CancelledCompaction::Leave => self.end_with(EditChoiceEffect::LeaveForHook),
            CancelledCompaction::DropMessages => self.make_plan(false),
        }
    }

    fn end_with(&mut self, effect: EditChoiceEffect) -> EditChoiceEffect {
        self.phase = EditChoicePhase::Ended;
        effect
    }
}
