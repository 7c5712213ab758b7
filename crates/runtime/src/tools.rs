//! The built-in tools: the tool trait, the input and output of a call, and the tool set.
//!
//! A tool never fails the run: bad arguments, missing files and failed commands are answers for the model. A tool does
//! not shorten its answer to the room that is left. It only reports which end of a long answer matters
//! ([`PreservedEnd`]).

mod arguments;
mod bash;
mod capture;
mod edit;
mod function;
mod glob;
mod grep;
mod ignore_rules;
mod ls;
mod read;
mod short_descriptions;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::{RawJson, ToolSpec};
use longhaul_core::run::ToolApproval;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::function::{FunctionTool, IntoToolOutput, tool_fn, tool_fn_with_schema};
use crate::agent::DeferralDecision;
use crate::sandbox::Sandbox;
use crate::workspace::{Workspace, WorkspaceError};

/// The names of the library's tools, `recall` among them, in the model's order. These are the valid values of
/// `tools.enabled` and `tools.disabled`.
pub(crate) const BUILTIN: [&str; 8] = ["read", "bash", "edit", "write", "grep", "glob", "ls", RECALL];

/// The tool that every session has in addition to its tool set.
const RECALL: &str = crate::recall::NAME;

/// The source of the built-in tools in their specs.
const BUILTIN_SOURCE: &str = "builtin";

/// A function that a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool's spec for the model. The bytes must be the same every time.
    fn spec(&self) -> ToolSpec;

    /// Runs one call. Dropping the future ends all work of the call.
    async fn run(&self, call: ToolInput) -> ToolOutput;

    /// Reports whether the runtime believes the spec's claim that the tool only reads. Such a tool needs no approval. A
    /// tool that forwards the claims of another party's program returns `false`.
    fn is_vouched_for(&self) -> bool {
        true
    }

    /// Returns the approval of calls for which no rule of the agent names the tool. [`ToolApproval::Ask`] follows
    /// [`AgentRules::default_approval`](crate::agent::AgentRules::default_approval). `None` means the same for a tool
    /// that changes something, and [`ToolApproval::Allow`] for one that only reads.
    fn approval(&self) -> Option<ToolApproval> {
        None
    }

    /// Reports whether the tool comes from another party's program, usually an MCP server. If an agent's tools take
    /// much of the window, foreign tools are not shown to the model, which finds them by search.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Stops in an orderly way all that the tool keeps running between calls. Dropping the tool stops all of that at
    /// once.
    async fn close(&self) {}
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ToolInput {
    /// The arguments, as parsed from the model's text.
    pub arguments: serde_json::Value,
    /// The arguments, byte for byte as written by the model.
    pub written: RawJson,
    /// The place and the limits of the call.
    pub context: ToolContext,
}

impl ToolInput {
    /// Makes a call with arguments, written as a model could have written them.
    pub fn new(arguments: serde_json::Value, context: ToolContext) -> Self {
        let written = RawJson(arguments.to_string());
        Self { arguments, written, context }
    }
}

/// The place and the limits of a call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The agent's folder.
    pub workspace: Arc<Workspace>,
    /// The sandbox of child processes.
    pub sandbox: Arc<Sandbox>,
    /// The token that cancels the call.
    pub cancel: CancellationToken,
    /// The channel for output while the call runs. A full channel loses progress (the offsets show the gap), never
    /// output.
    pub progress: mpsc::Sender<ToolProgress>,
    /// The limits from the configuration.
    pub limits: ToolLimits,
}

