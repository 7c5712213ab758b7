//! The routes of sessions: create, list, show, rename, fork, delete.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use longhaul::api_events::{self, GO_ON, token_usage};
use longhaul::session::{MovedSession, Session};
use longhaul_core::event::EventBody;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::run::{Run, RunStatus, ServerWait};
use longhaul_store::{SessionRecord, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::agents;
use crate::app::{AppState, ReadableSession};
use crate::cluster_proxy;
use crate::error_messages::is_blank;
use crate::extract::{IdempotencyKey, JsonBody, OptionalJsonBody, PathParams, QueryParams};
use crate::idempotency;
use crate::openapi::answer;
use crate::problem::ApiProblem;
use crate::run_outcomes::RunEndRecord;

/// The default and the maximum number of listed sessions.
const LISTED: usize = 50;
const MOST_LISTED: usize = 1_000;

/// The maximum length of a title, in characters.
const TITLE_CHARS: usize = 200;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewSession)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSessionRequestBody {
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// The name of a configured agent. Without it, the default agent.
    agent: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RenameSession)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameSessionRequestBody {
    #[schema(min_length = 1, max_length = 200)]
    title: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ForkSession)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ForkSessionRequestBody {
    #[schema(value_type = Option<u64>, minimum = 1)]
    at_seq: Option<Seq>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionListParams {
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// Create a session
#[utoipa::path(post, path = "/api/sessions", operation_id = "createSession", tag = "sessions",  request_body = CreateSessionRequestBody,
    responses(
        (status = 201, body = answer::SessionResponse, description = "Made"),
        (status = 409, body = answer::ProblemDocument, content_type = "application/problem+json", description = "The agent cannot be used."),
    ))]
pub(crate) async fn create(
    State(app): State<AppState>,
    key: IdempotencyKey,
    OptionalJsonBody(new): OptionalJsonBody<CreateSessionRequestBody>,
) -> Result<(StatusCode, Json<Value>), ApiProblem> {
    app.takes_work()?;
    let title = new.title.map(|title| checked(&title)).transpose()?;
    agents::check(&app, new.agent.as_deref())?;
    let work = {
        let app = app.clone();
        async move {
            let session = match key.session_id("session") {
                // The id follows from the key, so a repeated request finds its session.
                Some(id) => create_once(&app, id, title, new.agent).await?,
                None => app.runtime().create_in(title, new.agent.as_deref()).await?,
            };
            whole(&app, &session).await
        }
    };
    Ok((StatusCode::CREATED, Json(app.to_end(work).await?)))
}

async fn create_once(
    app: &AppState,
    id: SessionId,
    title: Option<String>,
    agent: Option<String>,
) -> Result<Session, ApiProblem> {
    let agent = agent.as_deref();
    // The fingerprint without an agent equals that of versions before there were agents, so their keys still match.
    let named = agent.map(|agent| format!(" {agent:?}")).unwrap_or_default();
    let what = format!("session {title:?}{named}");
    let create = async { Ok(app.runtime().create_as_in(id.clone(), title, agent).await?) };
    idempotency::made(app, &id, &what, create).await
}

/// List sessions, the most recently changed first
#[utoipa::path(get, path = "/api/sessions", operation_id = "listSessions", tag = "sessions", params(SessionListParams), 
    responses((status = 200, body = answer::SessionListResponse, description = "The sessions")))]
