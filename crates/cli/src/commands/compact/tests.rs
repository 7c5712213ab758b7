use crate::lab::recording::SessionRecording;
use crate::lab::synthetic;
use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::history::ViewItemKind;
use longhaul_core::plan::{self, PlanContext, PlanTrigger};
use longhaul_core::strategy::{self, CompactionSelection, ProtectionLevel, UnitReplacement};

use super::*;
use crate::sample;
use crate::term::text::width;

fn policy(name: &str) -> CompactionPolicy {
    CompactionPolicy::new(strategy::by_name(name).unwrap())
}

/// The preview of a recording, in a window that it fills; what it would leave is left out.
fn preview_of(recording: &SessionRecording, window: u64, policy: &CompactionPolicy) -> String {
    let history = History::fold(&recording.events).unwrap();
    let budget = Budget::new(window, None);
    let asked = PlanTrigger::Requested { instructions: None };
    let plan = plan::plan(&history, recording.fixed_tokens, &budget, policy, &asked);
    described(&bare(plan), policy.strategy.name(), policy.writer, None)
}

/// The preview of a support agent's morning.
fn preview(policy: &CompactionPolicy) -> String {
    preview_of(&synthetic::support(1, 60).unwrap(), 24_000, policy)
}

fn bare(plan: Plan) -> CompactionPreview {
    CompactionPreview { plan, survival: None, without_summary: false }
}

fn edit(kind: EditKind, ops: Vec<ViewOperation>, why: &str) -> ViewEdit {
    ViewEdit { ops, kind, why: why.to_owned(), ..sample::edit() }
}

fn survived(classes: &[(&str, RetentionTally)]) -> RetentionReport {
    RetentionReport { classes: classes.iter().map(|(class, tally)| ((*class).to_owned(), *tally)).collect() }
}

#[test]
fn a_preview_says_what_each_strategy_would_have_written_and_by_whom() {
    for (name, expected) in [
        ("reactive-overflow", "would do    a summary of at most 2K tokens, one model call\n"),
        ("proactive-threshold", "would do    a summary of at most 2K tokens, one model call\n"),
        ("summarization", "tokens together, one model call for each\n"),
        ("pruning-agent", "would do    what a pruning agent leaves, and its summary of at most 2K tokens\n"),
        (
            "adaptive",
            "would do    pinned facts of the log, and a summary of at most 1.5K tokens, one model call\n",
        ),
    ] {
        let text = preview(&policy(name));
        assert!(text.contains(expected), "{name}: {text}");
        assert!(text.starts_with(&format!("strategy    {name}\n")), "{text}");
        assert_eq!(text.contains(" of pinned facts"), name == "adaptive", "{text}");
    }
    let text = preview_by(SummaryWriterModel::Nobody);
    assert!(text.contains("tokens together, extracted without a model call\n"), "{text}");
    let text = preview_by(SummaryWriterModel::Other { window: 9_000, max_output: None });
    assert!(text.contains("tokens together, by another model\n"), "{text}");
    for name in ["middle-removal", "truncation", "importance"] {
        assert!(preview(&policy(name)).contains("no model call"), "{name}");
    }
}

fn preview_by(writer: SummaryWriterModel) -> String {
    preview(&CompactionPolicy { writer, ..policy("summarization") })
}

#[test]
fn a_plan_names_the_strategy_that_it_comes_from() {
    let why = "the newest step alone was too large: 2 of its results cleared";
    let plan = Plan::Edit(Box::new(edit(EditKind::Prune, Vec::new(), why)));
    let text = described(&bare(plan), "reactive-overflow", SummaryWriterModel::Session, None);
    assert!(text.starts_with("strategy    truncation\n"), "{text}");
    assert!(text.contains(why), "{text}");
    let text = described(&bare(Plan::Fits), "reactive-overflow", SummaryWriterModel::Session, None);
    assert!(text.starts_with("strategy    reactive-overflow\n"), "{text}");
}

/// Has a summary written of the beginning, and clears three results after it.
struct SummaryAndClearing;

impl CompactionStrategy for SummaryAndClearing {
    fn name(&self) -> &str {
        "summary-and-clearing"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.7)
    }

    fn prunes_first(&self) -> bool {
        false
    }

    fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
        let all = context.units.len();
        let cut = all / 3;
        let (first, end) = (context.units[cut].items.start, context.units[2 * all / 3].items.start);
        let cleared = (first..end)
            .filter(|at| matches!(context.history.view()[*at].kind, ViewItemKind::Result { .. }))
            .take(3)
            .collect();
        let summary = UnitReplacement::Summary { tokens: 500 };
        let mut selection = CompactionSelection::new(context.before_cut(cut), summary);
        selection.cleared = cleared;
        Some(selection)
    }
}

