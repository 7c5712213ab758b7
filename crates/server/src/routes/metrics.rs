//! The metrics for a monitoring system.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use longhaul_core::run::RunStatus;
use longhaul_store::SessionCounts;

use super::sessions::status_name;
use crate::app::AppState;
use crate::problem::ApiProblem;

/// Get metrics in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain", description = "The figures")))]
pub(crate) async fn show(State(app): State<AppState>) -> Result<Response, ApiProblem> {
    let open: Vec<RunStatus> =
        app.runtime().opened().iter().map(|session| *session.status().borrow()).collect();
    // The database counts, because listing all sessions for each scrape would grow with the store.
    let counts = app.runtime().store().session_counts().await?;
    let (sessions, queued) = (by_status(&open, &counts), counts.queued);
    let text = app.config().counters.text(&sessions, queued);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Returns the number of sessions by status. Closed sessions are parked or idle, counted by the database.
fn by_status(open: &[RunStatus], counts: &SessionCounts) -> BTreeMap<&'static str, u64> {
    let mut sessions: BTreeMap<&str, u64> = BTreeMap::new();
    open.iter().for_each(|status| *sessions.entry(status_name(*status)).or_default() += 1);
    // Open sessions are counted by their own status, so they are subtracted from the database's counts.
    let open_parked = open.iter().filter(|status| **status == RunStatus::Parked).count() as u64;
    // The open sessions and the database's counts are read at different moments and may contradict each other.
    let at_rest = counts.sessions.saturating_sub(open.len() as u64);
    let parked = counts.parked.saturating_sub(open_parked).min(at_rest);
    for (status, count) in [(RunStatus::Parked, parked), (RunStatus::Idle, at_rest - parked)] {
        if count > 0 {
            *sessions.entry(status_name(status)).or_default() += count;
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use longhaul_core::run::RunStatus;
    use longhaul_store::SessionCounts;

    use super::by_status;

    #[test]
    fn sessions_that_are_not_open_are_counted_by_the_database() {
        let counts = SessionCounts { sessions: 10_000, parked: 3, queued: 0 };
        let open = [RunStatus::Streaming, RunStatus::Parked, RunStatus::Idle];
        let expected = [("idle", 9_996), ("parked", 3), ("streaming", 1)];
        assert_eq!(by_status(&open, &counts).into_iter().collect::<Vec<_>>(), expected);
        // One was opened after the count, or deleted before it.
        let counts = SessionCounts { sessions: 1, ..counts };
        assert_eq!(by_status(&open, &counts).values().sum::<u64>(), 3);
    }
}
