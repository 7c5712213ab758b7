//! One MCP server for the life of an agent: its tools as they were at the start, and a connection that is opened again
//! when it is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::connection::{McpConnection, McpConnectionError, McpEndpoint, McpOutgoingCall};
use super::tool_list::{McpToolDefinition, McpToolList, McpToolStatus, ToolListChange};

/// The maximum pause before a server that keeps ending is started again.
// The pause grows from none over 1, 2 and 4 s (decision 0011), and a call that waits for it must not run into its own
// time-out.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The number of attempts to find an open connection for one call.
const TRIES: usize = 3;

/// The state of one server.
#[derive(Debug)]
pub(super) struct McpServerState {
    endpoint: McpEndpoint,
    call_timeout: Duration,
    start_timeout: Duration,
    roster: Arc<McpToolList>,
    line: Mutex<Arc<McpConnectionSlot>>,
    /// Connections lost since the last answer.
    losses: AtomicU32,
}

/// A connection, or the place of one that the first call to need it will open.
#[derive(Debug)]
struct McpConnectionSlot {
    link: OnceCell<McpConnection>,
    not_before: Instant,
}

impl McpConnectionSlot {
    fn open(link: McpConnection) -> Arc<Self> {
        Arc::new(Self { link: OnceCell::new_with(Some(link)), not_before: Instant::now() })
    }

    fn after(pause: Duration) -> Arc<Self> {
        Arc::new(Self { link: OnceCell::new(), not_before: Instant::now() + pause })
    }
}

impl McpServerState {
    /// Starts or reaches the server and lists its tools.
    ///
    /// # Errors
    /// The cause of the failure, in words for a person.
    pub(super) async fn start(
        endpoint: McpEndpoint,
        call_timeout: Duration,
        start_timeout: Duration,
    ) -> Result<Self, String> {
        let begun = Instant::now();
        let opening = async {
            let link = McpConnection::open(&endpoint).await?;
            let tools = link.list().await?;
            Ok::<_, McpConnectionError>((link, tools))
        };
        let (mut link, tools) = match timeout(start_timeout, opening).await {
            Ok(opened) => opened.map_err(|fault| endpoint.secrets.redact(fault.to_string()))?,
            Err(_) => return Err(format!("it did not answer within {} s", start_timeout.as_secs_f32())),
        };
        if tools.is_empty() {
            tracing::warn!("the MCP server `{}` offers no tools", endpoint.server);
        }
        tracing::info!(
            server = %endpoint.server,
            tools = tools.len(),
            duration_ms = begun.elapsed().as_millis() as u64,
            "an MCP server was started"
        );
        let roster = Arc::new(McpToolList::new(endpoint.server.clone(), tools));
        link.watch(Arc::clone(&roster));
        let line = Mutex::new(McpConnectionSlot::open(link));
        Ok(Self { endpoint, call_timeout, start_timeout, roster, line, losses: AtomicU32::new(0) })
    }

    /// Returns the server's name.
    pub(super) fn name(&self) -> &str {
        &self.endpoint.server
    }

    /// Returns a text of the server without the secrets that the server was given.
    pub(super) fn without_secrets(&self, text: String) -> String {
        self.endpoint.secrets.redact(text)
    }

    /// Returns the server's tools as the model was shown them.
    pub(super) fn tools(&self) -> &[McpToolDefinition] {
        &self.roster.tools
    }

    /// Returns the current status of a tool.
    pub(super) fn fate(&self, tool: &McpToolDefinition) -> McpToolStatus {
        self.roster.fate(&tool.name)
    }

    /// Returns the difference between the server's current tools and the first list.
    pub(super) fn change(&self) -> Option<ToolListChange> {
        self.roster.change()
    }

    /// Returns the maximum duration of a call, including a restart of the server.
    pub(super) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Makes a call and returns the answer's bytes. If the server had just ended, so that it cannot have read the call,
    /// the call is repeated on a new connection.
    ///
    /// # Errors
    /// The reason that there is no answer.
    pub(super) async fn call(
        &self,
        call: McpOutgoingCall,
        cancel: &CancellationToken,
    ) -> Result<String, McpCallError> {
        let deadline = Instant::now() + self.call_timeout;
        for _ in 1..TRIES {
            let line = self.connected_by(cancel, deadline).await?;
            match self.call_on(&line, call.clone(), cancel, deadline).await {
                // Only a call that no server has read is repeated, and only where another connection has taken the
                // place of the lost one.
                Err(McpConnectionError::NotSent(why)) if !Arc::ptr_eq(&line, &self.line()) => {
                    tracing::info!(server = %self.name(), why, "a call that no MCP server has read is made again");
                }
                outcome => return outcome.map_err(McpCallError::from),
            }
        }
        Err(McpCallError::NotRun("it ends as soon as it is started".to_owned()))
    }

    async fn connected_by(
        &self,
        cancel: &CancellationToken,
        deadline: Instant,
    ) -> Result<Arc<McpConnectionSlot>, McpCallError> {
        let connecting = timeout_at(deadline, self.connected());
        let connected = tokio::select! {
            // A cancel comes first: nothing was sent yet, so nothing has to be called off.
            biased;
            () = cancel.cancelled() => return Err(McpCallError::Cancelled),
            connected = connecting => connected.unwrap_or(Err(McpConnectionError::TimedOut)),
        };
        connected.map_err(|fault| McpCallError::NotRun(fault.to_string()))
    }

