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
fn an_edit_cuts_the_newest_message_only_if_it_touches_what_the_model_has_not_read() {
    let last_edit = |log: &Log| edit(log.routine(8_000, &policy("reactive-overflow")));
    let mut log = Log::new();
    log.typed(&" word".repeat(12_000));
    assert!(cuts_newest(&log.history, &last_edit(&log)), "a typed message");

    let mut log = Log::new();
    log.typed("work");
    log.step("read", 12_000);
    assert!(cuts_newest(&log.history, &last_edit(&log)), "an unread result");

    let mut log = Log::new();
    log.typed("work");
    log.say(&" word".repeat(12_000));
    assert!(!cuts_newest(&log.history, &last_edit(&log)), "an earlier answer");
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
fn a_long_message_leaves_room_for_the_goal_and_the_orders() {
    let budget = Budget::new(8_000, None);
    for percent in [60, 65, 70, 75, 95, 120, 400] {
        let mut log = Log::new();
        log.typed("Repair project Zebra42. Never touch the folder legacy.");
        log.step("read", 1_500);
        log.say("fine");
        log.typed("From now on always answer in German.");
        log.say("ok");
        log.typed(&format!("Here is the log:{} What is wrong?", " word".repeat(80 * percent)));
        let policy = policy("reactive-overflow");
        let plan = without_summary(&log.history, log.fixed, &budget, &policy, &PlanTrigger::Routine);
        log.commit(&edit(plan));
        let shown = log.shown();
        for words in ["project Zebra42", "Never touch the folder legacy.", "always answer in German."] {
            assert!(shown.contains(words), "{percent} %: {words}: {shown}");
        }
        assert!(
            shown.contains("Here is the log:") && shown.contains("What is wrong?"),
            "{percent} %: {shown}"
        );
        // A message that fits whole beside a shorter answer stays whole.
        assert!(log.bound() < budget.window - budget.window / 20, "{percent} %");
        // Later turns keep the quotes, because the edit is part of the view.
        log.say("explained");
        log.typed("And the task?");
        assert!(log.shown().contains("project Zebra42"), "{percent} %");
    }
}

#[test]
fn a_message_a_little_too_long_keeps_most_of_what_fits() {
    let budget = Budget::new(16_000, None);
    for trigger in [PlanTrigger::Routine, PlanTrigger::Overflow] {
        for begun in [false, true] {
            let mut log = Log::new();
            if begun {
                log.typed("Hello");
                log.say("Hello to you");
            }
            log.typed(&" word".repeat(15_400));
            let edit = edit(log.plan(&budget, &policy("reactive-overflow"), &trigger));
            assert!(edit.why.starts_with(LONG_MESSAGE), "{}", edit.why);
            assert!(edit.why.contains("12,000 of the window of 16,000 are usable"), "{}", edit.why);
            assert!(edit.why.contains(" characters are left out"), "{}", edit.why);
            let share = edit.compressed_bound * 100 / budget.usable;
            assert!((67..77).contains(&share), "{trigger:?} {begun}: {share} % of the usable room");
            log.commit(&edit);
            // The next step has room: nothing is compacted again.
            log.step("read", 1_000);
            assert_eq!(log.routine(16_000, &policy("reactive-overflow")), Plan::Fits, "{trigger:?} {begun}");
        }
    }
}

#[test]
fn a_message_is_not_cut_while_older_messages_can_go() {
    let mut log = Log::new();
    log.typed("work");
    log.say(&" word".repeat(6_000));
    let text = " word".repeat(9_000);
    log.typed(&text);
    let edit = edit_by(&log, 16_000, "reactive-overflow", &PlanTrigger::Routine);
    assert!(!is_cut_of_message(&edit.why), "{}", edit.why);
    log.commit(&edit);
    assert_eq!(log.history.view().last().unwrap().message.text(), text);
}

#[test]
fn a_bound_is_told_with_the_error_that_is_in_it() {
    for fixed_tokens in [100, 27_545] {
        let overflow = ContextOverflow {
            fixed_tokens,
            needed_tokens: 30_305,
            usable_tokens: 12_000,
            window_tokens: 16_000,
        };
        let said = overflow.to_string();
        assert!(said.contains("up to 30,305") && said.contains("the estimate's possible error"), "{said}");
    }
}

#[test]
fn the_reason_of_a_cut_is_known_by_its_first_words() {
    assert!(is_cut_of_message("the newest message does not fit: the model's server refuses it as too long"));
    assert!(is_cut_of_message(
        "the newest message is longer than the window: 9 of its 12 characters are left out"
    ));
    assert!(!is_cut_of_message("3 old tool results cleared"));
}

#[test]
fn a_refused_message_is_cut_too() {
    let mut log = Log::new();
    log.typed(&" word".repeat(5_000));
    let budget = Budget::new(128_000, None);
    let edit = edit(log.plan(&budget, &policy("adaptive"), &PlanTrigger::Overflow));
    assert!(edit.compressed_bound <= log.bound() * 7 / 10, "{edit:?}");
}

/// A document of about `tokens` tokens in numbered clauses.
fn contract(tokens: usize) -> String {
    let clauses =
        (0..tokens / 12).map(|at| format!("Clause {at}: the tenant pays rent number {at} in time.\n"));
    format!("Here is the contract. What do you think?\n{}", clauses.collect::<String>())
}

fn clauses(log: &Log) -> usize {
    log.shown().matches("Clause ").count()
}

/// The edit that a plan leads to, with an extract in place of a summary.
fn edit_by(log: &Log, window: u64, name: &str, trigger: &PlanTrigger) -> ViewEdit {
    match log.plan(&Budget::new(window, None), &policy(name), trigger) {
        Plan::Edit(edit) => *edit,
        Plan::Summarise(draft) => draft.finish_extractive(&log.history).unwrap(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_document_is_cut_before_it_is_dropped() {
    for name in ["adaptive", "reactive-overflow", "truncation"] {
        let mut log = Log::new();
        let text = contract(10_800);
        let seq = log.typed(&text);
        let all = clauses(&log);
        log.say("I have read it.");
        log.typed("And what does clause 20 mean?");
        let usable = Budget::new(16_384, None).usable;
        let first = edit_by(&log, 16_384, name, &PlanTrigger::Routine);
        log.commit(&first);
        let kept = clauses(&log);
        assert!(kept * 4 > all && log.bound() > usable / 3, "{name}: {kept} of {all} {}", first.why);
        assert!(log.bound() <= first.compressed_bound, "{name}: {} {}", log.bound(), first.compressed_bound);
        let shown = log.shown();
        assert!(shown.contains(&format!("{} ", crate::truncate::MARKER)), "{name}: {shown}");
        assert!(shown.contains(&format!("the whole is lh:{seq}\n")), "{name}: {shown}");
        assert!(shown.starts_with("Here is the contract.") && shown.contains("Clause 0:"), "{name}: {shown}");
        assert_eq!(log.routine(16_384, &policy(name)), Plan::Fits, "{name}");

        // Later edits cut it further, and it never grows again.
        let mut before = kept;
        for turn in 0..3 {
            for at in 0..24 {
                log.say(&format!("Answer {turn} {at} {}", "word ".repeat(150)));
                log.typed(&format!("And what does number {turn} {at} mean? {}", "word ".repeat(150)));
            }
            let next = edit_by(&log, 16_384, name, &PlanTrigger::Overflow);
            log.commit(&next);
            assert!(clauses(&log) <= before, "{name}: {before} {}", log.shown());
            before = clauses(&log);
        }
        log.add(EventBody::ViewRestored { edit_id: log.history.edits().last().unwrap().edit.id.clone() });
        assert_eq!(log.history.entry(seq).unwrap().message.text(), text);
    }
}

#[test]
fn a_document_in_the_middle_is_cut_beside_a_summary() {
    for name in ["adaptive", "reactive-overflow"] {
        let mut log = talk(8, 300);
        log.typed(&contract(7_000));
        log.say("I have read it.");
        for at in 0..3 {
            log.typed(&format!("And what does clause {at} mean? {}", "word ".repeat(300)));
            log.say(&format!("It means that {}", "word ".repeat(300)));
        }
        let all = clauses(&log);
        let edit = edit_by(&log, 16_384, name, &PlanTrigger::Overflow);
        let mut after = Log { history: log.history.clone(), fixed: log.fixed };
        after.commit(&edit);
        assert!(after.shown().starts_with(MARK), "{name}: {}", after.shown());
        assert!(
            (all / 5..all).contains(&clauses(&after)),
            "{name}: {} of {all} {}",
            clauses(&after),
            edit.why
        );
        assert!(
            after.bound() <= edit.compressed_bound,
            "{name}: {} {}",
            after.bound(),
            edit.compressed_bound
        );
        after.add(EventBody::ViewRestored { edit_id: edit.id.clone() });
        assert_eq!(after.shown(), log.shown(), "{name}");
    }
}

#[test]
fn the_largest_result_of_the_newest_step_is_cut_first() {
    let mut log = talk(10, 150);
    log.typed("Read them all.");
    let ids: Vec<String> = (0..4).map(|at| format!("call{at}")).collect();
    let calls = ids.iter().map(|id| {
        Part::ToolCall(ToolCall {
            call_id: id.as_str().into(),
            name: "read".to_owned(),
            arguments: "{}".to_owned(),
            provider_id: None,
            native: None,
        })
    });
    log.answer(calls.collect());
    for (at, id) in ids.iter().enumerate() {
        let text = format!(" r{at}").repeat(if at == 3 { 9_000 } else { 900 });
        let result = crate::history::closing_result(&id.as_str().into(), ToolStatus::Completed, &text);
        log.add(EventBody::ToolFinished { result });
    }
    let edit = edit(log.routine(16_384, &policy("adaptive")));
    log.commit(&edit);
    let shown = log.shown();
    for at in 0..3 {
        assert_eq!(shown.matches(&format!(" r{at}")).count(), 900, "result {at} is whole: {}", edit.why);
    }
    assert!(shown.matches(" r3").count() > 900, "{}", edit.why);
}

/// The text of the result at `at`, of about `size` tokens.
fn result_text(at: usize, size: usize) -> String {
    format!("BEGIN{at}{} END{at}", " word".repeat(size))
}

/// A conversation of `older` turns and a step of parallel calls whose results have about as many tokens as `sizes` says.
fn with_results(fixed: u64, older: usize, sizes: &[usize]) -> Log {
    let mut log = Log { fixed, ..Log::turns(older, 40) };
    log.typed("Read them all.");
    let ids: Vec<String> = (0..sizes.len()).map(|at| format!("call{at}")).collect();
    let calls = ids.iter().map(|id| {
        Part::ToolCall(ToolCall {
            call_id: id.as_str().into(),
            name: "read".to_owned(),
            arguments: "{}".to_owned(),
            provider_id: None,
            native: None,
        })
    });
    log.answer(calls.collect());
    for (at, id) in ids.iter().enumerate() {
        let text = result_text(at, sizes[at]);
        let result = crate::history::closing_result(&id.as_str().into(), ToolStatus::Completed, &text);
        log.add(EventBody::ToolFinished { result });
    }
    log
}

/// Plans by the last resort alone and commits its edit. Returns whether the request can be sent then.
fn make_room(log: &mut Log, window: u64) -> bool {
    let (budget, policy) = (Budget::new(window, None), policy("reactive-overflow"));
    match without_summary(&log.history, log.fixed, &budget, &policy, &PlanTrigger::Routine) {
        Plan::Fits => true,
        Plan::Edit(edit) => {
            log.commit(&edit);
            true
        }
        Plan::Summarise(_) | Plan::DoesNotFit(_) => false,
    }
}

/// The texts of the newest `count` results in the view.
fn shown_results(log: &Log, count: usize) -> Vec<String> {
    let results = log.history.view().iter().filter(|item| matches!(item.kind, ViewItemKind::Result { .. }));
    let texts: Vec<String> = results.map(|item| extract::plain_text(&item.message)).collect();
    texts[texts.len().saturating_sub(count)..].to_vec()
}

/// Returns whether a text shows the first and the last `chars` characters of a result.
fn shows_both_ends(shown: &str, whole: &str, chars: usize) -> bool {
    let chars = chars.min(whole.len());
    shown.contains(&whole[..chars]) && shown.ends_with(&whole[whole.len() - chars..])
}

/// The most tokens of a request that leaves the answer less than its reserve.
fn limit_into_reserve(window: u64) -> u64 {
    window - window / 20
}

#[test]
fn a_result_that_the_answers_reserve_holds_stays_whole() {
    // The prompt leaves next to nothing of the usable room. Results of these sizes were cleared to a bare marker.
    let cases = [
        (4_096, 2_680, [100, 200, 400]),
        (8_192, 5_470, [400, 800, 1_200]),
        (16_384, 11_060, [800, 1_600, 2_800]),
    ];
    for (window, fixed, sizes) in cases {
        for (older, size) in [0, 6].into_iter().flat_map(|older| sizes.map(|size| (older, size))) {
            let mut log = with_results(fixed, older, &[size]);
            assert!(make_room(&mut log, window), "{window} {older} {size}");
            assert_eq!(shown_results(&log, 1), [result_text(0, size)], "{window} {older} {size}");
            assert!(log.bound() < limit_into_reserve(window), "{window} {older} {size}: {}", log.bound());
        }
    }
}

#[test]
fn parallel_results_are_cut_by_their_excess() {
    // 40 results of 68 tokens became bare markers; the others kept 190 characters each in half of the room.
    for (window, count, size, chars) in [(4_096, 40, 68, 24), (4_096, 20, 180, 48), (8_192, 40, 180, 48)] {
        let least = with_results(100, 0, &vec![4; count]).bound();
        let mut log = with_results(100, 0, &vec![size; count]);
        assert!(make_room(&mut log, window), "{count} of {size}");
        let shown = shown_results(&log, count);
        assert_eq!(shown.len(), count, "{count} of {size}");
        for (at, text) in shown.iter().enumerate() {
            assert!(shows_both_ends(text, &result_text(at, size), chars), "{count} of {size}: {text}");
        }
        assert_room_is_used(&log, window, least, count);
        assert!(make_room(&mut log, window));
        assert_eq!(shown_results(&log, count), shown, "{count} of {size}: a second plan changes nothing");
    }
}

/// Fails if a request leaves more than a seventh of the room free that the results have beside `least` tokens.
fn assert_room_is_used(log: &Log, window: u64, least: u64, results: usize) {
    let (bound, usable) = (log.bound(), Budget::new(window, None).usable);
    let limit = if bound < usable { usable } else { limit_into_reserve(window) };
    assert!(bound < limit, "{bound} of {limit}");
    // Each result may miss a few tokens by rounding.
    let spare = (limit - least) * 15 / 100 + 4 * results as u64;
    assert!(limit - bound <= spare, "{bound} of {limit} are used, {least} at least, {results} results");
}

#[test]
fn a_longer_result_shows_no_less_than_a_shorter_one() {
    let cases = [(2_048, 20), (4_096, 10), (4_096, 60), (8_192, 70), (16_384, 72), (32_768, 85)];
    for (window, percent) in cases {
        let mut most = 0;
        for step in 1..=24 {
            let size = window as usize * step / 16;
            let mut log = with_results(window * percent / 100, 0, &[size]);
            assert!(make_room(&mut log, window), "{window} {percent} {size}");
            let kept: usize = shown_results(&log, 1).iter().map(|text| text.matches(" word").count()).sum();
            // The marker of a cut takes its part of the room.
            assert!(kept + 48 + most / 16 >= most, "{window} {percent} {size}: {kept} after {most}");
            most = most.max(kept);
        }
        assert!(most > 100, "{window} {percent}: {most}");
    }
}

#[test]
fn cut_results_fill_the_room_and_show_both_ends() {
    let windows = [2_048, 4_096, 8_192, 16_384, 32_768];
    let mut cut_steps = 0;
    for (window, percent) in windows.into_iter().flat_map(|w| [10, 40, 70, 85].map(|percent| (w, percent))) {
        for (count, size) in
            [1, 3, 12, 40].into_iter().flat_map(|c| [20, 180, 900, 5_000].map(|size| (c, size)))
        {
            let sizes: Vec<usize> =
                (0..count).map(|at| if at % 3 == 2 { size / 4 + 20 } else { size }).collect();
            // The counts of larger steps take long in a debug build, and no larger step is a case of its own.
            if sizes.iter().sum::<usize>() > 60_000 {
                continue;
            }
            let (case, fixed) = ((window, percent, count, size), window * percent / 100);
            let least = with_results(fixed, 0, &vec![4; count]).bound();
            let mut log = with_results(fixed, 2, &sizes);
            let is_sent = make_room(&mut log, window);
            // With less room, beginning and end of each result do not fit.
            let room = limit_into_reserve(window).saturating_sub(least) * 10 / 11;
            if room / (count as u64) < 80 {
                continue;
            }
            assert!(is_sent && log.bound() < limit_into_reserve(window), "{case:?}: {}", log.bound());
            let shown = shown_results(&log, count);
            assert_eq!(shown.len(), count, "{case:?}");
            let (mut largest_whole, mut smallest_cut) = (0, usize::MAX);
            for (at, text) in shown.iter().enumerate() {
                let whole = result_text(at, sizes[at]);
                assert!(shows_both_ends(text, &whole, 48), "{case:?}: {text}");
                if *text == whole {
                    largest_whole = largest_whole.max(sizes[at]);
                } else {
                    smallest_cut = smallest_cut.min(sizes[at]);
                }
            }
            if smallest_cut < usize::MAX {
                assert!(largest_whole <= smallest_cut + 16, "{case:?}: {largest_whole} {smallest_cut}");
                assert_room_is_used(&log, window, least, count);
                cut_steps += 1;
            }
        }
    }
    assert!(cut_steps > 40, "only {cut_steps} steps were cut");
}
