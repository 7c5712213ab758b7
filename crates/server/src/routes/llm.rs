//! Who answers in a session: another agent, another model.

use axum::Json;
use axum::extract::State;
use longhaul::session::{Session, Switched};
use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::message::Origin;
use longhaul_core::run::Run;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::agents;
use crate::app::App;
use crate::extract::{Input, Key, Named};
use crate::once::once;
use crate::openapi::part;
use crate::problem::Problem;

/// An agent, a model, or both.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = SwitchModel)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// A configured agent by name; the present one if it is left out.
    agent: Option<String>,
    /// A model of a configured agent, or one that the usual agent's server lists; the agent's own if it is left out.
    model: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SwitchedModel {
    ok: bool,
    session_id: String,
    when: When,
    /// The model as the log has it now; at `next-step` it is still the one before.
    #[schema(value_type = part::Origin)]
    model: Origin,
}

/// When the switch holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum When {
    Now,
    NextStep,
    Already,
}

/// Gives a session another agent or model; its history stays
#[utoipa::path(post, path = "/api/sessions/{id}/llm", operation_id = "switchModel", tag = "sessions", params(("id" = String, Path)), request_body = Wanted,
    responses((status = 200, body = SwitchedModel, description = "Switched, or will be at the next step")))]
pub(crate) async fn switch(
    State(app): State<App>,
    Named(id): Named<String>,
    key: Key,
    Input(wanted): Input<Wanted>,
) -> Result<Json<Value>, Problem> {
    if wanted.agent.is_none() && wanted.model.is_none() {
        return Err(Problem::invalid("Give an `agent` or a `model`."));
    }
    agents::check(&app, wanted.agent.as_deref())?;
    let session = app.open(&id).await?;
    if let Some(model) = &wanted.model
        && !app.runtime().models().await.contains(model)
    {
        return Err(Problem::invalid(
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

async fn done(app: &App, session: &Session, wanted: Wanted, since: Vec<Event>) -> Result<Value, Problem> {
    let present = session.look(|run| run.history().choice().clone()).await?;
    let choice = ModelChoice { agent: wanted.agent.or(present.agent), model: wanted.model };
    let is_this = |event: &Event| matches!(&event.body, EventBody::ModelSwitched { choice: Some(made), .. } if *made == choice);
    let when = match since.iter().any(is_this) {
        true => Switched::Already,
        false => app.runtime().switch(session, choice).await?,
    };
    let now = |run: &Run| run.history().model().unwrap_or(&run.settings().model.origin).clone();
    let model = session.look(now).await?;
    let done = SwitchedModel { ok: true, session_id: session.id().to_string(), when: when.into(), model };
    serde_json::to_value(done).map_err(|_| Problem::internal())
}

impl From<Switched> for When {
    fn from(switched: Switched) -> Self {
        match switched {
            Switched::Now => Self::Now,
            Switched::AtNextStep => Self::NextStep,
            Switched::Already => Self::Already,
        }
    }
}
