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

/// Results of many sizes. In each, two lines stand out and stay when the result is cleared.
fn results_with_outstanding_lines() -> Log {
    let mut log = Log::new();
    log.typed("read all of them");
    for lines in [1, 4, 9, 14, 20, 30, 60, 200] {
        let id = format!("c{lines}");
        log.answer(vec![Part::ToolCall(ToolCall {
            call_id: id.as_str().into(),
            name: "read".to_owned(),
            arguments: format!("{{\"path\":\"src/part_{lines}.rs\"}}"),
            provider_id: None,
            native: None,
        })]);
        let filler = |from: usize| -> String {
            (from..from + lines).map(|at| format!("    let value_{at} = compute(input, {at});\n")).collect()
        };
        let fact =
            "The rollback of the importer is tracked in OPS-4471.\nerror code E4417: the lease expired\n";
        let text = [filler(0).as_str(), fact, &filler(lines)].concat();
        let result = crate::history::closing_result(&id.as_str().into(), ToolStatus::Completed, &text);
        log.add(EventBody::ToolFinished { result });
    }
    log.say("done");
    log
}

#[test]
fn quick_answers_about_placeholders_are_the_exact_ones() {
    let log = results_with_outstanding_lines();
    let (budget, policy) = (Budget::new(20_000, None), pruning(0, 0));
    let now = meter::read(&log.history, log.fixed);
    let trigger = PlanTrigger::Routine;
    let threshold = threshold_at(&log.history, log.fixed, &budget, &policy, now.bound());
    let context = PlanContext::new(&log.history, log.fixed, budget, &policy, &trigger, now, threshold);
    let view = log.history.view();
    let marked: Vec<usize> =
        (0..view.len()).filter(|at| matches!(view[*at].kind, ViewItemKind::Result { .. })).collect();
    let dropped = vec![false; context.units.len()];
    assert!(!context.stays_below(&dropped, &marked, 0, 100));
    let was_read = |at: &usize| view[*at].cleared_form.as_ref().unwrap().known().is_some();
    assert!(!marked.iter().any(was_read), "a request that is too large even so takes no pass over the texts");

    for at in &marked {
        assert_eq!(context.saves_tokens(*at), context.worth_clearing(*at) > 0, "{at}");
    }
    assert!(marked.iter().filter(|at| !context.cleared_form(**at).excerpt.is_empty()).count() > 3);
    let exact = context.after_dropping(&dropped, &marked, 0).bound();
    for limit in exact - 400..exact + 50 {
        assert_eq!(context.stays_below(&dropped, &marked, 0, limit), exact < limit, "{exact} below {limit}");
    }
}
