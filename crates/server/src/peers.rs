//! Other nodes on the same store: a request for a session that one of them has is sent there, and its answer passed on.
//!
//! Whatever a route answers, one thing makes a request somebody else's: that the session is held by another node. So no
//! route knows of nodes. A node that dies in the middle leaves its sessions to whoever asks next.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, Node, SharedNodes, Standing};
use uuid::Uuid;

use crate::app::App;
use crate::extract;
use crate::problem::Problem;
use crate::routes::{control, message};

/// Says that a request was sent on by a node, and is not to be sent on again.
const SENT_ON: HeaderName = HeaderName::from_static("x-longhaul-node");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long a node may take to be reached.
const CONNECT: Duration = Duration::from_secs(2);

/// Between two looks whether the node that was asked still has the session.
const LOOK: Duration = Duration::from_secs(1);

/// A session moves this often in one request at most.
const MOVES: usize = 4;

/// Headers that a node sends on.
const PASSED: [&str; 4] = ["accept", "content-type", "idempotency-key", "last-event-id"];

/// Goes with an answer: the session is another node's.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere(pub(crate) SessionId);

/// The way to other nodes.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    client: reqwest::Client,
}

impl Default for Peers {
    fn default() -> Self {
        let builder = reqwest::Client::builder().connect_timeout(CONNECT).no_proxy();
        // The defaults always make a client.
        Self { client: builder.build().unwrap_or_default() }
    }
}

/// What became of a request at another node.
enum Sent {
    Answered(Response),
    /// The session is no longer there.
    Moved,
    /// The node lives and has the session, but is not reached from here.
    Unreached,
}

/// Answers here, or by the node that has the session.
pub(crate) async fn pass_on(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(nodes) = app.runtime().nodes().cloned() else { return next.run(request).await };
    if !request.uri().path().starts_with("/api/") || request.headers().contains_key(SENT_ON) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let body = match extract::read(Request::from_parts(parts.clone(), body), &app).await {
        Ok((_, body)) => body,
        Err(problem) => return problem.into_response(),
    };
    for _ in 0..MOVES {
        let here = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let answer = next.clone().run(here).await;
        let Some(Elsewhere(session)) = answer.extensions().get().cloned() else { return answer };
        // It may be done there and its answer lost: what comes again must be known.
        if parts.method == Method::POST && !parts.headers.contains_key(KEY) {
            let key = HeaderValue::try_from(Uuid::now_v7().to_string());
            parts.headers.extend(key.ok().map(|key| (KEY, key)));
        }
        let Some(owner) = owner(&nodes, &session).await else {
            if answer.status() == StatusCode::CONFLICT {
                return answer;
            }
            tokio::time::sleep(LOOK / 4).await;
            continue;
        };
        match app.peers().send(&app, &nodes, (&session, &owner), (&parts, &body)).await {
            Sent::Answered(response) => return response,
            Sent::Moved => {}
            Sent::Unreached => return left(&app, &session, &parts, body).await,
        }
    }
    unreached().into_response()
}

