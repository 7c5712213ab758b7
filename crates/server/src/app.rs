//! What all routes share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::config::RateLimit;
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
use crate::limit::{Client, ClientRateLimiter};
use crate::login_links::LoginLinks;
use crate::problem::ApiProblem;
use crate::render::MarkdownRenderer;
use crate::routes::ConversationIndex;
use crate::run_outcomes::RunEndCache;
use crate::sse::LogReaderRegistry;
use crate::token::{AccessToken, AccessTokenError};
use crate::upkeep::{MaintenanceConfig, MaintenanceTrigger};
use crate::uploads::UploadRegistry;

/// Requests whose texts are rendered at once.
const RENDERING: usize = 2;

/// How the server answers.
#[derive(Clone, Debug)]
pub struct HttpServerConfig {
    /// What every request but the health checks must bring.
    pub token: AccessToken,
    /// Host names it answers to besides those of the loopback interface, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, besides the server's own, for example `https://example.org`.
    pub allowed_origins: Vec<String>,
    /// The largest request body, in bytes.
    pub max_body_bytes: usize,
    /// How long a request's body may stand still.
    pub body_patience: Duration,
    /// How often a silent event stream says that it lives.
    pub heartbeat: Duration,
    /// How long a connection may take to bring a request with the token.
    pub first_request: Duration,
    /// Connections at once on which there was none yet, at most; never more than half of the files that the process
    /// may have open.
    pub max_strangers: usize,
    /// Requests that a client may make; `None`: as many as it likes.
    pub rate_limit: Option<RateLimit>,
    /// What answers under `/v1`; `None`: nobody does.
    pub gateway: Option<Gateway>,
    /// Whether programs on this machine may use it without the token.
    pub gateway_is_open: bool,
    /// What is counted: of sessions, if their store is watched ([`ServerMetrics::watching`]).
    pub counters: ServerMetrics,
    /// What is kept up: blobs that nobody names, sessions that are kept for so long; `None`: nothing is.
    pub keeping: Option<MaintenanceConfig>,
    /// What the program around it knows.
    pub surroundings: Arc<dyn ServerEnvironment>,
}

impl HttpServerConfig {
    /// The defaults: loopback names only, bodies up to 32 MiB that never stand still for 30 s, a heartbeat every 15 s,
    /// 10 s for the token and at most 1,024 connections that have not brought it.
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

/// A runtime and the way it is served. Cheap to clone.
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
    /// Answers of the gateway on their way.
    answers: TaskTracker,
}

/// A session to be looked at.
pub(crate) enum ReadableSession {
    /// The session is open.
    Open(Session),
    /// The session cannot be opened because nothing can be written: its run as the log has it.
    Stored(Box<Run>),
}

impl ReadableSession {
    /// Looks at the loop.
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
}

