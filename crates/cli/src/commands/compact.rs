//! `longhaul compact`: makes room now, or describes the effect of doing so.

use std::sync::Arc;

use longhaul::api_events::ApiEvent;
use longhaul::compaction::{self, CompactionPreview, only_leaves_out};
use longhaul::config::{AgentConfig, ProviderKind, StrategyKind, SummaryWriter};
use longhaul::session::{Runtime, Session, whole_log};
use longhaul_core::event::{EditKind, ViewEdit, ViewOperation};
use longhaul_core::history::History;
use longhaul_core::ids::LogHandle;
use longhaul_core::message::ModelOrigin;
use longhaul_core::plan::{CompactionPolicy, Plan, SummaryDraft, SummaryWriterModel};
use longhaul_core::retention_report::{RetentionReport, RetentionTally};
use longhaul_core::run::{CompactionOutcome, Run};
use longhaul_core::strategy::CompactionStrategy;
use longhaul_store::SharedStore;

use crate::agent_file;
use crate::args::CompactArgs;
use crate::assemble::ToolApprovalMode;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::hint::quoted;
use crate::model_discovery::NO_MODEL;
use crate::removed_messages::{self, RemovedMessages};
use crate::session_lookup;
use crate::term::human::{count, grouped, short};
use crate::term::out;
use crate::term::text::visible;
use crate::term::ui_event::{self, UiEvent};

use super::{AgentRequirement, reading};

pub(crate) async fn run(args: CompactArgs, place: &CliEnvironment) -> Outcome {
    check_length(args.instructions.as_deref())?;
    if args.dry_run {
        return preview(args, place).await;
    }
    out::data(&Box::pin(compact_closed_session(args, place)).await?)?;
    Ok(DONE)
}

/// Compacts a session of a data folder that no other process has open. Returns the result in words.
///
/// # Errors
/// The reason for doing nothing.
pub(super) async fn compact_closed_session(args: CompactArgs, place: &CliEnvironment) -> Outcome<String> {
    // A compaction that needs no model must also work while the model's server is not there.
    let asks_a_model = asks_a_model(&agent_file::load(place)?.config, args.strategy.as_deref());
    let (runtime, session) = if asks_a_model {
        let runtime = match super::open(place, AgentRequirement::Model(ToolApprovalMode::Nobody)).await {
            Ok(runtime) => runtime,
            Err(failure) => return Err(with_own_model(place, &args.session, failure).await),
        };
        let session = super::find(place, &runtime, &args.session).await?;
        session.adopt_model().await?;
        (runtime, session)
    } else {
        let (runtime, record) = reading::session_to_change(place, &args.session).await?;
        let session = runtime.open(&record.id).await?;
        (runtime, session)
    };
    let done = compact(&runtime, &session, args, place).await;
    runtime.close().await;
    done
}

/// Adds the session's own model to the error of a missing model, as a command that names it.
async fn with_own_model(place: &CliEnvironment, meant: &str, failure: CommandError) -> CommandError {
    // Other errors have causes and remedies of their own.
    if !failure.message().starts_with(NO_MODEL) {
        return failure;
    }
    let Ok(data) = reading::usual(place).await else { return failure };
    let own = own_model(place, &data.store, meant).await;
    data.store.close().await;
    let Some(own) = own else { return failure };
    // The log has no address, and only servers of one's own need one.
    let is_own_server = own.provider == ProviderKind::OpenaiCompatible.as_str();
    let address = if is_own_server { "--base-url URL " } else { "" };
    let (provider, model) = (quoted(&own.provider), quoted(&own.model));
    let flags = format!("--provider {provider} {address}--model {model} compact {}", quoted(meant));
    let command = visible(&place.command(&flags));
    CommandError::usage(format!("{}\n  the session's own   {command}", failure.message()))
}

/// Returns the model of a session, if its log can be read.
async fn own_model(place: &CliEnvironment, store: &SharedStore, meant: &str) -> Option<ModelOrigin> {
    let record = session_lookup::session(place, store, meant).await.ok()?;
    let events = whole_log(store, &record.id).await.ok()?;
    History::fold(&events).ok()?.model().cloned()
}

