//! Sessions: made, listed, shown, renamed, forked, deleted.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use longhaul::announce::{self, GO_ON, token_usage};
use longhaul::session::Session;
use longhaul_core::event::EventBody;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::run::{Run, ServerWait, Status};
use longhaul_store::{SessionRecord, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::agents;
use crate::app::{App, Readable};
use crate::ends::End;
use crate::extract::{Input, Key, Named, Optional, Params};
use crate::once;
use crate::openapi::answer;
use crate::peers;
use crate::problem::Problem;
use crate::wording::is_blank;

/// Sessions listed unless the request says otherwise, and at most.
const LISTED: usize = 50;
const MOST_LISTED: usize = 1_000;

/// Characters of a title at most.
const TITLE_CHARS: usize = 200;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewSession)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// A configured agent by name; the usual one if it is left out.
    agent: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RenameSession)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    #[schema(min_length = 1, max_length = 200)]
    title: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ForkSession)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    #[schema(value_type = Option<u64>, minimum = 1)]
    at_seq: Option<Seq>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// Makes a session
#[utoipa::path(post, path = "/api/sessions", operation_id = "createSession", tag = "sessions",  request_body = New,
    responses(
        (status = 201, body = answer::Session, description = "Made"),
        (status = 409, body = answer::Problem, content_type = "application/problem+json", description = "The agent cannot be used."),
    ))]
pub(crate) async fn create(
    State(app): State<App>,
    key: Key,
    Optional(new): Optional<New>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.takes_work()?;
    let title = new.title.map(|title| checked(&title)).transpose()?;
    agents::check(&app, new.agent.as_deref())?;
    let work = {
        let app = app.clone();
        async move {
            let session = match key.session_id("session") {
                Some(id) => create_once(&app, id, title, new.agent).await?,
                None => app.runtime().create_in(title, new.agent.as_deref()).await?,
            };
            whole(&app, &session).await
        }
    };
    Ok((StatusCode::CREATED, Json(app.to_end(work).await?)))
}

async fn create_once(
    app: &App,
    id: SessionId,
    title: Option<String>,
    agent: Option<String>,
) -> Result<Session, Problem> {
    let agent = agent.as_deref();
    // As it was named before there were others.
    let named = agent.map(|agent| format!(" {agent:?}")).unwrap_or_default();
    let what = format!("session {title:?}{named}");
    let create = async { Ok(app.runtime().create_as_in(id.clone(), title, agent).await?) };
    once::made(app, &id, &what, create).await
}

/// The sessions, the most recently changed first
#[utoipa::path(get, path = "/api/sessions", operation_id = "listSessions", tag = "sessions", params(Listing), 
    responses((status = 200, body = answer::Sessions, description = "The sessions")))]
pub(crate) async fn list(
    State(app): State<App>,
    Params(listing): Params<Listing>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    if listing.limit == Some(0) {
        return Err(Problem::invalid("`limit` is at least 1."));
    }
    let limit = listing.limit.unwrap_or(LISTED).min(MOST_LISTED);
    let open = app.runtime().opened();
    if peers::is_sent_on(&headers) {
        return Ok(Json(json!({ "sessions": working(&open) })));
    }
    let elsewhere = peers::working(&app).await;
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
        if is_at_rest(status) {
            ended(&mut shown, app.ends().of(app.runtime().store(), &record).await?.as_ref());
        }
        sessions.push(shown);
    }
    Ok(Json(json!({ "sessions": sessions })))
}

/// What goes on in the sessions that are open here, for another node.
fn working(open: &[Session]) -> Vec<Value> {
    let statuses = open.iter().map(|session| (session.id(), *session.status().borrow()));
    let working = statuses.filter(|(_, status)| !is_at_rest(*status));
    working.map(|(id, status)| json!({ "id": id, "status": status_name(status) })).collect()
}

/// How often a session is looked at again whose run ended or began meanwhile.
const LOOKS: usize = 3;

/// A record and what goes on, as of one moment: a run that ends between two looks would be shown as neither.
async fn opened(
    app: &App,
    session: &Session,
    mut record: SessionRecord,
) -> Result<(SessionRecord, Status), Problem> {
    for _ in 0..LOOKS {
        let status = *session.status().borrow();
        if !(is_at_rest(status) && record.running) {
            return Ok((record, status));
        }
        record = match app.runtime().store().session(session.id()).await {
            Ok(record) => record,
            // Deleted since it was listed.
            Err(StoreError::NotFound(_)) => return Ok((record, status)),
            Err(error) => return Err(error.into()),
        };
    }
    Ok((record, Status::Streaming))
}

