//! The edits without any model and strategy.

use super::*;

#[test]
fn the_last_resort_keeps_as_many_steps_as_fit() {
    // Three steps, one must go: neither two nor all.
    let mut log = Log::new();
    log.typed("work");
    (0..3).for_each(|_| _ = log.step("read", 1_500));
    let (budget, policy) = (Budget::new(6_000, None), policy("reactive-overflow"));
    let last = edit(without_summary(&log.history, log.fixed, &budget, &policy, &PlanTrigger::Routine));
    assert_eq!(last.strategy, "truncation");
    log.commit(&last);
    assert!(log.shown().starts_with("work|[2 earlier messages were removed here"), "{}", log.shown());
    let results = log.history.view().iter().filter(|item| matches!(item.kind, ViewItemKind::Result { .. }));
    assert_eq!(results.count(), 2, "{}", log.shown());
}

#[test]
fn the_last_resort_goes_down_step_by_step() {
    let small = Budget::new(4_000, None);
    let last_edit = |log: &mut Log| {
        let last = edit(log.plan(&small, &policy("reactive-overflow"), &PlanTrigger::Routine));
        log.commit(&last);
        assert!(log.bound() < small.usable);
        log.shown()
    };
    let mut log = Log::new();
    log.typed("work");
    log.step("read", 5_000);
    let shown = last_edit(&mut log);
    let is_cut = shown.contains(crate::truncate::MARKER) && !shown.contains(CLEARED);
    assert!(shown.starts_with("work|") && is_cut, "the newest result is cut, never cleared: {shown}");

    let mut log = Log::new();
    log.typed("work");
    log.say(&" word".repeat(5_000));
    let shown = last_edit(&mut log);
    assert!(shown.starts_with("work|[1 earlier messages were removed"), "only the message stays: {shown}");

    let mut log = Log::new();
    log.typed(&" word".repeat(5_000));
    let whole = CompactionPolicy { cuts_user_messages: false, ..policy("reactive-overflow") };
    let Plan::DoesNotFit(misfit) = log.routine(4_000, &whole) else { panic!() };
    assert_eq!((misfit.fixed_tokens, misfit.usable_tokens, misfit.window_tokens), (100, 3_000, 4_000));
    assert!(misfit.needed_tokens > 5_000);
}

#[test]
fn a_message_longer_than_the_window_is_shown_by_its_ends() {
    let text =
        format!("Find the fault in this log.\n{}\nNever touch main.rs.", "a line of it\n".repeat(9_000));
    for (name, begun) in strategy::NAMES.iter().flat_map(|name| [(name, false), (name, true)]) {
        let mut log = Log::new();
        if begun {
            log.typed("Hello");
            log.step("read", 200);
            log.say("Hello to you");
        }
        let seq = log.typed(&text);
        let budget = Budget::new(8_000, None);
        let edit = edit(log.routine(8_000, &policy(name)));
        assert!(edit.why.starts_with(LONG_MESSAGE), "{name}: {}", edit.why);
        assert!(edit.compressed_bound < budget.usable, "{name}");
        log.commit(&edit);
        assert!(log.bound() <= edit.compressed_bound, "{name}: {} {}", log.bound(), edit.compressed_bound);
        let shown = log.history.view().last().unwrap().message.text();
        assert!(shown.starts_with("Find the fault in this log.\na line of it\n"), "{name}: {shown}");
        assert!(shown.ends_with("a line of it\n\nNever touch main.rs."), "{name}: {shown}");
        assert!(shown.contains(crate::truncate::MARKER), "{name}");
        assert!(shown.contains(&format!("the whole is lh:{seq}\n")), "{name}: {shown}");
        assert!(log.history.offers_recall(), "{name}");
        let room = budget.usable - log.bound();
        assert!(room > budget.usable / 4, "{name}: only {room} tokens are left for the work");
        assert_eq!(log.routine(8_000, &policy(name)), Plan::Fits, "{name}");
        assert_ne!(log.history.view_hash(), edit.base_view_hash, "{name}");
        // The log keeps it whole, and an undo shows it again.
        assert_eq!(log.history.entry(seq).unwrap().message.text(), text);
        log.add(EventBody::ViewRestored { edit_id: edit.id.clone() });
        assert_eq!(log.history.view().last().unwrap().message.text(), text, "{name}");
    }
}

#[test]
fn a_refused_message_is_cut_too() {
    let mut log = Log::new();
    log.typed(&" word".repeat(5_000));
    let budget = Budget::new(128_000, None);
    let edit = edit(log.plan(&budget, &policy("adaptive"), &PlanTrigger::Overflow));
    assert!(edit.compressed_bound <= log.bound() * 7 / 10, "{edit:?}");
}
