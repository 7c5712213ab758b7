//! The requests of an editor beside prompts: sessions, in their workspaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol::Error;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
    ListSessionsResponse, McpCapabilities, McpServer, PromptCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionId, SessionInfo, SessionListCapabilities,
    SessionResumeCapabilities,
};
use longhaul_core::ids::SessionId as OwnId;
use longhaul_store::StoreError;

use crate::assemble::ToolApprovalMode;
use crate::environment::CliEnvironment;

use super::editor_session::{EditorSession, PromptCancelHandle};
use super::follower::Connection;
use super::stop::{failed, internal, invalid, not_found, refused};
use super::time::iso8601;
use super::updates::EditorCapabilities;
use super::workspace_runtimes::{WorkspaceRegistry, WorkspaceRuntime, servers};

/// Sessions in one answer to a list.
const PAGE: usize = 100;

/// The editor at the other end.
pub(super) struct EditorConnection {
    rooms: WorkspaceRegistry,
    shows: OnceLock<EditorCapabilities>,
    talks: Mutex<BTreeMap<String, Arc<EditorSession>>>,
    /// The sessions made for this editor. A session without a message is not kept.
    made: Mutex<BTreeSet<String>>,
}

/// The session to open, and its folder.
pub(super) struct OpenSessionRequest {
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    pub(super) additional: Vec<PathBuf>,
    pub(super) servers: Vec<McpServer>,
}

impl EditorConnection {
    /// Creates the connection to an editor that has not announced anything yet.
    pub(super) async fn at(place: &CliEnvironment, asking: ToolApprovalMode) -> Self {
        let (shows, talks, made) = Default::default();
        Self { rooms: WorkspaceRegistry::over(place, asking).await, shows, talks, made }
    }