fn is_at_rest(status: Status) -> bool {
    matches!(status, Status::Idle | Status::Parked)
}

/// What is known of a session that no node tells of. A node that does not answer may have it.
fn unopened(app: &App, record: &SessionRecord) -> Status {
    match record.parked {
        true => Status::Parked,
        false if record.running && app.runtime().nodes().is_some() => Status::Streaming,
        false => Status::Idle,
    }
}

/// One session
#[utoipa::path(get, path = "/api/sessions/{id}", operation_id = "getSession", tag = "sessions", params(("id" = String, Path)), 
    responses((status = 200, body = answer::Session, description = "The session")))]
pub(crate) async fn show(State(app): State<App>, Named(id): Named<String>) -> Result<Json<Value>, Problem> {
    match app.open_or_read(&id).await {
        Ok(Readable::Open(session)) => whole(&app, &session).await.map(Json),
        Ok(Readable::Stored(run)) => described(&app, &id.into(), glimpse(&run), None).await.map(Json),
        Err(problem) if problem.is_damage() => damaged(&app, &id.into(), &problem).await.map(Json),
        Err(problem) => Err(problem),
    }
}

/// A damaged session, as far as it can be read: its record, what stands before the damage, and how its newest run ended.
async fn damaged(app: &App, id: &SessionId, problem: &Problem) -> Result<Value, Problem> {
    let found = app.runtime().store().read_undamaged(id, 0, usize::MAX).await?;
    let first = found.damaged.first().copied().unwrap_or(Seq::MAX);
    let beginning = found.events.into_iter().take_while(|event| event.seq < first).collect();
    let run = app.runtime().glance_at(id, beginning).await?;
    // Nothing goes on in a session that cannot be opened.
    let seen = Glimpse { status: Status::Idle, ..glimpse(&run) };
    let mut shown = described(app, id, seen, None).await?;
    shown["damaged"] = json!(found.damaged);
    shown["error"] = problem.named();
    Ok(shown)
}

/// Renames a session
#[utoipa::path(patch, path = "/api/sessions/{id}", operation_id = "renameSession", tag = "sessions", params(("id" = String, Path)), request_body = Change,
    responses((status = 200, body = answer::Session, description = "Renamed")))]
pub(crate) async fn rename(
    State(app): State<App>,
    Named(id): Named<String>,
    Input(change): Input<Change>,
) -> Result<Json<Value>, Problem> {
    let title = checked(&change.title)?;
    let session = app.open(&id).await?;
    session.rename(title).await?;
    whole(&app, &session).await.map(Json)
}

/// Deletes a session for good
#[utoipa::path(delete, path = "/api/sessions/{id}", operation_id = "deleteSession", tag = "sessions", params(("id" = String, Path)), 
    responses((status = 200, body = answer::Deleted, description = "Deleted")))]
pub(crate) async fn delete(State(app): State<App>, Named(id): Named<String>) -> Result<Json<Value>, Problem> {
    let work = {
        let app = app.clone();
        async move {
            let id = SessionId::from(id);
            app.runtime().delete(&id).await?;
            app.deletions().note();
            Ok(json!({ "ok": true, "id": id }))
        }
    };
    app.to_end(work).await.map(Json)
}

/// A new session that shares the log up to a position
#[utoipa::path(post, path = "/api/sessions/{id}/fork", operation_id = "forkSession", tag = "sessions", params(("id" = String, Path)), request_body = Fork,
    responses((status = 201, body = answer::Session, description = "Made")))]
pub(crate) async fn fork(
    State(app): State<App>,
    key: Key,
    Named(id): Named<String>,
    Optional(fork): Optional<Fork>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.takes_work()?;
    let work = {
        let app = app.clone();
        async move {
            let id = SessionId::from(id);
            let session = match key.session_id(&format!("fork {id}")) {
                Some(fork_id) => fork_once(&app, fork_id, &id, fork.at_seq).await?,
                None => app.runtime().fork(&id, position(&app, &id, fork.at_seq).await?).await?,
            };
            let mut shown = whole(&app, &session).await?;
            shown["forkedFrom"] = origin(&app, session.id()).await?;
            Ok(shown)
        }
    };
    Ok((StatusCode::CREATED, Json(app.to_end(work).await?)))
}

