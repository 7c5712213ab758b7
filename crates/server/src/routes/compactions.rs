//! The routes of compactions: request, preview, list, undo, release.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use longhaul::compaction::{self, CompactionPreview};
use longhaul::session::{Session, SessionError};
use longhaul_core::event::{EditReason, Event, EventBody, ViewOperation};
use longhaul_core::history::ViewEditState;
use longhaul_core::ids::{EditId, LogHandle};
use longhaul_core::plan::{CompactionPolicy, Plan};
use longhaul_core::run::{CompactionOutcome, Run};
use longhaul_core::strategy::{self, CompactionStrategy};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::extract::{IdempotencyKey, OptionalJsonBody, PathParams};
use crate::idempotency::once;
use crate::openapi::answer;
use crate::problem::{ApiProblem, sentence};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = CompactRequest)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CompactRequestBody {
    strategy: Option<String>,
    /// Instructions for the summary: what to keep.
    #[schema(max_length = 20_000)]
    instructions: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// The maximum length of instructions, in characters. A small window takes fewer; the run then reports how many tokens
/// fit.
const INSTRUCTION_CHARS: usize = 20_000;

/// Compact a session now, or plan it (dry run)
#[utoipa::path(post, path = "/api/sessions/{id}/compact", operation_id = "compact", tag = "context", params(("id" = String, Path)), request_body = CompactRequestBody,
    responses((status = 200, body = answer::CompactResponse, description = "The outcome of the compaction, or its plan.")))]
pub(crate) async fn compact(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    OptionalJsonBody(how): OptionalJsonBody<CompactRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    app.takes_work()?;
    if how.instructions.as_ref().is_some_and(|words| words.chars().count() > INSTRUCTION_CHARS) {
        return Err(ApiProblem::invalid(format!(
            "Instructions have at most {INSTRUCTION_CHARS} characters."
        )));
    }
    let session = app.open(&id).await?;
    // The session's own policy counts, because it may differ from the agent's present one.
    let policy = session.inspect_run(|run| run.settings().policy.clone()).await?;
    let strategy = how.strategy.as_deref().map(|name| named(&policy, name)).transpose()?;
    if how.dry_run {
        // A preview changes nothing, so it needs no key.
        return preview(&session.preview_by(strategy, how.instructions).await?).map(Json);
    }
    // The work gets its own copy of the state, because it goes on when the client hangs up.
    let work = {
        let app = app.clone();
        async move {
            let what = format!("compact {how:?}");
            once(&app, &session, key, what, |since| {
                compact_once(&app, &session, strategy, how.instructions, since)
            })
            .await
        }
    };
    app.to_end(work).await.map(Json)
}

async fn compact_once(
    app: &AppState,
    session: &Session,
    strategy: Option<Arc<dyn CompactionStrategy>>,
    instructions: Option<String>,
    since: Vec<Event>,
) -> Result<Value, ApiProblem> {
    // The first attempt may have compacted before its answer was lost. A second compaction would remove more.
    let made = since.into_iter().find_map(|event| match event.body {
        EventBody::ViewEdited(edit) if edit.reason == EditReason::Requested => Some(edit),
        _ => None,
    });
    match made {
        Some(edit) => outcome(app, session, CompactionOutcome::Committed(edit)).await,
        None => outcome(app, session, session.compact_by(strategy, instructions).await?).await,
    }
}

fn named(configured: &CompactionPolicy, name: &str) -> Result<Arc<dyn CompactionStrategy>, ApiProblem> {
    compaction::strategy(configured, name).ok_or_else(|| {
        ApiProblem::invalid(format!("`strategy` must be one of {}.", strategy::NAMES.join(", ")))
    })
}

async fn outcome(app: &AppState, session: &Session, done: CompactionOutcome) -> Result<Value, ApiProblem> {
    match done {
        CompactionOutcome::Committed(edit) => {
            let id = edit.id;
            let survival = match session.newest_survival(&id) {
                Some(survival) => Some(survival),
                None => {
                    // The compaction is done, so a failure to read the log must not fail the request.
                    let log = app.runtime().log(session.id()).await.unwrap_or_default();
                    compaction::survival(&log, &id)
                }
            };
            let mut state = session.inspect_run(move |run| shown_if(run, &id)).await?;
            if let (Some(state), Some(survival)) = (&mut state, survival) {
                state["survival"] = json!(survival);
            }
            Ok(json!({ "ok": true, "compacted": true, "compaction": state }))
        }
        CompactionOutcome::Refused(why) => Err(ApiProblem::conflict(sentence(&why))),
        _ => Ok(json!({ "ok": true, "compacted": false, "reason": "There is nothing to leave out." })),
    }
}

fn shown_if(run: &Run, id: &EditId) -> Option<Value> {
    run.history().edits().iter().find(|state| state.edit.id == *id).map(|state| shown(run, state))
}

