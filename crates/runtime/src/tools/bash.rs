//! `bash`: one shell command, confined, in a process group of its own, with a time limit.

use std::ffi::OsString;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::arguments::ToolArguments;
use super::capture::{CapturedOutput, LossyUtf8Decoder, OutputCapture};
use super::{
    PreservedEnd, Tool, ToolContext, ToolError, ToolInput, ToolOutput, ToolOutputPart, ToolProgress, builtin,
};
use crate::io_error::io_error_text;
use crate::sandbox::{ConfinedChild, SpawnRequest};

/// The maximum time limit that a call may ask for, in milliseconds.
const LONGEST_MS: u64 = 3_600_000;

/// The time to wait for the end of the output after every known process has ended.
const DRAIN: Duration = Duration::from_millis(500);

const DESCRIPTION: &str = "Runs a shell command and returns its output and exit code. Each call is a new shell in the workspace root, without input; what it leaves in the background ends with it. Temporary files go into $TMPDIR; other folders are mostly closed.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"command":{"type":"string"},"timeoutMs":{"type":"integer","minimum":1,"maximum":3600000,"description":"Time limit, default 120000"},"description":{"type":"string","description":"What it is for, in a few words"}},"required":["command"],"additionalProperties":false}"#;

/// The `bash` tool.
#[derive(Clone, Debug)]
pub(crate) struct BashTool {
    shell: PathBuf,
    options: &'static [&'static str],
}

impl BashTool {
    /// Makes the tool with `bash` if it is in one of its usual places, otherwise with `/bin/sh`.
    pub(crate) fn new() -> Self {
        let places = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash"];
        match places.iter().map(Path::new).find(|path| path.exists()) {
            Some(bash) => Self { shell: bash.to_owned(), options: &["--noprofile", "--norc", "-c"] },
            None => Self { shell: PathBuf::from("/bin/sh"), options: &["-c"] },
        }
    }

    async fn execute(&self, call: ToolInput) -> Result<ToolOutput, ToolError> {
        let request = BashArguments::parse(call.arguments, call.context.limits.bash_timeout)?;
        if call.context.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let (mut child, reader) = self.start(&request.command, &call.context).await?;
        let context = &call.context;
        let mut capture = OutputCapture::new(context.limits.capture_bytes);
        // The reader must know when the command has ended: a process that escaped may hold the pipe open for ever.
        let (exited, has_exited) = oneshot::channel();
        let watching = async {
            let ended = watch(&mut child, &request, context).await;
            // Only the reader of the output listens, and it may have ended first.
            let _ = exited.send(());
            ended
        };
        let (ended, ()) = tokio::join!(watching, pump(reader, &mut capture, &context.progress, has_exited));
        let (status, why) = ended.map_err(|error| {
            ToolError::Failed(format!("waiting for the command: {}", io_error_text(&error)))
        })?;
        tracing::debug!(
            code = status.code(),
            signal = status.signal(),
            end = ?why,
            limit_ms = request.limit.as_millis() as u64,
            "a command ended"
        );
        Ok(report(capture.finish(), status, why, request.limit))
    }

    async fn start(
        &self,
        command: &str,
        at: &ToolContext,
    ) -> Result<(ConfinedChild, pipe::Receiver), ToolError> {
        let pipe = output_pipe();
        let (reader, writer, second) = pipe.map_err(|error| {
            ToolError::Failed(format!("the shell could not be started: {}", io_error_text(&error)))
        })?;
        let args = self.options.iter().copied().chain([command]).map(OsString::from).collect();
        let child = at.sandbox.spawn(SpawnRequest {
            program: self.shell.clone().into_os_string(),
            args,
            env: Vec::new(),
            directory: at.workspace.root().to_owned(),
            // A command that asks for input would otherwise wait until its time limit.
            stdin: Stdio::null(),
            stdout: Stdio::from(writer),
            stderr: Stdio::from(second),
        });
        let child = child.await.map_err(|error| ToolError::Failed(error.to_string()))?;
        Ok((child, reader))
    }
}

