//! The stdio transport: a program that is started confined and exchanges one message a line over standard input and
//! output.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::{McpConnectionError, McpEndpoint};
use super::secrets::McpSecrets;
use super::wire::{MAX_MESSAGE_BYTES, McpExchangeRegistry, UnreadableMcpMessage};
use crate::config::McpCommand;
use crate::io_error::io_error_text;
use crate::sandbox::{ConfinedChild, SpawnRequest};

/// The time to wait for the exit of a program that has closed its output. The process group is ended first, which takes
/// time on a busy machine.
const BURIAL: Duration = Duration::from_secs(5);

/// The time that a program gets to end after its input was closed, and again after it was asked to end.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// The number of lines of standard error that the start-failure message quotes, and the characters of each line.
const LAST_WORDS: usize = 8;
const LONGEST_WORD: usize = 400;

/// The program behind a connection. The program and its process group are killed when this value is dropped.
#[derive(Debug)]
pub(super) struct McpProcess {
    child: Mutex<Option<ConfinedChild>>,
    last_words: LastWords,
    /// Cancelled when standard error has ended and was read to its end.
    heard: CancellationToken,
    _listening: JoinSet<()>,
}

type LastWords = Arc<Mutex<VecDeque<String>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the program and connects its pipes.
///
/// # Errors
/// [`McpConnectionError::NotSent`] if the program could not be started. [`McpConnectionError::Changed`] if one of the
/// program's files has changed, so that the program must not be started.
pub(super) async fn start(
    endpoint: &McpEndpoint,
    command: &McpCommand,
    wire: Arc<McpExchangeRegistry>,
) -> Result<(McpProcess, McpStdioTransport), McpConnectionError> {
    let (pipes, [stdin, stdout, stderr]) = McpPipes::open().map_err(|error| {
        McpConnectionError::NotSent(format!("its pipes could not be made: {}", io_error_text(&error)))
    })?;
    let McpPipes { to_child, from_child, errors } = pipes;
    let request = SpawnRequest {
        program: OsString::from(&command.program),
        args: command.args.iter().map(OsString::from).collect(),
        env: command.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: endpoint.directory.clone(),
        stdin,
        stdout,
        stderr,
    };
    // The check comes last before the spawn, so that a change of the files has as little time as possible to slip in.
    if let Some(noted) = endpoint.noted.clone() {
        let checked = tokio::task::spawn_blocking(move || noted.check()).await;
        let checked =
            // The check ran on a thread that panicked or was cancelled. The program is not started unchecked.
            checked.map_err(|_| McpConnectionError::NotSent("its files could not be read".to_owned()))?;
        checked.map_err(|refused| McpConnectionError::Changed(refused.to_string()))?;
    }
    let child = endpoint.sandbox.spawn_server(request, command.network, &endpoint.home);
    let child = child.await.map_err(|error| McpConnectionError::NotSent(with_way_out(error.to_string())))?;
    tracing::debug!(server = %endpoint.server, network = ?command.network, "the program of an MCP server runs");
    let last_words = LastWords::default();
    let mut listening = JoinSet::new();
    let heard = CancellationToken::new();
    let (server, secrets) = (endpoint.server.clone(), Arc::clone(&endpoint.secrets));
    let (words, all) = (Arc::clone(&last_words), heard.clone().drop_guard());
    listening.spawn(async move {
        // Dropped when the task ends, for whatever reason. `last_words` waits for that.
        let _all = all;
        listen(server, secrets, errors, words).await;
    });
    let process = McpProcess { child: Mutex::new(Some(child)), last_words, heard, _listening: listening };
    Ok((process, McpStdioTransport::new(endpoint.server.clone(), from_child, to_child, wire)))
}

/// Our ends of the pipes to a server's program.
struct McpPipes {
    to_child: pipe::Sender,
    from_child: pipe::Receiver,
    errors: pipe::Receiver,
}

