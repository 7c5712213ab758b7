//! The proxy to other nodes on the same store. A request for a session of another node is sent there, and the answer is
//! passed on.
//!
//! The routes know nothing of nodes. A route's answer marks a request as another node's only if the session is
//! held there. After a node's death, the node with the next request takes over the session.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, ClusterNode, NodeStatus, SharedNodes, StoreError};
use uuid::Uuid;

use crate::app::AppState;
use crate::extract::{self, IdempotencyKey};
use crate::problem::ApiProblem;
use crate::routes::{control, gateway, message};

/// The header of a forwarded request. Such a request is not sent on again.
const SENT_ON: HeaderName = HeaderName::from_static("x-longhaul-node");
/// The header's value in the answer of a node without the session.
const ANOTHER: &str = "another";
const MESSAGE: &str = "/api/message";
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The time-out of a connection to a node.
const CONNECT: Duration = Duration::from_secs(2);

/// The interval of checks for the session's presence at the asked node.
const LOOK: Duration = Duration::from_secs(1);

/// The interval of checks of a silent node's reachability.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// The maximum number of forwards of one request to other nodes.
// A session moves when its node ends or is cut off. A request that meets several moves in a row would only add to the
// trouble.
const MOVES: usize = 4;

/// The headers forwarded by a node.
// The client's credentials are not among them: nodes authenticate themselves by a secret of their own.
const PASSED: [&str; 5] =
    ["accept", "content-type", "idempotency-key", "last-event-id", "x-longhaul-session"];

/// A mark on an answer whose session another node has.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSessionMarker(pub(crate) SessionId);

/// The HTTP clients for other nodes, and their reachability.
#[derive(Clone, Debug)]
pub(crate) struct ClusterProxy {
    client: reqwest::Client,
    /// A client with a new connection for each health probe.
    probe_client: reqwest::Client,
    /// The reachability of nodes by address.
    reachability: Arc<Mutex<HashMap<String, NodeReachability>>>,
}

fn client_builder() -> reqwest::ClientBuilder {
    // A proxy of the environment leads to the web and not to the other nodes.
    // A request may stream for hours, so only the connection has a time-out.
    reqwest::Client::builder().connect_timeout(CONNECT).no_proxy()
}

impl Default for ClusterProxy {
    fn default() -> Self {
        // Building a client with these options cannot fail.
        Self {
            client: client_builder().build().unwrap_or_default(),
            // A pooled connection to a vanished node gives no sign, a new one fails in time.
            probe_client: client_builder().pool_max_idle_per_host(0).build().unwrap_or_default(),
            reachability: Arc::default(),
        }
    }
}

/// The outcome of a request at another node.
enum ProxyOutcome {
    Answered(Response),
    /// The session has moved away from the node.
    Moved,
    /// The node is shutting down and starts nothing new.
    Ending(Response),
    /// The node is alive and has the session, but cannot be reached from here.
    Unreached,
    /// The node was reached, but its answer did not arrive.
    BrokenOff,
}

