//! The state shared by all routes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use longhaul::config::RateLimit;
use longhaul::recall::RecallSource;
use longhaul::session::{Runtime, Session, SessionError};
use longhaul_core::ids::SessionId;
use longhaul_core::run::{Run, RunStatus};
use longhaul_gateway::Gateway;
use longhaul_store::StoreError;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::cluster_proxy::ClusterProxy;
use crate::counters::ServerMetrics;
use crate::guard::is_of_page;
use crate::host_info::{EmptyEnvironment, ServerEnvironment};
use crate::idempotency::IdempotencyLocks;
use crate::limit::{ClientRateLimiter, RateLimitClient};
use crate::login_links::LoginLinks;
use crate::maintenance::{MaintenanceConfig, MaintenanceTrigger};
use crate::problem::ApiProblem;
use crate::render::MarkdownRenderer;
use crate::routes::ConversationIndex;
use crate::run_outcomes::RunEndCache;
use crate::sse::LogReaderRegistry;
use crate::token::{AccessToken, AccessTokenError};
use crate::uploads::UploadRegistry;

/// The maximum number of requests whose texts are rendered at the same time.
// Rendering keeps a core busy. Two at a time leave the other cores to answers.
const RENDERING: usize = 2;

/// The configuration of the HTTP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpServerConfig {
    /// The token for every request but the health checks.
    pub token: AccessToken,
    /// The accepted host names besides those of the loopback interface, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// The origins of web pages with permission to send requests, besides the server's own, for example
    /// `https://example.org`.
    pub allowed_origins: Vec<String>,
    /// The largest request body, in bytes.
    pub max_body_bytes: usize,
    /// The longest pause within a request's body.
    pub body_patience: Duration,
    /// The interval of heartbeats on a silent event stream.
    pub heartbeat: Duration,
    /// The deadline of a new connection for a request with the token.
    pub first_request: Duration,
    /// The maximum number of connections without the token yet, at most half of the process's file limit.
    pub max_strangers: usize,
    /// The maximum request rate of a client; `None`: no limit.
    pub rate_limit: Option<RateLimit>,
    /// The gateway under `/v1`, if any.
    pub gateway: Option<Gateway>,
    /// Lets programs on this machine use the gateway without the token.
    pub gateway_is_open: bool,
    /// The server's metrics, with sessions if their store is watched ([`ServerMetrics::watching`]).
    pub counters: ServerMetrics,
    /// The maintenance of blobs and old sessions; `None`: there is none.
    pub keeping: Option<MaintenanceConfig>,
    /// The environment known only to the host program.
    pub surroundings: Arc<dyn ServerEnvironment>,
}

impl HttpServerConfig {
    /// Returns the defaults. Only loopback names are accepted. Bodies have up to 32 MiB and never pause for 30 s.
    /// Heartbeats come every 15 s. At most 1,024 connections wait for the token, each for 10 s.
    pub fn new(token: AccessToken) -> Self {
        Self {
            token,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 32 << 20,
            body_patience: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            first_request: Duration::from_secs(10),
            max_strangers: 1_024,
            rate_limit: None,
            gateway: None,
            gateway_is_open: false,
            counters: ServerMetrics::default(),
            keeping: None,
            surroundings: Arc::new(EmptyEnvironment),
        }
    }
}

/// A runtime with its server configuration. A clone is cheap.
#[derive(Clone)]
pub struct AppState(Arc<AppInner>);

struct AppInner {
    runtime: Runtime,
    config: HttpServerConfig,
    uploads: UploadRegistry,
    deletions: MaintenanceTrigger,
    requests: IdempotencyLocks,
    readings: LogReaderRegistry,
    openings: LoginLinks,
    ends: RunEndCache,
    rendering: Semaphore,
    allowances: ClientRateLimiter,
    conversations: ConversationIndex,
    peers: ClusterProxy,
    draining: CancellationToken,
    closing: CancellationToken,
    tasks: TaskTracker,
    /// The gateway's answers in progress.
    answers: TaskTracker,
}

