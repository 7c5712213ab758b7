//! One connection to a server, from the handshake to its end.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientNotification, ClientRequest, Implementation, JsonObject,
    ListToolsRequest, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, RequestId,
    ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::http::{self, McpHttpClient};
use super::named_files::CommandFileDigests;
use super::secrets::McpSecrets;
use super::stdio::{self, McpProcess};
use super::tool_list::{McpToolDefinition, McpToolList, McpToolPage};
use super::wire::{McpExchange, McpExchangeRegistry, words};
use crate::config::McpTransport;
use crate::io_error::io_error_text;
use crate::sandbox::{IsolatedHome, Sandbox};

/// The maximum number of pages of a tool list. Of a list that never ends, the tools of these pages are used.
const MAX_PAGES: usize = 100;

/// The time to wait for the answer to a cancelled call. The protocol asks servers to send none, but an answer may
/// already be on its way.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The minimum time between two lists. A server that reports changes all the time is not followed at its pace.
// The list of the model stays as it was in any case, so a late comparison costs nothing (decision 0011).
const RELIST_PAUSE: Duration = Duration::from_millis(500);

/// The maximum time for closing a connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// The address of a server, or the way to start it.
#[derive(Clone, Debug)]
pub(super) struct McpEndpoint {
    pub(super) server: String,
    pub(super) transport: McpTransport,
    pub(super) directory: PathBuf,
    pub(super) sandbox: Arc<Sandbox>,
    /// The secrets that the server was given, which its texts must not repeat.
    pub(super) secrets: Arc<McpSecrets>,
    /// The files that must be the same as at the server's first start.
    pub(super) noted: Option<Arc<CommandFileDigests>>,
    /// The home folder of a server that is a program.
    pub(super) home: IsolatedHome,
}

/// The reason that there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum McpConnectionError {
    /// The server answered with an error.
    #[error("it answered with an error: {0}")]
    Refused(String),
    /// The server cannot have received the request.
    #[error("{0}")]
    NotSent(String),
    /// The server is not started, because its files have changed.
    #[error("{0}")]
    Changed(String),
    /// The server may have received the request.
    #[error("{0}")]
    Lost(String),
    /// The server answered, but the answer cannot be read.
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
    /// The connection is closed.
    #[error("it closed the connection")]
    Closed,
    /// The caller cancelled the call.
    #[error("cancelled")]
    Cancelled,
    /// The call timed out.
    #[error("it took too long")]
    TimedOut,
}

/// One connection to a server.
#[derive(Debug)]
pub(super) struct McpConnection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, McpNotificationHandler>>>,
    process: Option<McpProcess>,
    wire: Arc<McpExchangeRegistry>,
    server: String,
    watching: JoinSet<()>,
}

/// A call to send.
#[derive(Clone, Debug)]
pub(super) struct McpOutgoingCall {
    /// The tool's name on the server.
    pub(super) tool: String,
    /// The arguments as `rmcp` reads them, for the headers that it derives from them.
    pub(super) arguments: Option<JsonObject>,
    /// The exchange that carries the bytes.
    pub(super) exchange: Arc<McpExchange>,
}

impl McpConnection {
    /// Connects. Almost every server knows the handshake of the older protocols. A server that refuses the handshake is
    /// asked again in the newer way, which has none.
    ///
    /// # Errors
    /// The reason that the server cannot be reached.
    pub(super) async fn open(endpoint: &McpEndpoint) -> Result<Self, McpConnectionError> {
        // Some servers end when their first message is another one (decision 0011).
        let refused = match Self::open_as(endpoint, ClientLifecycleMode::Initialize).await {
            Err(refused @ McpConnectionError::Refused(_)) => refused,
            other => return other,
        };
        let newer = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
        tracing::debug!(server = %endpoint.server, "the older handshake was refused; the newer one is tried");
        // The first refusal has the better words: a server without the newer protocol only says that it does not know
        // the method.
        Self::open_as(endpoint, newer).await.map_err(|_| refused)
    }