/// Answers a request at this node, or through the session's node.
pub(crate) async fn pass_on(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let Some(nodes) = app.runtime().nodes().cloned() else { return next.run(request).await };
    let path = request.uri().path();
    // Only these routes are about a session, which one node has (decision 0028). All others work on every node.
    let may_pass = path.starts_with("/api/") || is_of_agents(request.method(), path);
    if !may_pass {
        return next.run(request).await;
    }
    // Two nodes with different views of the owner would send a request back and forth.
    if is_sent_on(request.headers()) {
        return for_another(&app, request, next).await;
    }
    let (mut parts, body) = request.into_parts();
    // The body is read whole, because it may be sent to several nodes one after the other.
    let body = match extract::read(Request::from_parts(parts.clone(), body), &app).await {
        Ok((_, body)) => body,
        Err(problem) => return problem_response(&parts, problem),
    };
    let mut broken_off = None;
    for _ in 0..MOVES {
        let here = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let answer = next.clone().run(here).await;
        let Some(RemoteSessionMarker(session)) = answer.extensions().get().cloned() else { return answer };
        // The other node may do the work and lose the answer. A key lets it recognise the repeated request.
        if parts.method == Method::POST && !parts.headers.contains_key(KEY) {
            let key = HeaderValue::try_from(Uuid::now_v7().to_string());
            parts.headers.extend(key.ok().map(|key| (KEY, key)));
        }
        let owner = match other_owner(&nodes, &session).await {
            // This node is shutting down and opens nothing any more.
            None if app.is_draining() => another(&nodes).await,
            owner => owner,
        };
        let Some(owner) = owner else {
            // A session that is in use and has no other owner is in use here. Waiting would not help.
            if answer.status() == StatusCode::CONFLICT {
                return answer;
            }
            tracing::debug!(%session, "the session is between two nodes: the request is tried again");
            // The session is between two owners. The next round finds the new one, or this node takes the session.
            tokio::time::sleep(LOOK / 4).await;
            continue;
        };
        tracing::debug!(
            %session,
            node = %owner.boot_id,
            address = owner.address.as_deref(),
            body_bytes = body.len(),
            "the request is passed to the node that has the session"
        );
        match app.peers().send(&app, &nodes, (&session, &owner), (&parts, &body)).await {
            ProxyOutcome::Answered(response) => return response,
            ProxyOutcome::Moved => {
                tracing::debug!(%session, node = %owner.boot_id, "the session has moved: its new node is looked for");
                broken_off = None;
            }
            ProxyOutcome::Ending(response) => {
                tracing::debug!(%session, node = %owner.boot_id, "the node is shutting down: another may take over");
                tokio::time::sleep(LOOK / 4).await;
                if has(&nodes, &session, &owner.boot_id).await {
                    return response;
                }
                broken_off = None;
            }
            ProxyOutcome::Unreached => {
                tracing::info!(
                    %session,
                    node = %owner.boot_id,
                    address = owner.address.as_deref(),
                    "the node that has the session is unreachable: the request is left for it in the store"
                );
                return leave_for_node(&app, &session, &parts, body).await;
            }
            ProxyOutcome::BrokenOff => broken_off = Some(session),
        }
    }
    match broken_off {
        // The request has a key, so a message that the node took after all exists only once. A cancel may have been
        // done.
        Some(session) if parts.uri.path() == MESSAGE => leave_for_node(&app, &session, &parts, body).await,
        _ if app.is_draining() => problem_response(&parts, StoreError::Closed.into()),
        _ => {
            tracing::warn!(moves = MOVES, "given up: the session moved between nodes during the request");
            problem_response(&parts, unreached())
        }
    }
}

/// Answers a request from another node. The answer says so if this node does not have the session, or is shutting down.
async fn for_another(app: &AppState, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut answer = next.run(Request::from_parts(parts.clone(), body)).await;
    if let Some(RemoteSessionMarker(session)) = answer.extensions().get() {
        tracing::debug!(%session, "another node asked for a session that is not here");
        answer.headers_mut().insert(SENT_ON, HeaderValue::from_static(ANOTHER));
        return answer;
    }
    if !app.is_draining() || answer.status() != StatusCode::SERVICE_UNAVAILABLE {
        return answer;
    }
    let mut answer = problem_response(&parts, ApiProblem::ending_there());
    answer.headers_mut().insert(SENT_ON, HeaderValue::from_static("ending"));
    answer
}

/// Returns whether another node sent the request on.
pub(crate) fn is_sent_on(headers: &HeaderMap) -> bool {
    headers.contains_key(SENT_ON)
}

/// Returns whether the path is one of the gateway's, where a client may ask for an agent.
fn is_of_agents(method: &Method, path: &str) -> bool {
    *method == Method::POST && path.starts_with(gateway::ROOT)
}

/// Returns a problem in the form for clients of the path.
fn problem_response(parts: &Parts, problem: ApiProblem) -> Response {
    match parts.uri.path() {
        path if path.starts_with(gateway::ROOT) => gateway::refused_at(path, &problem),
        _ => problem.into_response(),
    }
}

