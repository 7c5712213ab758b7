//! The route for switching a session to another agent or model.

use axum::Json;
use axum::extract::State;
use longhaul::session::{Session, SwitchOutcome};
use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::message::ModelOrigin;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::agents;
use crate::app::AppState;
use crate::extract::{IdempotencyKey, JsonBody, PathParams};
use crate::idempotency::once;
use crate::openapi::part;
use crate::problem::ApiProblem;

/// The agent, the model, or both.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = SwitchModel)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchModelRequestBody {
    /// The name of a configured agent. Without it, the session keeps its agent.
    agent: Option<String>,
    /// A model of a configured agent, or one that the default agent's server lists. Without it, the agent's own model.
    model: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SwitchedModel)]
pub(crate) struct SwitchModelResponse {
    ok: bool,
    session_id: String,
    when: ModelSwitchTiming,
    /// The model in the log. With `next-step` it is still the previous one.
    #[schema(value_type = part::ModelOriginSchema)]
    model: ModelOrigin,
}

/// The time when the switch takes effect.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = When)]
enum ModelSwitchTiming {
    Now,
    NextStep,
    Already,
}

/// Switch a session to another agent or model; its history stays
#[utoipa::path(post, path = "/api/sessions/{id}/llm", operation_id = "switchModel", tag = "sessions", params(("id" = String, Path)), request_body = SwitchModelRequestBody,
    responses((status = 200, body = SwitchModelResponse, description = "The switch was made, or will be made at the next step.")))]
pub(crate) async fn switch(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    JsonBody(wanted): JsonBody<SwitchModelRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    if wanted.agent.is_none() && wanted.model.is_none() {
        return Err(ApiProblem::invalid("Give an `agent` or a `model`."));
    }
    agents::check(&app, wanted.agent.as_deref())?;
    let session = app.open(&id).await?;
    if let Some(model) = &wanted.model
        // Without the check a misspelt model would fail at the next step, far from the request.
        && !app.runtime().models().await.contains(model)
    {
        return Err(ApiProblem::invalid(
            "`model` is not a model of a configured agent, and no server lists it.",
        ));
    }
    let work = {
        let app = app.clone();
        async move {
            let what = format!("llm {wanted:?}");
            once(&app, &session, key, what, |since| done(&app, &session, wanted, since)).await
        }
    };
    app.to_end(work).await.map(Json)
}

async fn done(
    app: &AppState,
    session: &Session,
    wanted: SwitchModelRequestBody,
    since: Vec<Event>,
) -> Result<Value, ApiProblem> {
    // The agent stays if only the model is named.
    let present = session.inspect_run(|run| run.history().choice().clone()).await?;
    let choice = ModelChoice { agent: wanted.agent.or(present.agent), model: wanted.model };
    // The first attempt may have switched before its answer was lost.
    let is_made = since.iter().any(
        |event| matches!(&event.body, EventBody::ModelSwitched { choice: Some(made), .. } if *made == choice),
    );
    let when = if is_made { SwitchOutcome::Already } else { app.runtime().switch(session, choice).await? };
    let model = session
        // The log knows the model only after the first step.
        .inspect_run(|run| run.history().model().unwrap_or(&run.settings().model.origin).clone())
        .await?;
    tracing::info!(
        session = %session.id(),
        model = %model.model,
        provider = %model.provider,
        outcome = ?when,
        "the session's agent or model was switched"
    );
    let done =
        SwitchModelResponse { ok: true, session_id: session.id().to_string(), when: when.into(), model };
    serde_json::to_value(done).map_err(|_| ApiProblem::internal())
}

impl From<SwitchOutcome> for ModelSwitchTiming {
    fn from(switched: SwitchOutcome) -> Self {
        match switched {
            SwitchOutcome::Now => Self::Now,
            SwitchOutcome::AtNextStep => Self::NextStep,
            _ => Self::Already,
        }
    }
}
