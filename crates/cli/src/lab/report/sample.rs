//! Plausible outcomes for tests, not measured.

use std::collections::BTreeMap;

use longhaul_core::retention_report::RetentionTally;

use super::{PolicyFacts, PolicyRole, ReplayReport, ReportFact, ReportHeader};
use crate::lab::outcome::{BilledTokens, NeedCounts, ReplayOutcome};
use crate::lab::price::PriceTable;

/// Name, role, cost of append-only's, in view, recalled, compactions in the smallest window.
const POLICIES: [(&str, PolicyRole, f64, f64, f64, u64); 10] = [
    ("append-only", PolicyRole::Baseline, 1.0, 1.0, 0.0, 0),
    ("adaptive", PolicyRole::Subject, 0.47, 0.965, 0.027, 4),
    ("reactive-overflow", PolicyRole::Ours, 0.63, 0.93, 0.05, 5),
    ("truncation", PolicyRole::Ours, 0.55, 0.86, 0.1, 9),
    ("pruning-agent", PolicyRole::Ours, 0.58, 0.95, 0.03, 6),
    ("opencode", PolicyRole::Peer, 0.61, 0.94, 0.0, 5),
    ("gemini-cli", PolicyRole::Peer, 0.72, 0.955, 0.0, 3),
    ("codex", PolicyRole::Peer, 0.66, 0.91, 0.0, 4),
    ("goose", PolicyRole::Peer, 0.7, 0.925, 0.0, 4),
    ("langchain-summarization", PolicyRole::Peer, 0.83, 0.9, 0.0, 12),
];

const SESSIONS: [(&str, &str, bool, u64); 5] = [
    ("refactor the lexer <b>&\"quoted\"</b>", "pi", false, 162_000),
    ("airline task 17", "tau-bench", false, 11_800),
    ("airline task 42", "tau-bench", false, 9_400),
    ("airline task 93", "tau-bench", false, 14_100),
    ("six of ten sessions in one", "made-up", true, 480_000),
];

pub(super) fn header() -> ReportHeader {
    ReportHeader {
        command: "longhaul lab replay before-compaction.jsonl gpt-4o-airline.json --window 25%,50%,75% --html report.html".to_owned(),
        version: "0.1.0".to_owned(),
        generated_by: vec![ReportFact { name: "platform".to_owned(), value: "linux x86_64".to_owned() }],
        assumptions: vec![
            "A summary has as many tokens as the policy's limit allows.".to_owned(),
            "A model reads 2,000 and writes 60 tokens a second; each call takes half a second besides.".to_owned(),
        ],
        policies: POLICIES
            .map(|(name, role, ..)| PolicyFacts {
                name: name.to_owned(),
                role,
                sources: vec![format!("trigger 0.8 of the window: https://example.org/{name}/compact.rs#L12")],
            })
            .to_vec(),
        prices: vec![prices("large", 3.0, 1_024), prices("small", 0.25, 2_048)],
        price_sources: vec!["large = a large model: nobody's price list".to_owned()],
    }
}

fn prices(name: &str, input: f64, minimum: u64) -> PriceTable {
    PriceTable {
        name: name.to_owned(),
        input,
        cache_read: input / 10.0,
        cache_write: input * 1.25,
        output: input * 5.0,
        cache_minimum_tokens: minimum,
        cache_life_ms: 300_000,
    }
}

/// Returns an outcome with names and a cost, and nothing else.
pub(super) fn outcome(recording: &str, policy: &str, cost: f64, needs: (u64, u64, u64)) -> ReplayOutcome {
    let (in_view, recalled, lost) = needs;
    ReplayOutcome {
        recording: recording.to_owned(),
        group: "group".to_owned(),
        policy: policy.to_owned(),
        window: 50_000,
        window_percent: Some(50),
        prices: "large".to_owned(),
        cost,
        needs: NeedCounts { in_view, recalled, lost, recalls: recalled },
        prefix_hit_ratio: 0.9,
        ..empty()
    }
}

fn empty() -> ReplayOutcome {
    ReplayOutcome {
        recording: String::new(),
        group: String::new(),
        synthetic: false,
        policy: String::new(),
        window: 0,
        window_percent: None,
        prices: String::new(),
        requests: 0,
        side_calls: 0,
        peak_tokens: 0,
        overflows: 0,
        billed: BilledTokens::default(),
        cost: 0.0,
        prefix_breaks: 0,
        prefix_hit_ratio: 0.0,
        compactions: 0,
        prunes: 0,
        waiting_ms: 0,
        survival: BTreeMap::new(),
        needs: NeedCounts::default(),
        context: Vec::new(),
        edits: Vec::new(),
    }
}

