//! This project's planner over long sessions.

use crate::lab::planner_policy::PlannerPolicy;
use crate::lab::policy::{ContextPolicy, PolicyInput};
use crate::lab::price::tables;
use crate::lab::recording::SessionRecording;
use crate::lab::replay::{ReplayOptions, replay};
use crate::lab::rivals::AppendOnlyPolicy;
use crate::lab::{outcome::ReplayOutcome, synthetic};
use longhaul_core::budget::Budget;
use longhaul_core::strategy;

fn session() -> SessionRecording {
    synthetic::coding(7, 120).unwrap()
}

fn at_half(recording: &SessionRecording, policy: &mut dyn ContextPolicy) -> ReplayOutcome {
    let window = recording.peak_tokens() / 2;
    replay(recording, policy, window, &tables::anthropic_sonnet(), &ReplayOptions::default())
}

#[test]
fn what_is_never_cut_breaks_no_prefix_and_lacks_nothing() {
    for recording in [session(), synthetic::support(3, 60).unwrap()] {
        let outcome = at_half(&recording, &mut AppendOnlyPolicy::default());
        assert_eq!(outcome.prefix_breaks, 0);
        assert_eq!((outcome.needs.recalled, outcome.needs.lost, outcome.needs.recalls), (0, 0, 0));
        assert!(outcome.needs.in_view > 200, "{:?}", outcome.needs);
        assert_eq!(outcome.peak_tokens, recording.peak_tokens());
        assert_eq!(outcome.requests, recording.answers().count() as u64);
        assert!(outcome.overflows > 0 && outcome.survival.is_empty() && outcome.waiting_ms == 0);
    }
}

#[test]
fn every_strategy_stays_in_its_window() {
    let recording = session();
    for name in strategy::NAMES {
        let outcome = at_half(&recording, &mut PlannerPolicy::by_name(name).unwrap());
        assert_eq!(outcome.overflows, 0, "{name}");
        assert!(!outcome.edits.is_empty(), "{name}");
        assert_eq!(outcome.edits.len() as u64, outcome.compactions + outcome.prunes);
        assert_eq!(outcome.prefix_breaks, outcome.edits.len() as u64, "{name}: one break for each edit");
        let lost: u64 = outcome.survival.values().map(|tally| tally.lost + tally.recoverable_by_user).sum();
        assert_eq!(lost, 0, "{name}");
        assert!(outcome.survival["paths"].total() > 10);
    }
}

#[test]
fn a_summary_is_charged_and_stands_in_the_view() {
    let recording = session();
    let outcome = at_half(&recording, &mut PlannerPolicy::by_name("proactive-threshold").unwrap());
    assert!(outcome.side_calls >= outcome.compactions && outcome.compactions > 0);
    let silent = at_half(&recording, &mut PlannerPolicy::by_name("middle-removal").unwrap());
    assert_eq!(silent.side_calls, 0);
    let mut policy = PlannerPolicy::by_name("proactive-threshold").unwrap();
    let now = |input| PolicyInput {
        budget: Budget::new(recording.peak_tokens() / 2, None),
        prices: tables::anthropic_sonnet(),
        last_input: input,
        last_output: 10,
        cache_is_warm: true,
        at: None,
    };
    let mut input = 0;
    let edited = recording.answers().find_map(|next| {
        let request = policy.request(&recording, next, &now(input));
        input = recording.overhead_tokens() + request.view.iter().map(|segment| segment.tokens).sum::<u64>();
        request.edit.as_ref().is_some_and(|edit| edit.compaction).then_some(request)
    });
    let request = edited.unwrap();
    assert!(request.view[0].text.starts_with("[SUMMARY]"), "{}", request.view[0].text);
    assert!(request.view[0].text.contains("storage layer"), "the stand-in keeps the goal");
    let call = request.side_calls[0];
    assert!(call.waits && call.output_tokens > 20);
}

#[test]
fn a_summary_ahead_is_not_waited_for() {
    let recording = synthetic::coding(7, 240).unwrap();
    let outcome = at_half(&recording, &mut PlannerPolicy::by_name("adaptive").unwrap());
    assert!(outcome.side_calls > 0 && outcome.compactions > 0, "{outcome:?}");
    let recalls = outcome.needs.recalls;
    // Only recalls are waited for: each takes its latency, the writing of its query, and the reading of what it found.
    let most = recalls as f64 * ReplayOptions::default().call_ms(10_000, 60);
    assert!(outcome.waiting_ms as f64 <= most, "{} for {recalls} recalls", outcome.waiting_ms);
}