impl Default for BashTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for BashTool {
    fn spec(&self) -> ToolSpec {
        builtin("bash", false, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        self.execute(call).await.unwrap_or_else(ToolOutput::from)
    }
}

struct BashArguments {
    command: String,
    limit: Duration,
}

impl BashArguments {
    fn parse(arguments: serde_json::Value, default_limit: Duration) -> Result<Self, ToolError> {
        let mut arguments = ToolArguments::new("bash", arguments)?;
        let command = arguments.text("command")?;
        let limit = arguments.optional_number("timeoutMs", 1..=LONGEST_MS)?;
        // The description is for people who read the call.
        arguments.optional_text("description")?;
        arguments.finish()?;
        if command.trim().is_empty() {
            return Err(ToolError::Arguments("`bash`: `command` is empty".to_owned()));
        }
        // The arguments of a program end with a NUL character, so none can be inside.
        if command.contains('\0') {
            return Err(ToolError::Arguments("`bash`: `command` contains a NUL character".to_owned()));
        }
        Ok(Self { command, limit: limit.map_or(default_limit, Duration::from_millis) })
    }
}

/// Makes the pipe of a command's output: its reader, and two writers. One pipe for both streams keeps the order in
/// which the command wrote them.
fn output_pipe() -> std::io::Result<(pipe::Receiver, PipeWriter, PipeWriter)> {
    // One pipe for both streams keeps their output in the order in which it was written.
    let (reader, writer) = std::io::pipe()?;
    let second = writer.try_clone()?;
    Ok((pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?, writer, second))
}

/// The cause of a command's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandEnd {
    Itself,
    Cancel,
    TimeLimit,
}

async fn watch(
    child: &mut ConfinedChild,
    request: &BashArguments,
    context: &ToolContext,
) -> std::io::Result<(ExitStatus, CommandEnd)> {
    let cancel: &CancellationToken = &context.cancel;
    let ending = tokio::select! {
        status = child.wait() => return Ok((status?, CommandEnd::Itself)),
        () = cancel.cancelled() => CommandEnd::Cancel,
        () = tokio::time::sleep(request.limit) => CommandEnd::TimeLimit,
    };
    Ok((child.stop(context.limits.kill_grace).await?, ending))
}

/// Reads until the output ends, or until shortly after the command has ended.
async fn pump(
    mut reader: pipe::Receiver,
    capture: &mut OutputCapture,
    progress: &mpsc::Sender<ToolProgress>,
    exited: oneshot::Receiver<()>,
) {
    let mut live = CommandProgress { progress, decoder: LossyUtf8Decoder::default(), offset: 0 };
    let mut buffer = vec![0; 64 * 1024];
    let over = async {
        let _ = exited.await;
        // A process that left the group may hold the pipe open for ever.
        tokio::time::sleep(DRAIN).await;
    };
    tokio::pin!(over);
    loop {
        let count = tokio::select! {
            // Output that has arrived is read before the deadline counts.
            biased;
            read = reader.read(&mut buffer) => read.unwrap_or(0),
            () = &mut over => 0,
        };
        if count == 0 {
            return;
        }
        capture.push(&buffer[..count]);
        live.show(&buffer[..count]);
    }
}

struct CommandProgress<'a> {
    progress: &'a mpsc::Sender<ToolProgress>,
    decoder: LossyUtf8Decoder,
    offset: u64,
}

impl CommandProgress<'_> {
    fn show(&mut self, bytes: &[u8]) {
        let text = self.decoder.push(bytes);
        if text.is_empty() {
            return;
        }
        let chars = text.chars().count() as u64;
        // Progress must not slow the command down, so a slow receiver misses pieces.
        let _ = self.progress.try_send(ToolProgress { offset: self.offset, text });
        self.offset += chars;
    }
}

fn report(captured: CapturedOutput, status: ExitStatus, ending: CommandEnd, limit: Duration) -> ToolOutput {
    let CapturedOutput { mut text, invalid_bytes, lost_bytes } = captured;
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if invalid_bytes > 0 {
        text.push_str(&format!(
            "[{invalid_bytes} bytes of the output are not UTF-8 and shown as \u{fffd}]\n"
        ));
    }
    text.push_str(&status_line(status, ending, limit));
    // A command that ended by itself in spite of the cancel keeps its real result.
    let cancelled = ending == CommandEnd::Cancel && was_killed(status);
    // A command that handles the signal may end with 0 in spite of the time limit.
    let is_error = !status.success() || ending == CommandEnd::TimeLimit;
    ToolOutput {
        content: vec![ToolOutputPart::Text(text)],
        is_error,
        cancelled,
        keep: PreservedEnd::Both,
        lost_bytes,
    }
}

fn status_line(status: ExitStatus, ending: CommandEnd, limit: Duration) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    match ending {
        CommandEnd::Itself => format!("[{how}]"),
        CommandEnd::Cancel => format!("[cancelled; {how}]"),
        CommandEnd::TimeLimit => format!("[time limit of {} ms reached; {how}]", limit.as_millis()),
    }
}

/// Reports whether a process ended because of a signal, also when a shell reports that of its child.
fn was_killed(status: ExitStatus) -> bool {
    // Shells report a child that a signal ended as 128 plus the signal: 9 is `SIGKILL`, 15 is `SIGTERM`.
    status.signal().is_some() || matches!(status.code(), Some(137 | 143))
}