/// Refuses the request if another living node has the session.
///
/// # Errors
/// `Elsewhere` if another node has the session.
pub(crate) async fn here(app: &AppState, session: &SessionId) -> Result<(), ApiProblem> {
    let Some(nodes) = app.runtime().nodes() else { return Ok(()) };
    match other_owner(nodes, session).await {
        Some(owner) => Err(StoreError::Elsewhere { session: session.clone(), address: owner.address }.into()),
        None => Ok(()),
    }
}

/// Returns the open approvals at other nodes, unless the request comes from another node.
pub(crate) async fn approvals(app: &AppState, headers: &HeaderMap) -> Vec<serde_json::Value> {
    if is_sent_on(headers) {
        Vec::new()
    } else {
        collect_from_other_nodes(app, "/api/approvals", "approvals").await
    }
}

/// Returns the active sessions at other nodes, with status in the API's words.
pub(crate) async fn working(app: &AppState) -> HashMap<String, String> {
    let sessions = collect_from_other_nodes(app, "/api/sessions", "sessions").await.into_iter();
    let named = sessions.filter_map(|session| {
        Some((session["id"].as_str()?.to_owned(), session["status"].as_str()?.to_owned()))
    });
    named.collect()
}

/// Returns a joint list of all other nodes with an answer in time.
async fn collect_from_other_nodes(app: &AppState, path: &str, list: &str) -> Vec<serde_json::Value> {
    let Some(nodes) = app.runtime().nodes() else { return Vec::new() };
    let asked = others(nodes).await.into_iter().map(|node| async move {
        let url = format!("http://{}{path}", node.address?);
        // A list without one node is better than a list that waits for it.
        let request = app.peers().client.get(url).headers(credentials(app)).timeout(CONNECT);
        let bytes = request.send().await.ok()?.bytes().await.ok()?;
        let mut answer: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        answer.get_mut(list)?.as_array_mut().map(std::mem::take)
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().flatten().collect()
}

impl ClusterProxy {
    async fn send(
        &self,
        app: &AppState,
        nodes: &SharedNodes,
        (session, owner): (&SessionId, &ClusterNode),
        (parts, body): (&Parts, &Bytes),
    ) -> ProxyOutcome {
        let Some(address) = &owner.address else { return ProxyOutcome::Unreached };
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
            () = wait_until_session_moved(nodes.clone(), session.clone(), owner.boot_id.clone()) => return ProxyOutcome::Moved,
            () = self.clone().wait_until_unreachable(address.clone()) => return ProxyOutcome::Unreached,
        };
        match answer {
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                tracing::error!(%address, "a node has another token: all must be started with the same --token-file");
                ProxyOutcome::Unreached
            }
            // A node has restarted after a crash, or another server answers at the advertised address.
            Ok(answer) if answer.headers().get(SENT_ON).is_some_and(|said| said == ANOTHER) => {
                // The owner's entry tells the two cases apart: a restarted node has another boot id.
                if !has(nodes, session, &owner.boot_id).await {
                    return ProxyOutcome::Moved;
                }
                tracing::warn!(%session, %address, "the node at this address does not have the session: the \
                                                    node that had it has died, or advertises a wrong \
                                                    address (--advertise)");
                ProxyOutcome::Unreached
            }
            Ok(answer) => {
                let is_ending = answer.headers().contains_key(SENT_ON);
                let lost = wait_until_session_moved(nodes.clone(), session.clone(), owner.boot_id.clone());
                let silent = self.clone().wait_until_unreachable(address.clone());
                let until = async move {
                    tokio::select! {
                        () = lost => {}
                        () = silent => {}
                    }
                };
                let response = passed_back(answer, parts.uri.path(), until);
                if is_ending { ProxyOutcome::Ending(response) } else { ProxyOutcome::Answered(response) }
            }
            Err(error) if error.is_connect() => ProxyOutcome::Unreached,
            // The connection broke. If the node has died, another one takes the session over, so a short wait helps.
            Err(error) => {
                tracing::warn!(%session, %error, "the node that has the session broke off");
                tokio::time::sleep(LOOK).await;
                ProxyOutcome::BrokenOff
            }
        }
    }

    /// Waits until the node at `address` is unreachable. An open connection gives no sign when its peer vanishes.
    async fn wait_until_unreachable(self, address: String) {
        let url = format!("http://{address}/healthz");
        let begun = Instant::now();
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            // Of all requests that wait for this node only one sends the probe.
            if self.claim_due_probe(&address) {
                let heard = self.probe_client.get(&url).timeout(CONNECT).send().await.is_ok();
                if !heard {
                    tracing::debug!(%address, timeout = ?CONNECT, "a health probe of a silent node got no answer");
                }
                self.note(&address, heard);
            }
            if self.is_unreachable_since(&address, begun) {
                return;
            }
        }
    }

    /// Returns whether a probe is due. A caller that gets `true` must send the probe.
    fn claim_due_probe(&self, address: &str) -> bool {
        let mut reachability = self.reachability();
        let now = Instant::now();
        let node = reachability.entry(address.to_owned()).or_default();
        // Half of the interval, because the waiting requests do not tick at the same time.
        let is_due =
            node.probed_at.is_none_or(|probed_at| now.duration_since(probed_at) >= PROBE_INTERVAL / 2);
        if is_due {
            node.probed_at = Some(now);
        }
        is_due
    }

    fn note(&self, address: &str, heard: bool) {
        let mut reachability = self.reachability();
        let node = reachability.entry(address.to_owned()).or_default();
        node.silences = if heard { 0 } else { node.silences.saturating_add(1) };
        node.silent = (!heard).then(Instant::now);
    }

    fn is_unreachable_since(&self, address: &str, since: Instant) -> bool {
        let reachability = self.reachability();
        let node = reachability.get(address);
        // One lost probe proves little, and silence from before the request began says nothing about now.
        node.is_some_and(|node| node.silences >= 2 && node.silent.is_some_and(|silent| silent > since))
    }

    /// Returns the lock on the reachability. No code panics under the lock.
    fn reachability(&self) -> MutexGuard<'_, HashMap<String, NodeReachability>> {
        self.reachability.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reachability of a node.
