//! `longhaul undo`: the model sees the original again.

use longhaul::session::{Session, SessionError};
use longhaul_core::ids::EditId;

use crate::args::UndoArgs;
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::human::short;
use crate::term::out;

use super::Need;

pub(crate) async fn run(args: UndoArgs, place: &Place) -> Outcome {
    let runtime = super::open(place, Need::View).await?;
    let session = super::find(place, &runtime, &args.session).await?;
    let done = undo(&session, args.edit).await;
    runtime.close().await;
    out::line(&done?)?;
    Ok(DONE)
}

/// Undoes an edit of the view, the newest active one if none is named, and says what that did.
pub(super) async fn undo(session: &Session, edit: Option<String>) -> Outcome<String> {
    let edit = match edit {
        Some(edit) => EditId::new(edit),
        None => newest(session)
            .await?
            .ok_or_else(|| Failure::new("nothing to undo: nothing is compacted or cleared"))?,
    };
    let before = session.look(|run| run.meter().total).await?;
    session.undo(edit.clone()).await.map_err(|error| refused(&edit, error))?;
    let after = session.look(|run| run.meter().total).await?;
    Ok(format!(
        "undone {edit} · {} → {} tokens · the model sees the original again",
        short(before),
        short(after)
    ))
}

async fn newest(session: &Session) -> Outcome<Option<EditId>> {
    let newest = |run: &longhaul_core::run::Run| {
        let mut edits = run.history().edits().iter().rev();
        edits.find(|state| state.active).map(|state| state.edit.id.clone())
    };
    Ok(session.look(newest).await?)
}

fn refused(edit: &EditId, error: SessionError) -> Failure {
    match error {
        SessionError::DoesNotFit { tokens, usable } => Failure::new(format!(
            "{edit} stays: without it the request would have {} tokens and {} are usable; nothing changed, `recall` \
             still returns what it covers",
            short(tokens),
            short(usable)
        )),
        SessionError::Busy => Failure::new("the session is busy; cancel the run or wait, then undo"),
        other => Failure::from(other),
    }
}
