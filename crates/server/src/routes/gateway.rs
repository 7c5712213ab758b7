//! `/v1`: the gateway's routes for clients of other providers' APIs. The gateway writes the answers. The server's own
//! refusals are in the client's dialect, too.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::StreamExt;
use longhaul::agents::AgentEntry;
use longhaul_gateway::{ClientRequest, Gateway, GatewayReply, RelayEndpoint, ReplyBody};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind};
use longhaul_wire::response_writer::{self, ResponseHead};
use serde_json::{Value, json};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::agents_as_models::{self, AgentModelRequest};
use crate::app::AppState;
use crate::extract::{self, PathParams};
use crate::guard::RequestAuthInfo;
use crate::problem::ApiProblem;

/// The path prefix of the gateway.
pub(crate) const ROOT: &str = "/v1/";

/// The number of models above which servers are not queried for each window: most of the models are not loaded.
const MOST_ASKED: usize = 16;

/// The time-out of such a query.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the gateway's routes, documented by the providers.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/models", get(models))
        .route("/models/{*name}", get(model))
        .route("/chat/completions", post(chat))
        .route("/responses", post(responses))
        .route("/responses/compact", post(compact))
        .route("/messages", post(messages))
        .route("/messages/count_tokens", post(count_tokens))
        .route("/embeddings", post(embeddings))
        .route("/completions", post(completions))
}

/// Answers Chat Completions requests.
async fn chat(State(app): State<AppState>, request: Request) -> Response {
    answer_client(&app, Dialect::Chat, request, GatewayRequestKind::Answer).await
}

/// Answers OpenAI's Responses requests.
async fn responses(State(app): State<AppState>, request: Request) -> Response {
    answer_client(&app, Dialect::Responses, request, GatewayRequestKind::Answer).await
}

/// Answers with the compacted items of a conversation of OpenAI's Responses.
async fn compact(State(app): State<AppState>, request: Request) -> Response {
    answer_client(&app, Dialect::Responses, request, GatewayRequestKind::Compaction).await
}

/// Answers Anthropic's Messages requests.
async fn messages(State(app): State<AppState>, request: Request) -> Response {
    answer_client(&app, Dialect::Messages, request, GatewayRequestKind::Answer).await
}

/// Counts the tokens of a Messages request.
async fn count_tokens(State(app): State<AppState>, request: Request) -> Response {
    answer_client(&app, Dialect::Messages, request, GatewayRequestKind::Count).await
}

/// Relays embeddings requests.
async fn embeddings(State(app): State<AppState>, request: Request) -> Response {
    passed(&app, RelayEndpoint::Embeddings, request).await
}

/// Relays text completion requests.
async fn completions(State(app): State<AppState>, request: Request) -> Response {
    passed(&app, RelayEndpoint::Completions, request).await
}

/// Lists the models, in a form that the clients of both providers can read. Callers with the token see agents, too.
async fn models(State(app): State<AppState>, request: Request) -> Response {
    match entries(&app, shows_token(&request)).await {
        // `object` is read by OpenAI's clients, `has_more` by Anthropic's.
        Some(data) => Json(json!({ "object": "list", "data": data, "has_more": false })).into_response(),
        None => missing(Dialect::Chat),
    }
}

/// Shows one model.
async fn model(
    State(app): State<AppState>,
    name: Result<PathParams<String>, ApiProblem>,
    request: Request,
) -> Response {
    let name = match name {
        Ok(PathParams(name)) => name,
        Err(problem) => return error_response(Dialect::Chat, fault_of(&problem)),
    };
    let Some(data) = entries(&app, shows_token(&request)).await else { return missing(Dialect::Chat) };
    match data.into_iter().find(|entry| entry["id"] == name.as_str()) {
        Some(entry) => Json(entry).into_response(),
        None => error_response(
            Dialect::Chat,
            GatewayError::new(GatewayErrorKind::NotFound, format!("there is no model `{name}`")),
        ),
    }
}

