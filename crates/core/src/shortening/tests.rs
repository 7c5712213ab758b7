//! The gateway's engine of shortening, input by input.

use super::*;
use crate::plan::PlanTrigger;

const REQUESTED: PlanTrigger = PlanTrigger::Requested { instructions: None };

const NO_HOOK: EditChoiceInput =
    EditChoiceInput::HookAnswered { is_cancelled: false, gives_summary: false, fits_the_window: true };

const BOTH: [SummaryPurpose; 2] = [SummaryPurpose::AheadOfNeed, SummaryPurpose::ReplaceExtract];

fn cancelled(fits_the_window: bool) -> EditChoiceInput {
    EditChoiceInput::HookAnswered { is_cancelled: true, gives_summary: false, fits_the_window }
}

/// Plays a choice and returns its last effect.
fn chosen(
    trigger: PlanTrigger,
    may_ask_writer: bool,
    inputs: &[EditChoiceInput],
) -> Option<EditChoiceEffect> {
    let mut choice = EditChoice::new(trigger, may_ask_writer);
    choice.handle(EditChoiceInput::Begin);
    inputs.iter().map(|input| choice.handle(*input)).last().flatten()
}

fn needs_summary(then: &[EditChoiceInput]) -> Vec<EditChoiceInput> {
    [EditChoiceInput::Planned(PlanKind::Summary)].iter().chain(then).copied().collect()
}

#[test]
fn a_request_waits_for_a_summary_only_where_the_settings_want_it_and_the_writer_does_not_rest() {
    let triggers = [PlanTrigger::Routine, PlanTrigger::Pause, PlanTrigger::Overflow];
    for trigger in &triggers {
        assert!(may_wait_for_summary(true, false, trigger));
        assert!(!may_wait_for_summary(true, true, trigger), "it failed again and again");
        assert!(!may_wait_for_summary(false, false, trigger));
    }
    assert!(may_wait_for_summary(false, true, &REQUESTED), "a person wants it");
}

#[test]
fn a_summary_begins_in_the_background_only_if_nothing_stands_against_it() {
    let free = BackgroundConditions::default();
    assert!(free.allow_start());
    for other in [
        BackgroundConditions { has_summary: true, ..free },
        BackgroundConditions { has_extract: true, ..free },
        BackgroundConditions { writer_rests: true, ..free },
        BackgroundConditions { is_forbidden: true, ..free },
    ] {
        assert!(!other.allow_start(), "{other:?}");
    }
}

#[test]
fn a_hook_may_cancel_a_compaction_but_not_keep_a_request_from_fitting() {
    assert_eq!(after_cancellation(&PlanTrigger::Routine, || true), CancelledCompaction::Leave);
    assert_eq!(after_cancellation(&PlanTrigger::Pause, || false), CancelledCompaction::DropMessages);
    let refused = after_cancellation(&PlanTrigger::Overflow, || true);
    assert_eq!(refused, CancelledCompaction::DropMessages, "the own count was wrong");
    assert_eq!(after_cancellation(&REQUESTED, || true), CancelledCompaction::Refuse);
}

#[test]
fn a_cancellation_holds_until_the_request_does_not_fit_the_window() {
    assert!(is_cancellation_in_force(&PlanTrigger::Routine, true, || true));
    assert!(!is_cancellation_in_force(&PlanTrigger::Routine, true, || false));
    assert!(!is_cancellation_in_force(&PlanTrigger::Routine, false, || true));
    for trigger in [PlanTrigger::Overflow, PlanTrigger::Pause, REQUESTED] {
        assert!(!is_cancellation_in_force(&trigger, true, || true), "{trigger:?}");
    }
    assert!(keeps_hook_answer(true, false) && keeps_hook_answer(false, true));
    assert!(!keeps_hook_answer(true, true), "an edit had to be made");
}

#[test]
fn a_request_that_waits_replaces_the_extract_that_stands() {
    assert!(may_replace_extract(true, true, &PlanTrigger::Routine));
    assert!(!may_replace_extract(false, true, &PlanTrigger::Routine), "no client waits");
    assert!(!may_replace_extract(true, false, &PlanTrigger::Routine));
    assert!(!may_replace_extract(true, true, &PlanTrigger::Overflow));
}

#[test]
fn an_edit_is_committed_as_planned_after_the_hook() {
    for kind in [PlanKind::Prune, PlanKind::Compaction] {
        let planned = EditChoiceInput::Planned(kind);
        let inputs = if kind.is_compaction() { vec![planned, NO_HOOK] } else { vec![planned] };
        let effect = chosen(PlanTrigger::Routine, true, &inputs);
        assert_eq!(effect, Some(EditChoiceEffect::Commit(EditSource::Plan)), "{kind:?}");
    }
    let fits = chosen(PlanTrigger::Routine, true, &[EditChoiceInput::Planned(PlanKind::Fits)]);
    assert_eq!(fits, Some(EditChoiceEffect::Leave));
    let too_large = chosen(PlanTrigger::Routine, true, &[EditChoiceInput::Planned(PlanKind::DoesNotFit)]);
    assert_eq!(too_large, Some(EditChoiceEffect::RefuseForSize));
}