pub(crate) async fn list(
    State(app): State<AppState>,
    QueryParams(listing): QueryParams<SessionListParams>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiProblem> {
    if listing.limit == Some(0) {
        return Err(ApiProblem::invalid("`limit` must be at least 1, not 0."));
    }
    let limit = listing.limit.unwrap_or(LISTED).min(MOST_LISTED);
    // Asked before the records are read: a session that opens in between is then seen as its record says.
    let open = app.runtime().opened();
    // Another node asks only for what runs here. Asking further nodes would never end.
    if cluster_proxy::is_sent_on(&headers) {
        return Ok(Json(json!({ "sessions": working(&open) })));
    }
    let elsewhere = cluster_proxy::working(&app).await;
    let records = app.runtime().sessions(limit).await?;
    let mut sessions = Vec::with_capacity(records.len());
    for record in records {
        let session = open.iter().find(|session| *session.id() == record.id);
        let (record, status) = match session {
            Some(session) => opened(&app, session, record).await?,
            None => {
                let told = elsewhere.get(record.id.as_str()).and_then(|name| status_of(name));
                let status = told.unwrap_or_else(|| unopened(&app, &record));
                (record, status)
            }
        };
        let mut shown = brief(&record, status);
        // A run in progress has no end yet, and the one before it would mislead.
        if is_at_rest(status) {
            // Only a session at rest has an end. That of a busy one would be of the run before.
            ended(&mut shown, app.ends().of(app.runtime().store(), &record).await?.as_ref());
        }
        sessions.push(shown);
    }
    Ok(Json(json!({ "sessions": sessions })))
}

/// Returns the active sessions of this node, for another node.
fn working(open: &[Session]) -> Vec<Value> {
    let statuses = open.iter().map(|session| (session.id(), *session.status().borrow()));
    let working = statuses.filter(|(_, status)| !is_at_rest(*status));
    working.map(|(id, status)| json!({ "id": id, "status": status_name(status) })).collect()
}

/// The number of reads for a session whose run ended or began in the meantime.
const LOOKS: usize = 3;

/// Returns a consistent pair of record and status: a run's end between two reads would appear as neither.
async fn opened(
    app: &AppState,
    session: &Session,
    mut record: SessionRecord,
) -> Result<(SessionRecord, RunStatus), ApiProblem> {
    for _ in 0..LOOKS {
        let status = *session.status().borrow();
        // At rest with a run in the record means that the run ended between the two reads.
        if !(is_at_rest(status) && record.running) {
            return Ok((record, status));
        }
        record = match app.runtime().store().session(session.id()).await {
            Ok(record) => record,
            // The session was deleted after it was listed.
            Err(StoreError::NotFound(_)) => return Ok((record, status)),
            Err(error) => return Err(error.into()),
        };
    }
    // The reads never agreed, so the session is busy.
    Ok((record, RunStatus::Streaming))
}

fn is_at_rest(status: RunStatus) -> bool {
    matches!(status, RunStatus::Idle | RunStatus::Parked)
}

/// Returns the status of a session without a node's report. A silent node may be running the session.
fn unopened(app: &AppState, record: &SessionRecord) -> RunStatus {
    if record.parked {
        RunStatus::Parked
    // Without other nodes a run in the record was killed, because this process would know of one of its own.
    } else if record.running && app.runtime().nodes().is_some() {
        RunStatus::Streaming
    } else {
        RunStatus::Idle
    }
}

/// Get a session
#[utoipa::path(get, path = "/api/sessions/{id}", operation_id = "getSession", tag = "sessions", params(("id" = String, Path)), 
    responses((status = 200, body = answer::SessionResponse, description = "The session")))]
pub(crate) async fn show(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiProblem> {
    match app.open_or_read(&id).await {
        Ok(ReadableSession::Open(session)) => whole(&app, &session).await.map(Json),
        Ok(ReadableSession::Stored(run)) => {
            described(&app, &id.into(), glimpse(&run, run.status()), None).await.map(Json)
        }
        Err(problem) if problem.is_damage() => damaged(&app, &id.into(), &problem).await.map(Json),
        Err(problem) => Err(problem),
    }
}

/// Returns the readable part of a damaged session: the record, the events before the damage, and the end of the
/// newest run.
async fn damaged(app: &AppState, id: &SessionId, problem: &ApiProblem) -> Result<Value, ApiProblem> {
    let found = app.runtime().store().read_undamaged(id, 0, usize::MAX).await?;
    // Behind the damage the state is unknown: later events build on the lost one.
    let first = found.damaged.first().copied().unwrap_or(Seq::MAX);
    tracing::info!(
        session = %id,
        damaged = found.damaged.len(),
        first,
        readable = found.events.len(),
        "the session's log is damaged: what comes before the damage is shown"
    );
    let beginning = found.events.into_iter().take_while(|event| event.seq < first).collect();
    let run = app.runtime().glance_at(id, beginning).await?;
    // Nothing runs in a session that cannot be opened.
    let seen = SessionActivity { status: RunStatus::Idle, ..glimpse(&run, RunStatus::Idle) };
    let mut shown = described(app, id, seen, None).await?;
    shown["damaged"] = json!(found.damaged);
    shown["error"] = problem.named();
    Ok(shown)
}

/// Rename a session
#[utoipa::path(patch, path = "/api/sessions/{id}", operation_id = "renameSession", tag = "sessions", params(("id" = String, Path)), request_body = RenameSessionRequestBody,
    responses((status = 200, body = answer::SessionResponse, description = "Renamed")))]
