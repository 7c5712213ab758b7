//! The route of models: the present one, and the model servers on this machine.

use axum::Json;
use axum::extract::State;
use longhaul_core::message::ModelOrigin;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::AppState;
use crate::host_info::ModelBackend;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Models)]
pub(crate) struct ModelListResponse {
    current: CurrentModel,
    /// The model servers that answer on this machine.
    backends: Vec<ModelBackend>,
    /// `true` if the current model is the scripted model of the demo.
    demo: bool,
    /// The folder that the agent's tools work in.
    workspace: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CurrentModel)]
struct CurrentModel {
    provider: String,
    model: String,
    /// The context window in tokens, if it is known.
    #[schema(required)]
    window: Option<u64>,
}

/// List the models and the model servers of this machine
#[utoipa::path(get, path = "/api/models", operation_id = "listModels", tag = "server",  
    responses((status = 200, body = ModelListResponse, description = "The models")))]
pub(crate) async fn list(State(app): State<AppState>) -> Json<ModelListResponse> {
    let surroundings = &app.config().surroundings;
    let backends = surroundings.backends().await;
    let agent = app.runtime().agent();
    let ModelOrigin { provider, model, .. } = agent.provider.origin();
    let current = CurrentModel { provider, model, window: agent.window().map(|(tokens, _)| tokens) };
    let workspace = agent.workspace.root().display().to_string();
    Json(ModelListResponse { current, backends, demo: surroundings.is_demo(), workspace })
}
