//! The route of configured agents.

use axum::Json;
use axum::extract::State;
use longhaul::agents::AgentEntry;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::AppState;
use crate::problem::{ApiProblem, sentence};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agents)]
pub(crate) struct AgentListResponse {
    /// The agents, the default one first.
    agents: Vec<AgentListEntry>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentBrief)]
struct AgentListEntry {
    name: String,
    /// The configured model of the agent.
    model: String,
    /// `true` for the default agent.
    is_default: bool,
    usable: bool,
    /// The reason why the agent cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// List the configured agents
#[utoipa::path(get, path = "/api/agents", operation_id = "listAgents", tag = "server",
    responses((status = 200, body = AgentListResponse, description = "The agents")))]
pub(crate) async fn list(State(app): State<AppState>) -> Json<AgentListResponse> {
    Json(AgentListResponse { agents: app.runtime().agents().into_iter().map(brief).collect() })
}

fn brief(agent: AgentEntry) -> AgentListEntry {
    let AgentEntry { name, model, is_default, why } = agent;
    AgentListEntry { name, model, is_default, usable: why.is_none(), why }
}

/// Refuses an unconfigured or unusable agent.
///
/// # Errors
/// `invalid-request`; `conflict`, with the reason.
pub(crate) fn check(app: &AppState, name: Option<&str>) -> Result<(), ApiProblem> {
    let Some(name) = name else { return Ok(()) };
    match app.runtime().agents().into_iter().find(|agent| agent.name == name) {
        None => Err(ApiProblem::invalid("`agent` is not the name of a configured agent.")),
        Some(AgentEntry { why: Some(why), .. }) => {
            Err(ApiProblem::conflict(sentence(&format!("the agent `{name}` cannot be used: {why}"))))
        }
        Some(_) => Ok(()),
    }
}
