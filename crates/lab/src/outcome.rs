//! The outcome of a recording under a policy.

use std::collections::BTreeMap;

use longhaul_core::retention_report::RetentionTally;
use serde::Serialize;

/// The outcome of one replay: a recording under a policy, in a window, at prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayOutcome {
    /// The recording.
    pub recording: String,
    /// The group of the recording.
    pub group: String,
    /// `true` if a program made the recording.
    pub synthetic: bool,
    /// The policy.
    pub policy: String,
    /// The window, in tokens.
    pub window: u64,
    /// The window as a share of the recording's peak in percent, if so chosen.
    pub window_percent: Option<u32>,
    /// The price table.
    pub prices: String,
    /// Model calls of the agent; recalls and side calls come on top.
    pub requests: u64,
    /// Model calls for the policy.
    pub side_calls: u64,
    /// The largest request, in tokens.
    pub peak_tokens: u64,
    /// Requests larger than the window: a real server would have refused or cut them.
    pub overflows: u64,
    /// The billed tokens.
    pub billed: BilledTokens,
    /// The cost, in US dollars.
    pub cost: f64,
    /// Requests that did not begin with the whole request before.
    pub prefix_breaks: u64,
    /// Share of input tokens read from the cache, 0 to 1.
    pub prefix_hit_ratio: f64,
    /// Compactions.
    pub compactions: u64,
    /// Passes that only cleared tool results.
    pub prunes: u64,
    /// The agent's wait for side calls, in milliseconds (modelled, see the report).
    pub waiting_ms: u64,
    /// Facts removed by the edits and their present places, by class.
    pub survival: BTreeMap<String, RetentionTally>,
    /// The items used later by the agent, counted by their presence in view at the time.
    pub needs: NeedCounts,
    /// Tokens of each request in order.
    pub context: Vec<u64>,
    /// Indices into `context`: requests for which the view was shortened.
    pub edits: Vec<usize>,
}

/// Tokens by class of price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BilledTokens {
    /// Input outside any cache.
    pub uncached: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// Output.
    pub output: u64,
}

/// Identifiers, paths, numbers and error lines really used later by the agent, by their availability then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeedCounts {
    /// (a) In view.
    pub in_view: u64,
    /// (b) Not in view, among the top results of a recall.
    pub recalled: u64,
    /// (c) Neither.
    pub lost: u64,
    /// Recalls made, each charged as a model call.
    pub recalls: u64,
}
