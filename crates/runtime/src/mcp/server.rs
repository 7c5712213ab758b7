//! One server for the life of an agent: its tools as they were at the start, and a connection that is made again
//! when it is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::link::{McpConnection, McpConnectionError, McpEndpoint, McpOutgoingCall};
use super::tool_list::{McpToolDefinition, McpToolList, McpToolStatus, ToolListChange};

/// The longest pause before a server that keeps ending is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often a call looks for a connection that is open.
const TRIES: usize = 3;

/// A server.
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

/// A connection that is there or will be, made by the first call that needs it.
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
    /// Starts or reaches the server and asks for its tools.
    ///
    /// # Errors
    /// Why not, in words for a person.
    pub(super) async fn start(
        endpoint: McpEndpoint,
        call_timeout: Duration,
        start_timeout: Duration,
    ) -> Result<Self, String> {
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
        let roster = Arc::new(McpToolList::new(endpoint.server.clone(), tools));
        link.watch(Arc::clone(&roster));
        let line = Mutex::new(McpConnectionSlot::open(link));
        Ok(Self { endpoint, call_timeout, start_timeout, roster, line, losses: AtomicU32::new(0) })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.endpoint.server
    }

    /// What the model or a person is told of what it said, without the secrets that it was given.
    pub(super) fn without_secrets(&self, text: String) -> String {
        self.endpoint.secrets.redact(text)
    }

    /// Its tools as the model is told of them.
    pub(super) fn tools(&self) -> &[McpToolDefinition] {
        &self.roster.tools
    }

    /// What has become of a tool.
    pub(super) fn fate(&self, tool: &McpToolDefinition) -> McpToolStatus {
        self.roster.fate(&tool.name)
    }

    /// How its tools have changed.
    pub(super) fn change(&self) -> Option<ToolListChange> {
        self.roster.change()
    }

    /// How long a call may take, a new start included.
    pub(super) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Makes a call and gives the answer as the server wrote it. A call that cannot have been heard, because the
    /// server had just ended, is made again on a new connection.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn call(
        &self,
        call: McpOutgoingCall,
        cancel: &CancellationToken,
    ) -> Result<String, McpCallError> {
        let deadline = Instant::now() + self.call_timeout;
        for _ in 1..TRIES {
            let line = self.connected_by(cancel, deadline).await?;
            match self.call_on(&line, call.clone(), cancel, deadline).await {
                Err(McpConnectionError::NotSent(_)) if !Arc::ptr_eq(&line, &self.line()) => {}
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
            biased;
            () = cancel.cancelled() => return Err(McpCallError::Cancelled),
            connected = connecting => connected.unwrap_or(Err(McpConnectionError::TimedOut)),
        };
        connected.map_err(|fault| McpCallError::NotRun(fault.to_string()))
    }

    /// Makes a call. A connection that turns out to be broken is given up.
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

    /// Ends it. A later call would start it again.
    pub(super) async fn close(&self) {
        let line = self.line();
        if let Some(link) = line.link.get() {
            self.replace(&line);
            link.close().await;
        }
    }

    fn line(&self) -> Arc<McpConnectionSlot> {
        Arc::clone(&self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An open connection; whoever finds none makes it, and others wait for that.
    async fn connected(&self) -> Result<Arc<McpConnectionSlot>, McpConnectionError> {
        for _ in 0..TRIES {
            let line = self.line();
            let link = line.link.get_or_try_init(|| self.reconnect(&line)).await?;
            if link.is_open() {
                return Ok(line);
            }
            // It ended between two calls.
            self.replace(&line);
            link.describe_exit().await;
        }
        Err(McpConnectionError::NotSent("it ends as soon as it is started".to_owned()))
    }

    async fn reconnect(&self, line: &Arc<McpConnectionSlot>) -> Result<McpConnection, McpConnectionError> {
        if !Arc::ptr_eq(line, &self.line()) {
            return Err(McpConnectionError::NotSent("it could not be started again a moment ago".to_owned()));
        }
        sleep_until(line.not_before).await;
        let opening = async {
            let mut link = McpConnection::open(&self.endpoint).await?;
            let tools = link.list().await?;
            self.roster.compare(tools);
            link.watch(Arc::clone(&self.roster));
            Ok(link)
        };
        let opened = timeout(self.start_timeout, opening).await.unwrap_or(Err(McpConnectionError::TimedOut));
        opened.map_err(|fault| {
            self.replace(line);
            tracing::warn!("the MCP server `{}` could not be started again: {fault}", self.name());
            match fault {
                McpConnectionError::Changed(_) => fault,
                _ => McpConnectionError::NotSent("it could not be started again".to_owned()),
            }
        })
    }

    /// The next call connects anew: at once after the first loss, later after a pause that grows.
    fn replace(&self, lost: &Arc<McpConnectionSlot>) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&line, lost) {
            *line = McpConnectionSlot::after(pause(self.losses.fetch_add(1, Ordering::Relaxed)));
        }
    }
}

/// Nothing, 1 s, 2 s, 4 s … 30 s.
fn pause(losses_before: u32) -> Duration {
    match losses_before {
        0 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 1).min(5)).min(LONGEST_PAUSE),
    }
}

/// Why a call has no answer, as far as the model is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpCallError {
    /// It was stopped by the caller.
    Cancelled,
    /// Its time was up.
    TimedOut,
    /// The server refused it.
    Refused(String),
    /// It was answered, and the answer cannot be read.
    Unreadable(String),
    /// It has certainly had no effect.
    NotRun(String),
    /// It may have had any effect.
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