/// A session for reading.
pub(crate) enum ReadableSession {
    /// The session is open.
    Open(Session),
    /// A session not to be opened because the store is read-only: its run according to the log.
    Stored(Box<Run>),
}

impl ReadableSession {
    /// Reads the run.
    ///
    /// # Errors
    /// The session has stopped.
    pub(crate) async fn inspect_run<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        match self {
            Self::Open(session) => session.inspect_run(look).await,
            Self::Stored(run) => Ok(look(run)),
        }
    }

    /// Returns the messages for a search or a recall. The searches of an open session share one index.
    ///
    /// # Errors
    /// The session has stopped.
    pub(crate) async fn recall_source(&self) -> Result<RecallSource, SessionError> {
        match self {
            Self::Open(session) => session.recall_source().await,
            Self::Stored(run) => Ok(RecallSource::of(run.history())),
        }
    }
}

impl AppState {
    /// Creates the state for `runtime`, to be closed by [`AppState::close`].
    pub fn new(runtime: Runtime, config: HttpServerConfig) -> Self {
        Self(Arc::new(AppInner {
            runtime,
            config,
            uploads: UploadRegistry::default(),
            deletions: MaintenanceTrigger::default(),
            requests: IdempotencyLocks::default(),
            readings: LogReaderRegistry::default(),
            openings: LoginLinks::default(),
            ends: RunEndCache::default(),
            // Shared by all requests. Rendering keeps a core busy, and a page asks for many texts at once.
            rendering: Semaphore::new(RENDERING),
            allowances: ClientRateLimiter::default(),
            conversations: ConversationIndex::default(),
            peers: ClusterProxy::default(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            answers: TaskTracker::new(),
        }))
    }

    /// Returns the runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Returns the name of the agent for sessions without a choice.
    pub(crate) fn default_agent(&self) -> Option<String> {
        self.runtime().agents().into_iter().find(|agent| agent.is_default).map(|agent| agent.name)
    }

    /// Returns the path of a link to the page. Anybody with the link can open the page once, within ten
    /// minutes.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn opening_path(&self) -> Result<String, AccessTokenError> {
        Ok(format!("/open/{}", self.openings().create_key(Instant::now())?))
    }

    /// Returns the number of open sessions that wait for a person's answer to a question.
    pub fn open_questions(&self) -> usize {
        let opened = self.runtime().opened();
        opened.iter().filter(|session| *session.status().borrow() == RunStatus::WaitingApproval).count()
    }

    /// Starts the shutdown. The server reports "not ready" and starts no more runs, while active runs may
    /// finish. A run that waits for a person is cancelled at once. Returns when nothing runs any more, or after
    /// `patience`. Waiting messages without an active run stay in their queues. Other nodes may take each session at
    /// rest.
    pub async fn drain(&self, patience: Duration) {
        // The mark is set first, so that no run begins while the others are waited for.
        self.0.draining.cancel();
        let (sessions, answers) = (self.runtime().opened().len(), self.0.answers.len());
        tracing::info!(sessions, answers, ?patience, "the shutdown begins: no more runs are started");
        // `wait` returns only for a closed tracker. A closed one still counts the answers that begin.
        self.0.answers.close();
        let opened = self.runtime().opened();
        let at_rest = async {
            let at_rest = join_all(opened.iter().map(come_to_rest));
            if self.runtime().has_company().await {
                // Other nodes can continue the sessions, so each session is handed over as soon as it rests.
                tokio::join!(at_rest, self.runtime().give_away());
            } else {
                at_rest.await;
            }
        };
        let at_rest = async { tokio::join!(at_rest, self.0.answers.wait()) };
        tokio::select! {
            _ = at_rest => tracing::info!("all sessions are at rest and all answers are complete"),
            () = tokio::time::sleep(patience) => tracing::warn!("what still runs is cancelled"),
            () = self.closing().cancelled() => tracing::debug!("the shutdown does not wait any longer"),
        }
    }

