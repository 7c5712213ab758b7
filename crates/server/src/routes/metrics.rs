//! Figures for a monitoring system.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use longhaul_core::run::Status;

use super::sessions::status_name;
use crate::app::App;
use crate::problem::Problem;

/// Figures in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain", description = "The figures")))]
pub(crate) async fn show(State(app): State<App>) -> Result<Response, Problem> {
    let open = app.runtime().opened();
    let records = app.runtime().sessions(usize::MAX >> 1).await?;
    let mut sessions: BTreeMap<&str, u64> = BTreeMap::new();
    let mut queued = 0;
    for record in &records {
        let session = open.iter().find(|session| *session.id() == record.id);
        let at_rest = if record.parked { Status::Parked } else { Status::Idle };
        let status = session.map_or(at_rest, |session| *session.status().borrow());
        *sessions.entry(status_name(status)).or_default() += 1;
        queued += record.queued as u64;
    }
    let text = app.config().counters.text(&sessions, queued);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