    async fn open_as(endpoint: &McpEndpoint, mode: ClientLifecycleMode) -> Result<Self, McpConnectionError> {
        let wire = Arc::new(McpExchangeRegistry::new(Arc::clone(&endpoint.secrets)));
        let listener = McpNotificationHandler { server: endpoint.server.clone(), wire: Arc::clone(&wire) };
        let (service, process) = match &endpoint.transport {
            McpTransport::Command(command) => {
                let (process, pipes) = stdio::start(endpoint, command, Arc::clone(&wire)).await?;
                match shake_hands(listener, pipes, mode).await {
                    Ok(service) => (service, Some(process)),
                    Err(fault) => return Err(explained(fault, &process).await),
                }
            }
            McpTransport::Http(remote) => {
                let client = McpHttpClient::new(remote, Arc::clone(&wire))?;
                let transport = StreamableHttpClientTransport::with_client(client, http::transport_config());
                (shake_hands(listener, transport, mode).await?, None)
            }
        };
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            process,
            wire,
            server: endpoint.server.clone(),
            watching: JoinSet::new(),
        })
    }

    /// Reports whether calls can be sent.
    pub(super) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    /// Reports whether a fault of a call means that the connection is of no more use.
    pub(super) fn is_broken_by(&self, fault: &McpConnectionError) -> bool {
        let ended = matches!(fault, McpConnectionError::Closed | McpConnectionError::NotSent(_))
            && self.process.is_some();
        ended || !self.is_open()
    }

    /// Lists all tools.
    ///
    /// # Errors
    /// The reason that there is no list.
    pub(super) async fn list(&self) -> Result<Vec<McpToolDefinition>, McpConnectionError> {
        list(&self.peer, &self.wire, &self.server).await
    }

    /// Starts updating the tool list whenever the server reports other tools.
    pub(super) fn watch(&mut self, roster: Arc<McpToolList>) {
        let (peer, wire) = (self.peer.clone(), Arc::clone(&self.wire));
        self.watching.spawn(async move {
            let subscribed = subscribe(&peer, &wire);
            let relisting = async {
                loop {
                    wire.list_changed.notified().await;
                    match list(&peer, &wire, &roster.server).await {
                        Ok(tools) => roster.compare(tools),
                        Err(fault) => {
                            tracing::debug!(server = %roster.server, "no new list of tools: {fault}")
                        }
                    }
                    // A change during the pause is not lost: `Notify` keeps one permit.
                    tokio::time::sleep(RELIST_PAUSE).await;
                }
            };
            tokio::join!(subscribed, relisting);
        });
    }

    /// Makes a call and returns the answer's bytes.
    ///
    /// # Errors
    /// The reason that there is no answer. A call that was cancelled or timed out is called off first; an answer that
    /// arrives nevertheless is returned.
    pub(super) async fn call(
        &self,
        call: McpOutgoingCall,
        cancel: &CancellationToken,
        deadline: Instant,
    ) -> Result<String, McpConnectionError> {
        let exchange = Arc::clone(&call.exchange);
        let _forget = McpExchangeGuard { wire: &self.wire, exchange: &exchange };
        let sent = self.peer.send_request_with_option(request(call), PeerRequestOptions::no_options()).await;
        let handle = sent.map_err(fault)?;
        let (id, mut outcome) = (handle.id, handle.rx);
        let why = tokio::select! {
            biased;
            // An answer that is there counts more than a cancel or a timeout at the same moment.
            outcome = &mut outcome => return settle(outcome, &exchange),
            () = cancel.cancelled() => McpConnectionError::Cancelled,
            () = tokio::time::sleep_until(deadline) => McpConnectionError::TimedOut,
        };
        tracing::info!(server = %self.server, %why, "a call to an MCP server is called off");
        self.call_off(id, &why, &exchange).await;
        // The call had its effect if the answer arrived after all, so the model is shown the answer.
        exchange.answer.get().cloned().ok_or(why)
    }

    async fn call_off(&self, id: RequestId, why: &McpConnectionError, exchange: &McpExchange) {
        let params = CancelledNotificationParam::new(Some(id), Some(why.to_string()));
        let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
        let told = async {
            if let Err(error) = self.peer.send_notification(notification).await {
                tracing::debug!(server = %self.server, "a call could not be called off: {error}");
            }
            // Over HTTP, no answer is read any more once a call is called off.
            if self.process.is_some() {
                exchange.answer.wait().await;
            }
        };
        // A timeout is no error here: the call has been given up already.
        let _ = timeout(CANCEL_GRACE, told).await;
    }

    /// Returns, in words for the model, how a closed connection ended.
    pub(super) async fn describe_exit(&self) -> String {
        match &self.process {
            Some(process) => {
                let how = process.reap_and_describe().await;
                tracing::warn!("the MCP server `{}`: {how}{}", self.server, process.last_words().await);
                how
            }
            None => McpConnectionError::Closed.to_string(),
        }
    }

    /// Closes the connection in an orderly way.
    pub(super) async fn close(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            // A failed closing task has closed nothing, but the program is killed all the same.
            let _ = service.close_with_timeout(CLOSE_LIMIT).await;
        }
        if let Some(process) = &self.process {
            process.close().await;
        }
    }
}

/// Removes an exchange from the registry when no caller waits for it any more.
struct McpExchangeGuard<'a> {
    wire: &'a McpExchangeRegistry,
    exchange: &'a Arc<McpExchange>,
}

impl Drop for McpExchangeGuard<'_> {
    fn drop(&mut self) {
        self.wire.forget(self.exchange);
    }
}

async fn shake_hands<T, E, A>(
    listener: McpNotificationHandler,
    transport: T,
    mode: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, McpNotificationHandler>, McpConnectionError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    // Boxed, because the handshake's state is large and needed only here.
    Box::pin(serve_client_with_lifecycle(listener, transport, mode)).await.map_err(|error| match error {
        ClientInitializeError::JsonRpcError(error) => McpConnectionError::Refused(words(&error)),
        ClientInitializeError::TransportError { error, .. } => unsent(error.error.as_ref()),
        ClientInitializeError::ConnectionClosed(_) => McpConnectionError::Closed,
        other => McpConnectionError::Lost(other.to_string().chars().take(400).collect()),
    })
}

