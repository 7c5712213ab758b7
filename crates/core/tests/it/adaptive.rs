//! What `adaptive` promises: nobody waits, the ledger does not wear off, edits pay, and a second pass changes nothing.

use std::collections::BTreeSet;

use longhaul_core::budget::Budget;
use longhaul_core::event::{EditKind, EventBody, RunEnd, ViewEdit};
use longhaul_core::history::History;
use longhaul_core::message::Part;
use longhaul_core::plan::{self, CompactionPolicy, Plan, PlanTrigger, TokenPrices};
use longhaul_core::strategy;

use crate::stage::{BAD, Stage, Summariser, call, settings};

const SONNET: TokenPrices =
    TokenPrices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0, cache_life_ms: 300_000 };

fn policy(prices: Option<TokenPrices>) -> CompactionPolicy {
    CompactionPolicy { prices, ..CompactionPolicy::new(strategy::by_name("adaptive").expect("adaptive")) }
}

fn words(tokens: usize) -> String {
    " word".repeat(tokens)
}

/// A chat whose old part must make way for a ledger and a summary, again and again.
fn chat(summariser: Summariser, prices: Option<TokenPrices>) -> Stage {
    let mut stage = Stage::chat(settings(9_000, 400, policy(prices)), |at| {
        format!("Answer {at} is E{at:04}.{}", words(250))
    });
    stage.summariser = summariser;
    stage
}

#[test]
fn nobody_waits_for_a_summary() {
    for summariser in BAD.into_iter().chain([Summariser::Good]) {
        for prices in [None, Some(SONNET)] {
            let mut stage = chat(summariser, prices);
            for turn in 0..60 {
                assert_eq!(stage.say(&format!("Question {turn}?")), RunEnd::Stop);
            }
            let began = stage.calls[0];
            assert!(
                stage.calls.iter().all(|at| *at == began),
                "{summariser:?}: no timer ran between two calls"
            );
            let compactions = stage.edits().into_iter().filter(|edit| edit.kind == EditKind::Compaction);
            let ahead: Vec<bool> = compactions.map(|edit| edit.why.contains("written ahead")).collect();
            assert!(ahead.len() >= 2, "{summariser:?}: {ahead:?}");
            let is_good = matches!(summariser, Summariser::Good | Summariser::Rubbish);
            assert_eq!(ahead.contains(&true), is_good, "{summariser:?}: {ahead:?}");
        }
    }
}

/// Twenty compactions in a row, with a summariser that says nothing true: rules, open todos and paths stay.
#[test]
fn twenty_compactions_keep_the_ledger() {
    for summariser in [Summariser::Rubbish, Summariser::Nothing, Summariser::Good] {
        let script = |at: usize| match at % 2 {
            0 => vec![
                Part::text(format!("Step {at}.{}", words(120))),
                call("edit", &format!("{{\"path\":\"src/area_{}/file.rs\",\"text\":\"x\"}}", at % 24)),
            ],
            _ => vec![Part::text(format!("Done with {at}.{}", words(200)))],
        };
        let mut stage = Stage::new(settings(12_000, 400, policy(Some(SONNET))), Box::new(script));
        stage.summariser = summariser;
        stage.say("Never touch Cargo.lock. Always run the tests before you commit. Todo:\n- [ ] write the changelog");
        let mut turn = 0;
        while stage.run.history().compactions() < 20 {
            turn += 1;
            assert!(turn < 600, "{summariser:?}: {} compactions", stage.run.history().compactions());
            assert_eq!(stage.say(&format!("Go on with {turn}.")), RunEnd::Stop);
            if stage.run.history().compactions() > 0 {
                let shown = stage.shown();
                for kept in [
                    "Never touch Cargo.lock",
                    "Always run the tests before you commit",
                    "write the changelog",
                ] {
                    assert!(shown.contains(kept), "{summariser:?}, turn {turn}: {kept} is gone:\n{shown}");
                }
                let paths = |at: usize| format!("src/area_{at}/file.rs");
                let touched: BTreeSet<String> = (0..stage.calls.len())
                    .filter(|at| at.is_multiple_of(2))
                    .map(|at| paths(at % 24))
                    .collect();
                let lost: Vec<_> = touched.iter().filter(|path| !shown.contains(path.as_str())).collect();
                assert!(lost.is_empty(), "{summariser:?}, turn {turn}: {lost:?}");
            }
        }
    }
}