fn preview(preview: &CompactionPreview) -> Result<Value, ApiProblem> {
    let mut planned = match &preview.plan {
        Plan::Edit(edit) => json!({
            "action": "edit", "kind": edit.kind, "strategy": edit.strategy, "why": edit.why,
            "originalTokens": edit.original_tokens, "compressedTokens": edit.compressed_tokens,
            "originalMessages": edit.original_messages, "compressedMessages": edit.compressed_messages,
            "clearedResults": edit.ops.iter().filter(|op| matches!(op, ViewOperation::Placeholder { .. })).count(),
            "handles": edit.ops.iter().map(|op| LogHandle(op.range()).to_string()).collect::<Vec<_>>(),
        }),
        Plan::Summarise(draft) => {
            let (messages, handles) = draft.what_goes();
            json!({
                "action": "summarise", "strategy": draft.strategy(), "messages": messages,
                "originalTokens": draft.original_tokens(), "floorTokens": draft.floor_tokens(),
                "summaryTokens": draft.limit_tokens(), "clearedResults": draft.cleared_results(),
                "handles": handles.iter().map(LogHandle::to_string).collect::<Vec<_>>(),
            })
        }
        Plan::DoesNotFit(misfit) => return Err(ApiProblem::conflict(sentence(&misfit.to_string()))),
        _ => json!({ "action": "nothing", "why": "there is nothing to leave out" }),
    };
    if let Some(survival) = &preview.survival {
        planned["survival"] = json!(survival);
        planned["survivalWithoutSummary"] = preview.without_summary.into();
    }
    Ok(json!({ "ok": true, "dryRun": true, "plan": planned }))
}

/// List compactions and prunings
#[utoipa::path(get, path = "/api/sessions/{id}/compactions", operation_id = "listCompactions", tag = "context", params(("id" = String, Path)), 
    responses((status = 200, body = answer::CompactionListResponse, description = "The oldest first")))]
pub(crate) async fn list(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiProblem> {
    // The list can be read from a store that takes no writes.
    let session = app.open_or_read(&id).await?;
    let compactions: Vec<_> = session
        .inspect_run(|run| run.history().edits().iter().map(|state| shown(run, state)).collect())
        .await?;
    Ok(Json(json!({ "compactions": compactions })))
}

fn shown(run: &Run, state: &ViewEditState) -> Value {
    let edit = &state.edit;
    json!({
        "id": edit.id, "seq": state.seq, "kind": edit.kind, "strategy": edit.strategy, "reason": edit.reason,
        "trigger": edit.trigger_tokens, "why": edit.why, "active": state.active, "released": state.released, "undo": undo_now(run, &edit.id),
        "originalTokens": edit.original_tokens, "compressedTokens": edit.compressed_tokens,
        "originalMessages": edit.original_messages, "compressedMessages": edit.compressed_messages,
        "handles": edit.ops.iter().map(|op| LogHandle(op.range()).to_string()).collect::<Vec<_>>(),
    })
}

/// Returns the result of an undo at present.
fn undo_now(run: &Run, id: &EditId) -> &'static str {
    match compaction::check_undo(run, id) {
        Ok(()) => "possible",
        Err(SessionError::DoesNotFit { .. }) => "no-room",
        Err(SessionError::Conflict(_)) => "built-on",
        // The only error that is left says that the edit is no longer active.
        Err(_) => "undone",
    }
}

/// Undo a compaction
#[utoipa::path(post, path = "/api/sessions/{id}/compactions/{edit}/undo", operation_id = "undoCompaction", tag = "context", params(("id" = String, Path), ("edit" = String, Path)), 
    responses((status = 200, body = answer::UndoCompactionResponse, description = "Undone")))]
pub(crate) async fn undo(
    State(app): State<AppState>,
    PathParams((id, edit)): PathParams<(String, String)>,
    key: IdempotencyKey,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&id).await?;
    let edit = EditId::from(edit);
    let work = {
        let app = app.clone();
        async move {
            let what = format!("undo {edit}");
            once(&app, &session, key, what, |since| restore(&session, edit, since)).await
        }
    };
    app.to_end(work).await.map(Json)
}

async fn restore(session: &Session, edit: EditId, since: Vec<Event>) -> Result<Value, ApiProblem> {
    // An undo that was done before its answer was lost would be refused as already undone.
    if !since
        .iter()
        .any(|event| matches!(&event.body, EventBody::ViewRestored { edit_id } if *edit_id == edit))
    {
        session.undo(edit.clone()).await?;
    }
    let tokens = session.inspect_run(|run| run.meter().total).await?;
    tracing::info!(session = %session.id(), compaction = %edit, tokens, "a compaction was undone");
    Ok(json!({ "ok": true, "compactionId": edit, "tokens": tokens }))
}

/// Release an undone range, so that it may be compacted again
#[utoipa::path(post, path = "/api/sessions/{id}/compactions/{edit}/release", operation_id = "releaseCompaction", tag = "context", params(("id" = String, Path), ("edit" = String, Path)), 
    responses((status = 200, body = answer::ReleaseCompactionResponse, description = "Released")))]
pub(crate) async fn release(
    State(app): State<AppState>,
    PathParams((id, edit)): PathParams<(String, String)>,
    key: IdempotencyKey,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&id).await?;
    let edit = EditId::from(edit);
    let work = {
        let app = app.clone();
        async move {
            let what = format!("release {edit}");
            once(&app, &session, key, what, |since| free(&session, edit, since)).await
        }
    };
    app.to_end(work).await.map(Json)
}

async fn free(session: &Session, edit: EditId, since: Vec<Event>) -> Result<Value, ApiProblem> {
    if !since
        .iter()
        .any(|event| matches!(&event.body, EventBody::RangeReleased { edit_id } if *edit_id == edit))
    {
        // A release that was done before its answer was lost would be refused, as an undo would.
        session.release(edit.clone()).await?;
    }
    tracing::info!(session = %session.id(), compaction = %edit, "an undone compaction's range may be compacted again");
    Ok(json!({ "ok": true, "compactionId": edit }))
}