#[test]
fn results_that_are_cleared_are_counted() {
    let recording = synthetic::coding(1, 60).unwrap();
    let text = preview_of(&recording, 60_000, &CompactionPolicy::new(Arc::new(SummaryAndClearing)));
    assert!(text.contains("a summary of at most"), "{text}");
    assert!(text.contains("\nprunes      3 old tool results\ntokens "), "{text}");
    assert!(!preview(&policy("reactive-overflow")).contains("prunes  "), "there is nothing to prune");

    let gone = "lh:3-8".parse::<LogHandle>().unwrap();
    let ops = vec![ViewOperation::Drop { range: gone.0 }, ViewOperation::clear(11), ViewOperation::clear(13)];
    let described = |kind, ops| {
        described(
            &bare(Plan::Edit(Box::new(edit(kind, ops, "why")))),
            "truncation",
            SummaryWriterModel::Session,
            None,
        )
    };
    let text = described(EditKind::Compaction, ops);
    assert!(text.contains("goes        4 messages · lh:3-8\nprunes      2 old tool results\n"), "{text}");
    let text = described(EditKind::Prune, vec![ViewOperation::clear(11)]);
    assert!(text.contains("goes        1 old tool result · lh:11\ntokens"), "{text}");
}

#[test]
fn the_report_has_a_row_for_each_class_that_has_something() {
    let most = 1_234_567;
    let all =
        RetentionTally { verbatim: most, recoverable_by_model: most, recoverable_by_user: most, lost: 9_999 };
    let some = RetentionTally { verbatim: 3, recoverable_by_model: 41, ..RetentionTally::default() };
    let survival =
        survived(&[("paths", some), ("numbers", RetentionTally::default()), ("userConstraints", all)]);
    let expected = "\
facts kept  of what the model is shown
                  verbatim  recoverable by the model  recoverable by you  lost
user constraints 1,234,567                 1,234,567           1,234,567 9,999
paths                    3                        41                   0     0
";
    let text = report(&survival, "of what the model is shown");
    assert_eq!(text, expected);
    assert!(text.lines().all(|line| width(line) <= 79), "{text}");
    assert_eq!(report(&survived(&[("paths", RetentionTally::default())]), "of nothing"), "");
}

#[test]
fn a_preview_says_whether_a_summary_would_keep_more() {
    let survival = Some(survived(&[("paths", RetentionTally { verbatim: 1, ..RetentionTally::default() })]));
    let text = |without_summary| {
        let plan = Plan::Edit(Box::new(edit(EditKind::Compaction, Vec::new(), "why")));
        described(
            &CompactionPreview { plan, survival: survival.clone(), without_summary },
            "adaptive",
            SummaryWriterModel::Session,
            None,
        )
    };
    assert!(text(true).contains("; without the summary, at least\n"), "{}", text(true));
    assert!(!text(false).contains("without the summary"), "{}", text(false));
    assert!(text(false).ends_with("     0\nnothing was changed\n"), "{}", text(false));
}

#[test]
fn what_was_done_is_told_by_its_kind() {
    let told = |kind| {
        let edit = edit(kind, vec![ViewOperation::clear(11), ViewOperation::clear(13)], "why");
        let undo = "undo with: longhaul undo s1 e1".to_owned();
        let (gone, totals) = (would_go(&edit, None), (9_000, 4_000));
        format_report(&CompactionReport { edit: &edit, gone, totals, notes: &[], survival: None, undo })
    };
    assert_eq!(
        told(EditKind::Prune),
        "pruned 2 old tool results · 9K → 4K tokens · truncation · why\nundo with: longhaul undo s1 e1\n"
    );
    assert!(told(EditKind::Compaction).starts_with("left out 4 messages · "));
}

#[test]
fn a_model_is_needed_only_by_who_writes_summaries() {
    for name in strategy::NAMES {
        let asks = !["middle-removal", "truncation", "importance"].contains(name);
        assert_eq!(needs_model("{}", Some(name)), asks, "{name}");
        assert_eq!(needs_model(&with_strategy(name), None), asks, "{name}");
    }
    let extract = "context: { compression: { options: { summarizeWith: extract } } }";
    assert!(!needs_model(extract, None) && !needs_model(extract, Some("summarization")));
}

fn with_strategy(strategy: &str) -> String {
    format!("context: {{ compression: {{ strategy: {strategy} }} }}")
}

fn needs_model(file: &str, named: Option<&str>) -> bool {
    asks_a_model(&AgentConfig::parse(file, "test").unwrap(), named)
}

#[test]
fn instructions_have_a_limit_that_is_said() {
    assert!(check_length(None).is_ok() && check_length(Some(&"ä".repeat(4_000))).is_ok());
    let failure = check_length(Some(&"ä".repeat(4_001))).unwrap_err();
    assert_eq!(failure.message(), "the instructions have 4,001 characters: at most 4,000 are taken");
}

#[test]
fn what_stands_in_the_place_of_a_summary_is_said() {
    assert_eq!(
        fallback_words("adaptive", EditKind::Compaction),
        "no summary: no answer; an extract stands in its place"
    );
    assert!(fallback_words("truncation", EditKind::Compaction).ends_with("nothing stands in its place"));
    assert!(fallback_words("adaptive", EditKind::Prune).ends_with("nothing stands in its place"));
}

fn fallback_words(strategy: &str, kind: EditKind) -> String {
    describe_fallback(
        &ViewEdit { strategy: strategy.to_owned(), ..edit(kind, Vec::new(), "why") },
        "no answer",
    )
}