    /// Ends all event streams, finishes accepted work, cancels active runs, and closes the store.
    pub async fn close(&self) {
        self.0.closing.cancel();
        if let Some(gateway) = &self.config().gateway {
            // Background summaries use the store, which is closed below.
            gateway.stop().await;
        }
        // Background work may wait for a run, so the runs end before the work is waited for.
        self.runtime().close().await;
        self.0.tasks.close();
        tracing::debug!(
            tasks = self.0.tasks.len(),
            "runs and store are closed; requests in progress are waited for"
        );
        self.0.tasks.wait().await;
        tracing::info!("the server is closed");
    }

    /// Opens the sessions whose run a crash has interrupted. Their open state is repaired, and they continue if the
    /// agent's rules say so. Messages that wait in sessions at rest continue, too. Recovery stops when the server is
    /// told to end.
    ///
    /// # Errors
    /// The store's, if the sessions cannot be listed. A session that cannot be opened is logged and skipped.
    pub async fn recover(&self) -> Result<(), SessionError> {
        if self.runtime().nodes().is_some() {
            // Another node may run a session. Sessions without a node are taken over one by one.
            tracing::debug!("recovery is left to the takeover of sessions without a living node");
            return Ok(());
        }
        let takes_up = self.runtime().takes_up();
        let mut recovered = 0_u64;
        // Half of the range fits the signed limit of a database.
        for record in self.runtime().sessions(usize::MAX >> 1).await? {
            // A parked session waits for a person, and its queue waits with it.
            let waits = takes_up && record.queued > 0 && !record.parked;
            if self.is_draining() {
                tracing::info!(recovered, "recovery stops, because the server is ending");
                break;
            }
            // A session at rest is opened when a client asks for it. Opening all would take memory for nothing.
            if !record.running && !waits {
                continue;
            }
            recovered += 1;
            tracing::info!(
                session = %record.id,
                was_running = record.running,
                queued = record.queued,
                "the session is recovered"
            );
            match self.runtime().open(&record.id).await {
                Ok(session) if waits && !self.is_draining() => session.take_up(),
                Ok(_) => {}
                Err(error) => tracing::error!(session = %record.id, %error, "the session was not recovered"),
            }
        }
        Ok(())
    }

    pub(crate) fn config(&self) -> &HttpServerConfig {
        &self.0.config
    }

    pub(crate) fn uploads(&self) -> &UploadRegistry {
        &self.0.uploads
    }

    pub(crate) fn deletions(&self) -> &MaintenanceTrigger {
        &self.0.deletions
    }

    pub(crate) fn requests(&self) -> &IdempotencyLocks {
        &self.0.requests
    }

    pub(crate) fn conversations(&self) -> &ConversationIndex {
        &self.0.conversations
    }

    pub(crate) fn peers(&self) -> &ClusterProxy {
        &self.0.peers
    }

    pub(crate) fn openings(&self) -> &LoginLinks {
        &self.0.openings
    }

    pub(crate) fn ends(&self) -> &RunEndCache {
        &self.0.ends
    }

    pub(crate) fn readings(&self) -> &LogReaderRegistry {
        &self.0.readings
    }

