//! The user's settings and the known facts about the model, as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attempt::RetryPolicy;
use crate::deferral::DeferredTools;
use crate::history::History;
use crate::message::ModelOrigin;
use crate::plan::{CompactionPolicy, PlannedPrefixTokens};

use super::ArgumentRules;

/// The facts that a run depends on besides the history.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The most steps of a run.
    pub max_steps: u32,
    /// The most time of a run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The way in which tools run. `None`: read-only tools in parallel, others one after another.
    pub parallel_tools: Option<bool>,
    /// The treatment of a run that a crash interrupted.
    pub recovery: RunRecovery,
    /// The limits within which failed model calls are made again.
    pub retry: RetryPolicy,
    /// The policy that keeps the context in bounds.
    pub policy: CompactionPolicy,
    /// The time that the PreCompact hook may take, in milliseconds; `None` if there is no hook.
    pub pre_compact_ms: Option<u64>,
    /// The condition under which the server is asked to count.
    pub counting: ServerCountPolicy,
    /// The model.
    pub model: SessionModel,
    /// The system prompt and the tools.
    pub fixed: RequestPrefix,
    /// The known facts about each tool, by name.
    pub tools: BTreeMap<String, ToolRule>,
}

/// The condition under which the server is asked to count the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerCountPolicy {
    /// Never: the server cannot count, or the user wants no counts.
    #[default]
    Never,
    /// Only without a usage report to build on: before the first call, and after an edit of the view.
    Unanchored,
    /// Before every call, for a server that is near and free.
    Always,
}

/// The treatment of a run that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunRecovery {
    /// The run is closed, and the session rests.
    Rest,
    /// The run continues by itself, up to three times without a completed step.
    Continue,
}

/// The session's model, with the model's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionModel {
    /// The model's provider, wire and name.
    pub origin: ModelOrigin,
    /// The model's window in tokens, if known.
    pub window: Option<u64>,
    /// The window that a refusal named in an earlier session, which counts only if no better source has one.
    pub remembered_window: Option<u64>,
    /// The most that the model writes, in tokens, if known.
    pub max_output: Option<u64>,
    /// `true` if the model takes tools.
    pub tools: bool,
    /// `true` if the model continues an answer that a request ends with.
    pub prefill: bool,
}

/// The part with which every request starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPrefix {
    /// Hash of the system prompt.
    pub system_hash: String,
    /// Hash of the tools as sent, `recall` among them; empty if there are none.
    pub tools_hash: String,
    /// Estimated tokens of system prompt and tools.
    pub tokens: u64,
    /// Estimated tokens of each tool, by name.
    pub tool_tokens: BTreeMap<String, u64>,
    /// The prefix of requests before `recall` is offered; `None` if the tools never change.
    #[doc(hidden)]
    pub before_recall: Option<PrefixBeforeRecall>,
    /// Tools that the model finds and calls through two other tools; `None` if the model is shown all tools.
    #[doc(hidden)]
    pub deferred: Option<Arc<DeferredTools>>,
}

/// The part with which every request starts before `recall` is among its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct PrefixBeforeRecall {
    /// Hash of the tools as sent; empty if there are none.
    pub tools_hash: String,
    /// Estimated tokens of system prompt and tools.
    pub tokens: u64,
}

impl RequestPrefix {
    /// Returns the size of the system prompt and the tools of the next request of `history`, in estimated tokens.
    pub fn tokens_of(&self, history: &History) -> u64 {
        let tokens = self.before_recall(history).map_or(self.tokens, |before| before.tokens);
        tokens.saturating_sub(self.omitted_tokens(history))
    }

    /// Returns the hash of the tools that the next request of `history` offers.
    pub fn tools_hash_of(&self, history: &History) -> String {
        let mut hash =
            self.before_recall(history).map_or(&self.tools_hash, |before| &before.tools_hash).clone();
        // A tool that is left out changes the bytes of the prefix, and with them the provider's cache.
        for name in history.omitted_tools() {
            hash.push_str(" without ");
            hash.push_str(name);
        }
        hash
    }

    /// Returns the prefix sizes for the planner: an edit of the view brings the tool `recall` with it.
    pub(crate) fn planned(&self, history: &History) -> PlannedPrefixTokens {
        let after_edit = self.tokens.saturating_sub(self.omitted_tokens(history));
        PlannedPrefixTokens { now: self.tokens_of(history), after_edit }
    }

    /// Returns the estimated tokens of the tools that are not offered because the server refuses them.
    fn omitted_tokens(&self, history: &History) -> u64 {
        history.omitted_tools().filter_map(|name| self.tool_tokens.get(name)).sum()
    }

    /// Returns the prefix without `recall`, if `recall` is not offered yet.
    fn before_recall(&self, history: &History) -> Option<&PrefixBeforeRecall> {
        self.before_recall.as_ref().filter(|_| !history.offers_recall())
    }
}

/// The known facts about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    /// `true` if the tool changes nothing.
    pub read_only: bool,
    /// `true` if repeated calls are the tool's purpose.
    pub poll: bool,
    /// The permission of the tool to run.
    pub approval: ToolApproval,
    /// The most that the tool's output may have, in characters.
    pub max_output_chars: u64,
}

/// The permission of a tool to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolApproval {
    /// The tool may run.
    Allow,
    /// A person is asked.
    Ask,
    /// The tool may not run; the text gives the reason, for the model.
    Deny(String),
    /// The permission depends on the arguments.
    Matching(ArgumentRules),
}