/// Reports whether a model must be there to write summaries.
fn asks_a_model(config: &AgentConfig, strategy: Option<&str>) -> bool {
    let compression = &config.context.compression;
    let strategy = strategy.unwrap_or(compression.strategy.as_str());
    // The pruning agent itself is a model, so it needs one even if summaries are extracts.
    let is_extracted = compression.options.summarize_with == SummaryWriter::Extract
        && compression.strategy != StrategyKind::PruningAgent;
    !only_leaves_out(strategy) && !is_extracted
}

/// A compaction on request.
pub(super) struct ManualCompaction {
    pub(super) outcome: CompactionOutcome,
    /// The reason for a missing summary.
    failed: Option<String>,
    /// `true` if a model wrote any of the summary.
    pub(super) is_by_model: bool,
    /// `true` if the summary is an extract because extracts are configured.
    is_extract: bool,
}

/// Compacts now. Passes every event to `tell` as it happens.
pub(super) async fn compact_session(
    session: &Session,
    strategy: Option<Arc<dyn CompactionStrategy>>,
    instructions: Option<String>,
    mut tell: impl FnMut(&UiEvent),
) -> Outcome<ManualCompaction> {
    let (mut failed, mut is_asked) = (None, false);
    // Subscribed before the work begins, or its first events would be missed.
    let mut watch = session.watch();
    let mut take = |announcement: &ApiEvent| {
        let Some(happening) = ui_event::event_from_announcement(announcement) else { return };
        match &happening {
            UiEvent::Compacting { .. } => is_asked = true,
            UiEvent::CompactionFailed { reason } => failed = Some(reason.clone()),
            _ => {}
        }
        tell(&happening);
    };
    let mut work = std::pin::pin!(session.compact_by(strategy, instructions));
    let outcome = loop {
        tokio::select! {
            biased;
            // Events come first: they tell whether a model was asked, and the result does not.
            Ok(announcement) = watch.recv() => take(&announcement),
            done = &mut work => break done?,
        }
    };
    // The last events may have been sent between the last poll and the result.
    while let Ok(announcement) = watch.try_recv() {
        take(&announcement);
    }
    let is_nobody =
        session.inspect_run(|run| run.settings().policy.writer == SummaryWriterModel::Nobody).await?;
    let is_by_model = is_asked && failed.is_none() && !is_nobody;
    let is_extract = is_asked && is_nobody;
    Ok(ManualCompaction { outcome, is_by_model, is_extract, failed })
}

impl ManualCompaction {
    /// Returns a warning if there were instructions and no model that reads them.
    pub(super) fn unheard(&self) -> Option<&'static str> {
        match (self.is_by_model, self.is_extract) {
            (true, _) => None,
            (false, true) => Some("the instructions were not used: an extract quotes what was said"),
            (false, false) => Some("the instructions were not used: no model wrote a summary"),
        }
    }
}

/// The maximum length of instructions, in characters. They are part of the request for a summary, whose room
/// is reckoned without them.
const MAX_INSTRUCTION_CHARS: usize = 4_000;

/// Refuses instructions that are too long.
///
/// # Errors
/// Usage, with the limit.
pub(super) fn check_length(instructions: Option<&str>) -> Outcome<()> {
    let chars = instructions.map_or(0, |text| text.chars().count());
    if chars > MAX_INSTRUCTION_CHARS {
        Err(CommandError::usage(format!(
            "the instructions have {} characters: at most {} are taken",
            grouped(chars as u64),
            grouped(MAX_INSTRUCTION_CHARS as u64)
        )))
    } else {
        Ok(())
    }
}