pub(crate) async fn rename(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    JsonBody(change): JsonBody<RenameSessionRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    let title = checked(&change.title)?;
    let session = app.open(&id).await?;
    session.rename(title).await?;
    whole(&app, &session).await.map(Json)
}

/// Delete a session for good
#[utoipa::path(delete, path = "/api/sessions/{id}", operation_id = "deleteSession", tag = "sessions", params(("id" = String, Path)), 
    responses((status = 200, body = answer::SessionDeletedResponse, description = "Deleted")))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiProblem> {
    let work = {
        let app = app.clone();
        async move {
            let id = SessionId::from(id);
            app.runtime().delete(&id).await?;
            tracing::info!(session = %id, "the session was deleted by request");
            // The session's blobs are unnamed now, and the maintenance removes them soon.
            app.deletions().note();
            Ok(json!({ "ok": true, "id": id }))
        }
    };
    app.to_end(work).await.map(Json)
}

/// Fork a session at a position of its log
#[utoipa::path(post, path = "/api/sessions/{id}/fork", operation_id = "forkSession", tag = "sessions", params(("id" = String, Path)), request_body = ForkSessionRequestBody,
    responses((status = 201, body = answer::SessionResponse, description = "Made")))]
pub(crate) async fn fork(
    State(app): State<AppState>,
    key: IdempotencyKey,
    PathParams(id): PathParams<String>,
    OptionalJsonBody(fork): OptionalJsonBody<ForkSessionRequestBody>,
) -> Result<(StatusCode, Json<Value>), ApiProblem> {
    app.takes_work()?;
    let work = {
        let app = app.clone();
        async move {
            let id = SessionId::from(id);
            // The origin is part of the name, so one key can fork several sessions.
            let session = match key.session_id(&format!("fork {id}")) {
                Some(fork_id) => fork_once(&app, fork_id, &id, fork.at_seq).await?,
                None => app.runtime().fork(&id, position(&app, &id, fork.at_seq).await?).await?,
            };
            tracing::info!(session = %session.id(), origin = %id, at_seq = fork.at_seq, "the session was forked");
            let mut shown = whole(&app, &session).await?;
            shown["forkedFrom"] = origin(&app, session.id()).await?;
            Ok(shown)
        }
    };
    Ok((StatusCode::CREATED, Json(app.to_end(work).await?)))
}

/// Returns the fork, creating it on the first request. An existing fork stays, whatever became of its origin.
async fn fork_once(
    app: &AppState,
    fork_id: SessionId,
    id: &SessionId,
    at_seq: Option<Seq>,
) -> Result<Session, ApiProblem> {
    let fork = async {
        match app.runtime().store().session(&fork_id).await {
            Ok(_) => Ok(app.runtime().open(&fork_id).await?),
            Err(StoreError::NotFound(_)) => {
                let at_seq = position(app, id, at_seq).await?;
                Ok(app.runtime().fork_as(fork_id.clone(), id, at_seq).await?)
            }
            Err(error) => Err(error.into()),
        }
    };
    idempotency::made(app, &fork_id, &format!("fork {at_seq:?}"), fork).await
}

/// Returns the requested position, or the newest one.
async fn position(app: &AppState, id: &SessionId, at_seq: Option<Seq>) -> Result<Seq, ApiProblem> {
    let newest = app.runtime().store().session(id).await?.last_seq;
    Ok(at_seq.unwrap_or(newest))
}

/// Returns the origin of a fork, from the log.
async fn origin(app: &AppState, fork_id: &SessionId) -> Result<Value, ApiProblem> {
    // The first event of a log names its origin.
    let first = app.runtime().store().read(fork_id, 0, 1).await?;
    Ok(match first.first().map(|event| &event.body) {
        Some(EventBody::SessionStarted { forked_from: Some(from), .. }) => {
            json!({ "sessionId": from.session_id, "atSeq": from.at_seq })
        }
        _ => Value::Null,
    })
}

