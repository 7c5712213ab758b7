//! What all routes share.

use std::sync::Arc;
use std::time::Duration;

use longhaul::session::{Runtime, Session};
use longhaul_core::ids::SessionId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::once::Requests;
use crate::problem::Problem;
use crate::sse::Readings;
use crate::token::Token;
use crate::uploads::Uploads;

/// How the server answers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What every request but the health checks must bring.
    pub token: Token,
    /// Host names it answers to besides those of the loopback interface, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, besides the server's own, for example `https://example.org`.
    pub allowed_origins: Vec<String>,
    /// The largest request body, in bytes.
    pub max_body_bytes: usize,
    /// How often a silent event stream says that it lives.
    pub heartbeat: Duration,
    /// How long a connection may take to bring a request with the token.
    pub first_request: Duration,
    /// Connections at once on which there was none yet, at most; never more than half of the files that the process
    /// may have open.
    pub max_strangers: usize,
}

impl ServerConfig {
    /// The defaults: loopback names only, bodies up to 32 MiB, a heartbeat every 15 s, 10 s for the token and at most
    /// 1,024 connections that have not brought it.
    pub fn new(token: Token) -> Self {
        Self {
            token,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 32 << 20,
            heartbeat: Duration::from_secs(15),
            first_request: Duration::from_secs(10),
            max_strangers: 1_024,
        }
    }
}

/// A runtime and the way it is served. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    runtime: Runtime,
    config: ServerConfig,
    uploads: Uploads,
    requests: Requests,
    readings: Readings,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl App {
    /// Serves `runtime`, which is closed by [`App::close`].
    pub fn new(runtime: Runtime, config: ServerConfig) -> Self {
        Self(Arc::new(Shared {
            runtime,
            config,
            uploads: Uploads::default(),
            requests: Requests::default(),
            readings: Readings::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Ends all event streams, finishes what was accepted, cancels what runs, closes the store.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.runtime().close().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Opens the sessions whose run a crash has interrupted: what was left open is put right, and goes on if
    /// the agent's rules say so.
    ///
    /// # Errors
    /// The store's, if the sessions cannot be listed. One that cannot be opened is logged and left.
    pub async fn recover(&self) -> Result<(), longhaul::session::SessionError> {
        for record in self.runtime().sessions(usize::MAX >> 1).await? {
            if record.running
                && let Err(error) = self.runtime().open(&record.id).await
            {
                tracing::error!(session = %record.id, %error, "the session was not recovered");
            }
        }
        Ok(())
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.0.uploads
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.0.requests
    }

    pub(crate) fn readings(&self) -> &Readings {
        &self.0.readings
    }

    /// Cancelled when the server ends.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// The session of that id, open.
    ///
    /// # Errors
    /// `not-found`, and those of the store.
    pub(crate) async fn open(&self, id: &str) -> Result<Session, Problem> {
        Ok(self.runtime().open(&SessionId::from(id)).await?)
    }

    /// Does `work` to its end, also when the client leaves before.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        match self.0.tasks.spawn(work).await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a request failed");
                Err(Problem::internal())
            }
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("config", &self.0.config).finish_non_exhaustive()
    }
}
