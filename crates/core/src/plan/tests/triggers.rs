//! When the planner acts, and down to which size.

use super::*;

#[test]
fn budgets() {
    for (window, max_output, reserve) in [
        (200_000, None, 4_096),
        (200_000, Some(64_000), 32_000),
        (200_000, Some(1_000), 1_000),
        (32_000, None, 4_096),
        (8_000, None, 2_000),
        (4_096, Some(8_192), 1_024),
        (1_500, None, 512),
        (800, None, 400),
    ] {
        let budget = Budget::new(window, max_output);
        assert_eq!((budget.reserve, budget.usable), (reserve, window - reserve), "{window} {max_output:?}");
    }
}

#[test]
fn triggers_never_lie_beyond_what_is_usable() {
    let budget = Budget::new(8_000, None);
    assert_eq!(budget.trigger(StrategyTrigger::Overflow), 6_000);
    assert_eq!(budget.trigger(StrategyTrigger::Manual), 6_000, "at true overflow every strategy acts");
    assert_eq!(budget.trigger(StrategyTrigger::Share(0.5)), 4_000);
    assert_eq!(budget.trigger(StrategyTrigger::Share(0.85)), 6_000);
    assert_eq!(budget.trigger(StrategyTrigger::Share(1.0)), 6_000);
    assert_eq!(budget.trigger(StrategyTrigger::Tokens(1_234)), 1_234);
    assert_eq!(budget.trigger(StrategyTrigger::Tokens(7_000)), 6_000);
    assert_eq!(Budget::new(200_000, None).progress(), 9_795);
    assert_eq!(budget.progress(), 500);
}

#[test]
fn strategies_have_the_triggers_of_the_table() {
    for (name, trigger) in [
        ("reactive-overflow", StrategyTrigger::Overflow),
        ("middle-removal", StrategyTrigger::Share(0.8)),
        ("truncation", StrategyTrigger::Share(0.85)),
    ] {
        let strategy = strategy::by_name(name).unwrap();
        assert_eq!((strategy.name(), strategy.trigger()), (name, trigger));
    }
    assert!(strategy::by_name("magic").is_none());
}

#[test]
fn the_trigger_flips_at_one_token() {
    let log = Log::turns(4, 400);
    let bound = log.bound();
    fn at(tokens: u64) -> CompactionPolicy {
        CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(tokens)), ..policy("middle-removal") }
    }
    assert_eq!(log.routine(100_000, &at(bound + 1)), Plan::Fits);
    assert_ne!(log.routine(100_000, &at(bound)), Plan::Fits);
    let off = CompactionPolicy { enabled: false, ..at(bound) };
    assert_eq!(log.routine(100_000, &off), Plan::Fits);
}

#[test]
fn no_second_compaction_before_the_view_has_grown() {
    let mut log = Log::turns(10, 600);
    let policy =
        CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(4_000)), ..policy("middle-removal") };
    let first = edit(log.routine(12_000, &policy));
    log.commit(&first);
    log.typed("on");
    log.step("read", 350);
    // Above the trigger again or not: too little has come.
    assert_eq!(log.routine(12_000, &policy), Plan::Fits);
    log.step("read", 600);
    assert_ne!(log.routine(12_000, &policy), Plan::Fits);
}

#[test]
fn a_failed_compaction_is_not_tried_again_at_once() {
    let mut log = Log::turns(6, 600);
    let policy =
        CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(3_000)), ..policy("reactive-overflow") };
    assert!(matches!(log.routine(12_000, &policy), Plan::Summarise(_)));
    log.add(EventBody::CompactionFailed {
        strategy: "reactive-overflow".to_owned(),
        code: crate::error::ErrorCode::ThirdParty,
        reason: String::new(),
        usage: None,
    });
    assert_eq!(log.routine(12_000, &policy), Plan::Fits);
    log.add(EventBody::ModelSwitched { to: origin(), choice: None });
    assert_ne!(log.routine(12_000, &policy), Plan::Fits, "another model, another window");
}

#[test]
fn what_an_undo_brought_back_is_left_alone_until_asked_or_forced() {
    let mut log = Log::turns(8, 600);
    let policy = CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(4_500)), ..policy("truncation") };
    let first = edit(log.routine(12_000, &policy));
    log.commit(&first);
    log.add(EventBody::ViewRestored { edit_id: first.id.clone() });
    let pinned = log.history.pinned()[0];
    let other = edit(log.routine(12_000, &policy));
    assert!(other.ops.iter().all(|op| !op.range().overlaps(&pinned)), "{other:?}");
    let asked = PlanTrigger::Requested { instructions: None };
    assert!(matches!(log.plan(&Budget::new(12_000, None), &policy, &asked), Plan::Edit(_)));
    assert!(matches!(log.routine(6_000, &policy), Plan::Edit(_)), "true overflow forces it");
    log.add(EventBody::RangeReleased { edit_id: first.id });
    assert!(matches!(log.routine(12_000, &policy), Plan::Edit(_)), "released");
}

#[test]
fn an_overflow_aims_below_our_own_count() {
    let log = Log::turns(8, 300);
    let budget = Budget::new(100_000, None);
    let bound = log.bound();
    let edit = edit(log.plan(&budget, &policy("truncation"), &PlanTrigger::Overflow));
    assert_eq!(edit.trigger_tokens, bound * 70 / 100);
    assert!(edit.compressed_bound < edit.trigger_tokens);
    let lost = without_summary(
        &log.history,
        log.fixed,
        &budget,
        &policy("reactive-overflow"),
        &PlanTrigger::Overflow,
    );
    let Plan::Edit(lost) = lost else { panic!("{lost:?}") };
    assert_eq!(lost.trigger_tokens, edit.trigger_tokens, "also when the summary fails");
}

#[test]
fn a_request_below_the_trigger_never_truncates() {
    let mut log = Log::new();
    log.typed("work");
    log.say(&" word".repeat(900));
    let asked = PlanTrigger::Requested { instructions: None };
    assert_eq!(log.plan(&Budget::new(32_000, None), &policy("reactive-overflow"), &asked), Plan::Fits);
    let log = Log::turns(8, 300);
    let plan = log.plan(&Budget::new(32_000, None), &pruning_default(), &asked);
    assert!(matches!(plan, Plan::Summarise(_)), "pruning waits for the trigger: {plan:?}");
}

fn pruning_default() -> CompactionPolicy {
    CompactionPolicy { trigger: None, ..pruning(0, 100) }
}