/// Adds the program's exit and its last lines to a failed start.
async fn explained(fault: McpConnectionError, process: &McpProcess) -> McpConnectionError {
    match fault {
        McpConnectionError::Closed | McpConnectionError::NotSent(_) => {
            let how = process.reap_and_describe().await;
            McpConnectionError::Lost(format!("{how}{}", process.last_words().await))
        }
        other => other,
    }
}

fn request(call: McpOutgoingCall) -> ClientRequest {
    let mut params = CallToolRequestParams::new(call.tool);
    params.arguments = call.arguments;
    let mut request = CallToolRequest::new(params);
    request.extensions.insert(call.exchange);
    ClientRequest::CallToolRequest(request)
}

type Outcome = Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>;

fn settle(outcome: Outcome, exchange: &McpExchange) -> Result<String, McpConnectionError> {
    let outcome = outcome.map_err(|_| McpConnectionError::Closed)?;
    if let Some(why) = exchange.unreadable.get() {
        return Err(McpConnectionError::Unreadable(why.clone()));
    }
    let result = outcome.map_err(fault)?;
    match exchange.answer.get() {
        Some(answer) => Ok(answer.clone()),
        None => serde_json::to_string(&result).map_err(|error| McpConnectionError::Lost(error.to_string())),
    }
}

fn fault(error: ServiceError) -> McpConnectionError {
    match error {
        ServiceError::McpError(error) => McpConnectionError::Refused(words(&error)),
        ServiceError::TransportSend(error) => unsent(error.error.as_ref()),
        ServiceError::TransportClosed => McpConnectionError::Closed,
        other => McpConnectionError::Lost(other.to_string()),
    }
}

fn unsent(error: &(dyn std::error::Error + Send + Sync + 'static)) -> McpConnectionError {
    match error.downcast_ref::<io::Error>() {
        // The program has not read the whole line, and servers act on whole lines only.
        Some(error) => McpConnectionError::NotSent(format!("its input is closed ({})", io_error_text(error))),
        None => http::fault(error),
    }
}

async fn list(
    peer: &Peer<RoleClient>,
    wire: &McpExchangeRegistry,
    server: &str,
) -> Result<Vec<McpToolDefinition>, McpConnectionError> {
    // A server without the capability may answer the request with an error, which would look like a failed start.
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut tools: Vec<McpToolDefinition> = Vec::new();
    let mut known = BTreeSet::new();
    let mut cursor = None;
    for page_number in 1.. {
        let exchange = Arc::new(McpExchange::default());
        let _forget = McpExchangeGuard { wire, exchange: &exchange };
        let mut request =
            ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor.clone()));
        request.extensions.insert(Arc::clone(&exchange));
        let request = ClientRequest::ListToolsRequest(request);
        let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let text = settle(sent.map_err(fault)?.rx.await, &exchange)?;
        let page = McpToolPage::read(server, &text).map_err(|error| {
            McpConnectionError::Lost(format!("its list of tools cannot be read: {error}"))
        })?;
        let (listed, before) = (page.tools.len(), tools.len());
        // Of two tools with one name the first is used.
        let new = page.tools.into_iter().filter(|tool| known.insert(tool.name.clone()));
        tools.extend(new.map(|tool| tool.without(&wire.secrets)));
        let last_cursor = std::mem::replace(&mut cursor, page.next);
        // Servers that ignore the cursor answer with their first page for ever, some under a new cursor each time.
        let is_known = cursor == last_cursor || (listed > 0 && tools.len() == before);
        let repeats = cursor.is_some() && is_known;
        if repeats || page_number >= MAX_PAGES {
            tracing::warn!(
                server,
                pages = page_number,
                tools = tools.len(),
                "the list of tools of an MCP server does not end; the tools read so far are used"
            );
            break;
        }
        if cursor.is_none() {
            break;
        }
    }
    Ok(tools)
}

/// Asks a server of the newer protocol to report changes of its tools; such servers do not report unasked.
async fn subscribe(peer: &Peer<RoleClient>, wire: &McpExchangeRegistry) {
    let Some(info) = peer.peer_info().filter(|info| !info.protocol_version.has_initialize()) else { return };
    let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    if tells != Some(true) {
        return;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    match peer.listen(filter).await {
        Ok(mut changes) => {
            while let Ok(Some(_)) = changes.next().await {
                wire.list_changed.notify_one();
            }
        }
        Err(error) => tracing::debug!("a server does not tell when its tools change: {error}"),
    }
}

/// The handler of a server's notifications.
#[derive(Debug)]
struct McpNotificationHandler {
    server: String,
    wire: Arc<McpExchangeRegistry>,
}

impl ClientHandler for McpNotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("longhaul", env!("CARGO_PKG_VERSION"));
        // No capability is claimed: a server must not wait for answers to requests that this client does not handle.
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.wire.progress(&said);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        tracing::debug!(server = %self.server, "its tools have changed");
        self.wire.list_changed.notify_one();
    }
}