    /// Returns this agent's capabilities, and stores the editor's.
    pub(super) async fn initialize(&self, request: InitializeRequest) -> InitializeResponse {
        let session = request.client_capabilities.session.as_ref();
        let shows = EditorCapabilities {
            compactions: session.is_some_and(|session| session.compaction.is_some()),
            notices: session.is_some_and(|session| session.notices.is_some()),
        };
        // If an editor initialises twice, its first announcement counts.
        let _ = self.shows.set(shows);
        let prompts = PromptCapabilities::new().image(self.rooms.may_see().await).embedded_context(true);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::default())
            .resume(SessionResumeCapabilities::default())
            .close(SessionCloseCapabilities::default())
            .delete(SessionDeleteCapabilities::default());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(prompts)
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let me = Implementation::new("longhaul", env!("CARGO_PKG_VERSION")).title("Longhaul".to_owned());
        InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(capabilities).agent_info(me)
    }

    /// Begins a new session in a workspace.
    ///
    /// # Errors
    /// The reason against a session, in words.
    pub(super) async fn begin(
        &self,
        cwd: PathBuf,
        additional: Vec<PathBuf>,
        servers: Vec<McpServer>,
    ) -> Result<Arc<EditorSession>, Error> {
        // The workspace's runtime is shared by all sessions in its folder, so it is found before the session is made.
        let room = self.open_workspace(cwd, &additional, servers).await?;
        let session = room.runtime.create(None).await.map_err(|error| internal(error.to_string()))?;
        let id = session.id().clone();
        self.made().insert(id.as_str().to_owned());
        self.rooms.record_session_folder(&id, &room.folder);
        tracing::debug!(session = %id, folder = %room.folder.display(), "an editor begins a session");
        let talk = Arc::new(EditorSession::new(session, room, false, self.shows()));
        self.talks().insert(id.as_str().to_owned(), Arc::clone(&talk));
        Ok(talk)
    }

    /// Opens an earlier session. The whole conversation is sent to `to`.
    ///
    /// # Errors
    /// The session does not exist, or cannot be opened in the folder.
    pub(super) async fn open(
        &self,
        wanted: OpenSessionRequest,
        tell: Option<&Connection>,
    ) -> Result<Arc<EditorSession>, Error> {
        let id = OwnId::new(&*wanted.id.0);
        let room = self.open_workspace(wanted.cwd, &wanted.additional, wanted.servers).await?;
        let record = room.runtime.store().session(&id).await.map_err(|error| match error {
            StoreError::NotFound(_) => not_found(id.as_str()),
            error => internal(error.to_string()),
        })?;
        // The session now belongs to the newest opener, and an earlier one gets no more updates.
        self.let_go(id.as_str()).await;
        let session = room.runtime.open(&id).await.map_err(|error| refused(id.as_str(), &error))?;
        self.rooms.record_session_folder(&id, &room.folder);
        tracing::debug!(session = %id, folder = %room.folder.display(), "an editor opens a session");
        let talk = Arc::new(EditorSession::new(session, room, record.title.is_some(), self.shows()));
        // Told before the session is registered: no prompt can come in between and be told twice.
        if let Some(to) = tell {
            talk.tell_again(to).await?;
        }
        self.talks().insert(id.as_str().to_owned(), Arc::clone(&talk));
        Ok(talk)
    }

    async fn open_workspace(
        &self,
        cwd: PathBuf,
        additional: &[PathBuf],
        named: Vec<McpServer>,
    ) -> Result<Arc<WorkspaceRuntime>, Error> {
        // The protocol has the field, but a sandbox and its rules hold for one folder.
        if !additional.is_empty() {
            return Err(invalid("a session has one folder: additionalDirectories are not supported"));
        }
        let servers = servers(named).map_err(invalid)?;
        self.rooms.get_or_start_runtime(&cwd, servers).await.map_err(|failure| failed(&failure))
    }

    /// Registers a prompt of an open session.
    ///
    /// # Errors
    /// No such session is open.
    pub(super) fn prompted(&self, id: &SessionId) -> Result<(Arc<EditorSession>, PromptCancelHandle), Error> {
        let talk = self.talk(id).ok_or_else(|| not_found(&id.0))?;
        // The ticket is made here, in the order of messages, and not in the task that works on the prompt.
        let ticket = talk.ticket();
        Ok((talk, ticket))
    }

    /// Returns an open session.
    pub(super) fn talk(&self, id: &SessionId) -> Option<Arc<EditorSession>> {
        self.talks().get(&*id.0).cloned()
    }

    /// Returns the sessions ever opened by an editor, in one folder or in all.
    ///
    /// # Errors
    /// The data folder cannot be used, or the cursor is not one of ours.
    pub(super) async fn list(&self, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let from: usize = match &request.cursor {
            Some(cursor) => cursor.parse().map_err(|_| {
                invalid("the cursor is not one of this agent's: list the sessions again without it")
            })?,
            None => 0,
        };
        let all = self.rooms.sessions().await.map_err(|failure| failed(&failure))?;
        let meant = all.into_iter().filter(|(record, folder)| {
            let is_in_folder = request.cwd.as_ref().is_none_or(|cwd| cwd == folder);
            // A session without a message does not count yet.
            is_in_folder && record.title.is_some()
        });
        // The cursor is a position in the list, so a session that changes between two pages may appear twice.
        // One entry more than a page shows whether a next page exists.
        let mut page: Vec<_> = meant.skip(from).take(PAGE + 1).collect();
        let next = (page.len() > PAGE).then(|| (from + PAGE).to_string());
        page.truncate(PAGE);
        let infos = page.into_iter().map(|(record, folder)| {
            SessionInfo::new(record.id.as_str().to_owned(), folder)
                .title(record.title)
                .updated_at(iso8601(record.updated_at))
        });
        Ok(ListSessionsResponse::new(infos.collect()).next_cursor(next))
    }

    /// Cancels the work of a session and closes it. A session without a message is not kept.
    pub(super) async fn let_go(&self, id: &str) {
        // Removed first, so that no prompt can begin in a session that is being closed.
        let Some(talk) = self.talks().remove(id) else { return };
        talk.cancel().await;
        if self.made().remove(id) && talk.is_empty().await {
            let own = talk.session.id().clone();
            // An empty session that stays is not listed, so a failure needs no report.
            let _ = talk.room.runtime.delete(&own).await;
        }
    }

    /// Deletes a session for good.
    ///
    /// # Errors
    /// The session does not exist, or is open elsewhere.
    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        let own = OwnId::new(&*id.0);
        // The open session is taken out in its own statement: the lock must not be held across the `match`.
        let open = self.talks().remove(&*id.0);
        match open {
            Some(talk) => {
                talk.cancel().await;
                let deleted = talk.room.runtime.delete(&own).await;
                deleted.map_err(|error| refused(own.as_str(), &error))
            }
            None => self.rooms.delete(&own).await.map_err(|failure| failed(&failure)),
        }
    }

    /// Closes all sessions after the editor has left. Nothing is lost.
    pub(super) async fn close(&self) {
        // The ids are copied, because `let_go` takes the lock for each of them.
        let open: Vec<String> = self.talks().keys().cloned().collect();
        futures_util::future::join_all(open.iter().map(|id| self.let_go(id))).await;
        // The runtimes close last: the sessions above still write while they end.
        self.rooms.close().await;
    }

    fn shows(&self) -> EditorCapabilities {
        self.shows.get().copied().unwrap_or_default()
    }

    /// Locks the sessions. No panic happens while a lock is held.
    fn talks(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EditorSession>>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
