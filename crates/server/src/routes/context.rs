//! How full the window is.

use axum::Json;
use axum::extract::State;
use longhaul::context::ContextReport;

use crate::app::{App, Readable};
use crate::extract::Named;
use crate::openapi::answer;
use crate::problem::Problem;

/// What fills the window
#[utoipa::path(get, path = "/api/sessions/{id}/context", operation_id = "getContext", tag = "context", params(("id" = String, Path)), 
    responses((status = 200, body = answer::Context, description = "The meter")))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Json<ContextReport>, Problem> {
    Ok(Json(match app.open_or_read(&id).await? {
        Readable::Open(session) => session.context().await?,
        Readable::Stored(run) => app.runtime().context(&run),
    }))
}
