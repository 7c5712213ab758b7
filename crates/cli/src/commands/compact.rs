//! `longhaul compact`: makes room now, or says what that would do.

use longhaul::session::Session;
use longhaul_core::event::ViewEdit;
use longhaul_core::ids::Handle;
use longhaul_core::plan::Plan;
use longhaul_core::run::{CompactionOutcome, Run};

use crate::args::CompactArgs;
use crate::assemble::Asking;
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::human::{count, short};
use crate::term::out;

use super::{Need, reading};

pub(crate) async fn run(args: CompactArgs, place: &Place) -> Outcome {
    if args.dry_run {
        return preview(&args.session, args.instructions, place).await;
    }
    let runtime = super::open(place, Need::Model(Asking::Nobody)).await?;
    let session = super::find(&runtime, &args.session).await?;
    let done = compact(&session, args.instructions).await;
    runtime.close().await;
    out::data(&done?)?;
    Ok(DONE)
}

async fn compact(session: &Session, instructions: Option<String>) -> Outcome<String> {
    session.adopt_model().await?;
    let before = session.look(|run| run.meter().total).await?;
    match session.compact(instructions).await? {
        CompactionOutcome::Committed(edit) => {
            let after = session.look(|run| run.meter().total).await?;
            Ok(committed(&edit, (before, after), session.id().as_str()))
        }
        CompactionOutcome::NothingToDo => Ok("nothing to compact: what is there stays\n".to_owned()),
        CompactionOutcome::Refused(why) => {
            Err(Failure::new(format!("not compacted, nothing changed: {why}")))
        }
    }
}

/// The meter's totals, before and after: what `context` shows.
fn committed(edit: &ViewEdit, totals: (u64, u64), session: &str) -> String {
    format!(
        "compacted {} · {} → {} tokens · {}\nundo with: longhaul undo {session} {}\n",
        count((edit.original_messages + 1).saturating_sub(edit.compressed_messages), "message"),
        short(totals.0),
        short(totals.1),
        edit.why,
        edit.id,
    )
}

async fn preview(meant: &str, instructions: Option<String>, place: &Place) -> Outcome {
    let (runtime, record) = reading::session(place, meant).await?;
    let run = runtime.glance(&record.id).await?;
    runtime.close().await;
    out::data(&previewed(&run, instructions))?;
    Ok(DONE)
}

/// What a compaction would do, in words.
pub(super) fn previewed(run: &Run, instructions: Option<String>) -> String {
    described(&run.preview(instructions), run.settings().policy.strategy.name())
}

/// A plan in words. Nothing has happened. `configured` is the strategy that was asked, which need not be the one that
/// the plan comes from.
fn described(plan: &Plan, configured: &str) -> String {
    let strategy = match plan {
        Plan::Fits | Plan::DoesNotFit(_) => configured,
        Plan::Edit(edit) => &edit.strategy,
        Plan::Summarise(draft) => draft.strategy(),
    };
    let mut text = format!("strategy    {strategy}\n");
    match plan {
        Plan::Fits => text.push_str("would do    nothing: there is nothing to leave out\n"),
        Plan::DoesNotFit(misfit) => text.push_str(&format!("would do    nothing: {misfit}\n")),
        Plan::Edit(edit) => {
            let handles: Vec<Handle> = edit.ops.iter().map(|op| Handle(op.range())).collect();
            let gone = (edit.original_messages + 1).saturating_sub(edit.compressed_messages);
            let what = match edit.kind {
                longhaul_core::event::EditKind::Prune => count(handles.len() as u64, "old tool result"),
                longhaul_core::event::EditKind::Compaction => count(gone, "message"),
            };
            text.push_str(&format!("would do    {}\n", edit.why));
            text.push_str(&format!("goes        {what} · {}\n", listed(&handles)));
            text.push_str(&sizes(edit.original_tokens, edit.compressed_tokens, ""));
        }
        Plan::Summarise(draft) => {
            let (messages, handles) = draft.what_goes();
            let limit = short(draft.limit_tokens());
            text.push_str(&format!("would do    a summary of at most {limit} tokens, one model call\n"));
            text.push_str(&format!("goes        {} · {}\n", count(messages, "message"), listed(&handles)));
            text.push_str(&sizes(
                draft.original_tokens(),
                draft.floor_tokens() + draft.limit_tokens(),
                " at most",
            ));
            text.push_str(&format!("floor       {} without any summary\n", short(draft.floor_tokens())));
        }
    }
    text.push_str("nothing was changed\n");
    text
}

fn sizes(before: u64, after: u64, bound: &str) -> String {
    format!("tokens      {} → {}{bound}\n", short(before), short(after))
}

/// Where it can be had back: `recall` takes each of these.
fn listed(handles: &[Handle]) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<String> = handles.iter().take(SHOWN).map(Handle::to_string).collect();
    if handles.len() > SHOWN {
        names.push(format!("… {} more", handles.len() - SHOWN));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Plan, ViewEdit, described};
    use longhaul_core::event::{EditKind, EditReason};

    #[test]
    fn a_plan_names_the_strategy_that_it_comes_from() {
        let why = "the newest step alone was too large: 2 of its results cleared";
        let edit = ViewEdit {
            id: "e1".into(),
            base_view_hash: String::new(),
            ops: Vec::new(),
            kind: EditKind::Prune,
            strategy: "truncation".to_owned(),
            reason: EditReason::Requested,
            trigger_tokens: 0,
            original_tokens: 9,
            compressed_tokens: 4,
            original_bound: 9,
            compressed_bound: 4,
            original_messages: 2,
            compressed_messages: 2,
            why: why.to_owned(),
            usage: None,
        };
        let text = described(&Plan::Edit(Box::new(edit)), "reactive-overflow");
        assert!(text.starts_with("strategy    truncation\n"), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(described(&Plan::Fits, "reactive-overflow").starts_with("strategy    reactive-overflow\n"));
    }
}
