//! What the user chose and what is known of the model, as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attempt::RetryPolicy;
use crate::deferral::DeferredTools;
use crate::history::History;
use crate::message::ModelOrigin;
use crate::plan::{CompactionPolicy, PlannedPrefixTokens};

use super::ArgumentRules;

/// Everything a run depends on besides its history.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Steps per run.
    pub max_steps: u32,
    /// Time per run.
    pub timeout_ms: Option<u64>,
    /// `None`: read-only tools in parallel, others one after another.
    pub parallel_tools: Option<bool>,
    /// What happens to a run that a crash interrupted.
    pub recovery: RunRecovery,
    /// The limits within which failed model calls are made again.
    pub retry: RetryPolicy,
    /// How the context is kept in bounds.
    pub policy: CompactionPolicy,
    /// How long the PreCompact hook is waited for, in milliseconds; `None` if there is none.
    pub pre_compact_ms: Option<u64>,
    /// When the server is asked to count.
    pub counting: ServerCountPolicy,
    /// The model.
    pub model: SessionModel,
    /// System prompt and tools.
    pub fixed: RequestPrefix,
    /// What is known of each tool, by name.
    pub tools: BTreeMap<String, ToolRule>,
}

/// When the server is asked to count the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerCountPolicy {
    /// Never: it cannot, or nobody wants it to.
    #[default]
    Never,
    /// When there is no report to build on: before the first call, and after an edit of the view.
    Unanchored,
    /// Before every call: it is near and free.
    Always,
}

/// What happens to a run that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRecovery {
    /// It is closed; the session rests.
    Rest,
    /// It goes on by itself, up to three times without a completed step.
    Continue,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionModel {
    /// Which.
    pub origin: ModelOrigin,
    /// Its window in tokens, if known.
    pub window: Option<u64>,
    /// The window that a refusal named in an earlier session, where nobody who knows better says one.
    pub remembered_window: Option<u64>,
    /// The most it writes, if known.
    pub max_output: Option<u64>,
    /// Whether it takes tools.
    pub tools: bool,
    /// Whether it goes on with an answer that a request ends with.
    pub prefill: bool,
}

/// What every request starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPrefix {
    /// Hash of the system prompt.
    pub system_hash: String,
    /// Hash of the tools as sent, `recall` among them; empty if there are none.
    pub tools_hash: String,
    /// Estimated tokens of both.
    pub tokens: u64,
    /// Estimated tokens of each tool, by name.
    pub tool_tokens: BTreeMap<String, u64>,
    /// The same for requests before `recall` is offered; `None` if the tools never change.
    pub before_recall: Option<PrefixBeforeRecall>,
    /// Tools that the model finds and calls through two others; `None` if it is told of all.
    pub deferred: Option<Arc<DeferredTools>>,
}

/// What every request starts with before `recall` is among its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixBeforeRecall {
    /// Hash of the tools as sent; empty if there are none.
    pub tools_hash: String,
    /// Estimated tokens of system prompt and tools.
    pub tokens: u64,
}

impl RequestPrefix {
    /// The system prompt and the tools of the next request of `history`, in estimated tokens.
    pub fn tokens_of(&self, history: &History) -> u64 {
        let tokens = self.before_recall(history).map_or(self.tokens, |before| before.tokens);
        tokens.saturating_sub(self.omitted_tokens(history))
    }

    /// The hash of the tools that the next request of `history` offers.
    pub fn tools_hash_of(&self, history: &History) -> String {
        let mut hash =
            self.before_recall(history).map_or(&self.tools_hash, |before| &before.tools_hash).clone();
        for name in history.omitted_tools() {
            hash.push_str(" without ");
            hash.push_str(name);
        }
        hash
    }

    /// The same tokens as the planner needs them: an edit of the view brings the tool `recall` with it.
    pub(crate) fn planned(&self, history: &History) -> PlannedPrefixTokens {
        let after_edit = self.tokens.saturating_sub(self.omitted_tokens(history));
        PlannedPrefixTokens { now: self.tokens_of(history), after_edit }
    }

    /// Estimated tokens of the tools that are not offered because the server refuses them.
    fn omitted_tokens(&self, history: &History) -> u64 {
        history.omitted_tools().filter_map(|name| self.tool_tokens.get(name)).sum()
    }

    fn before_recall(&self, history: &History) -> Option<&PrefixBeforeRecall> {
        self.before_recall.as_ref().filter(|_| !history.offers_recall())
    }
}

/// What is known of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether repeating it is its purpose.
    pub poll: bool,
    /// Whether it may run.
    pub approval: ToolApproval,
    /// The most its output may have, in characters.
    pub max_output_chars: u64,
}

/// Whether a tool may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolApproval {
    /// It may.
    Allow,
    /// A person is asked.
    Ask,
    /// It may not, and why, for the model.
    Deny(String),
    /// That depends on the arguments.
    Matching(ArgumentRules),
}