async fn compact(
    runtime: &Runtime,
    session: &Session,
    args: CompactArgs,
    place: &CliEnvironment,
) -> Outcome<String> {
    let strategy = named(&runtime.agent().rules.policy, args.strategy.as_deref())?;
    let is_instructed = args.instructions.is_some();
    let before = session.inspect_run(|run| run.meter().total).await?;
    // Read before the compaction, because its first event already needs both.
    let (for_good, is_nobody) = session
        .inspect_run(|run| (for_good(run), run.settings().policy.writer == SummaryWriterModel::Nobody))
        .await?;
    let made = compact_session(session, strategy, args.instructions, |happening: &UiEvent| {
        if matches!(happening, UiEvent::Compacting { .. }) && place.terminal.messages {
            let what = if is_nobody { "an extract is being made" } else { "a summary is being written" };
            out::print_message(&format!("compacting … {what}\n{}", for_good.clone().unwrap_or_default()));
        }
    })
    .await?;
    let unheard = made.unheard();
    match made.outcome {
        CompactionOutcome::Committed(edit) => {
            let after = session.inspect_run(|run| run.meter().total).await?;
            let survival = match session.newest_survival(&edit.id) {
                Some(survival) => Some(survival),
                None => {
                    // The compaction is done, even if the log for its report cannot be read.
                    let log = runtime.log(session.id()).await.unwrap_or_default();
                    compaction::survival(&log, &edit.id)
                }
            };
            let mut notes = Vec::new();
            notes.extend(made.failed.map(|why| describe_fallback(&edit, &why)));
            notes.extend(unheard.filter(|_| is_instructed).map(str::to_owned));
            let this = ViewEdit::clone(&edit);
            let (gone, refused) = session
                .inspect_run(move |run| {
                    (describe_removed(&this, run), compaction::check_undo(run, &this.id).err())
                })
                .await?;
            Ok(format_report(&CompactionReport {
                edit: &edit,
                gone,
                totals: (before, after),
                notes: &notes,
                survival: survival.as_ref(),
                undo: match refused {
                    None => {
                        format!("undo with: {}", place.command(&format!("undo {} {}", session.id(), edit.id)))
                    }
                    Some(error) => format!("it cannot be undone: {error}"),
                },
            }))
        }
        CompactionOutcome::Refused(why) => {
            Err(CommandError::new(format!("not compacted, nothing changed: {why}")))
        }
        _ => Ok("nothing to compact: the conversation stays as it is\n".to_owned()),
    }
}

/// Returns the strategy named on the command line, if any.
fn named(policy: &CompactionPolicy, name: Option<&str>) -> Outcome<Option<Arc<dyn CompactionStrategy>>> {
    name.map(|name| {
        compaction::strategy(policy, name).ok_or_else(|| {
            CommandError::usage(format!(
                "there is no strategy `{name}`: the strategies are {}",
                longhaul_core::strategy::NAMES.join(", ")
            ))
        })
    })
    .transpose()
}

/// Describes the replacement of a failed summary.
fn describe_fallback(edit: &ViewEdit, why: &str) -> String {
    let what = match edit.kind {
        EditKind::Compaction if !only_leaves_out(&edit.strategy) => "an extract stands in its place",
        _ => "nothing stands in its place",
    };
    format!("no summary: {}; {what}", visible(why))
}

/// The texts about a finished compaction.
struct CompactionReport<'a> {
    edit: &'a ViewEdit,
    /// The removed messages, in words.
    gone: String,
    /// The meter's totals, before and after, as `context` shows them.
    totals: (u64, u64),
    /// The deviations from the request, a line each.
    notes: &'a [String],
    survival: Option<&'a RetentionReport>,
    undo: String,
}

fn format_report(made: &CompactionReport<'_>) -> String {
    let CompactionReport { edit, gone, totals, notes, survival, undo } = made;
    let done = match edit.kind {
        EditKind::Prune => "pruned",
        EditKind::Compaction if only_leaves_out(&edit.strategy) => "left out",
        EditKind::Compaction => "compacted",
    };
    let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
    format!(
        "{done} {gone} · {} → {} tokens · {} · {}\n{notes}{}{undo}\n",
        short(totals.0),
        short(totals.1),
        edit.strategy,
        ui_event::reason(&edit.why),
        survival.map(|survival| report(survival, "of what the model was shown")).unwrap_or_default(),
    )
}

async fn preview(args: CompactArgs, place: &CliEnvironment) -> Outcome {
    let (runtime, record) = reading::session(place, &args.session).await?;
    let strategy = named(&runtime.agent().rules.policy, args.strategy.as_deref());
    let run = runtime.read_run(&record.id).await?;
    runtime.close().await;
    // The error of a wrong strategy waits until here, so that the store is closed first.
    out::data(&previewed(&run, strategy?, args.instructions))?;
    Ok(DONE)
}

