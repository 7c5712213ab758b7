//! Deferral of a client's tools towards the model's server. The upstream's requests list two tools in place of the
//! deferred tools; the upstream's answers call the client's own tools again.
//!
//! The deferred tools depend only on the client's list, the window, and a tool that the request forces. So the
//! list stays the same from request to request, and the upstream's cache stays warm. Tools are kept in the
//! client's order as far as there is room; tools that look like an MCP server's come after the others.

mod answer;
mod item;
mod list;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use longhaul_core::deferral::{CALL, DeferredToolCall, DeferredTools, SEARCH, is_worth_deferring, read_call};
use longhaul_core::message::ToolSpec;

use super::patch::RequestPatch;
use super::{Dialect, RequestEnvelope};
use list::{ListedTool, stand_in};
pub use stream::CallUnwrapper;

/// The share of the window above which a client's tools are deferred.
// In a window of 32,000 tokens, 120 tools took all of it. Below a quarter the list leaves room for work (decision
// 0052).
const DEFER_ABOVE: f64 = 0.25;

/// The divisor for the share of the window that the kept tools may take.
// Kept tools are those of the client itself, such as `read` and `bash`, before those of MCP servers (decision 0052).
const KEPT_DIVISOR: u64 = 8;

/// The smallest window, in tokens, whose model is shown the names of deferred tools.
// The names of all tools stand in every request, and small windows have no room for them.
const NAMING_WINDOW_TOKENS: u64 = 16_000;

/// A client's tools, some of them deferred.
#[derive(Debug)]
pub struct ToolDeferral {
    dialect: Dialect,
    /// The list for the upstream.
    list: String,
    /// The names in the list, in the form that calls use.
    listed: BTreeSet<String>,
    deferred: DeferredTools,
    /// The deferred tools in a namespace, by their names for the model.
    namespaced: BTreeMap<String, ClientToolName>,
    /// The number of the client's tools.
    total: usize,
}

/// The client's name of a tool in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClientToolName {
    namespace: String,
    name: String,
}

impl ToolDeferral {
    /// Decides which of a client's tools are deferred in a window of so many tokens; `None` if none are. `forced` is
    /// the tool that the request forces. `has_search`: the upstream has the tool search of the client's API. Without
    /// such a search, tools with `defer_loading` are deferred here.
    pub fn decide(
        dialect: Dialect,
        tools: &str,
        forced: Option<&str>,
        window_tokens: u64,
        has_search: bool,
    ) -> Option<Self> {
        let mut tools = list::read(dialect, tools)?;
        let finds_by_itself = tools.iter().any(|tool| tool.is_deferred_by_client || tool.is_provider_search);
        // Another server does not answer the provider's own search.
        if !has_search {
            tools.retain(|tool| !tool.is_provider_search);
        }
        // The provider's own search defers these tools already. A client's tool with one of our two names could not
        // be told from ours.
        if finds_by_itself && has_search
            || tools
                .iter()
                .flat_map(|tool| &tool.specs)
                .any(|spec| [SEARCH, CALL].contains(&spec.name.as_str()))
        {
            return None;
        }
        let all_tokens: u64 = tools.iter().map(|tool| tool.tokens).sum();
        let kept = kept_tools(&tools, forced, window_tokens / KEPT_DIVISOR);
        let deferred = tools.iter().enumerate().filter(|(at, _)| !kept.contains(at)).map(|(_, tool)| tool);
        let specs: Vec<ToolSpec> = deferred.clone().flat_map(|tool| tool.specs.iter().cloned()).collect();
        if specs.is_empty() {
            return None;
        }
        let found = DeferredTools::new(specs);
        let stand_ins = found.stand_ins(window_tokens >= NAMING_WINDOW_TOKENS);
        let kept_tokens: u64 = kept.iter().map(|at| tools[*at].tokens).sum();
        // Our two tools cost tokens themselves, so a short list may not be worth deferring.
        let in_place: u64 = stand_ins.iter().map(longhaul_core::estimate::tool_tokens).sum();
        if !is_worth_deferring(all_tokens, kept_tokens + in_place, window_tokens, DEFER_ABOVE) {
            return None;
        }
        let kept_tools = kept.iter().map(|at| &tools[*at]);
        // A cache mark on a deferred tool moves to our last tool, so that the list still ends a cached prefix.
        let mark = deferred.clone().filter_map(|tool| tool.cache_mark.clone()).next_back();
        let [search, call] = &stand_ins;
        let list: Vec<String> = kept_tools
            .clone()
            .map(|tool| tool.raw.clone())
            .chain([stand_in(dialect, search, None), stand_in(dialect, call, mark.as_deref())])
            .collect();
        let listed = kept_tools.flat_map(|tool| tool.specs.iter().map(|spec| spec.name.clone()));
        Some(Self {
            dialect,
            list: format!("[{}]", list.join(",")),
            listed: listed.chain([SEARCH, CALL].map(str::to_owned)).collect(),
            namespaced: deferred.flat_map(|tool| tool.namespaced.clone()).collect(),
            total: tools.iter().map(|tool| tool.specs.len()).sum(),
            deferred: found,
        })
    }