#[test]
fn an_extract_takes_the_place_of_a_summary_that_nobody_may_wait_for_or_that_failed() {
    let routine = PlanTrigger::Routine;
    let at_once = chosen(routine.clone(), false, &needs_summary(&[NO_HOOK]));
    assert_eq!(at_once, Some(EditChoiceEffect::MakeExtract));
    let failed = [NO_HOOK, EditChoiceInput::SummaryWritten(false)];
    assert_eq!(chosen(routine.clone(), true, &needs_summary(&failed)), Some(EditChoiceEffect::MakeExtract));
    let written = [NO_HOOK, EditChoiceInput::SummaryWritten(true)];
    let summary = Some(EditChoiceEffect::Commit(EditSource::Summary));
    assert_eq!(chosen(routine.clone(), true, &needs_summary(&written)), summary);
    // A summary of the hook is used although no model may be asked.
    let given =
        EditChoiceInput::HookAnswered { is_cancelled: false, gives_summary: true, fits_the_window: true };
    let given = [given, EditChoiceInput::SummaryWritten(true)];
    assert_eq!(chosen(routine, false, &needs_summary(&given)), summary);
}

#[test]
fn messages_are_dropped_where_neither_summary_nor_extract_fits_and_the_hook_is_asked_once() {
    let replan = EditChoiceEffect::MakePlan { with_summaries: false };
    let no_extract = needs_summary(&[NO_HOOK, EditChoiceInput::ExtractMade(false)]);
    assert_eq!(chosen(PlanTrigger::Routine, false, &no_extract), Some(replan));
    let then = [no_extract, vec![EditChoiceInput::Planned(PlanKind::Compaction)]].concat();
    let dropped = Some(EditChoiceEffect::Commit(EditSource::Plan));
    assert_eq!(chosen(PlanTrigger::Routine, false, &then), dropped);
}

#[test]
fn a_cancelled_compaction_leaves_refuses_or_drops() {
    let leave = chosen(PlanTrigger::Routine, true, &needs_summary(&[cancelled(true)]));
    assert_eq!(leave, Some(EditChoiceEffect::LeaveForHook));
    let drop = chosen(PlanTrigger::Overflow, true, &needs_summary(&[cancelled(true)]));
    assert_eq!(drop, Some(EditChoiceEffect::MakePlan { with_summaries: false }));
    let refuse = chosen(REQUESTED, true, &needs_summary(&[cancelled(true)]));
    assert_eq!(refuse, Some(EditChoiceEffect::RefuseForHook));
}

#[test]
fn a_choice_ends_after_three_plans() {
    let mut choice = EditChoice::new(PlanTrigger::Overflow, false);
    choice.handle(EditChoiceInput::Begin);
    choice.handle(EditChoiceInput::Planned(PlanKind::Summary));
    choice.handle(NO_HOOK);
    for _ in 0..2 {
        let replan = choice.handle(EditChoiceInput::ExtractMade(false));
        assert_eq!(replan, Some(EditChoiceEffect::MakePlan { with_summaries: false }));
        choice.handle(EditChoiceInput::Planned(PlanKind::Summary));
    }
    assert_eq!(choice.handle(EditChoiceInput::ExtractMade(false)), Some(EditChoiceEffect::Leave));
    assert_eq!(choice.handle(EditChoiceInput::Begin), None, "it is over");
}

/// Returns a background summary of that purpose at its writing.
fn at_writing(purpose: SummaryPurpose) -> BackgroundSummaryState {
    let mut state = BackgroundSummaryState::default();
    let (facts, look_up) = match purpose {
        SummaryPurpose::AheadOfNeed => {
            (FittedViewFacts { may_start_ahead: true, ..FittedViewFacts::default() }, vec![])
        }
        SummaryPurpose::ReplaceExtract => (
            FittedViewFacts { is_extract_due: true, ..FittedViewFacts::default() },
            vec![BackgroundSummaryInput::StoredEditsAdopted { is_extract_due: true }],
        ),
    };
    let not_settled = BackgroundSummaryInput::OthersLookedUp { is_settled: false };
    let turn = BackgroundSummaryInput::TurnCame { is_answered: true };
    let rest = match purpose {
        SummaryPurpose::AheadOfNeed => {
            vec![not_settled, turn, BackgroundSummaryInput::HookAnswered { is_cancelled: false }]
        }
        SummaryPurpose::ReplaceExtract => vec![turn, not_settled],
    };
    let inputs = [
        vec![BackgroundSummaryInput::RequestFitted(facts)],
        look_up,
        vec![BackgroundSummaryInput::Drafted(true)],
        rest,
    ];
    let last = inputs.concat().into_iter().map(|input| state.handle(input)).last();
    assert_eq!(last, Some(vec![BackgroundSummaryEffect::Write]), "{purpose:?}");
    state
}