impl AppState {
    /// Serves `runtime`, which is closed by [`AppState::close`].
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

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// The path of a link that opens the page once, within ten minutes, for whoever has it.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn opening_path(&self) -> Result<String, AccessTokenError> {
        Ok(format!("/open/{}", self.openings().create_key(Instant::now())?))
    }

    /// Begins to end: the server says that it is not ready and begins no more runs, while what runs may finish. Done
    /// when nothing runs any more, or after `patience`. What waits and is not taken by a run that goes on stays in its
    /// queue. Other nodes may have each session as soon as it is at rest.
    pub async fn drain(&self, patience: Duration) {
        self.0.draining.cancel();
        self.0.answers.close();
        let at_rest = async {
            if self.runtime().has_company().await {
                return self.runtime().give_away().await;
            }
            for session in self.runtime().opened() {
                let mut status = session.status();
                // One that has stopped runs no more. One that waits for its model's server has nothing to finish.
                let is_at_rest = |status: &RunStatus| {
                    matches!(status, RunStatus::Idle | RunStatus::Parked | RunStatus::WaitingForServer)
                };
                let _ = status.wait_for(is_at_rest).await;
            }
        };
        let at_rest = async { tokio::join!(at_rest, self.0.answers.wait()) };
        tokio::select! {
            _ = at_rest => {}
            () = tokio::time::sleep(patience) => tracing::warn!("what still runs is cancelled"),
            () = self.closing().cancelled() => {}
        }
    }

    /// Ends all event streams, finishes what was accepted, cancels what runs, closes the store.
    pub async fn close(&self) {
        self.0.closing.cancel();
        if let Some(gateway) = &self.config().gateway {
            gateway.stop().await;
        }
        self.runtime().close().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Opens the sessions whose run a crash has interrupted: what was left open is put right, and goes on if the agent's
    /// rules say so. So do messages that wait in sessions at rest. It stops when the server is told to end.
    ///
    /// # Errors
    /// The store's, if the sessions cannot be listed. One that cannot be opened is logged and left.
    pub async fn recover(&self) -> Result<(), SessionError> {
        if self.runtime().nodes().is_some() {
            // What another node has runs there; what nobody has is taken over bit by bit.
            return Ok(());
        }
        let takes_up = self.runtime().takes_up();
        for record in self.runtime().sessions(usize::MAX >> 1).await? {
            let waits = takes_up && record.queued > 0 && !record.parked;
            if self.is_draining() {
                break;
            }
            if !record.running && !waits {
                continue;
            }
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

    /// Lets a client ask once more.
    ///
    /// # Errors
    /// `rate-limit-exceeded`.
    pub(crate) fn allow(&self, path: &str, client: Client) -> Result<(), ApiProblem> {
        match self.config().rate_limit {
            Some(limit) if !is_of_page(path) => {
                self.0.allowances.take(limit, client, Instant::now()).map_err(ApiProblem::too_many)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the server begins to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled() || self.closing().is_cancelled()
    }

    /// Returns whether more work may begin.
    ///
    /// # Errors
    /// The server is ending.
    pub(crate) fn takes_work(&self) -> Result<(), ApiProblem> {
        match self.is_draining() {
            true if self.runtime().nodes().is_some() => Err(ApiProblem::ending_here()),
            true => Err(StoreError::Closed.into()),
            false => Ok(()),
        }
    }

    /// Cancelled when the server ends.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// The session of that id, open.
    ///
    /// # Errors
    /// `not-found`, and those of the store.
    pub(crate) async fn open(&self, id: &str) -> Result<Session, ApiProblem> {
        Ok(self.runtime().open(&SessionId::from(id)).await?)
    }

    /// The session of that id, open; or, where nothing can be written, its loop as its log has it, at rest.
    ///
    /// # Errors
    /// As [`AppState::open`].
    pub(crate) async fn open_or_read(&self, id: &str) -> Result<ReadableSession, ApiProblem> {
        let id = SessionId::from(id);
        let error = match self.runtime().open(&id).await {
            Ok(session) => return Ok(ReadableSession::Open(session)),
            Err(error) => error,
        };
        if let SessionError::Store(StoreError::Storage(_) | StoreError::ReadOnly) = &error
            && let Ok(run) = self.runtime().read_run(&id).await
        {
            return Ok(ReadableSession::Stored(Box::new(run)));
        }
        Err(error.into())
    }

    /// Markup for texts in Markdown. It takes a processor for a while: not one of those that answer, and not all.
    ///
    /// # Errors
    /// None but that it failed.
    pub(crate) async fn rendered(&self, texts: Vec<String>) -> Result<Vec<String>, ApiProblem> {
        // It is never closed.
        let _turn = self.0.rendering.acquire().await.ok();
        let work = move || {
            let mut renderer = MarkdownRenderer::default();
            texts.iter().map(|text| renderer.render(text)).collect()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            tracing::error!(%error, "texts were not rendered");
            ApiProblem::internal()
        })
    }

    /// An answer of the gateway is on its way for as long as somebody has this: the end waits for it.
    pub(crate) fn answering(&self) -> TaskTrackerToken {
        self.0.answers.token()
    }

    /// Does `work` to its end beside whatever else is done.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.tasks.spawn(work));
    }

    /// Does `work` to its end, also when the client leaves before.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ApiProblem>> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        match self.0.tasks.spawn(work).await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a request failed");
                Err(ApiProblem::internal())
            }
        }
    }
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppState").field("config", &self.0.config).finish_non_exhaustive()
    }
}