/// A piece of output of a running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProgress {
    /// The number of characters of output before the piece.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// The limits of the built-in tools. The defaults are those of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolLimits {
    /// The maximum number of lines that `read` returns.
    pub read_max_lines: usize,
    /// The maximum number of characters of a line that `read` returns.
    pub read_max_line_chars: usize,
    /// The maximum number of matches of `grep`, and of paths of `glob` and `ls`.
    pub grep_max_matches: usize,
    /// The maximum duration of a command, unless the call sets a limit.
    pub bash_timeout: Duration,
    /// The time between asking a process to end and the kill.
    pub kill_grace: Duration,
    /// The bytes of a command's output that are kept. The middle of a longer output is lost.
    pub capture_bytes: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            read_max_lines: 2_000,
            read_max_line_chars: 2_000,
            grep_max_matches: 1_000,
            bash_timeout: Duration::from_secs(120),
            kill_grace: Duration::from_secs(5),
            capture_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The answer, in order. Only the first piece may be long.
    pub content: Vec<ToolOutputPart>,
    /// True if the answer reports an error.
    pub is_error: bool,
    /// True if the call was stopped before it was done. A call that ends by itself in spite of a cancel keeps its real
    /// result and `false` here.
    pub cancelled: bool,
    /// The end of the answer that matters if the answer is too long.
    pub keep: PreservedEnd,
    /// The number of bytes of output that were dropped.
    pub lost_bytes: u64,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolOutputPart {
    /// Text.
    Text(String),
    /// A picture or a file.
    Media {
        /// The content.
        bytes: Bytes,
        /// The MIME type.
        media_type: String,
        /// The file name, if there is one.
        name: Option<String>,
    },
}

/// The end of an answer that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreservedEnd {
    /// The start.
    Head,
    /// The end.
    Tail,
    /// Both start and end.
    Both,
}

impl ToolOutput {
    /// Makes an answer of one text whose start matters.
    pub fn text(text: impl Into<String>) -> Self {
        let content = vec![ToolOutputPart::Text(text.into())];
        Self { content, is_error: false, cancelled: false, keep: PreservedEnd::Head, lost_bytes: 0 }
    }

    /// Makes an error answer, in words for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Makes the answer of a stopped call.
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::error("The call was cancelled before it was done.") }
    }

    /// Returns the texts, joined with line breaks, for tests and logs.
    pub fn as_text(&self) -> String {
        let texts = self.content.iter().filter_map(|piece| match piece {
            ToolOutputPart::Text(text) => Some(text.as_str()),
            ToolOutputPart::Media { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The reason for a call without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not match the tool.
    #[error("{0}")]
    Arguments(String),
    /// A path cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The work itself failed.
    #[error("{0}")]
    Failed(String),
    /// The call was stopped.
    #[error("cancelled")]
    Cancelled,
}

impl From<ToolError> for ToolOutput {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Cancelled => Self::cancelled(),
            other => Self::error(format!("Error: {other}")),
        }
    }
}

/// The tools of an agent, in the model's order.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<(ToolSpec, Arc<dyn Tool>)>,
    /// The built-in tools that were enabled by name. Models with a small window see these tools, too.
    enabled: Vec<String>,
    /// True if `recall` was turned off.
    without_recall: bool,
    /// The decision whether foreign tools are shown to the model.
    pub(crate) deferral: DeferralDecision,
}

/// The error of two tools with the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is already a tool named `{0}`")]
pub struct DuplicateTool(pub String);

impl ToolSet {
    /// Makes a set without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the set of the built-in tools: `read`, `bash`, `edit`, `write`, `grep`, `glob`, `ls`.
    pub fn builtin() -> Self {
        let tools: [Arc<dyn Tool>; 7] = [
            Arc::new(read::ReadTool),
            Arc::new(bash::BashTool::new()),
            Arc::new(edit::EditTool),
            Arc::new(write::WriteTool),
            Arc::new(grep::GrepTool),
            Arc::new(glob::GlobTool),
            Arc::new(ls::LsTool),
        ];
        Self { tools: tools.into_iter().map(|tool| (tool.spec(), tool)).collect(), ..Self::default() }
    }

    /// Keeps only the built-in tools that are `enabled` (`None`: all) and not `disabled`. `recall` stays unless
    /// `disabled` names it, because without it the model cannot reach messages that left the view. Other tools stay.
    #[must_use]
    pub fn choose_builtin(mut self, enabled: Option<&[String]>, disabled: &[String]) -> Self {
        // Only built-in tools are chosen from. Tools of a program or a server were added on purpose.
        self.tools.retain(|(spec, _)| {
            let is_chosen = enabled.is_none_or(|enabled| enabled.contains(&spec.name));
            spec.source != BUILTIN_SOURCE || (is_chosen && !disabled.contains(&spec.name))
        });
        self.enabled = enabled.unwrap_or_default().to_vec();
        self.without_recall = disabled.iter().any(|name| name == RECALL);
        self
    }

    /// Reports whether sessions have the tool `recall` in addition to the set.
    pub fn has_recall(&self) -> bool {
        !self.without_recall
    }

