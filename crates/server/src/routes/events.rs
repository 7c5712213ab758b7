//! The stream of events.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use longhaul_core::ids::Seq;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::AppState;
use crate::extract::{PathParams, QueryParams};
use crate::problem::ApiProblem;
use crate::sse::{SsePosition, SseWatcher};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventStreamParams {
    /// The position after which events are sent. 0 sends all.
    #[param(value_type = Option<u64>)]
    after: Option<Seq>,
}

/// Stream the events of a session (server-sent events)
#[utoipa::path(get, path = "/api/sessions/{id}/events", operation_id = "watchEvents", tag = "events", params(("id" = String, Path), EventStreamParams, ("Last-Event-ID" = Option<String>, Header, pattern = r"^[0-9]+(\.[1-9][0-9]*)?$", description = "The `id` of the last received event. Takes precedence over `after`.")), 
    responses((status = 200, body = crate::openapi::answer::EventSchema, content_type = "text/event-stream", description = "A stream of events. `data:` is one `Event`, `event:` its name and `id:` its position. `3` is the whole of event 3, `3.1` the first of several announcements of event 3.")))]
pub(crate) async fn watch(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(from): QueryParams<EventStreamParams>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    // A reconnecting browser repeats its first address, so the `Last-Event-ID` header is the newer position.
    let position = last_event_id(&headers)?.or(from.after.map(SsePosition::from));
    let session = app.open(&id).await?;
    let frames = SseWatcher::behind(app, session, position).frames();
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // Without this header nginx collects the events and passes them on late.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<SsePosition>, ApiProblem> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let position = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    position.map(Some).ok_or_else(|| ApiProblem::invalid("Last-Event-ID is the number of an event."))
}