/// Returns the outcomes of every policy on every session in three windows at two price tables.
pub(super) fn outcomes() -> Vec<ReplayOutcome> {
    let mut all = Vec::new();
    for (number, session) in SESSIONS.iter().enumerate() {
        for percent in [25, 50, 75] {
            for prices in header().prices {
                for policy in POLICIES {
                    all.push(replayed(number, *session, percent, &prices, policy));
                }
            }
        }
    }
    all
}

fn replayed(
    number: usize,
    (name, group, synthetic, peak): (&str, &str, bool, u64),
    percent: u32,
    prices: &PriceTable,
    (policy, role, cost, view, recall, compactions): (&str, PolicyRole, f64, f64, f64, u64),
) -> ReplayOutcome {
    let window = peak * u64::from(percent) / 100;
    let trigger = if role == PolicyRole::Baseline { u64::MAX } else { window * 8 / 10 };
    let low = window * (2 + number as u64 % 3) / 8;
    let (context, edits) = course(peak, trigger, low);
    let sway = 1.0 + (number as f64 - 2.0) * 0.04 + (f64::from(percent) - 50.0) / 400.0;
    let share = if role == PolicyRole::Baseline { 1.0 } else { (cost * sway).min(1.2) };
    let facts = 40 + peak / 400;
    let tall = |share: f64| (facts as f64 * share.min(1.0)) as u64;
    let in_view =
        if role == PolicyRole::Baseline { facts } else { tall(view + (f64::from(percent) - 50.0) / 1_000.0) };
    // One peer is better on one session, one is cheaper on another.
    let (in_view, share) = match (policy, name) {
        ("gemini-cli", "airline task 42") => (facts - 1, share),
        ("opencode", "airline task 93") => (in_view, share * 0.7),
        _ => (in_view, share),
    };
    let recalled = tall(recall).min(facts - in_view);
    let total: u64 = context.iter().sum();
    let whole: u64 = course(peak, u64::MAX, 0).0.iter().sum();
    ReplayOutcome {
        recording: name.to_owned(),
        group: group.to_owned(),
        synthetic,
        policy: policy.to_owned(),
        window,
        window_percent: Some(percent),
        prices: prices.name.clone(),
        requests: context.len() as u64,
        side_calls: edits.len() as u64,
        peak_tokens: context.iter().copied().max().unwrap_or(0),
        overflows: context.iter().filter(|it| **it > window).count() as u64,
        billed: BilledTokens {
            uncached: total / 40,
            cache_read: total * 9 / 10,
            cache_write: total / 13,
            output: 300 * context.len() as u64,
        },
        cost: share * whole as f64 * prices.input / 5e6,
        prefix_breaks: edits.len() as u64,
        prefix_hit_ratio: 0.97 - 0.01 * compactions as f64,
        compactions: edits.len() as u64,
        prunes: 0,
        waiting_ms: if role == PolicyRole::Subject { 0 } else { 9_300 * edits.len() as u64 },
        survival: BTreeMap::from([
            ("paths".to_owned(), tally(role, 120)),
            ("userConstraints".to_owned(), tally(role, 14)),
        ]),
        needs: NeedCounts { in_view, recalled, lost: facts - in_view - recalled, recalls: recalled },
        context,
        edits,
    }
}

fn tally(role: PolicyRole, facts: u64) -> RetentionTally {
    let verbatim = facts * 2 / 3;
    match role {
        PolicyRole::Peer => RetentionTally { verbatim, lost: facts - verbatim, ..RetentionTally::default() },
        _ => RetentionTally { verbatim, recoverable_by_model: facts - verbatim, ..RetentionTally::default() },
    }
}

/// Returns a conversation that grows to `peak` in bursts and is cut to `low` whenever it would pass
/// `trigger`.
fn course(peak: u64, trigger: u64, low: u64) -> (Vec<u64>, Vec<usize>) {
    let calls = 24 + peak / 900;
    let (mut size, mut context, mut edits) = (peak / 30, Vec::new(), Vec::new());
    for call in 0..calls {
        size += peak * 2 * (call % 7) / (calls * 6);
        if size > trigger {
            size = low;
            edits.push(context.len());
        }
        context.push(size);
    }
    (context, edits)
}

pub(super) fn report() -> ReplayReport {
    ReplayReport::new(header(), outcomes())
}