    /// Counts a request of a client against the rate limit.
    ///
    /// # Errors
    /// `rate-limit-exceeded`.
    pub(crate) fn allow(&self, path: &str, client: RateLimitClient) -> Result<(), ApiProblem> {
        match self.config().rate_limit {
            // The page loads dozens of files at once, which are no work of a client.
            Some(limit) if !is_of_page(path) => {
                self.0.allowances.take(limit, client, Instant::now()).map_err(|wait| {
                    tracing::info!(
                        client = ?client.0,
                        limit = limit.requests,
                        per = ?limit.per,
                        wait_ms = wait.as_millis() as u64,
                        "refused: the client has used up its rate limit (server.rateLimit)"
                    );
                    ApiProblem::too_many(wait)
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the server is shutting down.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled() || self.closing().is_cancelled()
    }

    /// Checks that more work may begin.
    ///
    /// # Errors
    /// The server is ending.
    pub(crate) fn takes_work(&self) -> Result<(), ApiProblem> {
        if !self.is_draining() {
            return Ok(());
        }
        if self.runtime().nodes().is_some() {
            // Another node can do the work: the answer tells the client to ask again.
            return Err(ApiProblem::ending_here());
        }
        Err(StoreError::Closed.into())
    }

    /// Returns the cancellation token of the server's end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Opens the session with the id.
    ///
    /// # Errors
    /// `not-found`, and the store's.
    pub(crate) async fn open(&self, id: &str) -> Result<Session, ApiProblem> {
        Ok(self.runtime().open(&SessionId::from(id)).await?)
    }

    /// Opens the session with the id. If the store is read-only, returns the run at rest according to the log.
    ///
    /// # Errors
    /// See [`AppState::open`].
    pub(crate) async fn open_or_read(&self, id: &str) -> Result<ReadableSession, ApiProblem> {
        let id = SessionId::from(id);
        let error = match self.runtime().open(&id).await {
            Ok(session) => return Ok(ReadableSession::Open(session)),
            Err(error) => error,
        };
        // Opening writes a lease. A store that cannot be written can often still be read.
        if let SessionError::Store(StoreError::Storage(_) | StoreError::ReadOnly) = &error
            && let Ok(run) = self.runtime().read_run(&id).await
        {
            tracing::debug!(session = %id, %error, "the session cannot be opened: its run is read from the log");
            return Ok(ReadableSession::Stored(Box::new(run)));
        }
        Err(error.into())
    }

    /// Renders Markdown texts. The work runs on blocking threads, and only a few at a time, so that answers are not
    /// delayed.
    ///
    /// # Errors
    /// `internal` if the rendering failed.
    pub(crate) async fn rendered(&self, texts: Vec<String>) -> Result<Vec<String>, ApiProblem> {
        // The semaphore is never closed, so acquiring cannot fail.
        let waited = Instant::now();
        let _turn = self.0.rendering.acquire().await.ok();
        let waited_ms = waited.elapsed().as_millis() as u64;
        let bytes: usize = texts.iter().map(String::len).sum();
        tracing::debug!(texts = texts.len(), bytes, waited_ms, "Markdown is rendered");
        // Markdown with highlighted code takes milliseconds, which streams on the same thread would feel.
        let rendered = tokio::task::spawn_blocking(move || {
            let mut renderer = MarkdownRenderer::default();
            texts.iter().map(|text| renderer.render(text)).collect()
        });
        rendered.await.map_err(|error| {
            tracing::error!(%error, "Markdown texts could not be rendered");
            ApiProblem::internal()
        })
    }

    /// Returns a guard for an answer of the gateway. The shutdown waits until the guard is dropped.
    pub(crate) fn answering(&self) -> TaskTrackerToken {
        self.0.answers.token()
    }

    /// Runs `work` to the end in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.tasks.spawn(work));
    }

    /// Runs `work` to the end, even if the client leaves before.
    ///
    /// # Errors
    /// The work's own.
    pub(crate) async fn to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ApiProblem>> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        // The future of a handler is dropped when its client leaves. A task of its own goes on.
        match self.0.tasks.spawn(work).await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a request failed");
                Err(ApiProblem::internal())
            }
        }
    }
}

/// Waits until a session has nothing to finish. A run that waits for a person is cancelled: while the server ends, an
/// answer would lead to no further step.
async fn come_to_rest(session: &Session) {
    let mut status = session.status();
    loop {
        let is_awaited = |status: &RunStatus| {
            matches!(
                status,
                RunStatus::Idle
                    | RunStatus::Parked
                    // The session waits for its model's server and has nothing to finish.
                    | RunStatus::WaitingForServer
                    | RunStatus::WaitingApproval
            )
        };
        // A stopped session runs no more.
        let Ok(reached) = status.wait_for(is_awaited).await.map(|status| *status) else { return };
        if reached != RunStatus::WaitingApproval {
            return;
        }
        tracing::info!(session = %session.id(), "a question is withdrawn, because the server is ending");
        // The queue waits for the next start, as after any other end.
        if session.cancel(false).await.is_err() {
            return;
        }
    }
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppState").field("config", &self.0.config).finish_non_exhaustive()
    }
}
