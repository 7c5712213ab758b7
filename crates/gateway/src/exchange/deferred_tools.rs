//! Deferred tools: which requests have some of the client's tools deferred, and the answers to the model's searches
//! among them. The wire rewrites lists, calls and answers ([`ToolDeferral`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::deferral::{CALL, SEARCH};
use longhaul_core::truncate::TextLimit;
use longhaul_providers::connect::Kind;
use longhaul_providers::{FeatureSupport, Limits, ToolChoice};

use super::gateway_tools::GatewayTools;
use super::recall::NO_ANSWER;
use super::{PreparationReport, ProxiedRequest};
use crate::gateway::ToolDeferralMode;
use crate::upstream::UpstreamTarget;
use longhaul_wire::edit::deferral::ToolDeferral;
use longhaul_wire::edit::{AnsweredToolCall, Dialect, PartialToolCall, RequestEnvelope};

/// The client's text if the model only searched for tools.
const NO_CALL: &str = "(No answer: the model only searched for tools.)";

/// The maximum number of remembered tool lists.
// A forgotten list is decided again, with the same result: the decision depends on the list and the window alone
// (decision 0052).
const MAX_LISTS: usize = 256;

/// A hash of a tool list, the window and the forced tool.
type ToolListKey = [u8; 32];

/// The decisions about tool lists. A client sends the same list with every request.
#[derive(Default)]
pub(super) struct DeferralCache(Mutex<HashMap<ToolListKey, Option<Arc<ToolDeferral>>>>);

impl DeferralCache {
    fn decide(
        &self,
        dialect: Dialect,
        tools: &str,
        forced: Option<&str>,
        window: u64,
        has_search: bool,
    ) -> Option<Arc<ToolDeferral>> {
        let key = key(dialect, tools, forced, window, has_search);
        // The value is taken out in a statement of its own, so that the lock ends before the count.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(decided) = known {
            return decided;
        }
        // The lock is not held here: counting a long list takes milliseconds. A decision made twice is the
        // same.
        let decided = ToolDeferral::decide(dialect, tools, forced, window, has_search).map(Arc::new);
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() >= MAX_LISTS {
            // A lost decision is made again with the next request.
            lists.clear();
        }
        lists.insert(key, decided.clone());
        decided
    }
}

fn key(dialect: Dialect, tools: &str, forced: Option<&str>, window: u64, has_search: bool) -> ToolListKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[u8::from(has_search)]);
    hasher.update(dialect.as_str().as_bytes());
    // The same list may fit one upstream and be too long for another.
    hasher.update(&window.to_le_bytes());
    hasher.update(forced.unwrap_or_default().as_bytes());
    // The zero byte keeps the name of the tool apart from the list behind it.
    hasher.update(&[0]);
    hasher.update(tools.as_bytes());
    *hasher.finalize().as_bytes()
}

impl ProxiedRequest {
    /// Returns the request in the form for an upstream, with tools deferred if they take too much of its window.
    pub(super) async fn with_tools_deferred(self: &Arc<Self>, target: &Arc<UpstreamTarget>) -> Arc<Self> {
        if self.inner.config.defer_tools == ToolDeferralMode::Off || self.deferral.is_some() {
            return Arc::clone(self);
        }
        let Some(tools_at) = self.envelope.tools_at.clone() else { return Arc::clone(self) };
        let limits = target.limits().await;
        let window = target.window(&limits).tokens;
        // A token has at least one byte, so most lists need no count.
        let is_short = (tools_at.len() as u64) <= window / 4;
        let Some(choice) = self.deferring_choice(target, &limits).filter(|_| !is_short) else {
            return Arc::clone(self);
        };
        let forced = match &choice {
            ToolChoice::Named(name) => Some(name.as_str()),
            _ => None,
        };
        let tools = self.envelope.text(&tools_at);
        let deferred = self
            .inner
            .work_limiter
            .work(self.envelope.bytes.len(), || self.defer_tools(target, tools, forced, window));
        let Some((deferral, envelope)) = deferred.await else { return Arc::clone(self) };
        tracing::debug!(
            deferred = deferral.deferred().len(),
            of = deferral.total(),
            window,
            "tools of the client are deferred"
        );
        Arc::new(Self { envelope, deferral: Some(deferral), ..Self::clone(self) })
    }

    /// Returns the deferred tools, and the request without them; `None` if no tool is deferred.
    fn defer_tools(
        &self,
        target: &UpstreamTarget,
        tools: &str,
        forced: Option<&str>,
        window: u64,
    ) -> Option<(Arc<ToolDeferral>, Arc<RequestEnvelope>)> {
        // The decision ignores the conversation: a tool list that changed with it would break the upstream's prompt
        // cache.
        let has_search = self.is_providers_own(target);
        let deferral = self.inner.deferrals.decide(self.wire.dialect(), tools, forced, window, has_search)?;
        let shorter = deferral.shorten_request(&self.envelope);
        // If our own rewriting cannot be read, the client's request goes out whole.
        let envelope = self.inner.parse_cache.read(self.wire, &self.caller, shorter).ok()?;
        Some((deferral, envelope))
    }

    /// Returns the request's tool choice; `None` if the gateway could not answer a search for this request.
    fn deferring_choice(&self, target: &UpstreamTarget, limits: &Limits) -> Option<ToolChoice> {
        // A server that keeps the conversation would keep the search, too, and the client could not continue
        // from there.
        let is_at_maker = self.wire.dialect() == Dialect::Responses
            && target.server.upstream.kind == Kind::OpenAi
            && self.non_null_field("store") != Some("false");
        let cannot = is_at_maker
            || limits.tools == FeatureSupport::No
            // Of several answers only one could go on after a search.
            || self.non_null_field("n").is_some_and(|n| n != "1")
            || self.non_null_field("background") == Some("true");
        // A tool choice that cannot be parsed may name a deferred tool.
        if cannot { None } else { super::translate::tool_choice(self).ok() }
    }
}

impl GatewayTools<'_> {
    /// Returns the tools whose calls are hidden from the client.
    pub(super) fn hidden_tools(&self, report: &PreparationReport) -> Vec<&'static str> {
        let mut hidden = Vec::new();
        if self.recalls(report) {
            hidden.push(longhaul_core::recall::tool::NAME);
        }
        if self.request.proxied.deferral.is_some() {
            hidden.extend([SEARCH, CALL]);
        }
        hidden
    }

    /// Returns the client's text in place of an answer with lookups only.
    pub(super) fn no_answer(&self) -> &'static str {
        match self.request.proxied.deferral.is_some() && !self.may_recall() {
            // With `recall` in the request, the model may have looked up more than tools.
            true => NO_CALL,
            false => NO_ANSWER,
        }
    }

    /// Returns the answer to a tool search, or to a call that names none of the client's tools; `None` for any other
    /// call.
    pub(super) fn answer_about_tools(
        &self,
        call: &PartialToolCall,
        limit: &TextLimit,
    ) -> Option<AnsweredToolCall> {
        let deferral = self.request.proxied.deferral.as_ref()?;
        let answer = match call.name.as_str() {
            SEARCH => deferral.deferred().search(&call.arguments, limit),
            CALL => deferral.resolve(&call.arguments).and_then(|made| {
                Err(format!("Error: the call was not made. Call `{}` through `{CALL}` again.", made.name))
            }),
            _ => return None,
        };
        let failed = answer.is_err();
        Some(AnsweredToolCall { call: call.clone(), result: answer.unwrap_or_else(|why| why), failed })
    }
}