/// Describes the effect of a planned compaction.
pub(super) fn previewed(
    run: &Run,
    strategy: Option<Arc<dyn CompactionStrategy>>,
    instructions: Option<String>,
) -> String {
    let policy = &run.settings().policy;
    let asked = strategy.as_ref().unwrap_or(&policy.strategy).name().to_owned();
    let is_instructed = instructions.is_some();
    let preview = CompactionPreview::of(run, strategy, instructions);
    let is_draft = matches!(preview.plan, Plan::Summarise(_));
    let unheard = match (is_draft, policy.writer) {
        _ if !is_instructed => "",
        (true, SummaryWriterModel::Nobody) => {
            "the instructions would not be used: an extract quotes what was said\n"
        }
        (true, _) => "",
        (false, _) => "the instructions would not be used: no model would write a summary\n",
    };
    let for_good = match preview.plan {
        Plan::Edit(_) | Plan::Summarise(_) => for_good(run).unwrap_or_default(),
        _ => String::new(),
    };
    format!("{}{unheard}{for_good}", described(&preview, &asked, policy.writer, Some(run.history())))
}

/// Returns a warning if the compaction could not be undone because the present view exceeds the room.
fn for_good(run: &Run) -> Option<String> {
    let (tokens, usable) = (run.meter().bound(), run.budget().usable);
    (tokens > usable).then(|| {
        let (tokens, usable) = (short(tokens), short(usable));
        format!("it cannot be undone: the view as it is has up to {tokens} tokens, and {usable} are usable; `recall` still returns what goes\n")
    })
}

/// Describes a plan without its execution. The plan may come from another strategy than the requested one.
fn described(
    preview: &CompactionPreview,
    asked: &str,
    writer: SummaryWriterModel,
    history: Option<&History>,
) -> String {
    let plan = &preview.plan;
    let strategy = match plan {
        Plan::Edit(edit) => &edit.strategy,
        Plan::Summarise(draft) => draft.strategy(),
        _ => asked,
    };
    let mut text = format!("strategy    {strategy}\n");
    match plan {
        Plan::DoesNotFit(misfit) => text.push_str(&format!("would do    nothing: {misfit}\n")),
        Plan::Edit(edit) => {
            let handles: Vec<LogHandle> = edit
                .ops
                .iter()
                .filter(|op| edit.kind == EditKind::Prune || !is_cleared(op))
                .map(|op| LogHandle(op.range()))
                .collect();
            text.push_str(&format!("would do    {}\n", edit.why));
            text.push_str(&format!("goes        {} · {}\n", would_go(edit, history), listed(&handles)));
            text.push_str(&clears((edit.ops.len() - handles.len()) as u64));
            text.push_str(&sizes(edit.original_tokens, edit.compressed_tokens, ""));
        }
        Plan::Summarise(draft) => {
            let (messages, handles) = draft.what_goes();
            text.push_str(&format!("would do    {}\n", written(draft, writer)));
            let goes = match history {
                Some(history) => {
                    let ops: Vec<ViewOperation> =
                        handles.iter().map(|handle| ViewOperation::Drop { range: handle.0 }).collect();
                    RemovedMessages::by(&ops, &removed_messages::active_edits_before(history, None), history)
                }
                None => RemovedMessages::from_message_count(messages),
            };
            text.push_str(&format!("goes        {} · {}\n", goes.words(), listed(&handles)));
            text.push_str(&clears(draft.cleared_results()));
            let (after, bound) = afterwards(draft);
            text.push_str(&sizes(draft.original_tokens(), after, &bound));
            text.push_str(&format!("at least    {} before the summary\n", short(draft.floor_tokens())));
        }
        _ => text.push_str("would do    nothing: there is nothing to leave out\n"),
    }
    if let Some(survival) = &preview.survival {
        let of = if preview.without_summary {
            "of what the model is shown; without the summary, at least"
        } else {
            "of what the model is shown"
        };
        text.push_str(&report(survival, of));
    }
    text.push_str("nothing was changed\n");
    text
}

/// Describes the messages removed by an edit of a session.
pub(super) fn describe_removed(edit: &ViewEdit, run: &Run) -> String {
    match edit.kind {
        EditKind::Prune => count(edit.ops.len() as u64, "old tool result"),
        EditKind::Compaction => {
            let history = run.history();
            RemovedMessages::by(
                &edit.ops,
                &removed_messages::active_edits_before(history, Some(edit)),
                history,
            )
            .words()
        }
    }
}

