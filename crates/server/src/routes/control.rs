//! The routes for stopping and continuing runs.

use axum::Json;
use axum::extract::State;
use longhaul::session::{CancelPoint, ResumeOutcome, Session};
use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::ids::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::extract::{IdempotencyKey, OptionalJsonBody, PathParams};
use crate::idempotency::{once, run_once_in_session};
use crate::openapi::answer;
use crate::problem::ApiProblem;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = CancelRun)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CancelRunRequestBody {
    #[serde(default)]
    clear_queue: bool,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ResumeRun)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeRunRequestBody {}

/// Cancel the current run
#[utoipa::path(post, path = "/api/sessions/{id}/cancel", operation_id = "cancelRun", tag = "runs", params(("id" = String, Path)), request_body = CancelRunRequestBody,
    responses((status = 200, body = answer::CancelRunResponse, description = "What was stopped.")))]
pub(crate) async fn cancel(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    OptionalJsonBody(how): OptionalJsonBody<CancelRunRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    // No `takes_work` here: a run can also be cancelled while the server is ending.
    let session = app.open(&id).await?;
    let work = {
        let app = app.clone();
        async move { once(&app, &session, key, named(&how), |since| stop(&session, &how, since)).await }
    };
    app.to_end(work).await.map(Json)
}

/// Leaves a cancel for the node that has the session. The record of the request's key makes a repeated request
/// recognisable there.
pub(crate) async fn leave(
    app: &AppState,
    session: &SessionId,
    key: IdempotencyKey,
    body: &[u8],
) -> Result<Value, ApiProblem> {
    // The body comes from the proxy, which has not parsed it.
    let how = if body.iter().all(u8::is_ascii_whitespace) {
        CancelRunRequestBody::default()
    } else {
        serde_json::from_slice(body).map_err(|error| ApiProblem::invalid(error.to_string()))?
    };
    // The session is open at another node, so the request's record is the only thing shared with it.
    run_once_in_session(app, session, key, named(&how), |since| async move {
        if let Some(done) = done(&since) {
            return Ok(done);
        }
        app.runtime().leave_cancel(session, how.clear_queue).await?;
        tracing::info!(%session, clear_queue = how.clear_queue, "a cancel was left for the node that has the session");
        // Only the other node will know how much of the answer was stored.
        Ok(json!({ "ok": true, "cancelled": true, "persisted": null }))
    })
    .await
}

fn named(how: &CancelRunRequestBody) -> String {
    format!("cancel {how:?}")
}

/// Returns the outcome of an earlier cancel request, if the run has ended since.
fn done(since: &[Event]) -> Option<Value> {
    let reason = since.iter().find_map(|event| match event.body {
        EventBody::RunFinished { reason, .. } => Some(reason),
        _ => None,
    })?;
    Some(json!({ "ok": true, "cancelled": reason == RunEnd::Cancelled, "persisted": null }))
}

async fn stop(session: &Session, how: &CancelRunRequestBody, since: Vec<Event>) -> Result<Value, ApiProblem> {
    if let Some(done) = done(&since) {
        return Ok(done);
    }
    let met = session.cancel(how.clear_queue).await?;
    tracing::info!(session = %session.id(), met = ?met, clear_queue = how.clear_queue, "the run was cancelled by request");
    let persisted = match met {
        CancelPoint::PartialAssistant => Value::from("partial_assistant"),
        CancelPoint::ToolsInProgress => Value::from("tools_in_progress"),
        _ => Value::Null,
    };
    Ok(json!({ "ok": true, "cancelled": met != CancelPoint::Idle, "persisted": persisted }))
}

/// Resume a session
#[utoipa::path(post, path = "/api/sessions/{id}/resume", operation_id = "resumeRun", tag = "runs", params(("id" = String, Path)), request_body = ResumeRunRequestBody,
    responses((status = 200, body = answer::ResumeRunResponse, description = "Whether a run was resumed.")))]
pub(crate) async fn resume(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    OptionalJsonBody(ResumeRunRequestBody {}): OptionalJsonBody<ResumeRunRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    app.takes_work()?;
    let session = app.open(&id).await?;
    let work = {
        let app = app.clone();
        async move {
            let mut answer =
                once(&app, &session, key, "resume".to_owned(), |since| go_on(&session, since)).await?;
            // The tools of the run may already work in a folder that its files are not from.
            if let Some(moved) = app.runtime().moved_session(session.id()).await? {
                tracing::warn!(session = %session.id(), "{moved}");
                answer["folderWarning"] = moved.to_string().into();
            }
            Ok(answer)
        }
    };
    app.to_end(work).await.map(Json)
}

/// Retry the model's server at once
///
/// Has an effect only while the session waits for the server (status `waiting_for_server`).
#[utoipa::path(post, path = "/api/sessions/{id}/retry", operation_id = "retryNow", tag = "runs", params(("id" = String, Path)), request_body = ResumeRunRequestBody,
    responses((status = 200, body = answer::RetryRunResponse, description = "Whether an attempt was made at once.")))]
pub(crate) async fn retry(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    OptionalJsonBody(ResumeRunRequestBody {}): OptionalJsonBody<ResumeRunRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&id).await?;
    let work = {
        let app = app.clone();
        // A second retry does no harm, so the events since the first attempt do not matter.
        async move { once(&app, &session, key, "retry".to_owned(), |_since| try_now(&session)).await }
    };
    app.to_end(work).await.map(Json)
}

async fn try_now(session: &Session) -> Result<Value, ApiProblem> {
    let retried = session.retry_now().await?;
    tracing::info!(session = %session.id(), retried, "the model's server is asked again by request");
    Ok(json!({ "ok": true, "sessionId": session.id(), "retried": retried }))
}

async fn go_on(session: &Session, since: Vec<Event>) -> Result<Value, ApiProblem> {
    // The first attempt may have begun the run before its answer was lost. A second resume would find it busy.
    let has_begun = since.iter().any(|event| matches!(event.body, EventBody::RunStarted { .. }));
    let met = if has_begun { ResumeOutcome::Begun } else { session.resume().await? };
    let status = super::sessions::status_name(*session.status().borrow());
    tracing::info!(session = %session.id(), outcome = ?met, status, "the session was told to go on");
    let mut answer = json!({
        "ok": true, "sessionId": session.id(), "status": status, "resumed": met == ResumeOutcome::Begun,
    });
    let reason = match met {
        ResumeOutcome::Begun => return Ok(answer),
        ResumeOutcome::Busy => "A run is going on already; it takes waiting messages at its next step.",
        _ => "No message waits, and the newest one has its answer, or a part of it. Send a message to go on.",
    };
    answer["reason"] = reason.into();
    Ok(answer)
}
