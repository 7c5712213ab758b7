//! `longhaul undo`: the model sees the original again.

use longhaul::session::{Session, SessionError};
use longhaul_core::event::EventBody;
use longhaul_core::history::{History, UndoError};
use longhaul_core::ids::EditId;

use crate::args::UndoArgs;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::term::human::short;
use crate::term::out;
use crate::undo_check;

use super::AgentRequirement;

pub(crate) async fn run(args: UndoArgs, place: &CliEnvironment) -> Outcome {
    let runtime = super::open(place, AgentRequirement::View).await?;
    let session = super::find(place, &runtime, &args.session).await?;
    let listing = place.command(&format!("compactions {}", args.session));
    let done = undo(&session, args.edit, &listing).await;
    runtime.close().await;
    out::print_line(&done?.words())?;
    Ok(DONE)
}

/// An undone edit.
pub(super) struct EditUndoReport {
    edit: EditId,
    before: u64,
    after: u64,
}

impl EditUndoReport {
    /// Describes the effect of the undo.
    pub(super) fn words(&self) -> String {
        format!("undone {} · {} · the model sees the original again", self.edit, self.sizes())
    }

    /// Describes the fill of the window before and after.
    pub(super) fn sizes(&self) -> String {
        format!("{} → {} tokens", short(self.before), short(self.after))
    }
}

/// Undoes an edit of the view, the newest active one if none is named. `listing` is the command that lists the edits.
pub(super) async fn undo(session: &Session, edit: Option<String>, listing: &str) -> Outcome<EditUndoReport> {
    let edit = match edit {
        Some(edit) => EditId::new(edit),
        None => newest(session).await?.ok_or_else(|| {
            CommandError::new("nothing to undo: this session has no compaction and no pruning")
        })?,
    };
    let before = session.inspect_run(|run| run.meter().total).await?;
    if let Err(error) = session.undo(edit.clone()).await {
        tracing::debug!(session = %session.id(), %edit, %error, "the edit is not undone");
        let named = edit.clone();
        // The edits in the way are looked up only after a refusal, because each costs a copy of the history.
        let first = session.inspect_run(move |run| built_on(run.history(), &named)).await.unwrap_or_default();
        return Err(refused(&edit, error, &first, listing));
    }
    let after = session.inspect_run(|run| run.meter().total).await?;
    tracing::debug!(session = %session.id(), %edit, before, after, "an edit is undone");
    Ok(EditUndoReport { edit, before, after })
}

/// Returns the edits to undo before an edit, in order.
fn built_on(history: &History, edit: &EditId) -> Vec<EditId> {
    let mut history = history.clone();
    let mut first = Vec::new();
    // Each edit in the way is undone in a copy of the history, which shows the next one.
    while let Err(UndoError::BuiltOn { by, .. }) = history.check_undo(edit) {
        let newest = undo_check::last(&history, by);
        history = history.with(EventBody::ViewRestored { edit_id: newest.clone() });
        first.push(newest);
    }
    first
}

async fn newest(session: &Session) -> Outcome<Option<EditId>> {
    Ok(session
        .inspect_run(|run: &longhaul_core::run::Run| {
            let mut edits = run.history().edits().iter().rev();
            edits.find(|state| state.active).map(|state| state.edit.id.clone())
        })
        .await?)
}

fn refused(edit: &EditId, error: SessionError, first: &[EditId], listing: &str) -> CommandError {
    match error {
        SessionError::NotFound(_) => {
            CommandError::new(format!("this session has no compaction {edit}; `{listing}` lists them"))
        }
        SessionError::Conflict(_) if !first.is_empty() => {
            let first: Vec<&str> = first.iter().map(EditId::as_str).collect();
            CommandError::new(format!(
                "{edit} stays: later edits were built on it; undo {}, then {edit}",
                first.join(", then ")
            ))
        }
        SessionError::DoesNotFit { tokens, usable } => CommandError::new(format!(
            "{edit} stays: without it the request would have {} tokens and {} are usable; nothing changed, `recall` \
             still returns what it covers",
            short(tokens),
            short(usable)
        )),
        SessionError::Busy => CommandError::new("the session is busy; cancel the run or wait, then undo"),
        other => CommandError::from(other),
    }
}
