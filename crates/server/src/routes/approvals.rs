//! The routes of approval requests.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use longhaul::api_events::{call_arguments, global_approval};
use longhaul::session::Session;
use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::ApprovalId;
use longhaul_core::run::{Run, RunStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::cluster_proxy;
use crate::extract::{IdempotencyKey, JsonBody, PathParams, QueryParams};
use crate::idempotency::once;
use crate::openapi::answer;
use crate::problem::ApiProblem;

/// The maximum length of a reason, in characters.
const REASON_CHARS: usize = 2_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalParams {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ApprovalAnswer)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApprovalRequestBody {
    decision: ClientApprovalDecision,
    #[schema(max_length = 2_000)]
    reason: Option<String>,
    session_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Decision)]
enum ClientApprovalDecision {
    Allow,
    Deny,
}

/// An approval request that waits.
struct PendingApproval {
    session: Session,
    approval_id: ApprovalId,
    shown: Value,
}

/// List tool calls that wait for approval
#[utoipa::path(get, path = "/api/approvals", operation_id = "listApprovals", tag = "approvals", params(ApprovalParams), 
    responses((status = 200, body = answer::ApprovalListResponse, description = "The queued messages.")))]
pub(crate) async fn list(
    State(app): State<AppState>,
    QueryParams(which): QueryParams<ApprovalParams>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiProblem> {
    let waiting = pending(&app, which.session_id.as_deref()).await?;
    let mut shown: Vec<Value> = waiting.into_iter().map(|pending| pending.shown).collect();
    // A request for one session was sent to that session's node already.
    if which.session_id.is_none() {
        shown.extend(cluster_proxy::approvals(&app, &headers).await);
    }
    Ok(Json(json!({ "approvals": shown })))
}

/// Answer an approval request
#[utoipa::path(post, path = "/api/approvals/{id}", operation_id = "decideApproval", tag = "approvals", params(("id" = String, Path), ApprovalParams), request_body = ApprovalRequestBody,
    responses((status = 200, body = answer::AnswerApprovalResponse, description = "Decided")))]
pub(crate) async fn decide(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(which): QueryParams<ApprovalParams>,
    key: IdempotencyKey,
    JsonBody(answer): JsonBody<ApprovalRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    if answer.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(ApiProblem::invalid(format!("A reason must have at most {REASON_CHARS} characters.")));
    }
    let named = answer.session_id.clone().or(which.session_id);
    let (session, approval_id) = meant(&app, &id, named.as_deref()).await?;
    let work = {
        let app = app.clone();
        async move {
            let what = format!("decide {approval_id} {:?} {:?}", answer.decision, answer.reason);
            once(&app, &session, key, what, |since| answered(&session, approval_id, answer, since)).await
        }
    };
    app.to_end(work).await.map(Json)
}

/// Returns the session of an approval and the approval's name there. The short name suffices within a session, and
/// elsewhere if only one session uses it.
async fn meant(
    app: &AppState,
    id: &str,
    session_id: Option<&str>,
) -> Result<(Session, ApprovalId), ApiProblem> {
    // Ids of sessions may hold a colon, so the last one divides.
    let (of_id, own) = id.rsplit_once(':').map_or((None, id), |(session_id, own)| (Some(session_id), own));
    match (of_id, session_id) {
        (Some(one), Some(other)) if one != other => return Err(no_such_approval(id)),
        (None, None) => {}
        (Some(session_id), _) | (None, Some(session_id)) => {
            return Ok((app.open(session_id).await?, ApprovalId::from(own)));
        }
    }
    if app.runtime().nodes().is_some() {
        // Sessions of other nodes may use the same short name.
        return Err(ApiProblem::conflict("Several nodes have sessions: use the whole name, SESSION:NAME."));
    }
    let mut waiting = pending(app, None).await?;
    waiting.retain(|pending| pending.approval_id.as_str() == own);
    if waiting.len() > 1 {
        let detail = "Several sessions ask under this name: use the whole one, SESSION:NAME.";
        return Err(ApiProblem::conflict(detail));
    }
    let PendingApproval { session, approval_id, .. } = waiting.pop().ok_or_else(|| no_such_approval(id))?;
    Ok((session, approval_id))
}

fn no_such_approval(id: &str) -> ApiProblem {
    ApiProblem::not_found(format!("approval {id} that waits"))
}

async fn answered(
    session: &Session,
    approval_id: ApprovalId,
    answer: ApprovalRequestBody,
    since: Vec<Event>,
) -> Result<Value, ApiProblem> {
    // The first attempt may have decided before its answer was lost.
    let decided = since.iter().find_map(|event| match &event.body {
        EventBody::ApprovalResolved { approval_id: resolved, allowed, .. } if *resolved == approval_id => {
            Some(*allowed)
        }
        _ => None,
    });
    let name = global_approval(session.id(), &approval_id);
    // A repeated answer is told the first decision, whatever it says itself.
    let allowed = decided.unwrap_or(answer.decision == ClientApprovalDecision::Allow);
    if decided.is_none() && !session.decide(approval_id, allowed, answer.reason).await? {
        return Err(ApiProblem::not_found(format!("approval {name} that waits")));
    }
    let decision = if allowed { "allow" } else { "deny" };
    tracing::info!(session = %session.id(), approval = %name, decision, repeated = decided.is_some(), "an approval was answered");
    Ok(json!({ "ok": true, "approvalId": name, "sessionId": session.id(), "decision": decision }))
}

/// Returns the approval requests of one session, or of all open ones. Sessions that are not open have none.
async fn pending(app: &AppState, session_id: Option<&str>) -> Result<Vec<PendingApproval>, ApiProblem> {
    let sessions = match session_id {
        Some(id) => vec![app.open(id).await?],
        None => app.runtime().opened(),
    };
    let mut all = Vec::new();
    for session in sessions {
        // A session at rest has no open question, and its loop need not be asked.
        let at_rest = matches!(*session.status().borrow(), RunStatus::Idle | RunStatus::Parked);
        if at_rest {
            continue;
        }
        // A session that has just stopped has no requests any more.
        let asked = session.inspect_run(asked).await.unwrap_or_default();
        all.extend(asked.into_iter().map(|(approval_id, mut shown)| {
            shown["sessionId"] = json!(session.id());
            shown["approvalId"] = global_approval(session.id(), &approval_id).into();
            PendingApproval { session: session.clone(), approval_id, shown }
        }));
    }
    Ok(all)
}

fn asked(run: &Run) -> Vec<(ApprovalId, Value)> {
    let open = run.history().open_calls().iter();
    let asked = open.filter_map(|open| {
        let approval_id = open.approval.clone()?;
        let call = &open.call;
        let shown = json!({
            "approvalId": null, "callId": call.call_id, "toolName": call.name,
            "args": call_arguments(call), "argsText": call.arguments,
        });
        Some((approval_id, shown))
    });
    asked.collect()
}