/// Describes the messages in a planned edit's range.
fn would_go(edit: &ViewEdit, history: Option<&History>) -> String {
    match (edit.kind, history) {
        (EditKind::Prune, _) => count(edit.ops.len() as u64, "old tool result"),
        (EditKind::Compaction, Some(history)) => {
            RemovedMessages::by(&edit.ops, &removed_messages::active_edits_before(history, None), history)
                .words()
        }
        (EditKind::Compaction, None) => RemovedMessages::of_edit(edit).words(),
    }
}

fn is_cleared(op: &ViewOperation) -> bool {
    matches!(op, ViewOperation::Placeholder { .. })
}

/// Describes the tool results pruned besides the removed messages, if any.
fn clears(results: u64) -> String {
    match results {
        0 => String::new(),
        results => format!("prunes      {}\n", count(results, "old tool result")),
    }
}

/// The classes of facts and their names, in the order of people's interest.
const CLASSES: [(&str, &str); 6] = [
    ("userConstraints", "user constraints"),
    ("decisions", "decisions"),
    ("paths", "paths"),
    ("identifiers", "identifiers"),
    ("errorLines", "error lines"),
    ("numbers", "numbers"),
];

/// Describes the retention of the facts, a row for each class with facts. Empty without facts.
fn report(survival: &RetentionReport, of: &str) -> String {
    let rows = CLASSES.iter().filter_map(|(class, name)| {
        let tally = survival.classes.get(*class).copied().filter(|tally| tally.total() > 0)?;
        Some(row(name, tally))
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("facts kept  {of}\n{COLUMNS}\n{rows}")
}

const COLUMNS: &str = "                  verbatim  recoverable by the model  recoverable by you  lost";

fn row(name: &str, tally: RetentionTally) -> String {
    let RetentionTally { verbatim, recoverable_by_model, recoverable_by_user, lost } = tally;
    let [verbatim, by_model, by_user, lost] =
        [verbatim, recoverable_by_model, recoverable_by_user, lost].map(grouped);
    format!("{name:<16}{verbatim:>10}{by_model:>26}{by_user:>20}{lost:>6}\n")
}

/// Describes the planned summary and its writer.
fn written(draft: &SummaryDraft, writer: SummaryWriterModel) -> String {
    let limit = short(draft.limit_tokens());
    let what = match draft.strategy() {
        "summarization" => format!("summaries of at most {limit} tokens together"),
        "pruning-agent" => format!("what a pruning agent leaves, and its summary of at most {limit} tokens"),
        "adaptive" => format!("pinned facts of the log, and a summary of at most {limit} tokens"),
        _ => format!("a summary of at most {limit} tokens"),
    };
    match (writer, draft.strategy()) {
        (SummaryWriterModel::Nobody, _) => format!("{what}, extracted without a model call"),
        (SummaryWriterModel::Other { .. }, _) => format!("{what}, by another model"),
        (_, "summarization") => format!("{what}, one model call for each"),
        (_, "pruning-agent") => what,
        _ => format!("{what}, one model call"),
    }
}

/// Returns the size afterwards, and the certainty of the size.
fn afterwards(draft: &SummaryDraft) -> (u64, String) {
    let with_summary = draft.floor_tokens() + draft.limit_tokens();
    match draft.strategy() {
        // The pruning agent decides what it leaves, but the result must be under the trigger.
        "pruning-agent" => (draft.trigger_tokens().min(draft.original_tokens()), " at most".to_owned()),
        "adaptive" => {
            let ledger = short(draft.ledger_tokens());
            (with_summary, format!(" at most, and up to {ledger} of pinned facts"))
        }
        _ => (with_summary, " at most".to_owned()),
    }
}

fn sizes(before: u64, after: u64, bound: &str) -> String {
    format!("tokens      {} → {}{bound}\n", short(before), short(after))
}

/// Lists the handles with which `recall` returns the removed messages.
fn listed(handles: &[LogHandle]) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<String> = handles.iter().take(SHOWN).map(LogHandle::to_string).collect();
    if handles.len() > SHOWN {
        names.push(format!("… {} more", handles.len() - SHOWN));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests;
