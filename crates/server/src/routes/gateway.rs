//! `/v1`: clients that speak another maker's dialect. What they get is the gateway's; what this server has against a
//! request is told in their dialect too.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use longhaul_gateway::wire::{Dialect, Fault, FaultKind};
use longhaul_gateway::{Call, Gateway, Reply, ReplyBody};
use serde_json::{Value, json};

use crate::app::App;
use crate::extract;
use crate::problem::Problem;

/// Below this everything is the gateway's.
pub(crate) const ROOT: &str = "/v1/";

/// Chat Completions.
pub(crate) async fn chat(State(app): State<App>, request: Request) -> Response {
    answered(&app, Dialect::Chat, request, Asked::Answer).await
}

/// OpenAI's Responses.
pub(crate) async fn responses(State(app): State<App>, request: Request) -> Response {
    answered(&app, Dialect::Responses, request, Asked::Answer).await
}

/// Anthropic's Messages.
pub(crate) async fn messages(State(app): State<App>, request: Request) -> Response {
    answered(&app, Dialect::Messages, request, Asked::Answer).await
}

/// How long a request of the Messages dialect would be.
pub(crate) async fn count_tokens(State(app): State<App>, request: Request) -> Response {
    answered(&app, Dialect::Messages, request, Asked::Count).await
}

/// The models that clients can ask for, in the shape that the clients of both makers read.
pub(crate) async fn models(State(app): State<App>) -> Response {
    let Some(gateway) = &app.config().gateway else { return missing(Dialect::Chat) };
    let names = app.runtime().models().await;
    let data: Vec<Value> = names.iter().map(|name| entry(gateway, name)).collect();
    Json(json!({ "object": "list", "data": data, "has_more": false })).into_response()
}

fn entry(gateway: &Gateway, name: &str) -> Value {
    let window = gateway.models().into_iter().find(|model| model.name == name).and_then(|model| model.window);
    // The window is the model's own: through the gateway a conversation may be longer.
    json!({
        "id": name, "object": "model", "created": 0, "owned_by": "longhaul",
        "type": "model", "display_name": name, "x_longhaul": { "window": window },
    })
}

/// What a client wants of its request.
enum Asked {
    Answer,
    Count,
}

async fn answered(app: &App, dialect: Dialect, request: Request, asked: Asked) -> Response {
    let Some(gateway) = &app.config().gateway else { return missing(dialect) };
    if let Err(problem) = app.takes_work() {
        return refused(dialect, &problem);
    }
    let (headers, body) = match extract::read(request, app).await {
        Ok(read) => read,
        Err(problem) => return refused(dialect, &problem),
    };
    let call = Call { dialect, headers, body };
    response(match asked {
        Asked::Answer => gateway.answer(call).await,
        Asked::Count => gateway.count_tokens(call).await,
    })
}

fn response(reply: Reply) -> Response {
    let body = match reply.body {
        ReplyBody::Whole(bytes) => Body::from(bytes),
        ReplyBody::Stream(pieces) => Body::from_stream(pieces),
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

fn missing(dialect: Dialect) -> Response {
    let message =
        "There is no model server behind this gateway: name one with `model:` in longhaul.yml, or start one.";
    told(dialect, Fault::new(FaultKind::NotFound, message.to_owned()))
}

/// What this server has against a request of the gateway's, as the dialect of its path says it.
pub(crate) fn refused_at(path: &str, problem: &Problem) -> Response {
    let dialect = match path.strip_prefix(ROOT).unwrap_or_default() {
        path if path.starts_with("messages") => Dialect::Messages,
        path if path.starts_with("responses") => Dialect::Responses,
        _ => Dialect::Chat,
    };
    refused(dialect, problem)
}

fn refused(dialect: Dialect, problem: &Problem) -> Response {
    let kind = match problem.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FaultKind::Auth,
        StatusCode::NOT_FOUND => FaultKind::NotFound,
        StatusCode::PAYLOAD_TOO_LARGE => FaultKind::TooLarge,
        StatusCode::TOO_MANY_REQUESTS => FaultKind::RateLimit,
        StatusCode::REQUEST_TIMEOUT => FaultKind::Timeout,
        status if status.is_client_error() => FaultKind::Invalid,
        _ => FaultKind::Internal,
    };
    let fault = Fault { status: problem.status(), ..Fault::new(kind, problem.detail().to_owned()) };
    told(dialect, fault)
}

fn told(dialect: Dialect, fault: Fault) -> Response {
    response(longhaul_gateway::refusal_in(dialect, &fault))
}
