//! How full the window is.

use axum::Json;
use axum::extract::State;
use longhaul::context::ContextReport;

use crate::app::App;
use crate::extract::Named;
use crate::problem::Problem;

pub(super) async fn show(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Json<ContextReport>, Problem> {
    let session = app.open(&id).await?;
    Ok(Json(session.context().await?))
}