/// With every view that the session ever had: planning again right after an edit changes nothing.
#[test]
fn a_second_pass_changes_nothing() {
    for name in strategy::NAMES {
        let policy = CompactionPolicy {
            prices: Some(SONNET),
            ..CompactionPolicy::new(strategy::by_name(name).expect("known"))
        };
        let mut stage =
            Stage::chat(settings(9_000, 400, policy.clone()), |at| format!("Answer {at}.{}", words(250)));
        for turn in 0..40 {
            stage.say(&format!("Question {turn}?"));
        }
        let budget = Budget::new(9_000, None);
        let mut history = History::default();
        let mut edits = 0;
        for event in &stage.log {
            history.apply(event).expect("the log folds");
            if let EventBody::ViewEdited(_) = event.body {
                edits += 1;
                let again = plan::plan(&history, 400, &budget, &policy, &PlanTrigger::Routine);
                assert_eq!(again, Plan::Fits, "{name}");
            }
        }
        assert!(edits > 0, "{name}");
    }
}

#[test]
fn a_cold_cache_is_used_for_an_edit() {
    let script = |at: usize| match at % 2 {
        1 => vec![Part::text("so it is")],
        _ => vec![call("read", &format!("{{\"path\":\"src/{at}.rs\"}}"))],
    };
    let edits_after = |idle: u64| {
        let mut stage = Stage::new(settings(200_000, 4_000, policy(Some(SONNET))), Box::new(script));
        stage.tool_output = Box::new(|_| words(6_000));
        // Beyond where a cold cache is used.
        while stage.requests.last().copied().unwrap_or(0) < 53_500 {
            stage.say("and the next");
        }
        let before = stage.edits().len();
        stage.idle_for(idle);
        stage.say("I am back");
        stage.edits()[before..].to_vec()
    };
    let is_cold = |edit: &ViewEdit| edit.why.contains("the cache is cold");
    assert!(!edits_after(1_000).iter().any(is_cold), "the cache is warm");
    let cold = edits_after(600_000);
    assert!(cold.first().is_some_and(is_cold), "{cold:?}");
}

/// Every edit says what it saves, what it costs and when it has paid.
#[test]
fn edits_give_their_reason_in_words() {
    let mut stage = chat(Summariser::Good, Some(SONNET));
    for turn in 0..40 {
        stage.say(&format!("Question {turn}?"));
    }
    for edit in stage.edits() {
        assert!(edit.why.contains("tokens a call") && edit.why.contains("pays after"), "{}", edit.why);
    }
}

/// One prefix change for each pass: what precedes the first changed message is shown byte for byte as before.
#[test]
fn bytes_before_the_cut_stay() {
    for name in strategy::NAMES {
        let policy = CompactionPolicy::new(strategy::by_name(name).expect("known"));
        let mut stage = Stage::chat(settings(9_000, 400, policy), |at| format!("Answer {at}.{}", words(250)));
        for turn in 0..40 {
            stage.say(&format!("Question {turn}?"));
        }
        let mut history = History::default();
        for event in &stage.log {
            let before = history.clone();
            history.apply(event).expect("the log folds");
            let EventBody::ViewEdited(edit) = &event.body else { continue };
            let first = edit.ops.iter().map(|op| op.range().from).min().expect("an operation");
            let untouched = |history: &History| {
                let view = history.view().iter().take_while(|item| item.range.to < first);
                view.map(|item| item.message.clone()).collect::<Vec<_>>()
            };
            assert_eq!(untouched(&before), untouched(&history), "{name}");
        }
    }
}

/// A model is asked for a summary only of what is at least eight times as long; else the ledger stands alone.
#[test]
fn little_is_not_worth_a_model_call() {
    let asked = |window: u64| {
        let mut stage =
            Stage::chat(settings(window, 400, policy(None)), |at| format!("Answer {at}.{}", words(250)));
        for turn in 0..60 {
            stage.say(&format!("Question {turn}? You must keep rule {turn}."));
        }
        assert!(!stage.edits().is_empty());
        assert!(stage.shown().contains("What the user said"), "quotes of the user");
        stage.summaries
    };
    assert_eq!(asked(4_000), 0);
    assert!(asked(16_000) > 0);
}

/// What a person said once must hold, in the smallest windows too, where often nothing but the last resort fits.
#[test]
fn a_rule_outlives_compactions_in_the_smallest_windows() {
    let mut last_resorts = 0;
    for (window, fixed, answer) in [
        (4_096, 1_250, 300),
        (4_096, 1_250, 450),
        (4_096, 1_250, 700),
        (4_096, 1_900, 300),
        (4_096, 1_900, 900),
        (4_096, 2_300, 500),
        (5_000, 1_250, 700),
        (8_192, 1_250, 1_500),
    ] {
        let mut stage = Stage::chat(settings(window, fixed, policy(None)), move |at| {
            format!("Answer {at}.{}", words(answer))
        });
        stage.say("My rule: never delete pelican.txt. Tell me about it.");
        for turn in 0..20 {
            stage.say(&format!("more {turn}"));
        }
        let acted: Vec<String> = stage.edits().into_iter().map(|edit| edit.strategy).collect();
        assert!(!acted.is_empty());
        last_resorts += acted.iter().filter(|name| *name == "truncation").count();
        let shown = stage.shown();
        assert!(shown.contains("never delete pelican.txt"), "{window} {fixed} {answer}: {acted:?}\n{shown}");
    }
    assert!(last_resorts > 0);
}