    /// Returns the deferred tools.
    pub fn deferred(&self) -> &DeferredTools {
        &self.deferred
    }

    /// Returns the number of the client's tools, kept ones included.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the request with the shorter list of tools, and calls of deferred tools in it as calls through
    /// `tool_call`. Everything else keeps the client's bytes.
    pub fn shorten_request(&self, envelope: &RequestEnvelope) -> Bytes {
        let Some(tools_at) = &envelope.tools_at else { return envelope.bytes.clone() };
        let mut patch = RequestPatch::default();
        patch.replace(tools_at.clone(), self.list.clone());
        for at in &envelope.items {
            if let Some(item) = item::wrapped(self, envelope.text(at)) {
                patch.replace(at.clone(), item);
            }
        }
        patch.apply(&envelope.bytes)
    }

    /// Returns a whole answer with calls of the client's own tools; `None` if nothing changes.
    pub fn unwrap_answer(&self, answer: &[u8]) -> Option<Bytes> {
        answer::unwrapped(self, std::str::from_utf8(answer).ok()?).map(Bytes::from)
    }

    /// Returns the call that a call of `tool_call` makes.
    ///
    /// # Errors
    /// The answer to the model, if the arguments name no call.
    pub fn resolve(&self, arguments: &str) -> Result<DeferredToolCall, String> {
        match read_call(arguments) {
            // Models call through `tool_call` even the tools that they could call directly.
            Ok(call) if self.is_listed(&call.name) && call.name != SEARCH && call.name != CALL => Ok(call),
            _ => self.deferred.resolve(arguments),
        }
    }

    fn is_listed(&self, name: &str) -> bool {
        self.listed.contains(name)
    }

    fn namespaced(&self, name: &str) -> Option<&ClientToolName> {
        self.namespaced.get(name)
    }
}

/// Returns the places of the kept tools, in order: the tools that cannot be deferred, the forced one, and as many
/// others as fit.
fn kept_tools(tools: &[ListedTool], forced: Option<&str>, room_tokens: u64) -> BTreeSet<usize> {
    let mut kept: BTreeSet<usize> =
        tools.iter().enumerate().filter(|(_, tool)| tool.specs.is_empty()).map(|(at, _)| at).collect();
    let mut used: u64 = kept.iter().map(|at| tools[*at].tokens).sum();
    let mut others: Vec<usize> = (0..tools.len()).filter(|at| !tools[*at].specs.is_empty()).collect();
    others.sort_by_key(|at| (tools[*at].is_foreign, *at));
    for at in others.into_iter().filter(|at| !tools[*at].is_deferred_by_client) {
        // The forced tool must not take room from the others, or forcing one would change the list.
        if used + tools[at].tokens <= room_tokens {
            used += tools[at].tokens;
            kept.insert(at);
        }
    }
    let forced = tools
        .iter()
        .enumerate()
        .filter(|(_, tool)| tool.specs.iter().any(|spec| Some(spec.name.as_str()) == forced));
    kept.extend(forced.map(|(at, _)| at));
    kept
}