#[derive(Debug, Default)]
struct NodeReachability {
    probed_at: Option<Instant>,
    /// The number of successive probes without an answer, and the time of the newest one.
    silences: u32,
    silent: Option<Instant>,
}

/// Returns another node's answer. The answer ends when the other node loses the session, so that a watcher
/// reconnects.
fn passed_back(
    answer: reqwest::Response,
    path: &str,
    until: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let status = answer.status();
    let mut headers = HeaderMap::new();
    for (name, value) in answer.headers() {
        let name_text = name.as_str();
        let is_of_connection = ["connection", "transfer-encoding", "keep-alive"].contains(&name_text);
        // The other node names its cookie after its own port, so the cookie would be of no use here.
        if !is_of_connection && name_text != "set-cookie" && name != SENT_ON {
            headers.insert(name, value.clone());
        }
    }
    let is_stream =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let pieces = answer.bytes_stream();
    let body = if !is_stream {
        Body::from_stream(pieces)
    } else if path.starts_with(gateway::ROOT) {
        // Clients of a model API expect an error event where the stream breaks off.
        let relayed = ProxiedEventStream {
            pieces: Box::pin(pieces),
            until: Box::pin(until),
            begun: Vec::new(),
            broken_off: Some(gateway::event_at(path, &ApiProblem::broke_off())),
        };
        Body::from_stream(futures_util::stream::unfold(relayed, async |mut relayed| {
            let events = relayed.next().await?;
            Some((Ok::<_, Infallible>(events), relayed))
        }))
    } else {
        Body::from_stream(pieces.take_until(Box::pin(until)))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A stream of another node for a client without knowledge of nodes. Complete events pass, and an error event
/// ends a broken stream.
struct ProxiedEventStream {
    pieces: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    until: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The beginning of an incomplete event.
    begun: Vec<u8>,
    /// The error event for a break; `None` once the stream is over.
    broken_off: Option<Vec<u8>>,
}

impl ProxiedEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        self.broken_off.as_ref()?;
        loop {
            let piece = tokio::select! {
                biased;
                // Polled first, so that data which has arrived is passed on before the stream is given up.
                piece = self.pieces.next() => piece,
                () = &mut self.until => return self.broken_off.take().map(Bytes::from),
            };
            match piece {
                Some(Ok(piece)) => self.begun.extend_from_slice(&piece),
                Some(Err(_)) => return self.broken_off.take().map(Bytes::from),
                None => {
                    self.broken_off = None;
                    let rest = std::mem::take(&mut self.begun);
                    return (!rest.is_empty()).then(|| rest.into());
                }
            }
            // Only whole events pass, so that an error event never lands inside another one.
            if let Some(end) = self.begun.windows(2).rposition(|pair| pair == b"\n\n") {
                return Some(self.begun.drain(..end + 2).collect::<Vec<u8>>().into());
            }
        }
    }
}