async fn entries(app: &AppState, with_agents: bool) -> Option<Vec<Value>> {
    let mut entries = Vec::new();
    let mut models = BTreeSet::new();
    match &app.config().gateway {
        Some(gateway) => {
            models = names(app, gateway).await;
            let asks = models.len() <= MOST_ASKED;
            let listed = models.iter().map(|name| entry(gateway, name, asks));
            // All at once, so that one slow server delays the list only by its own time-out.
            entries.extend(futures_util::future::join_all(listed).await);
        }
        None if !with_agents => return None,
        None => {}
    }
    if with_agents {
        // An agent that cannot be used would fail at the first request.
        let agents = app.runtime().agents().into_iter().filter(|agent| agent.why.is_none());
        entries.extend(agents.map(|agent| of_agent(&agent, models.contains(&agent.name))));
    }
    Some(entries)
}

/// Returns whether a model has the name.
pub(super) async fn is_listed(app: &AppState, name: &str) -> bool {
    match &app.config().gateway {
        Some(gateway) => names(app, gateway).await.contains(name),
        None => false,
    }
}

/// Returns an agent as a model. An agent with the name of a model gets the prefix.
fn of_agent(agent: &AgentEntry, is_model: bool) -> Value {
    let prefix = if is_model { agents_as_models::PREFIX } else { "" };
    json!({
        "id": format!("{prefix}{}", agent.name), "object": "model", "created": 0, "owned_by": "longhaul",
        "type": "model", "display_name": agent.name, "x_longhaul": { "agent": true, "model": agent.model },
    })
}

/// Returns the names of the upstreams' models, and of the configured model's server if the server is an
/// upstream. The demo's model has no server.
async fn names(app: &AppState, gateway: &Gateway) -> BTreeSet<String> {
    let usual = if gateway.has_usual() { app.runtime().models_of_usual().await } else { Vec::new() };
    let mut names: BTreeSet<String> = usual.into_iter().collect();
    names.extend(gateway.models().into_iter().map(|model| model.name));
    names
}

async fn entry(gateway: &Gateway, name: &str, asks: bool) -> Value {
    // A server that does not answer in time leaves the window as far as it is known.
    let asked = tokio::time::timeout(PATIENCE, gateway.window(name, asks)).await;
    let window = match asked {
        Ok(window) => window,
        Err(_) => gateway.window(name, false).await,
    };
    // This is the model's own window. Through the gateway a conversation may be longer.
    json!({
        "id": name, "object": "model", "created": 0, "owned_by": "longhaul",
        "type": "model", "display_name": name,
        "x_longhaul": {
            "window": window.map(|window| window.tokens),
            "window_source": window.map(|window| window.said()),
        },
    })
}

/// The purpose of a client's request.
enum GatewayRequestKind {
    Answer,
    Count,
    Compaction,
}

async fn passed(app: &AppState, path: RelayEndpoint, request: Request) -> Response {
    // Counted before the body is read, so that a shutdown waits for this request too.
    let answering = app.answering();
    let (headers, body) = match read(app, Dialect::Chat, request).await {
        Ok(read) => read,
        Err(refusal) => return *refusal,
    };
    let Some(gateway) = &app.config().gateway else { return missing(Dialect::Chat) };
    let call = ClientRequest { dialect: Dialect::Chat, headers: without_token(app, headers), body };
    response(gateway.relay_request(path, call).await, Some(answering))
}

/// Reads head and body of a request, or returns the refusal as an answer.
async fn read(
    app: &AppState,
    dialect: Dialect,
    request: Request,
) -> Result<(HeaderMap, Bytes), Box<Response>> {
    if let Err(problem) = app.takes_work() {
        return Err(Box::new(refused(dialect, &problem)));
    }
    if let Some(coding) = coding(request.headers()) {
        // The body is read to its end in the background: a connection that closes early may lose the answer.
        extract::leave(request, app);
        let message =
            format!("the body comes with Content-Encoding: {coding}; send it as it is, without a coding");
        return Err(Box::new(error_response(
            dialect,
            GatewayError::new(GatewayErrorKind::Unsupported, message),
        )));
    }
    extract::read(request, app).await.map_err(|problem| Box::new(refused(dialect, &problem)))
}