fn checked(title: &str) -> Result<String, ApiProblem> {
    let title = title.trim();
    // Titles are printed in terminals, where control characters are commands.
    if is_blank(title) || title.chars().count() > TITLE_CHARS || title.chars().any(char::is_control) {
        return Err(ApiProblem::invalid(format!("A title must have 1 to {TITLE_CHARS} visible characters.")));
    }
    Ok(title.to_owned())
}

/// Returns the facts of a session known without opening.
fn brief(record: &SessionRecord, status: RunStatus) -> Value {
    json!({
        "id": record.id, "title": record.title, "createdAt": record.created_at, "updatedAt": record.updated_at,
        "lastSeq": record.last_seq, "queued": record.queued, "status": status_name(status),
    })
}

/// Adds the end of the newest run, with the error of a failure.
fn ended(shown: &mut Value, end: Option<&RunEndRecord>) {
    let Some(end) = end else { return };
    shown["lastFinishReason"] = json!(end.reason);
    if let Some(error) = &end.error {
        shown["lastError"] = json!(error);
    }
}

async fn whole(app: &AppState, session: &Session) -> Result<Value, ApiProblem> {
    // One read gives a consistent picture, even if the run ends right after it.
    let seen = session.inspect_run_and_status(glimpse).await?;
    let waiting = seen.waiting.as_ref().map(|wait| api_events::waiting(wait, session.next_attempt_at()));
    described(app, session.id(), seen, waiting).await
}

/// The shown facts of a run.
struct SessionActivity {
    status: RunStatus,
    facts: Vec<(&'static str, Value)>,
    agent: Option<String>,
    waiting: Option<ServerWait>,
}

fn glimpse(run: &Run, status: RunStatus) -> SessionActivity {
    let agent = run.history().choice().agent.clone();
    SessionActivity { status, facts: of_run(run), agent, waiting: run.waiting().cloned() }
}

async fn described(
    app: &AppState,
    id: &SessionId,
    seen: SessionActivity,
    waiting: Option<Value>,
) -> Result<Value, ApiProblem> {
    let SessionActivity { status, facts: mut more, agent: chosen, .. } = seen;
    more.extend(waiting.map(|waiting| ("waiting", waiting)));
    more.push(("agent", chosen.or_else(|| app.default_agent()).into()));
    let record = app.runtime().store().session(id).await?;
    let mut shown = brief(&record, status);
    if is_at_rest(status) {
        ended(&mut shown, app.ends().of(app.runtime().store(), &record).await?.as_ref());
    }
    // A damaged first event is told where the log is read.
    if let Some(begun_in) = app.runtime().origin_folder(id).await.ok().flatten() {
        let moved = MovedSession::compare(&begun_in, app.runtime().agent().workspace.root());
        shown["folder"] = begun_in.to_string_lossy().into();
        more.extend(moved.map(|moved| ("folderWarning", moved.to_string().into())));
    }
    // Facts of the open session come last and replace those of the record, which may be older.
    for (key, value) in more {
        shown[key] = value;
    }
    Ok(shown)
}

fn of_run(run: &Run) -> Vec<(&'static str, Value)> {
    let history = run.history();
    let mut known = vec![
        ("tokenUsage", token_usage(history.cumulative_usage())),
        ("compactionCount", history.compactions().into()),
        ("model", json!(history.model().unwrap_or(&run.settings().model.origin))),
    ];
    if let Some(reason) = history.parked() {
        known.push(("parked", reason.into()));
        known.push(("goOn", GO_ON.into()));
    }
    if let Some(end) = history.last_end() {
        known.push(("lastFinishReason", json!(end)));
    }
    known
}

/// Returns the status for the API's word; `None` for rest, also reported by another node for sessions
/// elsewhere.
fn status_of(name: &str) -> Option<RunStatus> {
    let working = [
        RunStatus::Streaming,
        RunStatus::ExecutingTools,
        RunStatus::WaitingApproval,
        RunStatus::Compacting,
        RunStatus::WaitingForServer,
    ];
    working.into_iter().find(|status| status_name(*status) == name)
}

/// Returns the API's word for a status.
pub(super) fn status_name(status: RunStatus) -> &'static str {
    status.as_str()
}
