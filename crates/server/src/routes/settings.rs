//! The settings for changes at run time: a few scalars with precedence over the agent file. Commands,
//! addresses, names of keys and approval rules can never be changed.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::agents::AgentEntry;
use longhaul::session::SettingsError;
use longhaul::settings::{EXTRACT, EffectiveSettings, SAME_AGENT, SAME_MODEL, SettingSource};
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::error::ErrorCode;
use longhaul_core::strategy;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::extract::JsonBody;
use crate::problem::{ApiProblem, sentence};

/// The current settings.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Settings)]
pub(crate) struct SettingsResponse {
    strategy: String,
    /// The trigger, or `null` for the strategy's own.
    #[schema(required, value_type = Option<SettingsTrigger>)]
    trigger: Value,
    pruning_agent: String,
    auto_recall: bool,
    summarize_with: String,
    /// The names of all strategies.
    strategies: Vec<&'static str>,
    sources: SettingSources,
    allowed: AllowedSettings,
}

/// The values to choose from: strategies and triggers by name, agents and models by `value`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingsAllowed)]
#[serde(rename_all = "camelCase")]
struct AllowedSettings {
    strategy: Vec<&'static str>,
    /// A trigger by name. `none` means the strategy's own trigger.
    trigger: Vec<&'static str>,
    pruning_agent: Vec<SettingOption>,
    auto_recall: Vec<bool>,
    summarize_with: Vec<SettingOption>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AllowedName)]
struct SettingOption {
    value: String,
    label: String,
}

/// The source of each value: `default`, `agent-file` or `settings`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingsSources)]
#[serde(rename_all = "camelCase")]
struct SettingSources {
    strategy: &'static str,
    trigger: &'static str,
    pruning_agent: &'static str,
    auto_recall: &'static str,
    summarize_with: &'static str,
}

/// The trigger of a strategy.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape that is described, never held")]
pub(crate) struct SettingsTrigger {
    /// `threshold` (the default), or `overflow`, `planner` or `manual`, which take no number.
    r#type: Option<String>,
    /// A share of the window, above 0 and at most 1.
    percentage: Option<f64>,
    trigger_tokens: Option<u64>,
}

/// The settings to change. An absent key keeps its value, and `null` returns it to the agent file.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape that is described, never held")]
pub(crate) struct SettingsChange {
    strategy: Option<String>,
    trigger: Option<SettingsTrigger>,
    /// `__same__`, an agent or a model.
    pruning_agent: Option<String>,
    auto_recall: Option<bool>,
    /// `same`, `extract` or a model.
    summarize_with: Option<String>,
}

/// Get the current settings and their sources
#[utoipa::path(get, path = "/api/settings", operation_id = "getSettings", tag = "settings",
    responses((status = 200, body = SettingsResponse, description = "The settings")))]
pub(crate) async fn show(State(app): State<AppState>) -> Json<SettingsResponse> {
    Json(shown(&app, app.runtime().settings()).await)
}

/// Change settings of all sessions from their next decision on
#[utoipa::path(put, path = "/api/settings", operation_id = "changeSettings", tag = "settings",
    request_body = SettingsChange,
    responses((status = 200, body = SettingsResponse, description = "The new settings.")))]
pub(crate) async fn change(
    State(app): State<AppState>,
    JsonBody(change): JsonBody<Map<String, Value>>,
) -> Result<Json<SettingsResponse>, ApiProblem> {
    // Only the names are logged. The map itself moves into the work.
    let changed: Vec<String> = change.keys().cloned().collect();
    // The change was read as a map, because a missing field and `null` mean different things.
    let work = {
        let app = app.clone();
        async move { app.runtime().change_settings(&change).await.map_err(ApiProblem::from) }
    };
    let holding = app.to_end(work).await?;
    tracing::info!(?changed, "settings were changed");
    Ok(Json(shown(&app, holding).await))
}

impl From<SettingsError> for ApiProblem {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::Refused(refused) => Self::invalid(sentence(&refused.to_string())),
            error => {
                tracing::error!(%error, "settings");
                let detail = "The settings cannot be kept; the server's log says why.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Storage, detail)
            }
        }
    }
}

async fn shown(app: &AppState, holding: EffectiveSettings) -> SettingsResponse {
    let agents = app.runtime().agents();
    let models = app.runtime().models().await;
    let EffectiveSettings { strategy, trigger, pruning_agent, auto_recall, summarize_with } = holding;
    SettingsResponse {
        sources: SettingSources {
            strategy: named(strategy.1),
            trigger: named(trigger.1),
            pruning_agent: named(pruning_agent.1),
            auto_recall: named(auto_recall.1),
            summarize_with: named(summarize_with.1),
        },
        allowed: AllowedSettings {
            strategy: strategy::NAMES.to_vec(),
            trigger: vec!["none", "percentage", "triggerTokens", "overflow", "planner", "manual"],
            pruning_agent: with(&pruning_agent.0, pruners(&agents, &models)),
            auto_recall: vec![false, true],
            summarize_with: with(&summarize_with.0, writers(&models)),
        },
        strategy: strategy.0,
        trigger: trigger.0.map_or(Value::Null, of_trigger),
        pruning_agent: pruning_agent.0,
        auto_recall: auto_recall.0,
        summarize_with: summarize_with.0,
        strategies: strategy::NAMES.to_vec(),
    }
}

fn of_trigger(trigger: StrategyTrigger) -> Value {
    match trigger {
        StrategyTrigger::Share(share) => json!({ "type": "threshold", "percentage": share }),
        StrategyTrigger::Tokens(tokens) => json!({ "type": "threshold", "triggerTokens": tokens }),
        StrategyTrigger::Overflow => json!({ "type": "overflow" }),
        StrategyTrigger::Manual => json!({ "type": "manual" }),
        // What has no figure is left to the planner.
        _ => json!({ "type": "planner" }),
    }
}

fn named(source: SettingSource) -> &'static str {
    match source {
        SettingSource::Default => "default",
        SettingSource::AgentFile => "agent-file",
        SettingSource::Settings => "settings",
    }
}

fn name(value: &str, label: &str) -> SettingOption {
    SettingOption { value: value.to_owned(), label: label.to_owned() }
}

/// Adds the present value if missing from the list.
fn with(holding: &str, mut names: Vec<SettingOption>) -> Vec<SettingOption> {
    // A server may be down just now. The page must still show the value that is set.
    if names.iter().all(|name| name.value != holding) {
        names.push(name(holding, holding));
    }
    names
}

fn pruners(agents: &[AgentEntry], models: &[String]) -> Vec<SettingOption> {
    let mut names = vec![name(SAME_AGENT, "Same as current agent (default)")];
    let usable = agents.iter().filter(|agent| agent.why.is_none());
    names.extend(usable.map(|agent| name(&agent.name, &format!("{} ({})", agent.name, agent.model))));
    // An agent precedes a model of the same name.
    let others = models.iter().filter(|model| agents.iter().all(|agent| agent.name != **model));
    names.extend(others.map(|model| name(model, model)));
    names
}

fn writers(models: &[String]) -> Vec<SettingOption> {
    let mut names = vec![name(SAME_MODEL, "The session's model"), name(EXTRACT, "No model: an extract")];
    names.extend(models.iter().map(|model| name(model, model)));
    names
}
