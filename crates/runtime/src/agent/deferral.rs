//! The choice of an agent's deferred tools. A session chooses once: the list of tools stands at the start of every
//! request, and another list would cost the provider's cache.

use std::sync::Arc;

use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::deferral::{CALL, DeferredTools, SEARCH, is_worth_deferring};
use longhaul_core::history::History;
use longhaul_core::message::ToolSpec;

use super::{Agent, tools_hash};
use crate::recall;

/// The largest share of a window that listed tools may take. Above this share the tools are deferred, even after a
/// session has listed them.
// Another list of tools voids the prompt cache. Above this share a session could not go on at all (decision 0052).
const MAX_TOLD_SHARE: f64 = 0.5;

/// The decision about an agent's foreign tools.
#[derive(Clone, Debug, Default)]
pub(crate) enum DeferralDecision {
    /// The decision is still open, and follows the present window.
    #[default]
    Undecided,
    /// All foreign tools are listed for the model.
    Told,
    /// The model searches for the foreign tools.
    Deferred(Arc<DeferredTools>),
}

impl Agent {
    /// Returns the tools found and called through two others; `None` if all tools are listed.
    #[doc(hidden)]
    pub fn deferred(&self) -> Option<Arc<DeferredTools>> {
        if !self.takes_tools() {
            return None;
        }
        match &self.tools.deferral {
            DeferralDecision::Undecided => self.decide_deferral(),
            DeferralDecision::Told => None,
            DeferralDecision::Deferred(tools) => Some(Arc::clone(tools)),
        }
    }

    /// Returns the agent with its foreign tools listed or deferred for good, as the present window demands.
    pub(crate) fn with_deferral_decided(self: Arc<Self>) -> Arc<Self> {
        let is_decided = !matches!(self.tools.deferral, DeferralDecision::Undecided);
        if is_decided || !self.takes_tools() || !self.tools.has_foreign() {
            return self;
        }
        let deferred = self.decide_deferral();
        if let Some(deferred) = &deferred {
            tracing::info!(
                tools = deferred.len(),
                "the tools of MCP servers take more than tools.deferAbove of the window: the model finds them with \
                 `{SEARCH}`"
            );
        }
        Arc::new(self.with_deferral(deferred))
    }

    /// Returns the agent for a session with the history. The tools of the session's newest step show the earlier
    /// decision, also after a restart. If those tools match neither list, the agent has other tools now.
    pub(crate) fn with_deferral_of(self: Arc<Self>, history: &History) -> Arc<Self> {
        let decided = self.with_deferral_decided();
        let Some(sent) = history.newest_tools_hash() else { return decided };
        if !decided.takes_tools() || !decided.tools.has_foreign() || decided.sends(sent, decided.deferred()) {
            return decided;
        }
        let other = match decided.deferred() {
            // The tools were listed for a larger window, and do not fit the present one.
            Some(_) if decided.exceeds(MAX_TOLD_SHARE) => return decided,
            Some(_) => None,
            None => decided.foreign_tools(),
        };
        // Another list than before would cost the provider's cache of the whole conversation.
        if decided.sends(sent, other.clone()) {
            tracing::debug!(
                deferred_tools = other.as_ref().map(|tools| tools.len()),
                "the session keeps the list of tools that its newest step had"
            );
            return Arc::new(decided.with_deferral(other));
        }
        decided
    }

    /// Returns whether a list of all tools would take more than `share` of the window.
    fn exceeds(&self, share: f64) -> bool {
        self.tokens_of(&self.specs_with(None)) as f64 > self.window_tokens() as f64 * share
    }

    fn tokens_of(&self, specs: &[ToolSpec]) -> u64 {
        specs.iter().map(|spec| self.counter.tool(spec)).sum()
    }

    fn window_tokens(&self) -> u64 {
        self.window().map_or(ASSUMED_WINDOW, |(tokens, _)| tokens)
    }

    fn with_deferral(&self, deferred: Option<Arc<DeferredTools>>) -> Self {
        let mut agent = self.clone();
        agent.tools.deferral = deferred.map_or(DeferralDecision::Told, DeferralDecision::Deferred);
        agent
    }

    /// Returns whether requests with `deferred` tools have a tool list of the hash `sent`, with or without `recall`.
    fn sends(&self, sent: &str, deferred: Option<Arc<DeferredTools>>) -> bool {
        // The text after the hash names the tools that a server has refused.
        let sent = sent.split(' ').next().unwrap_or_default();
        let mut specs = self.specs_with(deferred.as_deref());
        if tools_hash(&specs) == sent {
            return true;
        }
        // `recall` is offered late (decision 0042), so the newest step may have been sent without it.
        specs.retain(|spec| spec.name != recall::NAME);
        tools_hash(&specs) == sent
    }

    fn decide_deferral(&self) -> Option<Arc<DeferredTools>> {
        let foreign = self.foreign_tools()?;
        let all = self.tokens_of(&self.specs_with(None));
        let with_stand_ins = self.tokens_of(&self.specs_with(Some(&foreign)));
        let is_worth = is_worth_deferring(all, with_stand_ins, self.window_tokens(), self.rules.defer_above);
        tracing::debug!(
            foreign_tools = foreign.len(),
            listed_tokens = all,
            deferred_tokens = with_stand_ins,
            window = self.window_tokens(),
            defers = is_worth,
            "listed and deferred tools were compared"
        );
        is_worth.then_some(foreign)
    }

    /// Returns the tools open to deferral. There are none where a tool of the agent has the name of a stand-in.
    fn foreign_tools(&self) -> Option<Arc<DeferredTools>> {
        // A model could not tell the two tools apart.
        let is_taken = [SEARCH, CALL].iter().any(|name| self.tools.get(name).is_some());
        let foreign = self.tools.foreign_specs();
        (!is_taken && !foreign.is_empty()).then(|| Arc::new(DeferredTools::new(foreign)))
    }
}
