//! `longhaul compactions`: the history of a session's view, edit by edit, and why.

use std::collections::BTreeMap;

use longhaul::clock::now_ms;
use longhaul::compaction::{ViewSnapshot, only_leaves_out};
use longhaul_core::event::{EditKind, Event, EventBody, ViewEdit};
use longhaul_core::history::{History, ViewEditState};
use longhaul_core::ids::Seq;
use longhaul_core::retention_report::{RetentionReport, RetentionTally};
use longhaul_core::run::Run;
use longhaul_core::usage::Usage;

use crate::args::CompactionsArgs;
use crate::environment::CliEnvironment;
use crate::failure::{DONE, Outcome};
use crate::removed_messages;
use crate::term::human::{ago, count, short};
use crate::term::out;
use crate::term::text::visible;
use crate::term::ui_event::{NO_ROOM, UndoOption, why};
use crate::undo_check;

use super::reading;

pub(crate) async fn run(args: CompactionsArgs, place: &CliEnvironment) -> Outcome {
    let (runtime, record) = reading::session(place, &args.session).await?;
    let run = runtime.read_run(&record.id).await;
    let events = runtime.log(&record.id).await;
    // Closed before the results are looked at, so that the store is closed on errors too.
    runtime.close().await;
    if args.json {
        out::print_line(&serde_json::to_string_pretty(&as_json(&run?))?)?;
        return Ok(DONE);
    }
    let undo = place.command(&format!("undo {}", args.session));
    out::rows(&listed(&run?, &events?, &undo))?;
    Ok(DONE)
}

/// Returns every edit as JSON, the oldest first, with the names of the API.
fn as_json(run: &Run) -> Vec<serde_json::Value> {
    let offers = undo_check::undo_options_of_run(run);
    let edits = run.history().edits().iter().map(|state| {
        let edit = &state.edit;
        let undo = match offers.get(edit.id.as_str()) {
            Some(UndoOption::Newest | UndoOption::Named) => "possible",
            Some(UndoOption::After(_)) => "built-on",
            Some(UndoOption::Refused(NO_ROOM)) => "no-room",
            _ => "undone",
        };
        serde_json::json!({
            "id": edit.id, "seq": state.seq, "kind": edit.kind, "strategy": edit.strategy,
            "reason": edit.reason, "trigger": edit.trigger_tokens, "why": edit.why, "active": state.active,
            "undo": undo, "originalTokens": edit.original_tokens, "compressedTokens": edit.compressed_tokens,
            "usage": edit.usage,
        })
    });
    edits.collect()
}

/// Lists every edit, the oldest first. `undo` is the command for undoing an edit.
pub(in crate::commands) fn listed(run: &Run, events: &[Event], undo: &str) -> String {
    let offers = undo_check::undo_options_of_run(run);
    let (gone, survived) = (removed_messages::removed_by_edit(events), survivals(events));
    let edits = run.history().edits();
    if edits.is_empty() {
        return "nothing was compacted or pruned\n".to_owned();
    }
    let told = edits.iter().map(|state| {
        let edit = &state.edit;
        let what = match edit.kind {
            EditKind::Prune => format!("pruned {}", count(edit.ops.len() as u64, "old tool result")),
            EditKind::Compaction => {
                let verb = if only_leaves_out(&edit.strategy) { "left out" } else { "compacted" };
                format!("{verb} {}", gone.get(edit.id.as_str()).copied().unwrap_or_default().words())
            }
        };
        let when = events.iter().find(|event| event.seq == state.seq).map_or(0, |event| event.at);
        let offer = offers.get(edit.id.as_str()).cloned().unwrap_or_default();
        let (when, survival) = (ago(when, now_ms()), survived.get(edit.id.as_str()));
        told(&CompactionListItem {
            state,
            what,
            when,
            survival,
            failed: failed_usage(events, state.seq),
            undo: undone(edit.id.as_str(), &offer, undo),
        })
    });
    told.collect::<Vec<_>>().join("\n")
}

