//! Questions whether a tool may run.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use longhaul::announce::global_approval;
use longhaul::session::Session;
use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::ApprovalId;
use longhaul_core::run::{Run, Status};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extract::{Input, Key, Named, Params};
use crate::once::once;
use crate::openapi::answer;
use crate::peers;
use crate::problem::Problem;

/// Characters of a reason at most.
const REASON_CHARS: usize = 2_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Which {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ApprovalAnswer)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Answer {
    decision: Decision,
    #[schema(max_length = 2_000)]
    reason: Option<String>,
    session_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
}

/// A question that waits.
struct Pending {
    session: Session,
    approval_id: ApprovalId,
    shown: Value,
}

/// Tools that ask
#[utoipa::path(get, path = "/api/approvals", operation_id = "listApprovals", tag = "approvals", params(Which), 
    responses((status = 200, body = answer::Approvals, description = "What waits")))]
pub(crate) async fn list(
    State(app): State<App>,
    Params(which): Params<Which>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let waiting = pending(&app, which.session_id.as_deref()).await?;
    let mut shown: Vec<Value> = waiting.into_iter().map(|pending| pending.shown).collect();
    if which.session_id.is_none() {
        shown.extend(peers::approvals(&app, &headers).await);
    }
    Ok(Json(json!({ "approvals": shown })))
}

/// Answers one
#[utoipa::path(post, path = "/api/approvals/{id}", operation_id = "decideApproval", tag = "approvals", params(("id" = String, Path), Which), request_body = Answer,
    responses((status = 200, body = answer::ApprovalDecided, description = "Decided")))]
pub(crate) async fn decide(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(which): Params<Which>,
    key: Key,
    Input(answer): Input<Answer>,
) -> Result<Json<Value>, Problem> {
    if answer.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(Problem::invalid(format!("A reason has at most {REASON_CHARS} characters.")));
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

/// A question's session and its name there. Within a session the name alone will do, and beyond it too where only
/// one session asks under it.
async fn meant(app: &App, id: &str, session_id: Option<&str>) -> Result<(Session, ApprovalId), Problem> {
    let nobody_asks = || Problem::not_found(format!("approval {id} that waits"));
    let (of_id, own) = id.rsplit_once(':').map_or((None, id), |(session_id, own)| (Some(session_id), own));
    match (of_id, session_id) {
        (Some(one), Some(other)) if one != other => return Err(nobody_asks()),
        (None, None) => {}
        (Some(session_id), _) | (None, Some(session_id)) => {
            return Ok((app.open(session_id).await?, ApprovalId::from(own)));
        }
    }
    if app.runtime().nodes().is_some() {
        // Sessions of other nodes may ask under it as well.
        return Err(Problem::conflict("Several nodes have sessions: use the whole name, SESSION:NAME."));
    }
    let mut waiting = pending(app, None).await?;
    waiting.retain(|pending| pending.approval_id.as_str() == own);
    if waiting.len() > 1 {
        let detail = "Several sessions ask under this name: use the whole one, SESSION:NAME.";
        return Err(Problem::conflict(detail));
    }
    let Pending { session, approval_id, .. } = waiting.pop().ok_or_else(nobody_asks)?;
    Ok((session, approval_id))
}

async fn answered(
    session: &Session,
    approval_id: ApprovalId,
    answer: Answer,
    since: Vec<Event>,
) -> Result<Value, Problem> {
    let decided = since.iter().find_map(|event| match &event.body {
        EventBody::ApprovalResolved { approval_id: resolved, allowed, .. } if *resolved == approval_id => {
            Some(*allowed)
        }
        _ => None,
    });
    let name = global_approval(session.id(), &approval_id);
    let allowed = decided.unwrap_or(answer.decision == Decision::Allow);
    if decided.is_none() && !session.decide(approval_id, allowed, answer.reason).await? {
        return Err(Problem::not_found(format!("approval {name} that waits")));
    }
    let decision = if allowed { "allow" } else { "deny" };
    Ok(json!({ "ok": true, "approvalId": name, "sessionId": session.id(), "decision": decision }))
}

/// The questions of one session, or of all that are open: in others nothing waits.
async fn pending(app: &App, session_id: Option<&str>) -> Result<Vec<Pending>, Problem> {
    let sessions = match session_id {
        Some(id) => vec![app.open(id).await?],
        None => app.runtime().opened(),
    };
    let mut all = Vec::new();
    for session in sessions {
        let at_rest = matches!(*session.status().borrow(), Status::Idle | Status::Parked);
        if at_rest {
            continue;
        }
        // One that has just stopped asks nothing any more.
        let asked = session.look(asked).await.unwrap_or_default();
        all.extend(asked.into_iter().map(|(approval_id, mut shown)| {
            shown["sessionId"] = json!(session.id());
            shown["approvalId"] = global_approval(session.id(), &approval_id).into();
            Pending { session: session.clone(), approval_id, shown }
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
            "approvalId": null, "callId": call.call_id, "toolName": call.name, "args": call.arguments,
        });
        Some((approval_id, shown))
    });
    asked.collect()
}
