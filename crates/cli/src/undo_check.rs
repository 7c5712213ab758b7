//! The check for an edit's undo. A notice offers no undo that would be refused.

use std::collections::BTreeMap;

use longhaul::compaction;
use longhaul::session::{Session, SessionError};
use longhaul_core::budget::Budget;
use longhaul_core::event::{EditKind, Event, EventBody, StepStart};
use longhaul_core::history::{History, UndoError, ViewEditState};
use longhaul_core::ids::EditId;
use longhaul_core::meter;
use longhaul_core::plan::SummaryWriterModel;
use longhaul_core::run::Run;

use crate::removed_messages::{self, RemovedMessages};
use crate::term::ui_event::{NO_ROOM, UiEvent, UndoOption};

/// The undo option of every edit of a session, by the edit's id.
pub(crate) type UndoOptions = BTreeMap<String, UndoOption>;

/// Completes the notice of a new edit: the strategy, the removed messages, and whether the edit can
/// be undone. An edit in progress also gets its writer.
pub(crate) async fn complete(session: &Session, happening: &mut UiEvent) {
    if let UiEvent::Compacting { is_extract } = happening {
        *is_extract = session
            .inspect_run(|run: &Run| run.settings().policy.writer == SummaryWriterModel::Nobody)
            .await
            .unwrap_or(false);
    }
    let Some(shrunk) = happening.edit() else { return };
    let id = shrunk.id.clone();
    let look = move |run: &Run| {
        let state = run.history().edits().iter().find(|state| state.edit.id.as_str() == id)?;
        let gone = (state.edit.kind == EditKind::Compaction).then(|| {
            RemovedMessages::by(
                &state.edit.ops,
                &removed_messages::active_edits_before(run.history(), Some(&state.edit)),
                run.history(),
            )
        });
        Some((state.edit.strategy.clone(), gone, of(run.history(), state, || fits(run, state))))
    };
    // A session that has ended offers nothing.
    if let Ok(Some((strategy, gone, undo))) = session.inspect_run(look).await {
        (shrunk.strategy, shrunk.gone, shrunk.undo) = (strategy, gone.unwrap_or(shrunk.gone), undo);
    }
}

/// Returns the options of a session now.
pub(crate) fn undo_options_of_run(run: &Run) -> UndoOptions {
    let history = run.history();
    history.edits().iter().map(|state| (name(state), of(history, state, || fits(run, state)))).collect()
}

/// Returns the options of a log. The room is that of its newest call. Without a call the room is unknown, and
/// is no obstacle.
pub(crate) fn undo_options_of_log(events: &[Event]) -> UndoOptions {
    let Ok(history) = History::fold(events) else { return UndoOptions::default() };
    let newest = events.iter().rev().find_map(|event| match &event.body {
        EventBody::StepStarted(start) => Some(StepStart::clone(start)),
        _ => None,
    });
    let room =
        newest.and_then(|step| Some((step.fixed_tokens, Budget::new(step.window_tokens?, None).usable)));
    let options = history.edits().iter().map(|state| {
        let option = of(&history, state, || {
            let Some((fixed_tokens, usable)) = room else { return true };
            let without = history.with(EventBody::ViewRestored { edit_id: state.edit.id.clone() });
            meter::read(&without, fixed_tokens).bound() <= usable
        });
        (name(state), option)
    });
    options.collect()
}

fn name(state: &ViewEditState) -> String {
    state.edit.id.as_str().to_owned()
}

fn fits(run: &Run, state: &ViewEditState) -> bool {
    !matches!(compaction::check_undo(run, &state.edit.id), Err(SessionError::DoesNotFit { .. }))
}

fn of(history: &History, state: &ViewEditState, fits: impl FnOnce() -> bool) -> UndoOption {
    // Later edits may rest on earlier ones, so the newest is the one that can always be undone.
    let newest = history.edits().iter().rev().find(|state| state.active);
    match history.check_undo(&state.edit.id) {
        Err(UndoError::BuiltOn { by, .. }) => UndoOption::After(last(history, by).as_str().to_owned()),
        Err(_) => UndoOption::Refused("undone since"),
        // Room is checked last, because it needs a count of the whole view.
        Ok(_) if !fits() => UndoOption::Refused(NO_ROOM),
        Ok(_) if newest.is_some_and(|newest| newest.edit.id == state.edit.id) => UndoOption::Newest,
        Ok(_) => UndoOption::Named,
    }
}

/// Returns the last edit of a chain.
pub(crate) fn last(history: &History, edit: EditId) -> EditId {
    match history.check_undo(&edit) {
        Err(UndoError::BuiltOn { by, .. }) => last(history, by),
        _ => edit,
    }
}

#[cfg(test)]
mod tests;
