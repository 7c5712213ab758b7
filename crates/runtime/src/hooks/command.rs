//! A hook that is a command: the ask on its standard input, the answer on its standard output, confined like
//! every child.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::{Hook, HookError, HookEvent, MAX_ANSWER_BYTES, parse_output, to_bytes};
use crate::io_error::io_error_text;
use crate::sandbox::{ConfinedChild, IsolatedHome, Sandbox, SpawnRequest};

const SHELL: &str = "/bin/sh";

/// The exit code for a refusal.
const BLOCK: i32 = 2;

/// The meaning of a shell's exit codes 126 and 127 for hooks.
const UNREACHABLE: &str = "its command was not found, or may not be run: hooks are confined to the workspace and the \
                           system's folders (docs/guide/hooks.md); `longhaul doctor` looks for it";

/// The maximum size of the reason from standard error, in bytes.
const MAX_REASON_BYTES: u64 = 16 << 10;

/// The wait for the end of the output once every known process has ended.
const DRAIN: Duration = Duration::from_millis(500);

/// A command. Exit code 0: the output is the answer, and no output is no objection. Exit code 2: no, for the reason on
/// standard error. Any other end is a failure. A command whose answer is not awaited is killed with the whole group.
#[derive(Clone)]
pub struct CommandHook {
    line: String,
    directory: PathBuf,
    sandbox: Arc<Sandbox>,
    home: IsolatedHome,
}

impl CommandHook {
    /// Creates a hook from a command line for `/bin/sh`, run in `directory` and confined by `sandbox`.
    pub fn new(line: impl Into<String>, directory: impl Into<PathBuf>, sandbox: Arc<Sandbox>) -> Self {
        Self { line: line.into(), directory: directory.into(), sandbox, home: IsolatedHome::default() }
    }

    async fn start(&self) -> Result<(ConfinedChild, HookPipes), HookError> {
        let (pipes, [stdin, stdout, stderr]) =
            HookPipes::open().map_err(|error| HookError::NotStarted(io_error_text(&error)))?;
        let request = SpawnRequest {
            program: OsString::from(SHELL),
            args: ["-c", &self.line].map(OsString::from).to_vec(),
            env: Vec::new(),
            directory: self.directory.clone(),
            stdin,
            stdout,
            stderr,
        };
        // The hook has a home apart from that of commands, which could leave files there that the hook's programs obey.
        let child = self
            .sandbox
            .spawn_apart(request, &self.home)
            .await
            .map_err(|error| HookError::NotStarted(error.to_string()))?;
        Ok((child, pipes))
    }
}

#[async_trait]
impl Hook for CommandHook {
    async fn answer(&self, event: HookEvent, ask: Value) -> Result<Value, HookError> {
        let ask = to_bytes(&ask)?;
        let (mut child, pipes) = self.start().await?;
        let mut said = HookCommandOutput::default();
        let status = exchange(&mut child, pipes, &ask, &mut said).await?;
        tracing::debug!(
            hook = event.as_str(),
            code = status.code(),
            signal = status.signal(),
            answer_bytes = said.answer.len(),
            "the command of a hook ended"
        );
        match status.code() {
            Some(0) => parse_output(&said.answer),
            Some(BLOCK) => Ok(blocked(event, &String::from_utf8_lossy(&said.words))),
            // Shells end with 127 if a command was not found and with 126 if it may not be run.
            Some(code @ (126 | 127)) => Err(HookError::Ended(format!("exit code {code}: {UNREACHABLE}"))),
            Some(code) => Err(HookError::Ended(format!("exit code {code}"))),
            None => Err(HookError::Ended(format!("signal {}", status.signal().unwrap_or_default()))),
        }
    }
}

impl fmt::Debug for CommandHook {
    /// Shows the hook without the command line, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandHook").field("directory", &self.directory).finish_non_exhaustive()
    }
}

struct HookPipes {
    to_child: pipe::Sender,
    from_child: pipe::Receiver,
    errors: pipe::Receiver,
}

impl HookPipes {
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

#[derive(Default)]
struct HookCommandOutput {
    answer: Vec<u8>,
    words: Vec<u8>,
}

/// Writes the request and reads the output until the command has ended.
async fn exchange(
    child: &mut ConfinedChild,
    pipes: HookPipes,
    ask: &[u8],
    said: &mut HookCommandOutput,
) -> Result<ExitStatus, HookError> {
    let HookPipes { mut to_child, from_child, errors } = pipes;
    let HookCommandOutput { answer, words } = said;
    let talking = async {
        let writing = async {
            // A command that does not read its input has decided without it.
            let _ = to_child.write_all(ask).await;
            drop(to_child);
            Ok(())
        };
        // Writing and reading go on together: a command that answers before it has read everything would block
        // otherwise.
        tokio::try_join!(writing, read_answer(from_child, answer), read_stderr(errors, words)).map(drop)
    };
    tokio::pin!(talking);
    let status = tokio::select! {
        heard = &mut talking => {
            heard?;
            child.wait().await
        }
        status = child.wait() => {
            // A process that left the command's group may hold the pipes open.
            if let Ok(heard) = tokio::time::timeout(DRAIN, talking).await {
                heard?;
            }
            status
        }
    };
    status.map_err(|error| HookError::Ended(error.to_string()))
}

/// Reads the answer, which must not be too long.
async fn read_answer(from: pipe::Receiver, answer: &mut Vec<u8>) -> Result<(), HookError> {
    // One byte more than allowed shows that the answer is too long.
    let read = from.take(MAX_ANSWER_BYTES as u64 + 1).read_to_end(answer).await;
    read.map_err(|_| HookError::Broken)?;
    if answer.len() > MAX_ANSWER_BYTES { Err(HookError::TooLong) } else { Ok(()) }
}

/// Reads the start of standard error; the rest is read and dropped, so that a full pipe does not block the command.
async fn read_stderr(mut from: impl AsyncRead + Unpin, words: &mut Vec<u8>) -> Result<(), HookError> {
    let read = (&mut from).take(MAX_REASON_BYTES).read_to_end(words).await;
    read.map_err(|_| HookError::Broken)?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await.map(drop).map_err(|_| HookError::Broken)
}

/// Returns the refusal for each event.
fn blocked(event: HookEvent, words: &str) -> Value {
    let reason = Some(words.trim()).filter(|words| !words.is_empty());
    match event {
        HookEvent::PreCompact => json!({ "cancel": true, "reason": reason }),
        HookEvent::PreToolUse => json!({ "decision": "deny", "reason": reason }),
        // The tool has already run, so the refusal can only be reported to the model.
        HookEvent::PostToolUse => json!({ "addedContext": reason }),
        HookEvent::UserPromptSubmit => json!({ "block": true, "reason": reason }),
    }
}