/// The texts about one edit.
struct CompactionListItem<'a> {
    state: &'a ViewEditState,
    what: String,
    when: String,
    survival: Option<&'a RetentionReport>,
    /// The usage of summaries that were refused or did not come, if the edit stands in their place.
    failed: Option<&'a Usage>,
    undo: String,
}

fn told(edit: &CompactionListItem<'_>) -> String {
    let CompactionListItem { state, what, when, survival, failed, undo } = edit;
    let made = &state.edit;
    let mut text = format!(
        "{} · {when} · {} · {what} · {} → {} tokens\n",
        made.id,
        visible(&made.strategy),
        short(made.original_tokens),
        short(made.compressed_tokens)
    );
    text.push_str(&format!("  why       {}\n", visible(&why(made)).replace('\n', " ")));
    if let Some(line) = survival.and_then(facts) {
        text.push_str(&format!("  facts     {line}\n"));
    }
    text.push_str(&format!("  cost      {}\n  undo      {undo}\n", cost(made, *failed)));
    text
}

/// Describes the tokens used for an edit's summary, and for summaries that were not used.
fn cost(edit: &ViewEdit, failed: Option<&Usage>) -> String {
    let tokens = |usage: &Usage| {
        format!("{} tokens in, {} out", short(usage.input_tokens), short(usage.output_tokens))
    };
    let unused = failed.map(|usage| format!("{}, for summaries that were not used", tokens(usage)));
    match (edit.usage.as_ref().map(tokens), unused) {
        (Some(used), Some(unused)) => format!("{used}; and {unused}"),
        (Some(cost), None) | (None, Some(cost)) => cost,
        (None, None) => "no model call".to_owned(),
    }
}

/// Returns the usage of the summaries that failed before the edit at `seq`. The log stores it with the failure, which
/// has the position before the edit.
fn failed_usage(events: &[Event], seq: Seq) -> Option<&Usage> {
    match &events.iter().find(|event| event.seq + 1 == seq)?.body {
        EventBody::CompactionFailed { usage, .. } => usage.as_ref(),
        _ => None,
    }
}

/// Returns the retention report of each edit, by the edit's id.
fn survivals(events: &[Event]) -> BTreeMap<String, RetentionReport> {
    let mut left = BTreeMap::new();
    let Some(Ok(mut history)) = events.get(..1).map(History::fold) else { return left };
    for event in &events[1..] {
        let edit = match &event.body {
            EventBody::ViewEdited(edit) => Some((edit.id.to_string(), ViewSnapshot::of(&history))),
            _ => None,
        };
        // A log that does not fold to its end still gives the reports of its beginning.
        if history.apply(event).is_err() {
            break;
        }
        left.extend(edit.and_then(|(id, before)| Some((id, before.survival_in(&history)?))));
    }
    left
}

/// Describes the retention of the facts that the model had been shown, over all classes. Returns nothing if
/// there were none.
fn facts(survival: &RetentionReport) -> Option<String> {
    let all = sum_of(survival, RetentionTally::total);
    (all > 0).then(|| {
        let (shown, lost) = (sum_of(survival, |tally| tally.verbatim), sum_of(survival, |tally| tally.lost));
        let found = all - shown - lost;
        format!("{} of {} shown verbatim, {found} recoverable, {lost} lost", shown, count(all, "fact"))
    })
}

fn sum_of(survival: &RetentionReport, part: fn(&RetentionTally) -> u64) -> u64 {
    survival.classes.values().map(part).sum::<u64>()
}

fn undone(id: &str, offer: &UndoOption, command: &str) -> String {
    match offer {
        UndoOption::Newest | UndoOption::Named => format!("{command} {id}"),
        UndoOption::After(other) => format!("only after {other}, the newest that was built on it"),
        UndoOption::Refused(why) => (*why).to_owned(),
        UndoOption::Unknown => "unknown".to_owned(),
    }
}