/// Does what is possible for a session whose node is unreachable: a message waits in the queue, a cancel is left for
/// the node.
async fn leave_for_node(app: &AppState, session: &SessionId, parts: &Parts, body: Bytes) -> Response {
    let path = parts.uri.path();
    let left = match (&parts.method, path.strip_prefix("/api/")) {
        (&Method::POST, _) if path == MESSAGE => message::leave(app, session, key_of(parts), &body).await,
        (&Method::POST, Some(rest)) if rest.ends_with("/cancel") => {
            // A cancel is harmless if it arrives late, so it may wait in the store.
            control::leave(app, session, key_of(parts), &body).await
        }
        _ => Err(unreached()),
    };
    match left {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(problem) => problem_response(parts, problem),
    }
}

fn key_of(parts: &Parts) -> IdempotencyKey {
    IdempotencyKey(parts.headers.get(KEY).and_then(|key| key.to_str().ok()).map(str::to_owned))
}

/// Waits until the node no longer has the session.
async fn wait_until_session_moved(nodes: SharedNodes, session: SessionId, boot: BootId) {
    loop {
        tokio::time::sleep(LOOK).await;
        if !has(&nodes, &session, &boot).await {
            return;
        }
    }
}

/// Returns whether the node still has the session.
async fn has(nodes: &SharedNodes, session: &SessionId, boot: &BootId) -> bool {
    match nodes.living_owner(session).await {
        Ok(owner) => owner.is_some_and(|owner| owner.boot_id == *boot),
        // An unreachable database says nothing about a node.
        Err(_) => true,
    }
}

/// Returns another living node.
async fn another(nodes: &SharedNodes) -> Option<ClusterNode> {
    others(nodes).await.pop()
}

async fn others(nodes: &SharedNodes) -> Vec<ClusterNode> {
    let own = own(nodes);
    let mut all = nodes.nodes().await.unwrap_or_default();
    all.retain(|node| Some(&node.boot_id) != own.as_ref());
    all
}

/// Returns the session's other node.
async fn other_owner(nodes: &SharedNodes, session: &SessionId) -> Option<ClusterNode> {
    // A node that has lost the database would wait here for the query.
    let own = own(nodes)?;
    let owner = nodes.living_owner(session).await.ok()??;
    (owner.boot_id != own).then_some(owner)
}

fn own(nodes: &SharedNodes) -> Option<BootId> {
    match &*nodes.standing().borrow() {
        NodeStatus::Joined(boot) => Some(boot.clone()),
        _ => None,
    }
}

/// Returns the headers for authorisation at another node.
fn credentials(app: &AppState) -> HeaderMap {
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

fn unreached() -> ApiProblem {
    ApiProblem::unreached()
}
