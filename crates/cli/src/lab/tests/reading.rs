//! A reading job: what the order of maintenance costs and keeps.

use std::sync::Arc;

use crate::lab::synthetic::reading::{PRICES, ReadingJob, ReadingOptions, ReadingOutcome};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::{self, AdaptiveStrategy};

fn options(window_tokens: u64, fixed_tokens: u64) -> ReadingOptions {
    let policy = CompactionPolicy {
        prices: Some(PRICES),
        ..CompactionPolicy::new(Arc::new(AdaptiveStrategy::default()))
    };
    ReadingOptions { window_tokens, fixed_tokens, truncates_at_source: true, files_per_step: 1, policy }
}

fn row(name: &str, outcome: &ReadingOutcome) {
    println!(
        "{name:44} cost {:4.0}K (summaries {:3.0}K) req {:3} reread {:3} visible {:2} reach {:2} cut {:2} incomplete \
         {:2} placeholder {:2} overflow {} wait {} edits {:2} peak {} err {:?}",
        outcome.cost / 1e3,
        outcome.summary_cost / 1e3,
        outcome.requests,
        outcome.rereads,
        outcome.needles_visible,
        outcome.needles_reachable,
        outcome.files_cut,
        outcome.files_incomplete,
        outcome.placeholders,
        outcome.overflows,
        outcome.waits,
        outcome.edits,
        outcome.context.iter().max().unwrap_or(&0),
        outcome.error,
    );
}

/// Prints the table of the measure: `cargo test -p longhaul-cli --bin longhaul lab::tests::reading::table -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn table() {
    let job = ReadingJob::new(11, 40);
    for name in ["adaptive", "adaptive unpriced", "reactive-overflow", "truncation", "proactive-threshold"] {
        for (window, fixed) in [(65_536, 6_000), (32_768, 6_000), (65_536, 24_000), (32_768, 24_000)] {
            for truncates_at_source in [true, false] {
                let mut options = ReadingOptions { truncates_at_source, ..options(window, fixed) };
                let strategy = name.split(' ').next().unwrap_or(name);
                if strategy != "adaptive" {
                    options.policy.strategy = strategy::by_name(strategy).expect("a strategy of that name");
                }
                if name.ends_with("unpriced") {
                    options.policy.prices = None;
                }
                let place = if truncates_at_source { "session" } else { "gateway" };
                row(&format!("{name} {window} {fixed} {place}"), &job.run(&options));
            }
        }
    }
}