impl McpPipes {
    /// Makes the pipes; the child gets the other ends as standard input, output and error.
    fn open() -> io::Result<(Self, [Stdio; 3])> {
        let (stdin, to_child) = io::pipe()?;
        let (from_child, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        let pipes = Self {
            to_child: pipe::Sender::from_owned_fd(OwnedFd::from(to_child))?,
            from_child: pipe::Receiver::from_owned_fd(OwnedFd::from(from_child))?,
            errors: pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?,
        };
        Ok((pipes, [Stdio::from(stdin), Stdio::from(stdout), Stdio::from(stderr)]))
    }
}

/// Appends advice about the sandbox to an error text that looks like a denied access.
fn with_way_out(words: String) -> String {
    let is_denied = ["permission denied", "eacces", "operation not permitted"];
    let lower = words.to_lowercase();
    if !is_denied.iter().any(|denied| lower.contains(denied)) {
        return words;
    }
    format!(
        "{words}\n  this may be the sandbox, which opens the workspace, the system's folders and those of PATH to it: \
         move the program (and the files it reads) into the workspace, or add its folder to PATH before `longhaul` \
         starts"
    )
}

/// Writes standard error to the log and keeps its last lines.
async fn listen(server: String, secrets: Arc<McpSecrets>, errors: pipe::Receiver, last_words: LastWords) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A program may write without line breaks, so a line ends after 64 KiB at the latest.
        let read = (&mut errors).take(64 << 10).read_until(b'\n', &mut line).await;
        if !read.is_ok_and(|count| count > 0) {
            return;
        }
        let text = secrets.redact(String::from_utf8_lossy(&line).into_owned());
        let text = text.trim_end();
        tracing::debug!(%server, "{text}");
        let mut words = locked(&last_words);
        if !text.is_empty() {
            words.push_back(text.chars().take(LONGEST_WORD).collect());
        }
        while words.len() > LAST_WORDS {
            words.pop_front();
        }
    }
}

impl McpProcess {
    /// Returns the exit of a program whose connection is closed, in words. A program that has not ended is killed.
    pub(super) async fn reap_and_describe(&self) -> String {
        let child = locked(&self.child).take();
        let Some(mut child) = child else { return "its program has ended".to_owned() };
        match tokio::time::timeout(BURIAL, child.wait()).await {
            Ok(Ok(status)) => how(status),
            Ok(Err(error)) => format!("its program has ended ({})", io_error_text(&error)),
            // Dropping the child kills its group.
            Err(_) => "its program closed the connection and was killed".to_owned(),
        }
    }

    /// Returns the last lines that an ended program wrote to standard error, for a person.
    pub(super) async fn last_words(&self) -> String {
        // Lines that arrive later are left out of the message.
        let _ = tokio::time::timeout(LAST_MOMENT, self.heard.cancelled()).await;
        let words = locked(&self.last_words);
        if words.is_empty() {
            return String::new();
        }
        let wrote = Vec::from_iter(words.iter().cloned()).join("\n  ");
        with_way_out(format!("; it wrote:\n  {wrote}"))
    }

    /// Waits for the program, whose input is closed by now, to end; then asks the program to end, then kills it.
    pub(super) async fn close(&self) {
        let child = locked(&self.child).take();
        let Some(mut child) = child else { return };
        if tokio::time::timeout(LAST_MOMENT, child.wait()).await.is_err()
            && let Err(error) = child.stop(LAST_MOMENT).await
        {
            tracing::warn!("waiting for an MCP server to end: {error}");
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its program has ended with exit code {code}"),
        (None, Some(signal)) => format!("its program was killed by signal {signal}"),
        (None, None) => "its program has ended".to_owned(),
    }
}

/// A line to write, and the sender that reports its completion.
type OutgoingLine = (String, oneshot::Sender<io::Result<()>>);

/// Both directions of a connection. Dropping the transport closes the program's input.
pub(super) struct McpStdioTransport {
    server: String,
    reader: BufReader<pipe::Receiver>,
    /// The part of the next message that has arrived. A cancelled read keeps it, so that the next read continues there.
    line: Vec<u8>,
    lines: Option<mpsc::Sender<OutgoingLine>>,
    writing: JoinSet<()>,
    wire: Arc<McpExchangeRegistry>,
    /// The replacements for messages that could not be read.
    stand_ins: VecDeque<ServerJsonRpcMessage>,
    /// True while the rest of an oversized line is being skipped.
    is_skipping: bool,
}

/// The outcome of one read.
#[derive(Debug, PartialEq, Eq)]
enum LineReadOutcome {
    /// A whole line.
    Line,
    /// The start of a line that is longer than the limit.
    TooMuch,
    /// The end of the program's output.
    End,
}

impl McpStdioTransport {
    fn new(server: String, from: pipe::Receiver, to: pipe::Sender, wire: Arc<McpExchangeRegistry>) -> Self {
        // A task of its own writes: `rmcp` may drop a send at any point, and half a line would garble the next message.
        // The bound keeps a program that does not read its input from filling the memory.
        let (lines, to_write) = mpsc::channel(64);
        let mut writing = JoinSet::new();
        writing.spawn(write(to, to_write));
        Self {
            server,
            reader: BufReader::with_capacity(64 << 10, from),
            line: Vec::new(),
            lines: Some(lines),
            writing,
            wire,
            stand_ins: VecDeque::new(),
            is_skipping: false,
        }
    }

