//! Many replays at once.

use std::sync::Arc;

use crate::lab::planner_policy::PlannerPolicy;
use crate::lab::policy::ContextPolicy;
use crate::lab::price::tables;
use crate::lab::replay::{MakePolicy, ReplayOptions, ReplayWindow, replay, run};
use crate::lab::rivals::AppendOnlyPolicy;
use crate::lab::synthetic;

fn policies() -> Vec<MakePolicy> {
    let ours: MakePolicy = Arc::new(|| Box::new(PlannerPolicy::by_name("truncation").unwrap()));
    vec![Arc::new(|| Box::new(AppendOnlyPolicy::default()) as Box<dyn ContextPolicy>), ours]
}

#[test]
fn outcomes_come_in_order_and_are_the_same_every_time() {
    let recordings = [synthetic::coding(1, 40).unwrap(), synthetic::support(1, 15).unwrap()];
    let windows = [ReplayWindow::PercentOfPeak(50), ReplayWindow::Tokens(20_000)];
    let prices = [tables::anthropic_sonnet(), tables::deepseek()];
    let all = || run(&recordings, &policies(), &windows, &prices, &ReplayOptions::default());
    let outcomes = all();
    assert_eq!(outcomes, all());
    assert_eq!(outcomes.len(), 16);
    let row = |at: usize| {
        let outcome = &outcomes[at];
        (outcome.recording.as_str(), outcome.window_percent, outcome.policy.as_str(), outcome.prices.as_str())
    };
    let (anthropic, deepseek) = (prices[0].name.as_str(), prices[1].name.as_str());
    assert_eq!(row(0), ("coding-40-seed-1", Some(50), "append-only", anthropic));
    assert_eq!(row(1), ("coding-40-seed-1", Some(50), "append-only", deepseek));
    assert_eq!(row(2), ("coding-40-seed-1", Some(50), "truncation", anthropic));
    assert_eq!(row(4), ("coding-40-seed-1", None, "append-only", anthropic));
    assert_eq!(row(8), ("support-15-seed-1", Some(50), "append-only", anthropic));
    assert_eq!(outcomes[0].window, recordings[0].peak_tokens() / 2);
    let mut alone = PlannerPolicy::by_name("truncation").unwrap();
    let options = ReplayOptions { window_percent: Some(50), ..ReplayOptions::default() };
    assert_eq!(outcomes[2], replay(&recordings[0], &mut alone, outcomes[2].window, &prices[0], &options));
}
