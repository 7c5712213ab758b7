//! An agent: a model, its instructions, its tools, and the agent's limits.

mod builder;
mod deferral;
#[cfg(not(feature = "sqlite"))]
#[path = "agent/no_sqlite.rs"]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::deferral::DeferredTools;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::history::History;
use longhaul_core::message::ToolSpec;
use longhaul_core::orders::tool as pin;
use longhaul_core::plan::{CompactionPolicy, TokenPrices};
use longhaul_core::run::{
    PrefixBeforeRecall, RequestPrefix, RunRecovery, RunSettings, ServerCountPolicy, SessionModel,
    ToolApproval, ToolRule,
};
use longhaul_providers::{FeatureSupport, LimitSource, Limits, SharedProvider};

pub use self::builder::{AgentBuilder, BuildError};
pub(crate) use self::deferral::DeferralDecision;
use crate::calibration::{CalibrationStore, MissingAbility};
use crate::clock::now_ms;
pub use crate::config::{ConfigError, ConfigProblem, ConfigProblemKind};
#[cfg(feature = "tokenizers")]
pub use crate::config_agent::TokenCounterError;
pub use crate::config_agent::{ConfigFileError, HookSetupError, McpSetupError};
use crate::context::{RequestPrefixTokens, ToolTokens};
use crate::hooks::HookSet;
use crate::recall;
use crate::sandbox::Sandbox;
use crate::telemetry::Telemetry;
use crate::tools::{ToolLimits, ToolSet};
use crate::workspace::Workspace;

/// The least window, in tokens, whose model gets full tool descriptions. Below this size the descriptions take at most
/// 500 tokens.
#[doc(hidden)]
// The declared or discovered window decides. A learned window may change within a session, and the tools must not
// (decision 0042).
pub const SMALL_WINDOW_TOKENS: u64 = 16_000;

/// Everything a session needs besides its log. Shared by all sessions of a runtime.
#[derive(Clone)]
pub struct Agent {
    /// The system prompt; empty for none.
    pub system: String,
    /// The model.
    pub provider: SharedProvider,
    /// The known limits of the model.
    pub limits: Limits,
    /// The counter of the model's tokens.
    pub counter: MessageTokenCounter,
    /// The condition under which the server is asked to count.
    #[doc(hidden)]
    pub counting: ServerCountPolicy,
    /// The store of the facts learned of the model's vocabulary.
    #[doc(hidden)]
    pub calibrations: Arc<CalibrationStore>,
    /// The tools on offer to the model, besides `recall`, which sessions have unless the set turns `recall` off.
    pub tools: ToolSet,
    /// The agent's folder.
    pub workspace: Arc<Workspace>,
    /// The sandbox that confines the child processes of the tools.
    pub sandbox: Arc<Sandbox>,
    /// Limits of single tools.
    pub tool_limits: ToolLimits,
    /// The rules of the agent's runs.
    pub rules: AgentRules,
    /// The hooks asked during a run.
    pub hooks: HookSet,
    /// The destination of the spans and metrics of the agent's runs.
    pub telemetry: Telemetry,
}

/// A model, its limits, counter and prices: the fields of an agent to replace with the model.
#[derive(Clone)]
#[doc(hidden)]
pub struct ServedModel {
    /// The model.
    pub provider: SharedProvider,
    /// The known limits of the model.
    pub limits: Limits,
    /// The counter of the model's tokens.
    pub counter: MessageTokenCounter,
    /// The condition under which the server is asked to count.
    pub counting: ServerCountPolicy,
    /// The store of the facts learned of the model's vocabulary.
    pub calibrations: Arc<CalibrationStore>,
    /// The prices of the model's tokens, if known.
    pub prices: Option<TokenPrices>,
}

/// A model for writing summaries.
#[derive(Clone)]
pub struct SummaryModel(pub SharedProvider);

impl std::fmt::Debug for SummaryModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SummaryModel").field(&self.0.origin()).finish()
    }
}