async fn answer_client(
    app: &AppState,
    dialect: Dialect,
    request: Request,
    asked: GatewayRequestKind,
) -> Response {
    // Counted before the body is read, so that a shutdown waits for this request too.
    let answering = app.answering();
    // The request is consumed below, so its authentication is read first.
    let is_known = shows_token(&request);
    let (headers, body) = match read(app, dialect, request).await {
        Ok(read) => read,
        Err(refusal) => return *refusal,
    };
    let read = match &app.config().gateway {
        Some(gateway) => {
            let call =
                ClientRequest { dialect, headers: without_token(app, headers.clone()), body: body.clone() };
            Some(gateway.read(call).await)
        }
        None => None,
    };
    let model = match &read {
        Some(Ok(request)) => Some(request.model().to_owned()),
        // A request that the gateway cannot read may still be valid for an agent.
        Some(Err(_)) | None => agents_as_models::model_of(&body),
    };
    let meant = match agents_as_models::find_agent(app, model).await {
        Ok(meant) => meant,
        Err(fault) if is_known => return error_response(dialect, fault),
        // A caller without the token must not learn which agents exist.
        Err(_) => return refused(dialect, &ApiProblem::unauthorized()),
    };
    if let Some((agent, model)) = meant {
        return match (is_known, asked) {
            // An agent can do more than a model, so the token is needed on this machine too (decision 0026).
            (false, _) => refused(dialect, &ApiProblem::unauthorized()),
            (true, GatewayRequestKind::Answer) => {
                agents_as_models::answer(app, AgentModelRequest { dialect, agent, model, headers, body })
                    .await
            }
            (true, GatewayRequestKind::Count | GatewayRequestKind::Compaction) => {
                let message = format!("`{model}` is an agent: it keeps its conversations itself");
                error_response(dialect, GatewayError::new(GatewayErrorKind::Invalid, message))
            }
        };
    }
    let request = match read {
        Some(Ok(request)) => request,
        Some(Err(fault)) => return error_response(dialect, fault),
        None => return missing(dialect),
    };
    let reply = match asked {
        GatewayRequestKind::Answer => request.answer().await,
        GatewayRequestKind::Count => request.count_tokens().await,
        GatewayRequestKind::Compaction => request.compact().await,
    };
    response(reply, Some(answering))
}

/// Returns the content encoding of a body, if any.
fn coding(headers: &HeaderMap) -> Option<String> {
    // A value that is no text cannot be `identity`.
    let named = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?"));
    let mut codings = named.flat_map(|list| list.split(',')).map(str::trim);
    let coding = codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))?;
    // The value is the client's and goes into an error message, so it is cut.
    Some(coding.chars().take(50).collect())
}

/// Returns whether the caller has shown the token.
fn shows_token(request: &Request) -> bool {
    request.extensions().get::<RequestAuthInfo>().is_some_and(|visit| visit.is_known)
}

/// Removes the server's token from the headers. The token must not reach an upstream.
fn without_token(app: &AppState, mut headers: HeaderMap) -> HeaderMap {
    let token = &app.config().token;
    // Clients send the token in several headers, with a scheme or without.
    let ours = headers.iter().filter(|(_, value)| {
        let words = value.to_str().unwrap_or_default().split_whitespace();
        words.last().is_some_and(|word| token.matches(word))
    });
    let ours: Vec<_> = ours.map(|(name, _)| name.clone()).collect();
    for name in ours {
        headers.remove(name);
    }
    headers
}

