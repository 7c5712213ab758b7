//! Agents as models, for clients of other providers' APIs. Each conversation is a session of the server. The
//! client names the session, or the server finds the session by the conversation's content.

mod answer_event;
mod conversation_index;
mod parsed_request;
mod report;

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use longhaul::clock::now_ms;
use longhaul::import::import;
use longhaul::session::SessionError;
use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_store::NewSession;
use longhaul_wire::added_fields::{add_to_answer, add_to_stream_end};
use longhaul_wire::edit::ephemeral::comment;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind};
use longhaul_wire::response_writer::{self, ModelEvent, ResponseHead, ResponseWriter};
use serde::Deserialize;
use tokio::sync::mpsc;

use self::answer_event::{AgentAnswerEvent, AgentAnswerTask, TurnFingerprint, newest_taken};
pub(crate) use self::conversation_index::ConversationIndex;
use self::conversation_index::{ConversationPrefix, TurnPosition, of_history, of_log, root, user_text};
use self::parsed_request::ParsedAgentRequest;
use self::report::{AgentAnswerReport, describe_window};
use super::agents;
use super::gateway::{error_response, fault_of};
use crate::app::AppState;
use crate::cluster_proxy::{self, RemoteSessionMarker};
use crate::content::ClientContent;
use crate::extract::IdempotencyKey;
use crate::problem::ApiProblem;
use crate::sse::with_heartbeats;
use crate::ui_protocol::{UiAnswerSubscription, UiTurnRequest, conversation};

/// The header with the session's name, in a request and in the answer.
const SESSION: HeaderName = HeaderName::from_static("x-longhaul-session");

const IGNORED: HeaderName = HeaderName::from_static("x-longhaul-ignored");

/// The prefix for an agent whose name is also a model's.
pub(super) const PREFIX: &str = "agent/";

/// The maximum number of answer events waiting for the client.
const WAITING: usize = 64;

/// The maximum number of logs read to find a conversation.
const MOST_LOGS: usize = 16;

/// The model field of a request; all other fields are ignored.
#[derive(Deserialize)]
struct RequestedModel {
    model: Option<String>,
}

/// The lock name for a keyed request whose session is not known yet. No session has such an id.
const KEYED: &str = "\0keyed";