/// Rules that fit in the ledger's room are in view word for word, whatever short chatter could stay beside them.
#[test]
fn rules_go_before_chatter_in_small_windows() {
    let verbs = ["touch", "rename", "delete", "commit", "open", "format"];
    let mut checked = 0;
    let mut bad = Vec::new();
    for window in [3_000, 3_365, 3_730, 4_096] {
        for fixed in [100, 1_500] {
            for (count, length) in [(3, 10), (8, 10), (8, 60), (16, 30), (20, 8)] {
                let rules: Vec<String> = (0..count)
                    .map(|at| {
                        let (word, verb) =
                            (if at % 2 == 0 { "Always" } else { "Never" }, verbs[at % verbs.len()]);
                        format!("{word} {verb} the file part-{at}.txt without a word to me")
                    })
                    .collect();
                let mut stage = Stage::chat(settings(window, fixed, policy(None)), move |at| {
                    format!("Answer {at}.{}", words(length + at % 5))
                });
                stage.say(&format!("Let us talk about the plan. {}.", rules.join(". ")));
                let room = Budget::new(window, None).usable / 8;
                let counter = longhaul_core::estimate::MessageTokenCounter::structured();
                let section = format!(
                    "Rules set by the user:\n{}",
                    rules.iter().map(|rule| format!("- {rule}\n")).collect::<String>()
                );
                if counter.text(&section) > room {
                    continue;
                }
                for turn in 0..1_000 {
                    if stage.run.history().compactions() >= 4 {
                        break;
                    }
                    let before = stage.run.history().compactions();
                    stage.say(&format!("and what of {turn}, then?"));
                    let shown = stage.shown();
                    let missing = rules.iter().filter(|rule| !shown.contains(rule.as_str())).count();
                    checked += usize::from(stage.run.history().compactions() > before);
                    if missing > 0 {
                        let by = stage.edits().last().map(|edit| {
                            (
                                edit.strategy.clone(),
                                edit.why.clone(),
                                edit.compressed_bound,
                                edit.trigger_tokens,
                            )
                        });
                        bad.push(format!("{window} {fixed} {count} {length}: {missing} missing, section {} of {room}, {by:?}", counter.text(&section)));
                        break;
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{} bad\n{}", bad.len(), bad.join("\n"));
    assert!(checked > 100, "{checked}");
}

/// A long session in which a summary takes some steps to be written: each that was begun stands in the view in the end.
#[test]
fn every_summary_that_was_written_is_used() {
    for (prices, answer_tokens, slow) in [
        (None, 250, 0),
        (Some(SONNET), 250, 0),
        (None, 250, 3),
        (Some(SONNET), 900, 2),
        (None, 2_500, 1),
        (None, 700, 2),
    ] {
        let mut stage = Stage::chat(settings(16_000, 400, policy(prices)), move |at| {
            // Now and then there is much at once.
            let much = if at % 7 == 6 { 2 } else { 1 };
            format!("Answer {at} is E{at:04}.{}", words(answer_tokens * much))
        });
        stage.slow_turns = slow;
        for turn in 0..120 {
            assert_eq!(stage.say(&format!("Question {turn}?")), RunEnd::Stop);
        }
        let edits = stage.edits();
        let has = |edit: &&ViewEdit, words: &str| edit.why.contains(words);
        let ready = edits.iter().filter(|edit| has(edit, "written ahead")).count();
        let swapped =
            edits.iter().filter(|edit| has(edit, "an extract stood in its place until now")).count();
        let waiting = edits.iter().filter(|edit| has(edit, "the summary is on its way")).count();
        let bare = edits.iter().filter(|edit| edit.summary.is_none()).count() - waiting;
        let written = stage.summaries;
        println!(
            "{answer_tokens} slow {slow}: {written} written, {ready} ready, {waiting} waiting, {swapped} swapped, {bare} bare"
        );
        assert!(written >= 3, "{written}");
        assert!(
            ready + swapped + 1 >= written,
            "{answer_tokens} slow {slow}: of {written} written {ready} + {swapped} are used"
        );
    }
}
