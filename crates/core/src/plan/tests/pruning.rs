//! Old tool results that become placeholders.

use super::*;

#[test]
fn pruning_clears_what_lies_beyond_the_newest_output() {
    let log = Log::turns(8, 300);
    let edit = edit(log.routine(20_000, &pruning(700, 100)));
    assert_eq!((edit.kind, edit.strategy.as_str()), (EditKind::Prune, "prune"));
    let results: Vec<Seq> = results(&log.history);
    let cleared: Vec<Seq> = edit.ops.iter().map(|op| op.range().from).collect();
    // About 320 tokens each: the third newest crosses the line and goes too.
    assert_eq!(cleared, results[..6], "all but the two newest");
    let mut after = Log { history: log.history.clone(), fixed: log.fixed };
    after.commit(&edit);
    assert_eq!(after.shown().matches(CLEARED).count(), 6);
    assert!(after.shown().contains(&format!("{CLEARED} lh:{}|", results[0])), "{}", after.shown());
    assert_eq!(after.bound(), edit.compressed_bound, "the planner counts what the meter will show");
}

fn results(history: &History) -> Vec<Seq> {
    let results = history.view().iter().filter(|item| matches!(item.kind, ViewItemKind::Result { .. }));
    results.map(|item| item.range.from).collect()
}

#[test]
fn pruning_leaves_the_last_two_turns_alone() {
    let log = Log::turns(8, 300);
    let edit = edit(log.routine(20_000, &pruning(0, 100)));
    assert_eq!(edit.ops.len(), 6);
}

#[test]
fn pruning_needs_to_be_worth_it() {
    let log = Log::turns(8, 300);
    fn worth(item: &crate::history::ViewItem) -> u64 {
        item.tokens
            - crate::history::cleared_groups(item.range.from, MessageTokenCounter::structured(), true).total()
    }
    let old = log.history.view().iter().filter(|item| results(&log.history)[..6].contains(&item.range.from));
    let saved: u64 = old.map(worth).sum();
    for (minimum, prunes) in [(saved - 1, true), (saved, false)] {
        let plan = log.routine(40_000, &pruning(0, minimum));
        let pruned = matches!(&plan, Plan::Edit(edit) if edit.kind == EditKind::Prune);
        assert_eq!(pruned, prunes, "{minimum} of {saved}");
    }
}

#[test]
fn pruning_skips_protected_tools_and_stops_at_a_summary() {
    let mut log = Log::new();
    log.typed("one");
    let first = log.step("read", 600);
    let summed = log.typed("two");
    log.step("plan", 600);
    let later = log.step("read", 1_600);
    for turn in 0..2 {
        log.typed(&format!("turn {turn}"));
        log.say("yes");
    }
    let plan = edit(log.routine(20_000, &pruning(0, 100)));
    assert_eq!(plan.ops, [ViewOperation::clear(first), ViewOperation::clear(later)]);
    let ops = vec![ViewOperation::Replace {
        range: LogRange::one(summed),
        parts: vec![Part::text("[SUMMARY] of two")],
        summary: true,
    }];
    let summary = ViewEdit { id: "e".into(), ops, kind: EditKind::Compaction, ..plan };
    log.commit(&summary);
    let policy = CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(1_700)), ..pruning(0, 100) };
    let again = log.plan(&Budget::new(20_000, None), &policy, &PlanTrigger::Overflow);
    assert_eq!(edit(again).ops, [ViewOperation::clear(later)], "what precedes the summary stays");
}

#[test]
fn one_long_turn_is_pruned_up_to_its_last_two_steps() {
    let mut log = Log::new();
    log.typed("work on");
    let steps: Vec<Seq> = (0..6).map(|_| log.step("read", 400)).collect();
    let edit = edit(log.routine(20_000, &pruning(0, 100)));
    assert_eq!(edit.ops.iter().map(|op| op.range().from).collect::<Vec<_>>(), steps[..4]);
}
