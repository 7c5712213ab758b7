//! The changeable values of open sessions: the settings, and the agent and model of each session.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use longhaul_core::event::{EventBody, ModelChoice};
use longhaul_core::ids::{Millis, SessionId};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{RunRecovery, RunSettings};
use serde_json::{Map, Value};

use super::log::newest_choice;
use super::runtime::{Runtime, RuntimeInner};
use super::{Session, SessionError};
use crate::agent::{Agent, SummaryModel};
use crate::agents::{AgentEntry, AgentRegistry};
use crate::clock::now_ms;
use crate::driver::{AgentBinding, SessionCommand};
use crate::settings::{
    AgentOverrides, EXTRACT, EffectiveSettings, SAME_AGENT, SAME_MODEL, SettingRefusal, SettingsFile,
    SettingsOverrides, TriggerChoice,
};

/// The time at which a switch takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchOutcome {
    /// Now.
    Now,
    /// At the end of the current step.
    AtNextStep,
    /// Never, because the session had the agent and model before.
    Already,
}

/// The reason for unchanged settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A setting is invalid.
    #[error(transparent)]
    Refused(#[from] SettingRefusal),
    /// The settings cannot be stored.
    #[error("the settings cannot be kept: {}", crate::io_error::io_error_text(.0))]
    Io(#[from] std::io::Error),
}

/// The settings in force.
pub(super) struct RuntimeOverrides {
    now: RwLock<CurrentOverrides>,
    file: OnceLock<SettingsFile>,
    /// A lock, shared while a session is opened or switched, so no session misses a change of the settings.
    changing: tokio::sync::RwLock<()>,
}

#[derive(Clone)]
struct CurrentOverrides {
    agent_overrides: Arc<AgentOverrides>,
    /// The usual agent under the settings.
    usual: Arc<Agent>,
    settings: Arc<RunSettings>,
}

impl CurrentOverrides {
    fn of(agent_overrides: AgentOverrides, agents: &AgentRegistry) -> Self {
        let usual = Arc::new(agent_overrides.agent(Agent::clone(agents.usual())));
        Self { agent_overrides: Arc::new(agent_overrides), settings: Arc::new(usual.settings()), usual }
    }
}

impl RuntimeOverrides {
    pub(super) fn of(agents: &AgentRegistry) -> Self {
        let now = RwLock::new(CurrentOverrides::of(AgentOverrides::default(), agents));
        Self { now, file: OnceLock::new(), changing: tokio::sync::RwLock::default() }
    }

    /// Returns a guard against changes of the settings.
    pub(super) async fn hold(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.changing.read().await
    }

    /// Returns the usual agent and the settings of the agent's loop.
    pub(super) fn usual(&self) -> (Arc<Agent>, Arc<RunSettings>) {
        let now = self.now();
        (now.usual, now.settings)
    }

    /// Returns the current overrides. No panic happens while the lock is held.
    fn now(&self) -> CurrentOverrides {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, now: CurrentOverrides) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Runtime {
    /// Returns the agents on offer to sessions, the usual one first.
    #[doc(hidden)]
    pub fn agents(&self) -> Vec<AgentEntry> {
        self.inner.agents.list()
    }

    /// Returns the models open to sessions and settings, without the agents.
    #[doc(hidden)]
    pub async fn models(&self) -> Vec<String> {
        self.inner.agents.models().await.into_iter().collect()
    }

    /// Returns the models of the usual agent's server: the agent's own, and the server's present list.
    #[doc(hidden)]
    pub async fn models_of_usual(&self) -> Vec<String> {
        self.inner.agents.models_of_usual().await.into_iter().collect()
    }

    /// Applies the settings of a file from now on, keeps later changes in the file, and returns the settings. A name
    /// without a model or agent is left out and logged.
    ///
    /// # Errors
    /// The file is damaged or cannot be read. No setting of the file is applied then.
    #[doc(hidden)]
    pub async fn use_settings(&self, file: SettingsFile) -> std::io::Result<SettingsOverrides> {
        // No session may be opened or switched in between: it would keep the earlier settings.
        let _alone = self.inner.overrides.changing.write().await;
        let read = file.read();
        // The file is set before a read error is returned: the next change then replaces the damaged file.
        let _ = self.inner.overrides.file.set(file);
        let mut choices = read?;
        let agent_overrides = loop {
            match AgentOverrides::of(choices.clone(), &self.inner.agents).await {
                Ok(agent_overrides) => break agent_overrides,
                Err(refused) => {
                    tracing::warn!("the settings: {refused}; it is left out");
                    // One unusable name must not discard the other settings: it is removed, and the rest is tried
                    // again.
                    match refused.field.as_str() {
                        "pruningAgent" => choices.pruning_agent = None,
                        _ => choices.summarize_with = None,
                    }
                }
            }
        };
        self.apply_overrides(agent_overrides).await;
        tracing::info!(
            strategy = choices.strategy,
            has_trigger = choices.trigger.is_some(),
            pruning_agent = choices.pruning_agent,
            summarize_with = choices.summarize_with,
            auto_recall = choices.auto_recall,
            "the settings file was read and applies"
        );
        Ok(choices)
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> EffectiveSettings {
        let overrides = &self.inner.overrides;
        overrides.now().agent_overrides.holding(&self.inner.agents.usual().rules, overrides.file.get())
    }

    /// Changes settings. A change is stored first and then sent to every open session, whose next decision follows it.
    /// `null` gives a setting back to the agent file.
    ///
    /// # Errors
    /// [`SettingsError`]; the settings are unchanged then.
    pub async fn change_settings(
        &self,
        change: &Map<String, Value>,
    ) -> Result<EffectiveSettings, SettingsError> {
        let overrides = &self.inner.overrides;
        let _alone = overrides.changing.write().await;
        let choices = overrides.now().agent_overrides.choices.changed(change)?;
        self.check_names(change).await?;
        self.check_trigger(&choices)?;
        let agent_overrides = AgentOverrides::of(choices.clone(), &self.inner.agents).await?;
        // The file is written before the change applies, so that no change is in force which a restart would lose.
        if let Some(file) = overrides.file.get().cloned() {
            // The write waits for the disk, which must not hold up the tasks of this thread.
            let kept = tokio::task::spawn_blocking(move || file.write(&choices)).await;
            kept.map_err(std::io::Error::other)??;
        }
        tracing::info!(
            settings = change.keys().map(String::as_str).collect::<Vec<_>>().join(","),
            open_sessions = self.inner.open_sessions().len(),
            "settings were changed"
        );
        self.apply_overrides(agent_overrides).await;
        Ok(self.settings())
    }

    /// Checks the named agents and models against the configured and listed ones.
    async fn check_names(&self, change: &Map<String, Value>) -> Result<(), SettingRefusal> {
        let agents: Vec<&str> = self.inner.agents.usable().map(|(name, _)| name).collect();
        for (field, own) in [("pruningAgent", &[SAME_AGENT][..]), ("summarizeWith", &[SAME_MODEL, EXTRACT])] {
            let Some(name) = change.get(field).and_then(Value::as_str) else { continue };
            let is_agent = field == "pruningAgent" && agents.contains(&name);
            if own.contains(&name) || is_agent || self.inner.agents.models().await.contains(name) {
                continue;
            }
            let others =
                if field == "pruningAgent" { "an agent or a listed model" } else { "a listed model" };
            let why = format!("is {} or {others}; `{name}` is none", own.join(", "));
            return Err(SettingRefusal { field: field.to_owned(), why });
        }
        Ok(())
    }

    /// Checks that the trigger `planner` is chosen only for `adaptive`, the only strategy with a planner.
    fn check_trigger(&self, choices: &SettingsOverrides) -> Result<(), SettingRefusal> {
        let configured = self.inner.agents.usual().rules.policy.strategy.name();
        let strategy = choices.strategy.as_deref().unwrap_or(configured);
        if choices.trigger == Some(TriggerChoice::Planner) && strategy != "adaptive" {
            let why = format!("has type planner only with adaptive, not with {strategy}");
            return Err(SettingRefusal { field: "trigger".to_owned(), why });
        }
        Ok(())
    }

    /// Returns a function that applies the settings to a policy and to the summary writer, unless the session's model
    /// writes. The function follows later changes, and changes nothing once the runtime is gone.
    #[doc(hidden)]
    pub fn policies(
        &self,
    ) -> impl Fn(&CompactionPolicy, Option<&SummaryModel>) -> (CompactionPolicy, Option<SummaryModel>)
    + Send
    + Sync
    + use<> {
        // The gateway keeps this function. A strong reference would keep the runtime and its store alive.
        let inner = Arc::downgrade(&self.inner);
        move |plain, summariser| match inner.upgrade() {
            Some(inner) => inner.overrides.now().agent_overrides.context(plain, summariser),
            None => (plain.clone(), summariser.cloned()),
        }
    }

    async fn apply_overrides(&self, agent_overrides: AgentOverrides) {
        self.inner.overrides.set(CurrentOverrides::of(agent_overrides, &self.inner.agents));
        let agent_overrides = self.inner.overrides.now().agent_overrides;
        for session in self.inner.open_sessions() {
            // A session that has stopped meanwhile is opened under the new settings.
            // In order, because a switch may be in progress.
            let Ok(choice) = session.inspect_run_in_order(|run| run.history().choice().clone()).await else {
                continue;
            };
            let agents = &self.inner.agents;
            // A chosen agent that no longer exists is represented by the usual one.
            let plain = agents.named(choice.agent.as_deref()).unwrap_or_else(|_| agents.usual());
            let (policy, summariser) = agent_overrides.policy(&plain.rules);
            let policy = Box::new(policy);
            // A session that closes meanwhile reads the settings when it is opened again.
            let _ = session.request(|reply| SessionCommand::Govern { policy, summariser, reply }).await;
        }
    }

    /// Gives a session another agent or model, at once or at the end of the current step. The history stays.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Conflict`] if the agent or model cannot be used;
    /// [`SessionError::Stopped`].
    pub async fn switch(
        &self,
        session: &Session,
        choice: ModelChoice,
    ) -> Result<SwitchOutcome, SessionError> {
        // Without the guard, settings that change after the agent is made would be missing in this session.
        let _settings_stay = self.inner.overrides.hold().await;
        let choice = self.inner.agents.plainly(choice);
        let agent = Arc::new(self.inner.chosen(&choice).await?);
        session.request(|reply| SessionCommand::Switch { choice, agent, reply }).await
    }
}

impl Runtime {
    /// Returns the agent of a session with another possible owner.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub(super) async fn read_agent_binding(&self, id: &SessionId) -> Result<AgentBinding, SessionError> {
        let log = self.log(id).await?;
        let binding = self.inner.resolve_agent_binding(newest_choice(&log)).await;
        binding.warn(id);
        Ok(binding)
    }
}

impl RuntimeInner {
    /// Returns the agent of a choice under the settings in force.
    async fn chosen(&self, choice: &ModelChoice) -> Result<Agent, SessionError> {
        Ok(self.overrides.now().agent_overrides.agent(self.agents.resolve_choice(choice).await?))
    }

    /// Returns the agent for a session's newest choice. If the chosen agent is unavailable, the usual agent holds the
    /// session and answers nothing.
    pub(super) async fn resolve_agent_binding(&self, choice: Option<&ModelChoice>) -> AgentBinding {
        // A program with a single agent uses it for every session, whatever an earlier program chose.
        let Some(choice) = choice.filter(|_| !self.agents.is_only()) else {
            return AgentBinding { agent: self.usual_agent(), missing: None };
        };
        match self.chosen(choice).await {
            Ok(agent) => {
                AgentBinding { agent: Arc::new(agent).calibrated().with_deferral_decided(), missing: None }
            }
            Err(error) => {
                let mut agent = Agent::clone(&self.overrides.usual().0);
                // The substitute must not continue a run that the missing agent began.
                agent.rules.recovery = RunRecovery::Rest;
                AgentBinding { agent: Arc::new(agent), missing: Some(error.to_string()) }
            }
        }
    }

    /// Returns the first events of a new session with an agent.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Conflict`] if the agent cannot be used.
    pub(super) fn beginning(
        &self,
        title: Option<String>,
        agent: Option<&str>,
    ) -> Result<Vec<(Millis, EventBody)>, SessionError> {
        let now = now_ms();
        let named = self.agents.named(agent)?;
        // A path that is not Unicode has no form in the log, so such a session gets no warning.
        let folder = named.workspace.root().to_str().map(str::to_owned);
        let begun = EventBody::SessionStarted { title, forked_from: None, imported_from: None, folder };
        let mut events = vec![(now, begun)];
        let to = named.provider.origin();
        let choice = self.agents.plainly(ModelChoice { agent: agent.map(str::to_owned), model: None });
        // The usual agent is stored as no choice: a session without a choice follows later changes of the file.
        if choice != ModelChoice::default() {
            events.push((now, EventBody::ModelSwitched { to, choice: Some(choice) }));
        }
        Ok(events)
    }
}