/// A fork that was made before is there, whatever became of its origin.
async fn fork_once(
    app: &App,
    fork_id: SessionId,
    id: &SessionId,
    at_seq: Option<Seq>,
) -> Result<Session, Problem> {
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
    once::made(app, &fork_id, &format!("fork {at_seq:?}"), fork).await
}

/// The position that is meant: the newest if none is named.
async fn position(app: &App, id: &SessionId, at_seq: Option<Seq>) -> Result<Seq, Problem> {
    let newest = app.runtime().store().session(id).await?.last_seq;
    Ok(at_seq.unwrap_or(newest))
}

/// Where a fork comes from, as its log says.
async fn origin(app: &App, fork_id: &SessionId) -> Result<Value, Problem> {
    let first = app.runtime().store().read(fork_id, 0, 1).await?;
    Ok(match first.first().map(|event| &event.body) {
        Some(EventBody::SessionStarted { forked_from: Some(from), .. }) => {
            json!({ "sessionId": from.session_id, "atSeq": from.at_seq })
        }
        _ => Value::Null,
    })
}

fn checked(title: &str) -> Result<String, Problem> {
    let title = title.trim();
    if is_blank(title) || title.chars().count() > TITLE_CHARS || title.chars().any(char::is_control) {
        return Err(Problem::invalid(format!("A title has 1 to {TITLE_CHARS} visible characters.")));
    }
    Ok(title.to_owned())
}

/// What is known of a session without opening it.
fn brief(record: &SessionRecord, status: Status) -> Value {
    json!({
        "id": record.id, "title": record.title, "createdAt": record.created_at, "updatedAt": record.updated_at,
        "lastSeq": record.last_seq, "queued": record.queued, "status": status_name(status),
    })
}

/// How the newest run ended, and why it failed if it did.
fn ended(shown: &mut Value, end: Option<&End>) {
    let Some(end) = end else { return };
    shown["lastFinishReason"] = json!(end.reason);
    if let Some(error) = &end.error {
        shown["lastError"] = json!(error);
    }
}

async fn whole(app: &App, session: &Session) -> Result<Value, Problem> {
    // One look: a run that ends after it is shown as it was before.
    let seen = session.look(glimpse).await?;
    let waiting = seen.waiting.as_ref().map(|wait| announce::waiting(wait, session.next_attempt_at()));
    described(app, session.id(), seen, waiting).await
}

/// What is shown of a loop.
struct Glimpse {
    status: Status,
    facts: Vec<(&'static str, Value)>,
    agent: Option<String>,
    waiting: Option<ServerWait>,
}

fn glimpse(run: &Run) -> Glimpse {
    let agent = run.history().choice().agent.clone();
    Glimpse { status: run.status(), facts: of_run(run), agent, waiting: run.waiting().cloned() }
}

async fn described(
    app: &App,
    id: &SessionId,
    seen: Glimpse,
    waiting: Option<Value>,
) -> Result<Value, Problem> {
    let Glimpse { status, facts: mut more, agent: chosen, .. } = seen;
    more.extend(waiting.map(|waiting| ("waiting", waiting)));
    let usual = || app.runtime().agents().into_iter().find(|agent| agent.is_default).map(|agent| agent.name);
    more.push(("agent", chosen.or_else(usual).into()));
    let record = app.runtime().store().session(id).await?;
    let mut shown = brief(&record, status);
    if is_at_rest(status) {
        ended(&mut shown, app.ends().of(app.runtime().store(), &record).await?.as_ref());
    }
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

/// What goes on, by the API's word for it; `None` for rest, which another node says of sessions that it has not.
fn status_of(name: &str) -> Option<Status> {
    let working = [
        Status::Streaming,
        Status::ExecutingTools,
        Status::WaitingApproval,
        Status::Compacting,
        Status::WaitingForServer,
    ];
    working.into_iter().find(|status| status_name(*status) == name)
}

/// A status in the API's words.
pub(super) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Streaming => "streaming",
        Status::ExecutingTools => "executing_tools",
        Status::WaitingApproval => "waiting_approval",
        Status::Compacting => "compacting",
        Status::WaitingForServer => "waiting_for_server",
        Status::Parked => "parked",
    }
}