/// A request for an agent.
pub(super) struct AgentModelRequest {
    pub(super) dialect: Dialect,
    pub(super) agent: String,
    /// The agent's name in the client's spelling.
    pub(super) model: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Returns the model of a request.
pub(super) fn model_of(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<RequestedModel>(body).ok()?.model
}

/// Returns the agent behind a model name, with the name as given; `None` if the name means a model.
///
/// # Errors
/// [`GatewayError`] if the name means an unknown agent.
pub(super) async fn find_agent(
    app: &AppState,
    model: Option<String>,
) -> Result<Option<(String, String)>, GatewayError> {
    let Some(model) = model else { return Ok(None) };
    let agents = app.runtime().agents();
    let prefixed = model.strip_prefix(PREFIX);
    let is_agent = agents.iter().any(|agent| agent.name == prefixed.unwrap_or(&model));
    match prefixed {
        Some(name) if is_agent => return Ok(Some((name.to_owned(), model))),
        None if !is_agent => return Ok(None),
        Some(_) | None => {}
    }
    // A name that a server lists is the server's (decision 0026).
    if super::gateway::is_listed(app, &model).await {
        return Ok(None);
    }
    let Some(name) = model.strip_prefix(PREFIX) else { return Ok(Some((model.clone(), model))) };
    // The name is the client's and goes into an error message, so it is cut.
    let name: String = name.chars().take(100).collect();
    let known: Vec<_> = agents.iter().take(20).map(|agent| format!("{PREFIX}{}", agent.name)).collect();
    let message = format!("there is no agent `{name}`; there are: {}", known.join(", "));
    Err(GatewayError {
        param: Some("model".to_owned()),
        ..GatewayError::new(GatewayErrorKind::NotFound, message)
    })
}

/// Answers the request in its dialect.
pub(super) async fn answer(app: &AppState, ask: AgentModelRequest) -> Response {
    let dialect = ask.dialect;
    match answer_request(app, ask).await {
        Ok(response) => response,
        Err(AgentModelError { fault, elsewhere }) => {
            let mut response = error_response(dialect, fault);
            if let Some(elsewhere) = elsewhere {
                response.extensions_mut().insert(elsewhere);
            }
            response
        }
    }
}

/// The reason why this node gives no answer.
struct AgentModelError {
    fault: GatewayError,
    /// The session of another node, if any.
    elsewhere: Option<RemoteSessionMarker>,
}

impl From<GatewayError> for AgentModelError {
    fn from(fault: GatewayError) -> Self {
        Self { fault, elsewhere: None }
    }
}

impl From<ApiProblem> for AgentModelError {
    fn from(problem: ApiProblem) -> Self {
        Self { fault: fault_of(&problem), elsewhere: problem.elsewhere().cloned() }
    }
}

async fn answer_request(app: &AppState, ask: AgentModelRequest) -> Result<Response, AgentModelError> {
    let asked = parsed_request::read(ask.dialect, &ask.body)?;
    agents::check(app, Some(&ask.agent))?;
    let key = text_of(&ask.headers, "idempotency-key");
    // The session is determined once. A repeated request that arrives meanwhile must get the same one.
    let turn = match &key {
        Some(key) => Some(app.requests().turn(&SessionId::from(KEYED), key).await),
        None => None,
    };
    let aim = resolve_destination(app, &ask, &asked).await?;
    // Recorded while the lock is held, so that a repetition finds the session and does not choose again.
    if let Some(key) = &key {
        app.conversations().keyed(key.clone(), aim.session.clone());
    }
    // From here on a repeated request finds the session by its key, so the lock can go.
    drop(turn);
    // Without a key the request would get one from its content, and a second "yes" would count as a repetition.
    let key = IdempotencyKey(Some(key.map_or_else(fresh, Ok)?));
    let user = user_text(&asked.newest);
    let wish = UiTurnRequest::Say {
        content: ClientContent::Parts(asked.newest),
        metadata: None,
        name: String::new(),
        again: false,
    };
    let turn = UiAnswerSubscription::take(app, &aim.session, Some(ask.agent.clone()), key, wish).await;
    let turn = turn.map_err(|problem| {
        // The request failed, so the turn is free again for another continuation.
        if let Some((prefix, place)) = aim.head {
            app.conversations().note(prefix, place);
        }
        AgentModelError::from(problem)
    })?;
    // A slow client delays only the task that follows the answer. The run itself goes on.
    let (told, mut hears) = mpsc::channel(WAITING);
    let session = turn.session.clone();
    let turned = aim.before.map(|before| TurnFingerprint { before, user });
    let teller = AgentAnswerTask { app: app.clone(), session: session.clone(), turned, told };
    // The answer goes on if the client leaves, as in the rest of the server.
    app.spawn(teller.run_to_end(turn));
    let message = match hears.recv().await {
        Some(AgentAnswerEvent::Begins(message)) => message,
        Some(AgentAnswerEvent::Failed(fault)) => return Err(fault.into()),
        // None => return Err(broken_off() | The first event is always one of these two, unless the session ends.
        Some(_) | None => return Err(broken_off().into()),
    };
    let head = ResponseHead {
        id: format!("{}.{message}", session.id()),
        model: ask.model,
        created: now_ms() / 1_000,
        include_usage: asked.include_usage,
        ..ResponseHead::default()
    };
    let mut response = if asked.stream {
        streamed(app, ask.dialect, head, hears).await?
    } else {
        whole(ask.dialect, &head, hears).await?
    };
    let headers = response.headers_mut();
    // A session that has just ended has no window to tell.
    if let Ok(context) = session.context().await {
        describe_window(&context, headers);
    }
    let words = [(SESSION, session.id().as_str().to_owned()), (IGNORED, asked.ignored.join(","))];
    for (name, words) in words {
        // Field names come from clients. One that no header can hold is left out rather than failing the answer.
        if let Some(value) = HeaderValue::try_from(words).ok().filter(|value| !value.is_empty()) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

async fn whole(
    dialect: Dialect,
    head: &ResponseHead,
    mut hears: mpsc::Receiver<AgentAnswerEvent>,
) -> Result<Response, GatewayError> {
    let (answer, report) = loop {
        match hears.recv().await {
            Some(AgentAnswerEvent::Finished(answer, report)) => break (answer, report),
            Some(AgentAnswerEvent::Failed(fault)) => return Err(fault),
            // A whole answer has all of it, so the pieces are not needed.
            Some(_) => {}
            // The task has ended without an end of the answer: the session or the server is closing.
            None => return Err(broken_off()),
        }
    };
    let json = [(CONTENT_TYPE, "application/json")];
    let body = add_to_answer(response_writer::whole(dialect, head, &answer), &report.added_fields());
    let mut response = (json, Body::from(body)).into_response();
    report.describe_edits(true, response.headers_mut());
    report.describe_totals(response.headers_mut());
    Ok(response)
}

/// Returns the answer as a stream. A failure before the first event is an error response, unless it takes longer than a
/// heartbeat.
async fn streamed(
    app: &AppState,
    dialect: Dialect,
    head: ResponseHead,
    mut hears: mpsc::Receiver<AgentAnswerEvent>,
) -> Result<Response, GatewayError> {
    let heartbeat = app.config().heartbeat;
    let mut beginning = AnswerBeginning::default();
    let is_known = match tokio::time::timeout(heartbeat, beginning.read(&mut hears)).await {
        Ok(begun) => {
            begun?;
            true
        }
        // A client would give up after a longer silence, so the stream begins without its first event.
        Err(_) => false,
    };
    let AnswerBeginning { ready, edits } = beginning;
    let encoder = response_writer::stream(dialect, head);
    let writing = AgentResponseStream { dialect, encoder, hears, ready, is_over: false };
    let frames = futures_util::stream::unfold(writing, async |mut writing| {
        let frame = writing.next().await?;
        Some((frame, writing))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // nginx buffers answers, and would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let mut response = (headers, Body::from_stream(with_heartbeats(frames, heartbeat))).into_response();
    edits.describe_edits(is_known, response.headers_mut());
    Ok(response)
}

/// The events before the first words of an answer, and the first words.
#[derive(Default)]
struct AnswerBeginning {
    ready: VecDeque<AgentAnswerEvent>,
    edits: AgentAnswerReport,
}

impl AnswerBeginning {
    /// Reads the events up to the first words. Room is made before them, so the response's head can tell of it.
    ///
    /// # Errors
    /// [`GatewayError`] if the answer fails before its first words.
    async fn read(&mut self, hears: &mut mpsc::Receiver<AgentAnswerEvent>) -> Result<(), GatewayError> {
        loop {
            match hears.recv().await.ok_or_else(broken_off)? {
                AgentAnswerEvent::Failed(fault) => return Err(fault),
                AgentAnswerEvent::Edited(edits) => self.edits = edits,
                early @ (AgentAnswerEvent::Begins(_) | AgentAnswerEvent::Notice(_)) => {
                    self.ready.push_back(early);
                }
                words @ (AgentAnswerEvent::Event(_) | AgentAnswerEvent::Finished(..)) => {
                    self.ready.push_back(words);
                    return Ok(());
                }
            }
        }
    }
}

/// An answer in progress.
struct AgentResponseStream {
    dialect: Dialect,
    encoder: Box<dyn ResponseWriter>,
    hears: mpsc::Receiver<AgentAnswerEvent>,
    ready: VecDeque<AgentAnswerEvent>,
    is_over: bool,
}

impl AgentResponseStream {
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        // Some events write nothing in this dialect, and an empty result would end the stream.
        while out.is_empty() && !self.is_over {
            let told = match self.ready.pop_front() {
                Some(told) => Some(told),
                None => self.hears.recv().await,
            };
            match told {
                Some(AgentAnswerEvent::Begins(_) | AgentAnswerEvent::Edited(_)) => {}
                Some(AgentAnswerEvent::Notice(notice)) => out.extend_from_slice(comment(notice).as_bytes()),
                Some(AgentAnswerEvent::Event(event)) => self.encoder.event(&event, &mut out),
                Some(AgentAnswerEvent::Finished(answer, report)) => {
                    self.is_over = true;
                    self.encoder.event(&ModelEvent::Finished(answer), &mut out);
                    out = add_to_stream_end(self.dialect, out, &report.added_fields());
                }
                Some(AgentAnswerEvent::Failed(fault)) => {
                    self.is_over = true;
                    self.encoder.write_error(&fault, &mut out);
                }
                // A stream that just stops looks complete to some clients, so the break is said.
                None => {
                    self.is_over = true;
                    self.encoder.write_error(&broken_off(), &mut out);
                }
            }
        }
        (!out.is_empty()).then(|| out.into())
    }
}

/// The destination of a message.
struct MessageDestination {
    session: String,
    /// The conversation before the message, if the turn is to be found again.
    before: Option<ConversationPrefix>,
    /// The turn continued by the message and claimed by the request.
    head: Option<(ConversationPrefix, TurnPosition)>,
}

impl MessageDestination {
    fn at(session: String, before: Option<ConversationPrefix>) -> Self {
        Self { session, before, head: None }
    }
}

async fn resolve_destination(
    app: &AppState,
    ask: &AgentModelRequest,
    asked: &ParsedAgentRequest,
) -> Result<MessageDestination, AgentModelError> {
    if let Some(name) = text_of(&ask.headers, SESSION.as_str()) {
        // The named session may have another agent, with tools and a prompt that the client did not ask for.
        check_agent(app, &name, &ask.agent).await?;
        return Ok(MessageDestination::at(name, None));
    }
    let before = if asked.history.is_empty() {
        Some(ConversationPrefix::of(&ask.agent))
    } else {
        of_history(&ask.agent, &asked.history)
    };
    let key = text_of(&ask.headers, "idempotency-key");
    if let Some(session) = key.as_deref().and_then(|key| app.conversations().repeated(key)) {
        tracing::debug!(%session, "a repeated request goes to the session of its first attempt");
        return Ok(MessageDestination::at(session, before));
    }
    if let Some(previous) = &asked.previous {
        return goes_on_from(app, ask, previous).await;
    }
    let root = root(&ask.agent, asked.beginning());
    if asked.history.is_empty() {
        // The id follows from the key, so a repeated request finds its session at any node.
        let session = match key {
            Some(key) => format!("{root}-{}", &blake3::hash(key.as_bytes()).to_hex()[..16]),
            None => session_of(&root)?,
        };
        return Ok(MessageDestination::at(session, before));
    }
    if let Some(prefix) = before
        && let Some((place, is_first)) = find_turn(app, &ask.agent, &root, prefix).await?
    {
        let id = SessionId::from(place.session.as_str());
        // A message may have been added through the server's own API, which this index does not see.
        if is_first && newest_taken(app, &id).await? == Some(place.taken) {
            tracing::debug!(session = %id, taken = place.taken, "the conversation goes on in its session");
            let session = place.session.clone();
            return Ok(MessageDestination { session, before, head: Some((prefix, place)) });
        }
        if let Some(fork) = forked(app, &place, session_of(&root)?).await? {
            tracing::debug!(
                session = %fork,
                origin = %id,
                taken = place.taken,
                "the client went back in its conversation: the session is forked there"
            );
            return Ok(MessageDestination::at(fork, before));
        }
    }
    tracing::debug!(
        messages = asked.history.len(),
        agent = %ask.agent,
        "no session has this conversation: its history is imported into a new one"
    );
    imported(app, ask, asked, session_of(&root)?).await.map(|session| MessageDestination::at(session, before))
}

/// Refuses a session of another agent.
async fn check_agent(app: &AppState, name: &str, agent: &str) -> Result<(), ApiProblem> {
    let session = match conversation(app, name).await {
        Ok(session) => session,
        // A name that no session has yet is free: the client names a new session.
        Err(problem) if problem.is_not_found() => return Ok(()),
        Err(problem) => return Err(problem),
    };
    let chosen = session.inspect_run(|run| run.history().choice().agent.clone()).await?;
    match chosen.or_else(|| app.default_agent()) {
        Some(has) if has != agent => {
            Err(ApiProblem::conflict(format!("The session `{name}` has the agent `{has}`.")))
        }
        _ => Ok(()),
    }
}

/// Returns the turn with the name from the index, or from the logs.
///
/// # Errors
/// The session's node, if another node has the session. Only the session's node decides on the request to
/// continue the turn.
async fn find_turn(
    app: &AppState,
    agent: &str,
    root: &str,
    prefix: ConversationPrefix,
) -> Result<Option<(TurnPosition, bool)>, ApiProblem> {
    let conversations = app.conversations();
    if let Some(place) = conversations.place(prefix) {
        let id = SessionId::from(place.session.as_str());
        match app.runtime().store().session(&id).await {
            Ok(_) => return taken_here(app, agent, &place, prefix).await,
            // The session was deleted since. Its history is looked for in other sessions.
            Err(longhaul_store::StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let records = app.runtime().sessions(usize::MAX >> 1).await?;
    // All sessions of a conversation's beginning share the root of their ids, so few logs have to be read.
    let own = records.into_iter().filter(|record| record.id.as_str().starts_with(root));
    // The newest session is learned last, so of several equal conversations the newest is found.
    let own: Vec<_> = own.take(MOST_LOGS).collect();
    for record in own.iter().rev() {
        let events = app.runtime().log(&record.id).await?;
        conversations.learn(record.id.as_str(), of_log(agent, &events));
    }
    let place = conversations.place(prefix);
    // The index may still know a place in a session that was deleted.
    match place.filter(|place| own.iter().any(|record| record.id.as_str() == place.session)) {
        Some(place) => taken_here(app, agent, &place, prefix).await,
        None => Ok(None),
    }
}

async fn taken_here(
    app: &AppState,
    agent: &str,
    place: &TurnPosition,
    prefix: ConversationPrefix,
) -> Result<Option<(TurnPosition, bool)>, ApiProblem> {
    let (conversations, id) = (app.conversations(), SessionId::from(place.session.as_str()));
    if let Err(problem) = cluster_proxy::here(app, &id).await {
        // What this node knows of the session may be out of date by the time it comes back.
        conversations.forget_head(&place.session);
        return Err(problem);
    }
    if !conversations.knows_head(&place.session) {
        // Another node had the session until now.
        conversations.learn(&place.session, of_log(agent, &app.runtime().log(&id).await?));
    }
    Ok(conversations.take(prefix))
}

/// Forks the session behind a turn; `None` if the session cannot be forked there.
async fn forked(app: &AppState, place: &TurnPosition, fork: String) -> Result<Option<String>, ApiProblem> {
    let id = SessionId::from(place.session.as_str());
    let events = app.runtime().log(&id).await?;
    let Some(end) = end_of(&events, place.taken) else { return Ok(None) };
    match app.runtime().fork_as(SessionId::from(fork.as_str()), &id, end).await {
        Ok(_) => Ok(Some(fork)),
        Err(SessionError::Conflict(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the end of the turn whose message was taken at `taken`.
fn end_of(events: &[Event], taken: Seq) -> Option<Seq> {
    let later = events.iter().skip_while(|event| event.seq <= taken);
    let of_turn = later.take_while(|event| !matches!(event.body, EventBody::MessagesTaken { .. }));
    let of_turn: Vec<&Event> = of_turn.collect();
    // Without an end the run was cut, and everything up to the next message belongs to the turn.
    let finished = of_turn.iter().find(|event| matches!(event.body, EventBody::RunFinished { .. }));
    finished.or(of_turn.last()).map(|event| event.seq)
}

/// Creates a session from the client's history.
async fn imported(
    app: &AppState,
    ask: &AgentModelRequest,
    asked: &ParsedAgentRequest,
    id: String,
) -> Result<String, AgentModelError> {
    let imported = match import(&asked.history_json(), now_ms()) {
        Ok(import) => import.sessions.into_iter().next().ok_or_else(|| "it is empty".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let imported = imported
        .map_err(|why| GatewayError::new(GatewayErrorKind::Invalid, format!("the history: {why}")))?;
    let work = {
        let (app, agent) = (app.clone(), ask.agent.clone());
        async move {
            for (_, bytes) in imported.blobs {
                // The blobs come before the log that names them.
                app.runtime().blobs().put(bytes).await?;
            }
            let id = SessionId::from(id);
            let session =
                NewSession { id: id.clone(), title: imported.title, at: now_ms(), events: imported.events };
            app.runtime().store().create(session).await?;
            let session = app.runtime().open(&id).await?;
            // A session without a choice follows the configuration, as every other session of the default agent does.
            let is_usual = app.runtime().agents().iter().any(|other| other.is_default && other.name == agent);
            if !is_usual {
                let choice = ModelChoice { agent: Some(agent), model: None };
                app.runtime().switch(&session, choice).await?;
            }
            Ok(id.as_str().to_owned())
        }
    };
    // Done to the end even if the client leaves, so that no half session stays.
    Ok(app.to_end(work).await?)
}

fn unknown_response(id: &str) -> GatewayError {
    GatewayError {
        status: axum::http::StatusCode::NOT_FOUND,
        param: Some("previous_response_id".to_owned()),
        ..GatewayError::new(
            GatewayErrorKind::NoSuchAnswer,
            format!("there is no answer `{id}` of this server"),
        )
    }
}

/// Returns the destination of a message in continuation of a named answer of the server.
async fn goes_on_from(
    app: &AppState,
    ask: &AgentModelRequest,
    previous: &str,
) -> Result<MessageDestination, AgentModelError> {
    let named = previous
        .strip_prefix("resp_")
        .and_then(|id| id.split_once('.'))
        .ok_or_else(|| unknown_response(previous))?;
    let id = SessionId::from(named.0);
    check_agent(app, id.as_str(), &ask.agent).await?;
    let events = match app.runtime().log(&id).await {
        Ok(events) => events,
        Err(SessionError::Store(longhaul_store::StoreError::NotFound(_))) => {
            return Err(unknown_response(previous).into());
        }
        Err(error) => return Err(ApiProblem::from(error).into()),
    };
    let message = QueueId::from(named.1);
    let taken = events.iter().find_map(|event| match &event.body {
        EventBody::MessagesTaken { taken, .. } if taken.contains(&message) => Some(event.seq),
        _ => None,
    });
    let taken = taken.ok_or_else(|| unknown_response(previous))?;
    let is_newest = events.iter().rev().find(|event| matches!(event.body, EventBody::MessagesTaken { .. }));
    // Only the newest turn continues in its session. An older one needs a fork, because logs are never rewritten.
    if is_newest.is_some_and(|event| event.seq == taken) {
        return Ok(MessageDestination::at(id.as_str().to_owned(), None));
    }
    let place = TurnPosition { session: id.as_str().to_owned(), taken };
    // The root is `v` and 20 digits, as `root` makes it.
    let root: String = id.as_str().chars().take(21).collect();
    let fork = forked(app, &place, session_of(&root)?).await?;
    let fork = fork.ok_or_else(|| ApiProblem::conflict("The conversation cannot be forked there."))?;
    Ok(MessageDestination::at(fork, None))
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a new unique session id.
fn session_of(root: &str) -> Result<String, GatewayError> {
    Ok(format!("{root}-{}", fresh()?))
}

fn fresh() -> Result<String, GatewayError> {
    let mut bytes = [0_u8; 8];
    // Random, because two nodes may begin sessions of the same conversation at the same time.
    getrandom::fill(&mut bytes)
        .map_err(|_| GatewayError::new(GatewayErrorKind::Internal, "there are no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn broken_off() -> GatewayError {
    GatewayError::new(
        GatewayErrorKind::Internal,
        "the session or the server has stopped; all messages are kept",
    )
}
