//! The agents of a runtime: the usual one, and others by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use futures_util::future::BoxFuture;
use longhaul_core::event::ModelChoice;

use crate::agent::{Agent, ServedModel};
use crate::session::SessionError;

/// The models of the usual agent's server besides the agent's own.
pub trait ModelDirectory: Send + Sync {
    /// Returns the models' names, as the server lists the models now.
    fn list(&self) -> BoxFuture<'_, Vec<String>>;

    /// Returns a model, ready to be called. The caller need not know whether the server has the model.
    ///
    /// # Errors
    /// The reason why the model cannot be called, in words.
    fn serve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<ServedModel, String>>;
}

/// The agents on offer to sessions.
#[derive(Clone)]
pub struct AgentRegistry {
    name: String,
    usual: Arc<Agent>,
    others: BTreeMap<String, NamedAgent>,
    models: Option<Arc<dyn ModelDirectory>>,
    /// True if every session has the usual agent, whatever agent the log names.
    is_only: bool,
}

/// A named agent, or the reason why the agent cannot be used.
#[derive(Clone)]
struct NamedAgent {
    model: String,
    agent: Result<Arc<Agent>, String>,
}

/// An agent as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEntry {
    /// The agent's name.
    pub name: String,
    /// The configured model.
    pub model: String,
    /// True for the agent of sessions that ask for none.
    pub is_default: bool,
    /// The reason why the agent cannot be used, if there is one.
    pub why: Option<String>,
}

impl AgentRegistry {
    /// Creates a registry of one agent for all sessions, whatever agent a session had elsewhere.
    pub fn only(agent: Agent) -> Self {
        Self { is_only: true, ..Self::new("default", agent) }
    }

    /// Creates a registry with a named usual agent. Sessions keep their agent and their model.
    pub fn new(name: impl Into<String>, usual: Agent) -> Self {
        let (name, usual) = (name.into(), Arc::new(usual));
        Self { name, usual, others: BTreeMap::new(), models: None, is_only: false }
    }

    /// Adds an agent configured with `model`, or the reason why the agent cannot be used, in words.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        model: impl Into<String>,
        agent: Result<Agent, String>,
    ) -> Self {
        let (name, model) = (name.into(), model.into());
        match &agent {
            Ok(_) => tracing::debug!(name, model, "an agent can be chosen"),
            Err(why) => tracing::info!(name, model, why, "an agent cannot be used"),
        }
        self.others.insert(name, NamedAgent { model, agent: agent.map(Arc::new) });
        self
    }

    /// Sets further models on offer to sessions, besides the agents' models.
    #[must_use]
    pub fn with_models(mut self, models: Arc<dyn ModelDirectory>) -> Self {
        self.models = Some(models);
        self
    }

    /// Returns all agents, the usual one first.
    pub fn list(&self) -> Vec<AgentEntry> {
        let model = self.usual.provider.origin().model;
        let usual = AgentEntry { name: self.name.clone(), model, is_default: true, why: None };
        let others = self.others.iter().map(|(name, other)| AgentEntry {
            name: name.clone(),
            model: other.model.clone(),
            is_default: false,
            why: other.agent.as_ref().err().cloned(),
        });
        std::iter::once(usual).chain(others).collect()
    }

    /// Returns the models open to a choice: the agents' models, and the models in the server's present list.
    pub async fn models(&self) -> BTreeSet<String> {
        let mut names = self.models_of_usual().await;
        names.extend(self.usable().map(|(_, agent)| agent.provider.origin().model));
        names
    }

    /// Returns the models of the usual agent's server: the agent's own, and the models in the server's present list.
    pub async fn models_of_usual(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([self.usual.provider.origin().model]);
        if let Some(models) = &self.models {
            names.extend(models.list().await);
        }
        names
    }

    /// Returns the usual agent, as configured.
    pub(crate) fn usual(&self) -> &Arc<Agent> {
        &self.usual
    }

    /// Returns whether every session has the usual agent, whatever the log says.
    pub(crate) fn is_only(&self) -> bool {
        self.is_only
    }

    /// Returns the usable agents, the usual one first.
    pub(crate) fn usable(&self) -> impl Iterator<Item = (&str, &Arc<Agent>)> {
        let others =
            self.others.iter().filter_map(|(name, other)| Some((name.as_str(), other.agent.as_ref().ok()?)));
        std::iter::once((self.name.as_str(), &self.usual)).chain(others)
    }

    /// Returns the named agent as configured; the usual one if no name is given.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Conflict`] if the agent cannot be used.
    pub(crate) fn named(&self, name: Option<&str>) -> Result<&Arc<Agent>, SessionError> {
        let Some(name) = name.filter(|name| *name != self.name) else { return Ok(&self.usual) };
        let other = self.others.get(name).ok_or_else(|| SessionError::NotFound(format!("agent `{name}`")))?;
        let agent = other.agent.as_ref();
        agent.map_err(|why| SessionError::Conflict(format!("the agent `{name}` cannot be used: {why}")))
    }

    /// Returns the agent of a choice, with the chosen model.
    ///
    /// # Errors
    /// The errors of [`AgentRegistry::named`], for the agent and for the model.
    pub(crate) async fn resolve_choice(&self, choice: &ModelChoice) -> Result<Agent, SessionError> {
        let agent = self.named(choice.agent.as_deref())?;
        Ok(match choice.model.as_deref() {
            None => Agent::clone(agent),
            Some(model) => agent.with_model(self.find_model(model).await?),
        })
    }

    /// Returns the named model: an agent's, or another of the usual agent's server.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] if there are no other models; [`SessionError::Conflict`] if the model cannot be
    /// called.
    pub(crate) async fn find_model(&self, model: &str) -> Result<ServedModel, SessionError> {
        // Models of agents come first: their server and key may differ from those of the usual agent.
        if let Some((_, agent)) = self.usable().find(|(_, agent)| agent.provider.origin().model == model) {
            return Ok(agent.served());
        }
        let models =
            self.models.as_ref().ok_or_else(|| SessionError::NotFound(format!("model `{model}`")))?;
        tracing::debug!(model, "a model of no agent is named; the server is asked for it");
        let served = models.serve(model).await;
        served.map_err(|why| SessionError::Conflict(format!("the model `{model}` cannot be used: {why}")))
    }

    /// Returns a choice in its stored form, in which the usual agent has no name.
    pub(crate) fn plainly(&self, choice: ModelChoice) -> ModelChoice {
        ModelChoice { agent: choice.agent.filter(|name| *name != self.name), ..choice }
    }

    /// Closes the agents' tools and their telemetry.
    pub(crate) async fn close(&self) {
        for (_, agent) in self.usable() {
            agent.tools.close().await;
        }
        self.usual.telemetry.close().await;
    }
}
