//! The routes of standing orders: list, pin, edit, remove.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::session::{PinOutcome, Session};
use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::OrderId;
use longhaul_core::orders::{OrderState, StandingOrder};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::extract::{IdempotencyKey, JsonBody, PathParams, QueryParams};
use crate::idempotency::once;
use crate::openapi::answer;
use crate::problem::ApiProblem;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StandingOrderParams {
    /// `true` also returns removed and superseded orders.
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PinOrder)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinOrderRequestBody {
    #[schema(min_length = 1, max_length = 1_000)]
    text: String,
    /// The id of the order that the new one replaces.
    replaces: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EditOrder)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditOrderRequestBody {
    #[schema(min_length = 1, max_length = 1_000)]
    text: String,
}

/// List standing orders, the oldest first
#[utoipa::path(get, path = "/api/sessions/{id}/orders", operation_id = "listOrders", tag = "context", params(("id" = String, Path), StandingOrderParams),
    responses((status = 200, body = answer::StandingOrderListResponse, description = "The active orders.")))]
pub(crate) async fn list(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(which): QueryParams<StandingOrderParams>,
) -> Result<Json<Value>, ApiProblem> {
    let orders = app.open(&id).await?.orders().await?;
    let listed = orders.iter().filter(|order| which.all || order.is_active());
    Ok(Json(json!({ "orders": listed.map(shown).collect::<Vec<_>>() })))
}

/// Pin a standing order, which the model sees whole from its next step on
#[utoipa::path(post, path = "/api/sessions/{id}/orders", operation_id = "pinOrder", tag = "context", params(("id" = String, Path)), request_body = PinOrderRequestBody,
    responses(
        (status = 201, body = answer::PinOrderResponse, description = "Pinned"),
        (status = 200, body = answer::PinOrderResponse, description = "An active order with this text exists already."),
    ))]
pub(crate) async fn pin(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    key: IdempotencyKey,
    JsonBody(order): JsonBody<PinOrderRequestBody>,
) -> Result<(StatusCode, Json<Value>), ApiProblem> {
    let session = app.open(&id).await?;
    let work = {
        let app = app.clone();
        async move {
            let what = format!("pin {:?} {:?}", order.text, order.replaces);
            once(&app, &session, key, what, |since| pin_once(&session, order, since)).await
        }
    };
    // Done to the end even if the client leaves, so that a repetition finds a clear outcome.
    let answer = app.to_end(work).await?;
    let status = if answer["created"] == true { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(answer)))
}

async fn pin_once(
    session: &Session,
    order: PinOrderRequestBody,
    since: Vec<Event>,
) -> Result<Value, ApiProblem> {
    let wanted = order.replaces.map(OrderId::from);
    // After a crash in the middle of the first attempt, the replaced order is already inactive. The log shows whether
    // the new one was pinned.
    let done = since.iter().find_map(|event| match &event.body {
        EventBody::OrderPinned { order_id, text, replaces, .. }
            if *text == order.text && *replaces == wanted =>
        {
            Some(order_id)
        }
        _ => None,
    });
    let known = session.orders().await?;
    let done = done.and_then(|id| known.into_iter().find(|known| known.id == *id));
    let pinned = match done {
        Some(order) => PinOutcome { order, is_new: true },
        None => session.pin_order(order.text, wanted).await?,
    };
    tracing::info!(session = %session.id(), order = %pinned.order.id, is_new = pinned.is_new, "a standing order was pinned");
    Ok(json!({ "ok": true, "created": pinned.is_new, "order": shown(&pinned.order) }))
}

/// Edit a standing order
#[utoipa::path(patch, path = "/api/sessions/{id}/orders/{order}", operation_id = "editOrder", tag = "context", params(("id" = String, Path), ("order" = String, Path)), request_body = EditOrderRequestBody,
    responses((status = 200, body = answer::ChangeOrderResponse, description = "Changed")))]
pub(crate) async fn edit(
    State(app): State<AppState>,
    PathParams((id, order)): PathParams<(String, String)>,
    JsonBody(edit): JsonBody<EditOrderRequestBody>,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&id).await?;
    // No key is needed: a repeated change has the same result.
    let work = async move {
        let order = session.edit_order(OrderId::from(order), edit.text).await?;
        Ok(json!({ "ok": true, "order": shown(&order) }))
    };
    app.to_end(work).await.map(Json)
}

/// Remove a standing order; the log keeps it
#[utoipa::path(delete, path = "/api/sessions/{id}/orders/{order}", operation_id = "removeOrder", tag = "context", params(("id" = String, Path), ("order" = String, Path)),
    responses((status = 200, body = answer::ChangeOrderResponse, description = "Removed")))]
pub(crate) async fn remove(
    State(app): State<AppState>,
    PathParams((id, order)): PathParams<(String, String)>,
) -> Result<Json<Value>, ApiProblem> {
    let session = app.open(&id).await?;
    let work = async move {
        let order = session.remove_order(OrderId::from(order)).await?;
        Ok(json!({ "ok": true, "order": shown(&order) }))
    };
    app.to_end(work).await.map(Json)
}

fn shown(order: &StandingOrder) -> Value {
    let mut shown = json!({
        "id": order.id, "text": order.text, "source": order.source, "seq": order.at, "state": order.state.as_str(),
    });
    if let Some(from) = order.from {
        shown["fromSeq"] = from.into();
    }
    if let OrderState::Superseded { by } = &order.state {
        shown["supersededBy"] = by.as_str().into();
    }
    shown
}