/// Returns the reply as a response. `answering` lives as long as the stream.
fn response(reply: GatewayReply, answering: Option<TaskTrackerToken>) -> Response {
    let body = match reply.body {
        ReplyBody::Whole(bytes) => Body::from(bytes),
        ReplyBody::Stream(pieces) => Body::from_stream(pieces.inspect(move |_| {
            // The closure owns the guard, so the shutdown waits until the stream is dropped.
            let _ = &answering;
        })),
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

fn missing(dialect: Dialect) -> Response {
    let message =
        "There is no model server behind this gateway: name one with `model:` in longhaul.yml, or start one.";
    error_response(dialect, GatewayError::new(GatewayErrorKind::NotFound, message.to_owned()))
}

/// Returns the server's refusal of a gateway request, in the dialect of the path.
pub(crate) fn refused_at(path: &str, problem: &ApiProblem) -> Response {
    let dialect = dialect_at(path);
    let mut fault = fault_of(problem);
    if let Some(hint) = hint(path) {
        fault.message = format!("{} {hint}", fault.message);
    }
    // Only the path was examined here, so the model is not what is absent.
    let kind = if fault.kind == GatewayErrorKind::Absent { GatewayErrorKind::NoSuchPath } else { fault.kind };
    error_response(dialect, GatewayError { kind, ..fault })
}

/// Returns a problem as the last event of a stream, in the dialect of the path.
pub(crate) fn event_at(path: &str, problem: &ApiProblem) -> Vec<u8> {
    let mut out = Vec::new();
    response_writer::stream(dialect_at(path), ResponseHead::default())
        .write_error(&fault_of(problem), &mut out);
    out
}

fn dialect_at(path: &str) -> Dialect {
    match without_roots(path) {
        path if path.starts_with("messages") => Dialect::Messages,
        path if path.starts_with("responses") => Dialect::Responses,
        _ => Dialect::Chat,
    }
}

/// Returns the path below [`ROOT`], without any repetition of the root.
fn without_roots(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    // All repetitions, because a base URL with `/v1` may meet a client that adds it again.
    path.trim_start_matches(&ROOT[1..])
}

/// Returns the address without superfluous slashes, a consequence of a base URL with a final slash; `None` if
/// nothing is wrong with the address.
pub(crate) fn tidy_uri(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") && !path.ends_with('/') {
        return None;
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let tidy = format!("/{}", segments.join("/"));
    // Only clients of the gateway build addresses from a base URL. Other paths stay as they are.
    if !tidy.starts_with(ROOT) {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{tidy}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns whether a client meant a path of the gateway, but its base URL lacks `/v1` or has it twice.
pub(crate) fn is_missed(path: &str) -> bool {
    let known = [
        "chat/completions",
        "responses",
        "responses/compact",
        "messages",
        "messages/count_tokens",
        "models",
        "embeddings",
        "completions",
    ];
    let meant = without_roots(path);
    known.contains(&meant) && path.strip_prefix(ROOT) != Some(meant)
}

/// Returns a hint at the mistake in a base URL.
fn hint(path: &str) -> Option<String> {
    let meant = without_roots(path);
    let wrong = if path.starts_with(ROOT) { "has /v1 once too often" } else { "lacks /v1" };
    is_missed(path).then(|| format!("The base URL {wrong}: the path here is {ROOT}{meant}."))
}

fn refused(dialect: Dialect, problem: &ApiProblem) -> Response {
    error_response(dialect, fault_of(problem))
}

/// Returns a problem as a gateway error.
pub(super) fn fault_of(problem: &ApiProblem) -> GatewayError {
    let kind = match problem.status() {
        StatusCode::UNAUTHORIZED => GatewayErrorKind::Auth,
        StatusCode::FORBIDDEN => GatewayErrorKind::Forbidden,
        StatusCode::NOT_FOUND => GatewayErrorKind::Absent,
        StatusCode::METHOD_NOT_ALLOWED => GatewayErrorKind::WrongMethod,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => GatewayErrorKind::Unsupported,
        StatusCode::PAYLOAD_TOO_LARGE => GatewayErrorKind::TooLarge,
        StatusCode::TOO_MANY_REQUESTS => GatewayErrorKind::RateLimit,
        StatusCode::REQUEST_TIMEOUT => GatewayErrorKind::TooSlow,
        StatusCode::SERVICE_UNAVAILABLE => GatewayErrorKind::Unavailable,
        status if status.is_client_error() => GatewayErrorKind::Invalid,
        _ => GatewayErrorKind::Internal,
    };
    GatewayError {
        status: problem.status(),
        retry_after: problem.retry_after(),
        ..GatewayError::new(kind, problem.detail().to_owned())
    }
}

pub(super) fn error_response(dialect: Dialect, fault: GatewayError) -> Response {
    response(longhaul_gateway::refusal_in(dialect, &fault), None)
}