/// The rules of an agent's runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentRules {
    /// Steps per run.
    pub max_steps: u32,
    /// Time per run.
    pub timeout: Option<Duration>,
    /// `None`: read-only tools in parallel, others in sequence.
    pub parallel_tools: Option<bool>,
    /// The fate of a run after a crash.
    pub recovery: RunRecovery,
    /// The limits within which failed model calls are made again.
    pub retry: RetryPolicy,
    /// Messages that may wait per session.
    pub queue_limit: usize,
    /// The policy for keeping the context in bounds.
    pub policy: CompactionPolicy,
    /// The model for summaries outside the session's own requests, unless the session's model writes them. The policy's
    /// [`SummaryWriterModel`](longhaul_core::plan::SummaryWriterModel) describes the input of the summary model.
    pub summariser: Option<SummaryModel>,
    /// The approval rule of each tool, by the tool's name; `default_approval` applies to the others.
    pub approvals: BTreeMap<String, ToolApproval>,
    /// The rule for writing tools without a rule of their own.
    pub default_approval: ToolApproval,
    /// The rule for a command whose text does not show whether a rule that denies or asks fits it. It is never
    /// [`ToolApproval::Allow`]. Where nobody can be asked it denies, because a question would wait without an answer.
    pub unclear_approval: ToolApproval,
    /// The longest wait for an approval; the call is then denied.
    pub approval_timeout: Option<Duration>,
    /// The most a tool's output may have, in characters, by tool name.
    pub max_output_chars: BTreeMap<String, u64>,
    /// The longest output of all other tools, in characters.
    pub default_max_output_chars: u64,
    /// The largest share of the window for all tools together. Above this share, foreign tools
    /// ([`Tool::is_foreign`](crate::tools::Tool::is_foreign)) are deferred: the model finds and calls deferred tools
    /// through two others.
    pub defer_above: f64,
    /// The maximum size of a session's blobs, in bytes.
    pub session_quota_bytes: u64,
    /// The interval at which streamed text is persisted.
    pub persist_every: Duration,
}

impl AgentRules {
    /// Returns the defaults of the configuration file, with `policy`.
    pub fn new(policy: CompactionPolicy) -> Self {
        Self {
            max_steps: 100,
            timeout: None,
            parallel_tools: None,
            recovery: RunRecovery::Rest,
            retry: RetryPolicy::default(),
            queue_limit: 100,
            policy,
            summariser: None,
            approvals: BTreeMap::new(),
            default_approval: ToolApproval::Ask,
            unclear_approval: ToolApproval::Ask,
            approval_timeout: Some(Duration::from_secs(600)),
            max_output_chars: BTreeMap::from([("bash".to_owned(), 30_000)]),
            default_max_output_chars: 120_000,
            defer_above: 0.1,
            session_quota_bytes: 2 << 30,
            persist_every: Duration::from_millis(100),
        }
    }
}

