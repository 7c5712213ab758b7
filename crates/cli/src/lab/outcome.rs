//! The outcome of a recording under a policy.

use std::collections::BTreeMap;

use longhaul_core::retention_report::RetentionTally;
use serde::Serialize;

/// The outcome of one replay: a recording under a policy, in a window, at prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayOutcome {
    /// The recording.
    pub(crate) recording: String,
    /// The group of the recording.
    pub(crate) group: String,
    /// `true` if a program made the recording.
    pub(crate) synthetic: bool,
    /// The policy.
    pub(crate) policy: String,
    /// The window, in tokens.
    pub(crate) window: u64,
    /// The window as a share of the recording's peak in percent, if so chosen.
    pub(crate) window_percent: Option<u32>,
    /// The price table.
    pub(crate) prices: String,
    /// Model calls of the agent; recalls and side calls come on top.
    pub(crate) requests: u64,
    /// Model calls for the policy.
    pub(crate) side_calls: u64,
    /// The largest request, in tokens.
    pub(crate) peak_tokens: u64,
    /// Requests larger than the window without the room for the answer: a real server may refuse or cut them.
    pub(crate) overflows: u64,
    /// The billed tokens.
    pub(crate) billed: BilledTokens,
    /// The cost, in US dollars.
    pub(crate) cost: f64,
    /// Requests that did not begin with the whole request before.
    pub(crate) prefix_breaks: u64,
    /// Share of input tokens read from the cache, 0 to 1.
    pub(crate) prefix_hit_ratio: f64,
    /// Compactions.
    pub(crate) compactions: u64,
    /// Passes that only cleared tool results.
    pub(crate) prunes: u64,
    /// The agent's wait for side calls, in milliseconds (modelled, see the report).
    pub(crate) waiting_ms: u64,
    /// Facts removed by the edits and their present places, by class.
    pub(crate) survival: BTreeMap<String, RetentionTally>,
    /// The items used later by the agent, counted by their presence in view at the time.
    pub(crate) needs: NeedCounts,
    /// Tokens of each request in order.
    pub(crate) context: Vec<u64>,
    /// Indices into `context`: requests for which the view was shortened.
    pub(crate) edits: Vec<usize>,
}

/// Tokens by class of price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BilledTokens {
    /// Input outside any cache.
    pub(crate) uncached: u64,
    /// Input read from the cache.
    pub(crate) cache_read: u64,
    /// Input written to the cache.
    pub(crate) cache_write: u64,
    /// Output.
    pub(crate) output: u64,
}

/// Identifiers, paths, numbers and error lines really used later by the agent, by their availability then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NeedCounts {
    /// (a) In view.
    pub(crate) in_view: u64,
    /// (b) Not in view, among the top results of a recall.
    pub(crate) recalled: u64,
    /// (c) Neither.
    pub(crate) lost: u64,
    /// Recalls made, each charged as a model call.
    pub(crate) recalls: u64,
}
