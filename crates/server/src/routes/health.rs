//! The health checks: one for the process, one for its ability to work. Both need no token and reveal nothing else.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul_core::error::ErrorCode;
use longhaul_store::{NodeStatus, StoreError};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::openapi::answer;
use crate::problem::{ApiProblem, ENDING, ENDING_HERE};

/// Check whether the server is running
#[utoipa::path(get, path = "/healthz", operation_id = "getHealth", tag = "server",  
    responses((status = 200, body = answer::HealthResponse, description = "The server is running.")))]
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Check whether the server is ready
#[utoipa::path(get, path = "/readyz", operation_id = "getReadiness", tag = "server",  
    responses((status = 200, body = answer::HealthResponse, description = "The server can accept work.")))]
pub(crate) async fn ready(State(app): State<AppState>) -> Result<Json<Value>, ApiProblem> {
    if app.is_draining() {
        let ending = if app.runtime().nodes().is_some() { ENDING_HERE } else { ENDING };
        return Err(not_ready(ErrorCode::Interrupted, ending));
    }
    if app.runtime().nodes().is_some_and(|nodes| *nodes.standing().borrow() == NodeStatus::Fenced) {
        return Err(not_ready(
            ErrorCode::Storage,
            "This node has lost the database: others take its sessions over.",
        ));
    }
    // One short read shows that the database answers.
    app.runtime().sessions(1).await.map_err(|error| {
        tracing::error!(%error, "not ready");
        not_ready(ErrorCode::Storage, "The store does not answer.")
    })?;
    app.runtime().store().check_writable().await.map_err(|error| {
        tracing::error!(%error, "not ready to write");
        // Anybody may read this answer. The store's own words may name paths, so they only go to the log.
        let why = match error {
            StoreError::Storage(why) if why.contains("the disk is full") => "its disk is full",
            StoreError::Storage(why) if why.contains("the file system is read-only") => {
                "its file system is read-only"
            }
            _ => "its disk cannot be written; the server's log says why",
        };
        not_ready(ErrorCode::Storage, &format!("The store can only be read: {why}."))
    })?;
    Ok(Json(json!({ "status": "ready" })))
}

fn not_ready(code: ErrorCode, detail: &str) -> ApiProblem {
    ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
}