    /// Makes a call on one connection. A connection that turns out to be broken is given up.
    async fn call_on(
        &self,
        line: &Arc<McpConnectionSlot>,
        call: McpOutgoingCall,
        cancel: &CancellationToken,
        deadline: Instant,
    ) -> Result<String, McpConnectionError> {
        let Some(link) = line.link.get() else { return Err(McpConnectionError::Closed) };
        let fault = match link.call(call, cancel, deadline).await {
            Ok(answer) => {
                // An answer shows that the server works. Its next loss is mended without a pause again.
                self.losses.store(0, Ordering::Relaxed);
                return Ok(answer);
            }
            Err(fault) => fault,
        };
        if !link.is_broken_by(&fault) {
            return Err(fault);
        }
        self.replace(line);
        let how = link.describe_exit().await;
        Err(if matches!(fault, McpConnectionError::NotSent(_)) {
            fault
        } else {
            McpConnectionError::Lost(how)
        })
    }

    /// Closes the connection. A later call would start the server again.
    pub(super) async fn close(&self) {
        let line = self.line();
        if let Some(link) = line.link.get() {
            tracing::info!(server = %self.name(), "an MCP server is stopped");
            self.replace(&line);
            link.close().await;
        }
    }

    fn line(&self) -> Arc<McpConnectionSlot> {
        Arc::clone(&self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns an open connection. The first caller that finds none opens one, and the others wait for that attempt.
    async fn connected(&self) -> Result<Arc<McpConnectionSlot>, McpConnectionError> {
        for _ in 0..TRIES {
            let line = self.line();
            let link = line.link.get_or_try_init(|| self.reconnect(&line)).await?;
            if link.is_open() {
                return Ok(line);
            }
            // The connection ended between two calls.
            self.replace(&line);
            link.describe_exit().await;
        }
        Err(McpConnectionError::NotSent("it ends as soon as it is started".to_owned()))
    }

    async fn reconnect(&self, line: &Arc<McpConnectionSlot>) -> Result<McpConnection, McpConnectionError> {
        // Callers that waited for a failed attempt get its result. Each of them would start the program once more
        // otherwise.
        if !Arc::ptr_eq(line, &self.line()) {
            return Err(McpConnectionError::NotSent("it could not be started again a moment ago".to_owned()));
        }
        // The pause is waited out by the call that needs the server, within the deadline of that call. A timer would
        // start servers that no model calls.
        sleep_until(line.not_before).await;
        let opening = async {
            let mut link = McpConnection::open(&self.endpoint).await?;
            let tools = link.list().await?;
            tracing::info!(server = %self.name(), tools = tools.len(), "an MCP server was started again");
            self.roster.compare(tools);
            link.watch(Arc::clone(&self.roster));
            Ok(link)
        };
        // The limit of the start holds beside that of the call, which may be much longer.
        let opened = timeout(self.start_timeout, opening).await.unwrap_or(Err(McpConnectionError::TimedOut));
        opened.map_err(|fault| {
            self.replace(line);
            tracing::warn!("the MCP server `{}` could not be started again: {fault}", self.name());
            match fault {
                McpConnectionError::Changed(_) => fault,
                // The details are for the operator's log; the model can do nothing about them.
                _ => McpConnectionError::NotSent("it could not be started again".to_owned()),
            }
        })
    }

    /// Makes the next call connect again: at once after the first loss, later after a growing pause.
    fn replace(&self, lost: &Arc<McpConnectionSlot>) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // Two calls may notice the same loss; only the first one replaces the slot.
        if Arc::ptr_eq(&line, lost) {
            let losses = self.losses.fetch_add(1, Ordering::Relaxed);
            let pause = pause(losses);
            tracing::debug!(server = %self.endpoint.server, losses, ?pause, "the connection is replaced at its next use");
            *line = McpConnectionSlot::after(pause);
        }
    }
}

/// Returns the pause before the next start: none, 1 s, 2 s, 4 s … 30 s.
fn pause(losses_before: u32) -> Duration {
    match losses_before {
        0 => Duration::ZERO,
        // The exponent is bounded, because a shift by 64 or more would panic or wrap.
        more => Duration::from_secs(1 << (more - 1).min(5)).min(LONGEST_PAUSE),
    }
}

/// The reason that a call has no answer, as far as the model is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpCallError {
    /// The caller cancelled the call.
    Cancelled,
    /// The call timed out.
    TimedOut,
    /// The server refused the call.
    Refused(String),
    /// The server answered, but the answer cannot be read.
    Unreadable(String),
    /// The call has certainly had no effect.
    NotRun(String),
    /// The call may have had any effect.
    Lost(String),
}

impl From<McpConnectionError> for McpCallError {
    fn from(fault: McpConnectionError) -> Self {
        match fault {
            McpConnectionError::Cancelled => Self::Cancelled,
            McpConnectionError::TimedOut => Self::TimedOut,
            McpConnectionError::Refused(why) => Self::Refused(why),
            McpConnectionError::NotSent(why) | McpConnectionError::Changed(why) => Self::NotRun(why),
            McpConnectionError::Unreadable(why) => Self::Unreadable(why),
            McpConnectionError::Lost(_) | McpConnectionError::Closed => Self::Lost(fault.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pause;

    #[test]
    fn pauses_grow_to_half_a_minute() {
        let pauses: Vec<u64> = (0..9).map(|losses| pause(losses).as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause(u32::MAX).as_secs(), 30);
    }
}