impl Agent {
    /// Returns a builder with defaults for everything but the model.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::new()
    }

    /// Returns the agent for a newly opened session. The agent's counter begins with the profile from earlier sessions
    /// of the model, and does not change while the session is open.
    pub(crate) fn calibrated(self: &Arc<Self>) -> Arc<Self> {
        let counter = self.calibrated_counter();
        // Sessions share one agent until its counter changes.
        if counter == self.counter {
            return Arc::clone(self);
        }
        Arc::new(Self { counter, ..Self::clone(self) })
    }

    fn calibrated_counter(&self) -> MessageTokenCounter {
        let model = self.provider.origin();
        let is_unreliable = self.calibrations.lacks(&model, MissingAbility::ReliableUsage, now_ms());
        let counter = self.counter.clone().with_unreliable_usage(is_unreliable);
        match self.calibrations.prior(&model, counter.name()) {
            Some(prior) => counter.with_prior(prior),
            None => counter,
        }
    }

    /// Returns the agent's model.
    #[doc(hidden)]
    pub fn served(&self) -> ServedModel {
        ServedModel {
            provider: Arc::clone(&self.provider),
            limits: self.limits,
            counter: self.counter.clone(),
            counting: self.counting,
            calibrations: Arc::clone(&self.calibrations),
            prices: self.rules.policy.prices,
        }
    }

    /// Returns the same agent with another model.
    #[doc(hidden)]
    pub fn with_model(&self, model: ServedModel) -> Self {
        let ServedModel { provider, limits, counter, counting, calibrations, prices } = model;
        let mut other = Self { provider, limits, counter, counting, calibrations, ..self.clone() };
        other.rules.policy.prices = prices;
        other
    }

    /// Returns whether the model has our tool `pin`: the window is large enough, and no tool of the agent is named
    /// `pin`.
    pub(crate) fn offers_pin(&self) -> bool {
        let has_room = self.limits.window.is_none_or(|window| window >= pin::MIN_WINDOW);
        has_room && self.tools.get(pin::NAME).is_none()
    }

    /// Returns the tool definitions for the model once `recall`, the last tool, is offered; none if the model takes no
    /// tools. Windows below [`SMALL_WINDOW_TOKENS`] get shorter descriptions. Deferred tools are described through two
    /// other tools.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.specs_with(self.deferred().as_deref())
    }

    fn specs_with(&self, deferred: Option<&DeferredTools>) -> Vec<ToolSpec> {
        if !self.takes_tools() {
            return Vec::new();
        }
        let mut specs = if self.has_small_window() { self.tools.brief_specs() } else { self.tools.specs() };
        if let Some(deferred) = deferred {
            // The two stand-ins take the place of the deferred tools.
            specs.retain(|spec| deferred.get(&spec.name).is_none());
            specs.extend(deferred.stand_ins(!self.has_small_window()));
        }
        specs.extend(self.offers_pin().then(pin::spec));
        // `recall` comes last: the tools before it keep their bytes when it is offered in mid-session (decision 0042).
        specs.extend(self.tools.has_recall().then(recall::spec));
        specs
    }

    /// Returns whether the model is offered tools: as declared or reported by the server, else as earlier errors have
    /// shown.
    pub(crate) fn takes_tools(&self) -> bool {
        match self.limits.tools {
            FeatureSupport::Unknown => !self.calibrations.refuses_tools(&self.provider.origin(), now_ms()),
            known => known.may(),
        }
    }

    /// Returns whether the model continues an answer that a request ends with: as declared or reported by the server,
    /// unless the server has refused to within the last day.
    pub(crate) fn continues_answers(&self) -> bool {
        self.limits.prefill == FeatureSupport::Yes
            && !self.calibrations.lacks(&self.provider.origin(), MissingAbility::Prefill, now_ms())
    }

    /// Returns the tool definitions of a session's next request.
    #[doc(hidden)]
    pub fn specs_for(&self, history: &History) -> Vec<ToolSpec> {
        let mut specs = self.specs();
        let offers_recall = history.offers_recall();
        specs.retain(|spec| (offers_recall || spec.name != recall::NAME) && !history.omits_tool(&spec.name));
        specs
    }

    /// Returns whether the model gets short tool descriptions.
    #[doc(hidden)]
    pub fn has_small_window(&self) -> bool {
        self.limits.window.is_some_and(|tokens| tokens < SMALL_WINDOW_TOKENS)
    }

    /// Returns the history of a session of this agent before its first event.
    pub(crate) fn new_history(&self) -> History {
        let history = History::new(self.counter.clone());
        if self.tools.has_recall() { history } else { history.without_recall() }
    }

    /// Returns whether a history was folded as the present agent folds.
    pub(crate) fn reads_as(&self, history: &History) -> bool {
        self.counter == *history.counter() && self.tools.has_recall() == history.has_recall()
    }

    /// Returns the estimated tokens of the prefix of every request once `recall` is offered.
    #[doc(hidden)]
    pub fn fixed_share(&self) -> RequestPrefixTokens {
        self.share_of(self.specs())
    }

    /// Returns the estimated tokens of the prefix of a session's next request.
    #[doc(hidden)]
    pub fn fixed_share_for(&self, history: &History) -> RequestPrefixTokens {
        self.share_of(self.specs_for(history))
    }

    fn share_of(&self, sent: Vec<ToolSpec>) -> RequestPrefixTokens {
        let mut by_source: BTreeMap<String, u64> = BTreeMap::new();
        for spec in sent {
            *by_source.entry(spec.source.clone()).or_default() += self.counter.tool(&spec);
        }
        let tools = by_source.into_iter().map(|(source, tokens)| ToolTokens { source, tokens }).collect();
        RequestPrefixTokens { system: self.counter.text(&self.system), tools }
    }

    /// Returns the window named by an earlier refusal, in any session, if neither the user nor the server states one.
    pub(crate) fn remembered_window(&self) -> Option<u64> {
        match self.limits.source {
            LimitSource::Declared | LimitSource::Server => None,
            _ => self.calibrations.window(&self.provider.origin()),
        }
    }

    /// Returns the longest answer in tokens, as a new session uses it: the stated limit, or a lower one that an error has
    /// named within the last day.
    pub(crate) fn max_output(&self) -> Option<u64> {
        let learned = self.calibrations.output_limit(&self.provider.origin(), now_ms());
        self.limits.max_output.into_iter().chain(learned).min()
    }

    /// Returns the model's window in tokens and the source of the value, as a new session uses both; `None` if the
    /// window is unknown.
    pub fn window(&self) -> Option<(u64, LimitSource)> {
        let learned = self.remembered_window().map(|tokens| (tokens, LimitSource::Learned));
        let said = self.limits.window.map(|tokens| (tokens, self.limits.source));
        // The smaller window wins (decision record 0005): an overflow error may name less than the catalogue.
        learned.into_iter().chain(said).min_by_key(|(tokens, _)| *tokens)
    }

    /// Returns the values the loop decides by.
    pub(crate) fn settings(&self) -> RunSettings {
        let deferred = self.deferred();
        let specs = self.specs_with(deferred.as_deref());
        // An edit may bring `recall` into the requests, so the planner needs the size of the prefix with and without
        // it.
        let early: Vec<ToolSpec> = specs.iter().filter(|spec| spec.name != recall::NAME).cloned().collect();
        // A call that cannot be resolved keeps the name of its stand-in, and needs a rule like every other call.
        let stand_ins = deferred.as_ref().map(|deferred| deferred.stand_ins(false));
        let known = self.tools.specs().into_iter().chain(self.tools.has_recall().then(recall::spec));
        let known = known.chain(stand_ins.into_iter().flatten());
        let rules = &self.rules;
        RunSettings {
            max_steps: rules.max_steps,
            timeout_ms: rules.timeout.map(|time| time.as_millis() as u64),
            parallel_tools: rules.parallel_tools,
            recovery: rules.recovery,
            retry: rules.retry,
            policy: rules.policy.clone(),
            pre_compact_ms: self.hooks.pre_compact_deadline().map(|time| time.as_millis() as u64),
            counting: self.counting,
            model: SessionModel {
                origin: self.provider.origin(),
                window: self.limits.window,
                remembered_window: self.remembered_window(),
                max_output: self.max_output(),
                tools: self.takes_tools(),
                prefill: self.continues_answers(),
            },
            fixed: RequestPrefix {
                system_hash: hash(self.system.as_bytes()),
                tools_hash: tools_hash(&specs),
                tokens: self.fixed_tokens(&specs),
                tool_tokens: specs.iter().map(|spec| (spec.name.clone(), self.counter.tool(spec))).collect(),
                before_recall: Some(PrefixBeforeRecall {
                    tools_hash: tools_hash(&early),
                    tokens: self.fixed_tokens(&early),
                }),
                deferred,
            },
            // A tool that is not offered can be called by its name nevertheless.
            tools: known.map(|spec| (spec.name.clone(), self.rule(&spec))).collect(),
        }
    }

    /// Returns the estimated tokens of system prompt, tools and the framing of the answer.
    fn fixed_tokens(&self, specs: &[ToolSpec]) -> u64 {
        let tools: u64 = specs.iter().map(|spec| self.counter.tool(spec)).sum();
        self.counter.text(&self.system) + tools + self.counter.framing().reply
    }

    fn rule(&self, spec: &ToolSpec) -> ToolRule {
        let rules = &self.rules;
        let tool = self.tools.get(&spec.name);
        // Only tools of another party can be unvouched for. `recall` and `pin` are not in the set.
        let vouched = tool.is_none_or(|tool| tool.is_vouched_for());
        let default = match tool.and_then(|tool| tool.approval()) {
            // The agent's rules state whether a person can be asked.
            Some(ToolApproval::Ask) => rules.default_approval.clone(),
            Some(approval) => approval,
            None if spec.read_only && vouched => ToolApproval::Allow,
            None => rules.default_approval.clone(),
        };
        ToolRule {
            read_only: spec.read_only,
            poll: spec.poll,
            approval: match rules.approvals.get(&spec.name).cloned() {
                None => default,
                Some(ToolApproval::Matching(mut matching)) => {
                    // Rules on arguments say nothing about other calls of the tool, so those get the tool's default.
                    matching.otherwise.get_or_insert_with(|| Box::new(default));
                    matching.if_unclear.get_or_insert_with(|| Box::new(rules.unclear_approval.clone()));
                    ToolApproval::Matching(matching)
                }
                Some(approval) => approval,
            },
            max_output_chars: *rules
                .max_output_chars
                .get(&spec.name)
                .unwrap_or(&rules.default_max_output_chars),
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().as_str()[..32].to_owned()
}

fn tools_hash(specs: &[ToolSpec]) -> String {
    if specs.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for spec in specs {
        // NUL ends each field: without a separator, different lists could give the same text.
        text.push_str(&format!("{}\0{}\0{}\0", spec.name, spec.description, spec.parameters.as_str()));
    }
    hash(text.as_bytes())
}
