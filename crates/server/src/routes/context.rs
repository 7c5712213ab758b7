//! The route of the context window's usage.

use axum::Json;
use axum::extract::State;
use longhaul::context::ContextReport;

use crate::app::{AppState, ReadableSession};
use crate::extract::PathParams;
use crate::openapi::answer;
use crate::problem::ApiProblem;

/// Get the use of the context window
#[utoipa::path(get, path = "/api/sessions/{id}/context", operation_id = "getContext", tag = "context", params(("id" = String, Path)), 
    responses((status = 200, body = answer::ContextUsageResponse, description = "The meter")))]
pub(crate) async fn show(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<ContextReport>, ApiProblem> {
    Ok(Json(match app.open_or_read(&id).await? {
        ReadableSession::Open(session) => session.context().await?,
        ReadableSession::Stored(run) => app.runtime().context(&run),
    }))
}
