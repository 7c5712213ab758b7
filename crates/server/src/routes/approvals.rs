//! Questions whether a tool may run.

use axum::Json;
use axum::extract::State;
use longhaul::session::Session;
use longhaul_core::ids::ApprovalId;
use longhaul_core::run::{Run, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::extract::{Input, Named, Params};
use crate::problem::Problem;

/// Characters of a reason at most.
const REASON_CHARS: usize = 2_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Which {
    session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Answer {
    decision: Decision,
    reason: Option<String>,
    session_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

pub(super) async fn list(
    State(app): State<App>,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    let waiting = pending(&app, which.session_id.as_deref()).await?;
    let shown: Vec<Value> = waiting.into_iter().map(|pending| pending.shown).collect();
    Ok(Json(json!({ "approvals": shown })))
}

pub(super) async fn decide(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(which): Params<Which>,
    Input(answer): Input<Answer>,
) -> Result<Json<Value>, Problem> {
    if answer.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(Problem::invalid(format!("A reason has at most {REASON_CHARS} characters.")));
    }
    let session_id = answer.session_id.or(which.session_id);
    let mut waiting = pending(&app, session_id.as_deref()).await?;
    waiting.retain(|pending| pending.approval_id.as_str() == id);
    // Approvals are named within their session.
    if waiting.len() > 1 {
        return Err(Problem::conflict("Several sessions ask under this name: give `sessionId`."));
    }
    let Some(Pending { session, approval_id, .. }) = waiting.pop() else {
        return Err(Problem::not_found(format!("approval {id} that waits")));
    };
    let allowed = answer.decision == Decision::Allow;
    let session_id = session.id().clone();
    let work = async move { Ok(session.decide(approval_id, allowed, answer.reason).await?) };
    if !app.to_end(work).await? {
        return Err(Problem::not_found(format!("approval {id} that waits")));
    }
    let decision = if allowed { "allow" } else { "deny" };
    Ok(Json(json!({ "ok": true, "approvalId": id, "sessionId": session_id, "decision": decision })))
}

/// The questions of one session, or of all that are open: in others nothing waits.
async fn pending(app: &App, session_id: Option<&str>) -> Result<Vec<Pending>, Problem> {
    let sessions = match session_id {
        Some(id) => vec![app.open(id).await?],
        None => app.runtime().opened().await,
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
            "approvalId": approval_id, "callId": call.call_id, "toolName": call.name, "args": call.arguments,
        });
        Some((approval_id, shown))
    });
    asked.collect()
}