/// The questions that wait at other nodes, if this request is not one of theirs.
pub(crate) async fn approvals(app: &App, headers: &HeaderMap) -> Vec<serde_json::Value> {
    let (Some(nodes), false) = (app.runtime().nodes(), headers.contains_key(SENT_ON)) else {
        return Vec::new();
    };
    let own = own(nodes);
    let others = nodes.nodes().await.unwrap_or_default().into_iter();
    let asked = others.filter(|node| Some(&node.boot_id) != own.as_ref()).map(|node| async move {
        let url = format!("http://{}/api/approvals", node.address?);
        let request = app.peers().client.get(url).headers(credentials(app)).timeout(CONNECT);
        let bytes = request.send().await.ok()?.bytes().await.ok()?;
        let mut answer: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        answer.get_mut("approvals")?.as_array_mut().map(std::mem::take)
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().flatten().collect()
}

impl Peers {
    async fn send(
        &self,
        app: &App,
        nodes: &SharedNodes,
        (session, owner): (&SessionId, &Node),
        (parts, body): (&Parts, &Bytes),
    ) -> Sent {
        let Some(address) = &owner.address else { return Sent::Unreached };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = credentials(app);
        for name in PASSED {
            headers
                .extend(parts.headers.get(name).map(|value| (HeaderName::from_static(name), value.clone())));
        }
        let request = self.client.request(parts.method.clone(), format!("http://{address}{path}"));
        let answer = request.headers(headers).body(body.clone()).send();
        let answer = tokio::select! {
            answer = answer => answer,
            () = lost(nodes.clone(), session.clone(), owner.boot_id.clone()) => return Sent::Moved,
        };
        match answer {
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                tracing::error!(%address, "a node has another token: all must be started with the same --token-file");
                Sent::Unreached
            }
            Ok(answer) => Sent::Answered(passed_back(
                answer,
                lost(nodes.clone(), session.clone(), owner.boot_id.clone()),
            )),
            Err(error) if error.is_connect() => Sent::Unreached,
            // It broke off: if the node has died somebody takes the session over.
            Err(error) => {
                tracing::warn!(%session, %error, "the node that has the session broke off");
                tokio::time::sleep(LOOK).await;
                Sent::Moved
            }
        }
    }
}

/// The answer of another node. It ends when that node no longer has the session: who watches comes again.
fn passed_back(answer: reqwest::Response, until: impl Future<Output = ()> + Send + 'static) -> Response {
    let status = answer.status();
    let mut headers = HeaderMap::new();
    for (name, value) in answer.headers() {
        let name_text = name.as_str();
        let is_of_connection = ["connection", "transfer-encoding", "keep-alive"].contains(&name_text);
        if !is_of_connection && name_text != "set-cookie" {
            headers.insert(name, value.clone());
        }
    }
    let is_stream =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let pieces = answer.bytes_stream();
    let body = match is_stream {
        true => Body::from_stream(pieces.take_until(Box::pin(until))),
        false => Body::from_stream(pieces),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What can be done for a session whose node is not reached: a message waits in its queue, a cancel is left for it.
async fn left(app: &App, session: &SessionId, parts: &Parts, body: Bytes) -> Response {
    let path = parts.uri.path();
    let left = match (&parts.method, path.strip_prefix("/api/")) {
        (&Method::POST, Some("message")) => message::leave(app, session, &parts.headers, &body).await,
        (&Method::POST, Some(rest)) if rest.ends_with("/cancel") => control::leave(app, session, &body).await,
        _ => Err(unreached()),
    };
    match left {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// Done when the session is not that node's any more.
async fn lost(nodes: SharedNodes, session: SessionId, boot: BootId) {
    loop {
        tokio::time::sleep(LOOK).await;
        // A database that is away says nothing about a node.
        if let Ok(owner) = nodes.living_owner(&session).await
            && owner.is_none_or(|owner| owner.boot_id != boot)
        {
            return;
        }
    }
}

/// The other node that has the session.
async fn owner(nodes: &SharedNodes, session: &SessionId) -> Option<Node> {
    let owner = nodes.living_owner(session).await.ok()??;
    (Some(&owner.boot_id) != own(nodes).as_ref()).then_some(owner)
}

fn own(nodes: &SharedNodes) -> Option<BootId> {
    match &*nodes.standing().borrow() {
        Standing::Joined(boot) => Some(boot.clone()),
        Standing::Fenced | Standing::Left => None,
    }
}

/// What a node shows another one.
fn credentials(app: &App) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(SENT_ON, HeaderValue::from_static("1"));
    let shown = HeaderValue::try_from(format!("Bearer {}", app.config().token.of_nodes()));
    headers.extend(shown.ok().map(|mut shown| {
        shown.set_sensitive(true);
        (AUTHORIZATION, shown)
    }));
    headers
}

fn unreached() -> Problem {
    Problem::unreached()
}
