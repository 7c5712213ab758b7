//! A random setting: what the user chose, and what is true of the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::message::ModelOrigin;
use longhaul_core::plan::{CompactionPolicy, PruneOptions, SummaryWriterModel, TokenPrices};
use longhaul_core::run::{
    PrefixBeforeRecall, RequestPrefix, RunRecovery, RunSettings, ServerCountPolicy, SessionModel,
    ToolApproval, ToolRule,
};
use longhaul_core::strategy::{self, CompactionStrategy};

use crate::rng::Rng;

/// What is true of the model, whatever the runtime believes.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) window: u64,
    /// Its tokens for a thousand of ours.
    pub(crate) bias: u64,
    /// Tokens of its own in every request.
    pub(crate) overhead: u64,
    /// Whether input and output limit together must fit.
    pub(crate) strict_output: bool,
    /// How often (percent) an overflow error names numbers.
    pub(crate) names_numbers: u64,
    /// How often (percent) an answer comes with its usage.
    pub(crate) reports_usage: u64,
    /// How often (percent) an answer is final.
    pub(crate) final_answers: u64,
    /// How often (percent) a call fails.
    pub(crate) failures: u64,
    /// Whether it repeats itself.
    pub(crate) loops: bool,
    /// How its summaries are.
    pub(crate) good_summaries: u64,
}

impl Truth {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let widest = if rng.chance(15) { 200_000 } else { 40_000 };
        Self {
            window: rng.magnitude(4_000, widest),
            bias: rng.between(930, 1_070),
            overhead: rng.between(0, 800),
            strict_output: rng.chance(30),
            names_numbers: *rng.pick(&[0, 70, 100]),
            reports_usage: *rng.pick(&[0, 90, 100, 100]),
            final_answers: *rng.pick(&[3, 30, 60]),
            failures: *rng.pick(&[0, 4, 12]),
            loops: rng.chance(10),
            good_summaries: *rng.pick(&[30, 70, 100]),
        }
    }
}

pub(crate) fn settings(rng: &mut Rng, truth: &Truth) -> RunSettings {
    let name = if rng.chance(25) { "adaptive" } else { *rng.pick(strategy::NAMES) };
    let strategy = strategy::by_name(name).expect("a strategy of that name");
    let trigger = match rng.below(6) {
        0 => Some(StrategyTrigger::Overflow),
        1 => Some(StrategyTrigger::Share(0.5)),
        2 => Some(StrategyTrigger::Share(0.85)),
        3 => Some(StrategyTrigger::Tokens(rng.magnitude(1_000, 150_000))),
        _ => None,
    };
    let prune = PruneOptions {
        protect_tokens: rng.magnitude(100, 40_000),
        minimum_tokens: rng.magnitude(50, 20_000),
        protected_tools: if rng.chance(20) { vec!["read".to_owned()] } else { Vec::new() },
    };
    RunSettings {
        max_steps: *rng.pick(&[1, 3, 8, 100]),
        timeout_ms: rng.chance(25).then(|| rng.magnitude(500, 300_000)),
        parallel_tools: *rng.pick(&[None, None, Some(true), Some(false)]),
        recovery: *rng.pick(&[RunRecovery::Rest, RunRecovery::Continue]),
        retry: RetryPolicy {
            patience_ms: *rng.pick(&[Some(0), Some(60_000), Some(1_800_000), None]),
            max_delay_ms: 60_000,
            stream_attempts: *rng.pick(&[0, 5]),
        },
        policy: policy(rng, strategy, trigger, prune),
        pre_compact_ms: rng.chance(20).then_some(10_000),
        counting: *rng.pick(&[
            ServerCountPolicy::Never,
            ServerCountPolicy::Unanchored,
            ServerCountPolicy::Always,
        ]),
        model: model(rng, truth, "first"),
        fixed: fixed(rng.below(truth.window / 6)),
        tools: tools(),
    }
}

/// System prompt and tools of so many tokens, of which `recall` is offered late.
pub(crate) fn fixed(tokens: u64) -> RequestPrefix {
    let before =
        PrefixBeforeRecall { tools_hash: "early tools".to_owned(), tokens: tokens.saturating_sub(90) };
    RequestPrefix {
        system_hash: "system".to_owned(),
        tools_hash: "tools".to_owned(),
        tokens,
        tool_tokens: BTreeMap::new(),
        before_recall: Some(before),
        deferred: None,
    }
}

fn policy(
    rng: &mut Rng,
    strategy: Arc<dyn CompactionStrategy>,
    trigger: Option<StrategyTrigger>,
    prune: PruneOptions,
) -> CompactionPolicy {
    let prices =
        TokenPrices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0, cache_life_ms: 300_000 };
    let writers = [
        SummaryWriterModel::Session,
        SummaryWriterModel::Session,
        SummaryWriterModel::Nobody,
        SummaryWriterModel::Other { window: rng.magnitude(2_000, 50_000), max_output: None },
    ];
    CompactionPolicy {
        enabled: !rng.chance(3),
        trigger,
        prune,
        prices: rng.chance(50).then_some(prices),
        writer: *rng.pick(&writers),
        auto_recall: rng.chance(30),
        ..CompactionPolicy::new(strategy)
    }
}

pub(crate) fn model(rng: &mut Rng, truth: &Truth, name: &str) -> SessionModel {
    let known = !rng.chance(12);
    SessionModel {
        origin: ModelOrigin { provider: "sim".to_owned(), api: "sim".to_owned(), model: name.to_owned() },
        window: known.then_some(truth.window),
        remembered_window: None,
        max_output: *rng.pick(&[None, Some(1_000), Some(64_000), Some(64_000)]),
        tools: !rng.chance(5),
        prefill: rng.chance(50),
    }
}

fn tools() -> BTreeMap<String, ToolRule> {
    let rule = |read_only, poll, approval, max_output_chars| ToolRule {
        read_only,
        poll,
        approval,
        max_output_chars,
    };
    let deny = ToolApproval::Deny("a rule forbids it".to_owned());
    BTreeMap::from([
        ("read".to_owned(), rule(true, false, ToolApproval::Allow, 120_000)),
        ("grep".to_owned(), rule(true, false, ToolApproval::Allow, 30_000)),
        ("write".to_owned(), rule(false, false, ToolApproval::Allow, 2_000)),
        ("bash".to_owned(), rule(false, false, ToolApproval::Ask, 30_000)),
        ("rm".to_owned(), rule(false, false, deny, 30_000)),
        ("poll".to_owned(), rule(true, true, ToolApproval::Allow, 1_000)),
    ])
}
