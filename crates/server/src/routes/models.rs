//! Which model answers, and which others are here.

use axum::Json;
use axum::extract::State;
use longhaul_core::message::Origin;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::surroundings::Backend;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Models {
    current: Current,
    /// Servers of this machine that answer.
    backends: Vec<Backend>,
    /// Whether the current model is the scripted one of the demo.
    demo: bool,
    /// The folder that the agent's tools work in.
    workspace: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CurrentModel)]
struct Current {
    provider: String,
    model: String,
    /// Its window in tokens, where somebody states it.
    #[schema(required)]
    window: Option<u64>,
}

/// Which model answers, and which servers are here
#[utoipa::path(get, path = "/api/models", operation_id = "listModels", tag = "server",  
    responses((status = 200, body = Models, description = "The models")))]
pub(crate) async fn list(State(app): State<App>) -> Json<Models> {
    let surroundings = &app.config().surroundings;
    let backends = surroundings.backends().await;
    let agent = app.runtime().agent();
    let Origin { provider, model, .. } = agent.provider.origin();
    let current = Current { provider, model, window: agent.window().map(|(tokens, _)| tokens) };
    let workspace = agent.workspace.root().display().to_string();
    Json(Models { current, backends, demo: surroundings.is_demo(), workspace })
}