    /// Appends a tool to the set.
    ///
    /// # Errors
    /// [`DuplicateTool`] if the tool's name is taken; the set is unchanged then.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), DuplicateTool> {
        let spec = tool.spec();
        if self.get(&spec.name).is_some() {
            return Err(DuplicateTool(spec.name));
        }
        self.tools.push((spec, tool));
        Ok(())
    }

    /// Returns the tool with a name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| tool)
    }

    /// Returns the spec of the tool with a name.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec).find(|spec| spec.name == name)
    }

    /// Returns the specs of all tools, in order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Reports whether the set has foreign tools.
    pub(crate) fn has_foreign(&self) -> bool {
        self.tools.iter().any(|(_, tool)| tool.is_foreign())
    }

    /// Returns the specs of the foreign tools, in order.
    pub(crate) fn foreign_specs(&self) -> Vec<ToolSpec> {
        let foreign = self.tools.iter().filter(|(_, tool)| tool.is_foreign());
        foreign.map(|(spec, _)| spec.clone()).collect()
    }

    /// Returns the specs for a model with a small window, in order. Built-in tools have short descriptions, and those
    /// that `bash` replaces are left out unless enabled by name. All tools of the set can be called nevertheless.
    pub fn brief_specs(&self) -> Vec<ToolSpec> {
        let listed = self
            .tools
            .iter()
            .map(|(spec, _)| spec)
            .filter(|spec| short_descriptions::is_essential(spec) || self.enabled.contains(&spec.name));
        listed.map(short_descriptions::shorten).collect()
    }

    /// Stops in an orderly way whatever the tools keep running.
    pub async fn close(&self) {
        // The tools close at the same time, because each may wait for a server to end.
        futures_util::future::join_all(self.tools.iter().map(|(_, tool)| tool.close())).await;
    }

    /// Runs a call by the tool's name. The answer to an unknown name lists the known ones.
    pub async fn run(&self, name: &str, call: ToolInput) -> ToolOutput {
        match self.get(name) {
            Some(tool) => tool.run(call).await,
            None => self.unknown(name),
        }
    }

    fn unknown(&self, name: &str) -> ToolOutput {
        tracing::info!(tools = self.tools.len(), "the model called a tool that does not exist");
        let known: Vec<&str> = self.tools.iter().map(|(spec, _)| spec.name.as_str()).collect();
        // The name comes from the model and may be of any length.
        let name: String = name.chars().take(80).collect();
        ToolOutput::error(format!(
            "Error: there is no tool named `{name}`. The tools are: {}.",
            known.join(", ")
        ))
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|(spec, _)| &spec.name)).finish()
    }
}

/// Makes the spec of a built-in tool. `parameters` is its JSON Schema.
fn builtin(name: &str, read_only: bool, description: &str, parameters: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: RawJson(parameters.to_owned()),
        read_only,
        poll: false,
        source: BUILTIN_SOURCE.to_owned(),
    }
}

/// Runs file work off the async threads and to its end: a file is either written or unchanged.
async fn finishing<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static,
{
    if cancel.is_cancelled() {
        return ToolOutput::cancelled();
    }
    // A cancel during the work would only stop the waiting: the thread would still write the file.
    settle(tokio::task::spawn_blocking(work).await)
}

fn settle(done: Result<Result<ToolOutput, ToolError>, tokio::task::JoinError>) -> ToolOutput {
    match done {
        Ok(result) => result.unwrap_or_else(ToolOutput::from),
        // Only a panic ends here. It is an answer for the model, like every other failure of a tool.
        Err(error) => {
            tracing::error!(is_panic = error.is_panic(), "the work of a tool failed; the model is told so");
            ToolOutput::error(format!("Error: the tool failed: {error}"))
        }
    }
}

/// Runs file work off the async threads. The work is asked to stop when the call is cancelled or dropped.
async fn blocking<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce(&CancellationToken) -> Result<ToolOutput, ToolError> + Send + 'static,
{
    // A child token: the guard below cancels on drop, which must not reach the other calls of the run.
    let stop = cancel.child_token();
    // Dropping the future of a blocking thread does not stop the thread; only the token does.
    let _stop_when_dropped = stop.clone().drop_guard();
    let task = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        done = task => settle(done),
        () = cancel.cancelled() => ToolOutput::cancelled(),
    }
}
