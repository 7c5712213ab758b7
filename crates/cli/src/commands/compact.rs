//! `longhaul compact`: makes room now, or says what that would do.

use longhaul::session::Session;
use longhaul_core::event::ViewEdit;
use longhaul_core::ids::Handle;
use longhaul_core::plan::{Plan, Policy, SummaryDraft, Writer};
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
    described(&run.preview(instructions), &run.settings().policy)
}

/// A plan in words. Nothing has happened. The strategy that was asked need not be the one that the plan comes from.
fn described(plan: &Plan, policy: &Policy) -> String {
    let strategy = match plan {
        Plan::Fits | Plan::DoesNotFit(_) => policy.strategy.name(),
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
            text.push_str(&format!("would do    {}\n", written(draft, policy.writer)));
            text.push_str(&format!("goes        {} · {}\n", count(messages, "message"), listed(&handles)));
            let (after, bound) = afterwards(draft);
            text.push_str(&sizes(draft.original_tokens(), after, bound));
            text.push_str(&format!("floor       {} without any summary\n", short(draft.floor_tokens())));
        }
    }
    text.push_str("nothing was changed\n");
    text
}

/// What would be written, and by whom.
fn written(draft: &SummaryDraft, writer: Writer) -> String {
    let limit = short(draft.limit_tokens());
    let what = match draft.strategy() {
        "summarization" => format!("summaries of at most {limit} tokens together"),
        "pruning-agent" => format!("what a pruning agent leaves, and its summary of at most {limit} tokens"),
        "adaptive" => format!("a ledger of what was done, and a summary of at most {limit} tokens"),
        _ => format!("a summary of at most {limit} tokens"),
    };
    match (writer, draft.strategy()) {
        (Writer::Nobody, _) => format!("{what}, extracted without a model call"),
        (Writer::Other { .. }, _) => format!("{what}, by another model"),
        (Writer::Session, "summarization") => format!("{what}, one model call for each"),
        (Writer::Session, "pruning-agent") => what,
        (Writer::Session, _) => format!("{what}, one model call"),
    }
}

/// The size afterwards, and how far that is known.
fn afterwards(draft: &SummaryDraft) -> (u64, &'static str) {
    let with_summary = draft.floor_tokens() + draft.limit_tokens();
    match draft.strategy() {
        // What it leaves is up to the agent, but it must be under the trigger.
        "pruning-agent" => (draft.trigger_tokens().min(draft.original_tokens()), " at most"),
        "adaptive" => (with_summary, " at most, besides the ledger"),
        _ => (with_summary, " at most"),
    }
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
    use longhaul_core::budget::Budget;
    use longhaul_core::event::{EditKind, EditReason};
    use longhaul_core::history::History;
    use longhaul_core::plan::{self, Occasion};
    use longhaul_core::strategy;
    use longhaul_lab::synthetic;

    use super::{Plan, Policy, ViewEdit, Writer, described};

    fn policy(name: &str) -> Policy {
        Policy::new(strategy::by_name(name).unwrap())
    }

    /// The preview of a support agent's morning, in a window that it fills.
    fn preview(policy: &Policy) -> String {
        let recording = synthetic::support(1, 60).unwrap();
        let history = History::fold(&recording.events).unwrap();
        let budget = Budget::new(24_000, None);
        let asked = Occasion::Requested { instructions: None };
        described(&plan::plan(&history, recording.fixed_tokens, &budget, policy, &asked), policy)
    }

    #[test]
    fn a_preview_says_what_each_strategy_would_have_written_and_by_whom() {
        for (name, expected) in [
            ("reactive-overflow", "would do    a summary of at most 2K tokens, one model call\n"),
            ("proactive-threshold", "would do    a summary of at most 2K tokens, one model call\n"),
            ("summarization", "tokens together, one model call for each\n"),
            (
                "pruning-agent",
                "would do    what a pruning agent leaves, and its summary of at most 2K tokens\n",
            ),
            (
                "adaptive",
                "would do    a ledger of what was done, and a summary of at most 500 tokens, one model call\n",
            ),
        ] {
            let text = preview(&policy(name));
            assert!(text.contains(expected), "{name}: {text}");
            assert!(text.starts_with(&format!("strategy    {name}\n")), "{text}");
            assert_eq!(text.contains("besides the ledger"), name == "adaptive", "{text}");
        }
        let by = |writer| preview(&Policy { writer, ..policy("summarization") });
        let text = by(Writer::Nobody);
        assert!(text.contains("tokens together, extracted without a model call\n"), "{text}");
        let text = by(Writer::Other { window: 9_000, max_output: None });
        assert!(text.contains("tokens together, by another model\n"), "{text}");
        for name in ["middle-removal", "truncation", "importance"] {
            assert!(preview(&policy(name)).contains("no model call"), "{name}");
        }
    }

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
        let text = described(&Plan::Edit(Box::new(edit)), &policy("reactive-overflow"));
        assert!(text.starts_with("strategy    truncation\n"), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(
            described(&Plan::Fits, &policy("reactive-overflow"))
                .starts_with("strategy    reactive-overflow\n")
        );
    }
}
