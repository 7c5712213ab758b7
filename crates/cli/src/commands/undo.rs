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
    let (meant, edit) = session_and_edit(args);
    let session = super::find(place, &runtime, &meant).await?;
    let listing = place.command(&format!("compactions {meant}"));
    let done = undo(&session, edit, &listing).await;
    runtime.close().await;
    out::print_line(&done?.words())?;
    Ok(DONE)
}

/// Returns the named session and the named edit. An edit's name alone means an edit of the newest session.
fn session_and_edit(args: UndoArgs) -> (String, Option<String>) {
    let UndoArgs { session, edit } = args;
    // No session is meant: ids of sessions begin with their time, which no edit's name looks like. The name of an
    // omission begins with `o`.
    let is_edit = session
        .strip_prefix(['e', 'o'])
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if is_edit && edit.is_none() { ("last".to_owned(), Some(session)) } else { (session, edit) }
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
                "{edit} is not undone, because later edits were built on it; undo {} first, then {edit}",
                first.join(", then ")
            ))
        }
        SessionError::DoesNotFit { tokens, usable } => CommandError::new(format!(
            "{edit} is not undone: the request would then have {} tokens, and only {} fit. Nothing changed. `recall` \
             still returns the originals",
            short(tokens),
            short(usable)
        )),
        SessionError::Busy => CommandError::new("the session is busy; cancel the run or wait, then undo"),
        other => CommandError::from(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_alone_is_one_of_the_newest_session() {
        let named = |session: &str, edit: Option<&str>| {
            let (session, edit) =
                session_and_edit(UndoArgs { session: session.to_owned(), edit: edit.map(str::to_owned) });
            format!("{session} {}", edit.unwrap_or_default())
        };
        assert_eq!(named("e28", None), "last e28");
        assert_eq!(named("o7", None), "last o7");
        assert_eq!(named("last", None), "last ");
        assert_eq!(named("019a", Some("e28")), "019a e28");
        assert_eq!(named("e28f", None), "e28f ");
        assert_eq!(named("e", None), "e ");
    }
}
