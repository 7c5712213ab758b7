//! The messages that each strategy keeps and drops, and the reasons that it gives.

use super::*;

#[test]
fn the_default_strategy_summarises_all_but_two_turns() {
    let mut log = Log::turns(8, 800);
    let draft = draft(log.routine(8_000, &policy("reactive-overflow")));
    assert_eq!(draft.limit_tokens(), 1_000, "a sixth of what is usable");
    let (count, handles) = draft.what_goes();
    assert_eq!((count, handles.len()), (24, 1), "six turns of four messages");
    let edit = finished(&log, draft, &format!("[SUMMARY] {}", good_for(""))).unwrap();
    log.commit(&edit);
    let shown = log.shown();
    assert!(shown.starts_with("[SUMMARY] of 24 earlier messages: lh:"), "{shown}");
    assert_eq!(shown.matches("[SUMMARY]").count(), 1);
    assert!(shown.contains("|question 6|") && !shown.contains("|question 5|"));
    let messages = request_messages(log.history.view());
    assert_eq!(messages[0].role, Role::User, "merged with the message that follows");
    assert!(messages[0].text().ends_with("question 6"));
}

/// Three turns of one question and one long answer; the window is nearly full.
fn three_long_answers() -> Log {
    let mut log = Log::new();
    for turn in 0..3 {
        log.typed(&format!("question {turn}"));
        log.say(&" word".repeat(1_500));
    }
    log
}

#[test]
fn a_summary_may_be_shorter_where_little_goes() {
    let log = three_long_answers();
    for (window, limits) in [(8_000, 1_000..1_001), (6_900, 200..1_000)] {
        let requested = PlanTrigger::Requested { instructions: None };
        let budget = Budget { window, reserve: 2_000, usable: window - 2_000 };
        let draft = draft(log.plan(&budget, &policy("reactive-overflow"), &requested));
        assert!(limits.contains(&draft.limit_tokens()), "{window}: {}", draft.limit_tokens());
        assert_eq!(draft.what_goes().0, 2, "the oldest turn, no more");
    }
}

#[test]
fn a_step_that_is_kept_keeps_what_it_answers() {
    let mut log = three_long_answers();
    let keeps_two = edit(log.routine(5_500, &policy("truncation")));
    log.commit(&keeps_two);
    assert!(log.shown().contains("question 1| word"), "{}", &log.shown()[..200]);
    // Unless what it answers is what does not fit.
    let mut log = Log::new();
    log.typed(&" word".repeat(3_000));
    log.say(&" word".repeat(600));
    log.typed("and now?");
    let alone = edit(log.routine(3_000, &policy("truncation")));
    log.commit(&alone);
    assert!(log.shown().contains("| word") && log.shown().ends_with("and now?"));
    assert_eq!(log.history.view().len(), 3);
}

#[test]
fn nothing_promises_a_tool_that_is_not_there() {
    fn promises(text: &str) -> bool {
        text.to_lowercase().contains("recall") || text.contains("lh:")
    }
    for (name, has_recall) in strategy::NAMES.iter().flat_map(|name| [(name, false), (name, true)]) {
        let mut log = Log::new();
        if !has_recall {
            log.history = std::mem::take(&mut log.history).without_recall();
        }
        for turn in 0..60 {
            log.typed(&format!("Never touch file{turn}.rs, whatever happens."));
            log.step("read", 150);
            log.say("answered");
        }
        let window = Budget::new(8_000, None);
        let asked = PlanTrigger::Requested { instructions: None };
        let policy = CompactionPolicy { prune: PruneOptions::default(), ..policy(name) };
        let edit = match log.plan(&window, &policy, &asked) {
            Plan::Edit(edit) => *edit,
            Plan::Summarise(mut draft) => {
                let texts = |request: SummaryRequest| request.messages.iter().any(|m| promises(&m.text()));
                let is_said = draft.clone().request(log.history.view(), &window).is_some_and(texts);
                assert!(!is_said, "{name}: the writer is told of handles");
                draft.take(said(&good_for(""))).unwrap_or(());
                draft.finish_extractive(&log.history).unwrap()
            }
            other => panic!("{name}: {other:?}"),
        };
        log.commit(&edit);
        assert_eq!(promises(&log.shown()), has_recall, "{name}: {}", log.shown());
        let last = without_summary(&log.history, log.fixed, &Budget::new(2_500, None), &policy, &asked);
        let Plan::Edit(last) = last else { continue };
        log.commit(&last);
        assert_eq!(promises(&log.shown()), has_recall, "{name}: {}", log.shown());
    }
}

#[test]
fn middle_removal_keeps_both_ends() {
    let mut log = Log::turns(10, 600);
    let edit = edit(log.routine(8_000, &policy("middle-removal")));
    log.commit(&edit);
    let shown = log.shown();
    assert!(shown.starts_with("question 0|"), "{shown}");
    assert!(shown.contains("earlier messages were removed here") && shown.contains("|question 9|"));
    assert!(!shown.contains("question 1|"));
    assert!(log.bound() < 6_000);
}

#[test]
fn truncation_keeps_the_newest_messages() {
    let mut log = Log::turns(10, 600);
    let edit = edit(log.routine(8_000, &policy("truncation")));
    log.commit(&edit);
    assert_eq!(log.history.view().len(), 12, "ten messages, the call of the oldest, and the note");
    assert!(log.shown().contains("lh:3-"), "{}", log.shown());
}

#[test]
fn every_strategy_keeps_standing_orders_and_quotes_the_user() {
    for name in strategy::NAMES {
        let mut log = Log::new();
        log.typed("Let us begin with the parser.");
        log.say("Gladly.");
        log.typed("Whenever you name a file, add its size in brackets.");
        log.add(EventBody::OrderPinned {
            order_id: "o1".into(),
            text: "Speak of the parser as the reader.".to_owned(),
            source: crate::orders::OrderSource::User,
            from: None,
            replaces: None,
        });
        for turn in 0..30 {
            log.typed(&format!("And what of part {turn}?"));
            log.say(&format!("Part {turn}: {}", "word ".repeat(300)));
        }
        for round in 0..5 {
            let plan = log.plan(&Budget::new(8_000, None), &policy(name), &PlanTrigger::Overflow);
            let edit = match plan {
                Plan::Edit(edit) => *edit,
                Plan::Summarise(draft) => draft.finish_extractive(&log.history).unwrap(),
                other => panic!("{name}: {other:?}"),
            };
            log.commit(&edit);
            let shown = log.shown();
            assert!(
                shown.contains("o1: Speak of the parser as the reader."),
                "{name} in round {round}: {shown}"
            );
            let quotes = !matches!(*name, "middle-removal" | "truncation" | "importance");
            let order = "Whenever you name a file, add its size in brackets.";
            assert!(!quotes || shown.contains(order), "{name} in round {round}: {shown}");
            for turn in 0..20 {
                log.typed(&format!("Round {round}, part {turn}?"));
                log.say(&"word ".repeat(300));
            }
        }
    }
}