#[test]
fn a_summary_ahead_of_need_waits_for_the_full_view_unless_an_extract_came_first() {
    for (has_extract, expected) in
        [(false, BackgroundSummaryEffect::KeepForFullView), (true, BackgroundSummaryEffect::OfferForExtract)]
    {
        let mut state = at_writing(SummaryPurpose::AheadOfNeed);
        let stored = state.handle(BackgroundSummaryInput::Written(Ok(())));
        let record = BackgroundSummaryEffect::RecordWriter { is_summary: true };
        let store = BackgroundSummaryEffect::Store(SummaryPurpose::AheadOfNeed);
        assert_eq!(stored, [record, store]);
        state.handle(BackgroundSummaryInput::Stored);
        let collected = state.handle(BackgroundSummaryInput::RequestCame { has_extract });
        assert_eq!(collected, [BackgroundSummaryEffect::ChargeRequest, expected]);
    }
}

#[test]
fn a_summary_is_collected_only_once_it_is_stored_and_only_once() {
    for purpose in BOTH {
        let mut state = at_writing(purpose);
        let came = BackgroundSummaryInput::RequestCame { has_extract: true };
        state.handle(BackgroundSummaryInput::Written(Ok(())));
        assert_eq!(state.handle(came), [], "a request would not find it yet");
        state.handle(BackgroundSummaryInput::Stored);
        // Neither another request nor the end of the task loses it.
        let due = FittedViewFacts { is_extract_due: true, ..FittedViewFacts::default() };
        assert_eq!(state.handle(BackgroundSummaryInput::RequestFitted(due)), []);
        assert_eq!(state.handle(BackgroundSummaryInput::CutOff), []);
        let offer = [BackgroundSummaryEffect::ChargeRequest, BackgroundSummaryEffect::OfferForExtract];
        assert_eq!(state.handle(came), offer);
        assert_eq!(state.handle(came), []);
    }
}

#[test]
fn an_invalid_summary_speaks_against_its_writer_and_an_outage_does_not() {
    for (cause, is_recorded) in [(MissingSummaryCause::Rejected, true), (MissingSummaryCause::Away, false)] {
        let mut state = at_writing(SummaryPurpose::ReplaceExtract);
        let effects = state.handle(BackgroundSummaryInput::Written(Err(cause)));
        let record = BackgroundSummaryEffect::RecordWriter { is_summary: false };
        assert_eq!(effects.contains(&record), is_recorded, "{cause:?}");
        assert_eq!(effects.last(), Some(&BackgroundSummaryEffect::StoreFailure(cause)));
        state.handle(BackgroundSummaryInput::Stored);
        let collected = state.handle(BackgroundSummaryInput::RequestCame { has_extract: true });
        let noted = BackgroundSummaryEffect::NoteFailure(cause);
        assert_eq!(collected, [BackgroundSummaryEffect::ChargeRequest, noted]);
    }
}

#[test]
fn a_collected_summary_that_does_not_improve_the_view_is_not_written_again() {
    let mut state = BackgroundSummaryState::default();
    let facts = FittedViewFacts { has_collected_summary: true, ..FittedViewFacts::default() };
    let adopt = state.handle(BackgroundSummaryInput::RequestFitted(facts));
    assert_eq!(adopt, [BackgroundSummaryEffect::AdoptStoredEdits]);
    let still_due = state.handle(BackgroundSummaryInput::StoredEditsAdopted { is_extract_due: true });
    assert_eq!(still_due, [BackgroundSummaryEffect::PutOff(MissingSummaryCause::Rejected)]);
    assert!(!state.is_working());
}

#[test]
fn a_task_that_ends_without_an_outcome_leaves_the_way_free() {
    for purpose in BOTH {
        let mut state = at_writing(purpose);
        assert!(state.is_working());
        state.handle(BackgroundSummaryInput::CutOff);
        assert_eq!(state, BackgroundSummaryState::default());
    }
}

#[test]
fn where_requests_wait_only_an_extract_that_nobody_waits_for_is_replaced_in_the_background() {
    let waits = FittedViewFacts { waits: true, ..FittedViewFacts::default() };
    for (facts, starts) in [
        (FittedViewFacts { may_start_ahead: true, ..waits }, false),
        (FittedViewFacts { is_extract_due: true, is_edited: true, ..waits }, false),
        (FittedViewFacts { is_extract_due: true, ..waits }, true),
        (FittedViewFacts { is_extract_due: true, is_edited: true, waits: false, ..waits }, true),
    ] {
        let effects = BackgroundSummaryState::default().handle(BackgroundSummaryInput::RequestFitted(facts));
        assert_eq!(!effects.is_empty(), starts, "{facts:?}");
    }
}

#[test]
fn conversations_with_one_beginning_get_one_summary_for_each_edit() {
    let newest = SummaryStart { edits: 1, at: 1_000 };
    assert!(newest.precludes(SummaryStart { edits: 1, at: 1_001 }));
    assert!(newest.precludes(SummaryStart { edits: 0, at: 1_001 }), "a branch from before the edit");
    assert!(!newest.precludes(SummaryStart { edits: 2, at: 1_001 }), "the view was shortened since");
    assert!(!newest.precludes(SummaryStart { edits: 1, at: 1_600 }), "ten minutes later");
    assert!(!newest.precludes(SummaryStart { edits: 1, at: 5 }), "by another clock");
}