    /// Reads on until a whole line has arrived, or as much of one as the limit allows.
    async fn read_line(&mut self) -> LineReadOutcome {
        loop {
            let room = MAX_MESSAGE_BYTES.saturating_sub(self.line.len()) as u64;
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await;
            let is_whole = self.line.ends_with(b"\n");
            match (read.is_ok() && is_whole, self.line.len() >= MAX_MESSAGE_BYTES) {
                (true, _) if self.is_skipping => self.is_skipping = false,
                (true, _) => return LineReadOutcome::Line,
                (_, true) if self.is_skipping => {}
                (_, true) => return LineReadOutcome::TooMuch,
                _ => return LineReadOutcome::End,
            }
            self.line.clear();
        }
    }

    /// Returns the message that was read. A line that is no message is skipped, because programs print all kinds of
    /// text.
    fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        match self.wire.read(text) {
            Ok(message) => Some(message),
            Err(_) if text.is_empty() => None,
            Err(unreadable) => self.stand_in(unreadable),
        }
    }

    /// Drops an oversized message and skips the rest of its line. The server keeps running, and the caller that waits
    /// for the message receives an error.
    fn too_much(&mut self) -> Option<ServerJsonRpcMessage> {
        self.is_skipping = true;
        let line = std::mem::take(&mut self.line);
        let why = format!("it is larger than {} MiB", MAX_MESSAGE_BYTES >> 20);
        tracing::warn!("the MCP server `{}` sent a message that is not taken: {why}", self.server);
        self.stand_in(self.wire.unreadable(&String::from_utf8_lossy(&line), why))
    }

    fn stand_in(&mut self, unreadable: UnreadableMcpMessage) -> Option<ServerJsonRpcMessage> {
        let UnreadableMcpMessage { why, stand_in, is_lost_answer } = unreadable;
        tracing::debug!(server = %self.server, %why, "a line that is no message");
        // Without an id, the answer may belong to any open call, and each of them would wait until its timeout.
        if is_lost_answer {
            self.stand_ins.extend(self.wire.fail_all(&why));
        }
        stand_in.map(|message| *message)
    }
}

/// Writes one line after the other. Each line is written whole, even if its caller stops waiting.
async fn write(mut to: pipe::Sender, mut lines: mpsc::Receiver<OutgoingLine>) {
    while let Some((mut line, written)) = lines.recv().await {
        line.push('\n');
        // `rmcp` may have dropped the send. The line is written whole in any case.
        let _ = written.send(to.write_all(line.as_bytes()).await);
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the server's input is closed")
}

impl Transport<RoleClient> for McpStdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let lines = self.lines.clone();
        let line = self.wire.outgoing(&message);
        async move {
            let (written, is_written) = oneshot::channel();
            let lines = lines.ok_or_else(closed)?;
            lines.send((line?, written)).await.map_err(|_| closed())?;
            is_written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.stand_ins.pop_front() {
                return Some(message);
            }
            let message = match self.read_line().await {
                LineReadOutcome::Line => self.message(),
                LineReadOutcome::TooMuch => self.too_much(),
                LineReadOutcome::End => return None,
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.lines = None;
        // A program that does not read its input would keep the writing task waiting.
        self.writing.shutdown().await;
        Ok(())
    }
}
