//! The routes: one file for each subject.

pub(crate) mod agents;
pub(crate) mod agents_as_models;
pub(crate) mod agui;
pub(crate) mod approvals;
pub(crate) mod blobs;
pub(crate) mod compactions;
pub(crate) mod context;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod gateway;
pub(crate) mod health;
pub(crate) mod llm;
pub(crate) mod login;
pub(crate) mod message;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod orders;
pub(crate) mod page;
pub(crate) mod queue;
pub(crate) mod recall;
pub(crate) mod render;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod ui_stream;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, Uri};
use axum::middleware::{from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use longhaul_core::error::ErrorCode;

pub(crate) use self::agents_as_models::ConversationIndex;
pub(crate) use self::queue::entries as queue_entries;
use crate::app::AppState;
use crate::cluster_proxy::pass_on;
use crate::guard::guard;
use crate::openapi;
use crate::problem::ApiProblem;

/// Returns all routes behind the guard.
pub fn router(app: AppState) -> Router {
    // A layer runs after its route was found. The path must be normalised before, so an outer router does it.
    Router::new().fallback_service(guarded(app)).layer(map_request(put_path_right))
}

async fn put_path_right(mut request: Request) -> Request {
    if let Some(uri) = gateway::tidy_uri(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn guarded(app: AppState) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/web/{*path}", get(page::asset))
        .route("/open/{key}", get(login::open))
        .route("/api/login", post(login::login))
        .route("/api/logout", post(login::logout))
        .route("/metrics", get(metrics::show))
        .route("/openapi.json", get(openapi::document))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/api/message", post(message::send))
        .route("/api/message/queue", get(queue::list).delete(queue::clear))
        .route("/api/message/queue/{id}", patch(queue::edit).delete(queue::remove))
        .route("/api/sessions", post(sessions::create).get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show).delete(sessions::delete).patch(sessions::rename))
        .nest("/api/sessions/{id}", of_session())
        .route("/api/render", post(render::render))
        .route("/api/search", get(search::search))
        .route("/api/agents", get(agents::list))
        .route("/api/settings", get(settings::show).put(settings::change))
        .route("/api/models", get(models::list))
        .route("/api/approvals", get(approvals::list))
        .route("/api/approvals/{id}", post(approvals::decide))
        .route("/api/ui/chat", post(ui_stream::chat))
        .route("/api/ui/chat/{id}/stream", get(ui_stream::reconnect))
        .route("/api/ag-ui", post(agui::run))
        .nest("/v1", gateway::routes())
        // Clients of the gateway expect errors in their own form, also for paths that do not exist.
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(app.clone(), pass_on))
        // The extractors of this crate read and limit bodies.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

fn of_session() -> Router<AppState> {
    Router::new()
        .route("/messages", get(messages::page))
        .route("/context", get(context::show))
        .route("/events", get(events::watch))
        .route("/cancel", post(control::cancel))
        .route("/resume", post(control::resume))
        .route("/retry", post(control::retry))
        .route("/compact", post(compactions::compact))
        .route("/compactions", get(compactions::list))
        .route("/compactions/{edit}/undo", post(compactions::undo))
        .route("/compactions/{edit}/release", post(compactions::release))
        .route("/orders", get(orders::list).post(orders::pin))
        .route("/orders/{order}", patch(orders::edit).delete(orders::remove))
        .route("/fork", post(sessions::fork))
        .route("/llm", post(llm::switch))
        .route("/recall", get(recall::recall))
        .route("/export", get(export::export))
        .route("/blobs", post(blobs::upload))
        .route("/blobs/{hash}", get(blobs::read))
}

async fn unknown(uri: Uri) -> Response {
    // The path comes from anybody, may be long, and is quoted in the answer.
    let path: String = uri.path().chars().take(200).collect();
    refused(&uri, ApiProblem::not_found(format!("route {path}")))
}

async fn not_allowed(uri: Uri) -> Response {
    let detail = "This route does not support this method.";
    refused(&uri, ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::InvalidRequest, detail))
}

/// Returns a problem in the dialect for clients of the path.
fn refused(uri: &Uri, problem: ApiProblem) -> Response {
    if uri.path().starts_with(gateway::ROOT) || gateway::is_missed(uri.path()) {
        gateway::refused_at(uri.path(), &problem)
    } else {
        problem.into_response()
    }
}
