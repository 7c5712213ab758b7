//! The built-in tools: what a tool is, what it is given, what it gives back, and the set of them.
//!
//! A tool never fails the run: bad arguments, missing files and failed commands are answers for the model.
//! Cutting answers to the room that is left is not a tool's business; a tool only says which end of a long
//! answer matters ([`PreservedEnd`]).

pub mod arguments;
pub mod bash;
mod capture;
pub mod edit;
mod encoding;
mod function;
pub mod glob;
pub mod grep;
mod ignored;
pub mod ls;
pub mod read;
mod short_descriptions;
#[cfg(test)]
mod tests;
mod walk;
pub mod write;

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

/// The names of the tools that come with the library, `recall` among them: what `tools.enabled` and `tools.disabled`
/// may hold. In the order in which a model is told of them.
pub const BUILTIN: [&str; 8] = ["read", "bash", "edit", "write", "grep", "glob", "ls", RECALL];

/// The tool that every session has beside its set.
const RECALL: &str = crate::recall::NAME;

/// The source of the built-in tools in their specs.
const BUILTIN_SOURCE: &str = "builtin";

/// Something a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The tool as the model is told of it. The same bytes every time.
    fn spec(&self) -> ToolSpec;

    /// Runs one call. Dropping the future ends everything the call has started.
    async fn run(&self, call: ToolInput) -> ToolOutput;

    /// Returns whether it is taken at its word when its spec says that it only reads: such a tool needs no
    /// approval. A tool that passes on what somebody else's program says of itself answers `false`.
    fn is_vouched_for(&self) -> bool {
        true
    }

    /// Returns whether a call may run where no rule of the agent names the tool. [`ToolApproval::Ask`] means what
    /// [`AgentRules::default_approval`](crate::agent::AgentRules::default_approval) says; `None` means the same for a tool that
    /// changes something, and [`ToolApproval::Allow`] for one that only reads.
    fn approval(&self) -> Option<ToolApproval> {
        None
    }

    /// Returns whether the tool comes from somebody else's program, an MCP server as a rule. Where the tools of an agent
    /// take much of the window, the model is not told of foreign ones: it finds them
    /// ([`deferral`](longhaul_core::deferral)).
    fn is_foreign(&self) -> bool {
        false
    }

    /// Ends in good order what it keeps running between calls. Dropping the tool ends it, too, at once.
    async fn close(&self) {}
}

/// One call.
#[derive(Clone, Debug)]
pub struct ToolInput {
    /// The arguments, as parsed from what the model wrote.
    pub arguments: serde_json::Value,
    /// The arguments, byte for byte as the model wrote them.
    pub written: RawJson,
    /// Where and under which limits it runs.
    pub context: ToolContext,
}

impl ToolInput {
    /// A call with those arguments, as a model could have written them.
    pub fn new(arguments: serde_json::Value, context: ToolContext) -> Self {
        let written = RawJson(arguments.to_string());
        Self { arguments, written, context }
    }
}

/// Where a call runs.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The agent's folder.
    pub workspace: Arc<Workspace>,
    /// What child processes are confined to.
    pub sandbox: Arc<Sandbox>,
    /// Ends the call early.
    pub cancel: CancellationToken,
    /// Takes output while it comes. A full channel loses progress (the offsets show it), never output.
    pub progress: mpsc::Sender<ToolProgress>,
    /// Limits from the configuration.
    pub limits: ToolLimits,
}

/// A piece of output of a call that still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProgress {
    /// Characters of output before this piece.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// Limits of the built-in tools; the defaults are those of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// Lines that `read` gives at most.
    pub read_max_lines: usize,
    /// Characters of a line that `read` gives at most.
    pub read_max_line_chars: usize,
    /// Matches that `grep`, and paths that `glob` and `ls`, give at most.
    pub grep_max_matches: usize,
    /// Time a command may take unless the call says otherwise.
    pub bash_timeout: Duration,
    /// Time between asking a process to end and killing it.
    pub kill_grace: Duration,
    /// Bytes of a command's output that are kept; its middle is lost beyond that.
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

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The answer, in order. Only the first piece may be long.
    pub content: Vec<ToolOutputPart>,
    /// Whether it reports an error.
    pub is_error: bool,
    /// Whether the call was stopped before it was done. A call that ends by itself in spite of a cancel has
    /// its real result and `false` here.
    pub cancelled: bool,
    /// Which end matters when it is too long.
    pub keep: PreservedEnd,
    /// Bytes of output that are gone because there were too many.
    pub lost_bytes: u64,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutputPart {
    /// Text.
    Text(String),
    /// A picture or a file.
    Media {
        /// The content.
        bytes: Bytes,
        /// Its MIME type.
        media_type: String,
        /// File name, if it has one.
        name: Option<String>,
    },
}

/// Which end of an answer matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreservedEnd {
    /// Its start.
    Head,
    /// Its end.
    Tail,
    /// Both.
    Both,
}

impl ToolOutput {
    /// A text whose start matters.
    pub fn text(text: impl Into<String>) -> Self {
        let content = vec![ToolOutputPart::Text(text.into())];
        Self { content, is_error: false, cancelled: false, keep: PreservedEnd::Head, lost_bytes: 0 }
    }

    /// An error, in words for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// The answer of a call that was stopped.
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::error("The call was cancelled before it was done.") }
    }

    /// The texts, joined with line breaks; for tests and logs.
    pub fn as_text(&self) -> String {
        let texts = self.content.iter().filter_map(|piece| match piece {
            ToolOutputPart::Text(text) => Some(text.as_str()),
            ToolOutputPart::Media { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are not what the tool takes.
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

/// Tools in a fixed order: the order in which the model is told of them.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<(ToolSpec, Arc<dyn Tool>)>,
    /// Built-in tools that were asked for by name: small windows are told of them, too.
    enabled: Vec<String>,
    /// `recall` was turned off.
    without_recall: bool,
    /// Whether the model is told of foreign tools.
    pub(crate) deferral: DeferralDecision,
}

/// Two tools have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is already a tool named `{0}`")]
pub struct DuplicateTool(pub String);

impl ToolSet {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// The built-in tools of this module: `read`, `bash`, `edit`, `write`, `grep`, `glob`, `ls`.
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

    /// Keeps of the built-in tools only those that are `enabled` (`None`: all) and not `disabled`. `recall` stays unless
    /// `disabled` names it: without it, what leaves the view is out of the model's reach. Other tools stay.
    #[must_use]
    pub fn choose_builtin(mut self, enabled: Option<&[String]>, disabled: &[String]) -> Self {
        let is_chosen =
            |name: &String| enabled.is_none_or(|enabled| enabled.contains(name)) && !disabled.contains(name);
        self.tools.retain(|(spec, _)| spec.source != BUILTIN_SOURCE || is_chosen(&spec.name));
        self.enabled = enabled.unwrap_or_default().to_vec();
        self.without_recall = disabled.iter().any(|name| name == RECALL);
        self
    }

    /// Returns whether sessions have the tool `recall` beside this set.
    pub fn has_recall(&self) -> bool {
        !self.without_recall
    }

    /// Adds a tool behind the others.
    ///
    /// # Errors
    /// [`DuplicateTool`] when its name is taken; the set is unchanged.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), DuplicateTool> {
        let spec = tool.spec();
        if self.get(&spec.name).is_some() {
            return Err(DuplicateTool(spec.name));
        }
        self.tools.push((spec, tool));
        Ok(())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| tool)
    }

    /// What the model is told of the tool of that name.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec).find(|spec| spec.name == name)
    }

    /// What the model is told, in order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Returns whether there are foreign tools.
    pub(crate) fn has_foreign(&self) -> bool {
        self.tools.iter().any(|(_, tool)| tool.is_foreign())
    }

    /// Returns what the model could be told of foreign tools, in order.
    pub(crate) fn foreign_specs(&self) -> Vec<ToolSpec> {
        let foreign = self.tools.iter().filter(|(_, tool)| tool.is_foreign());
        foreign.map(|(spec, _)| spec.clone()).collect()
    }

    /// What a model with a small window is told, in order: the built-in tools in few words, without those that `bash`
    /// replaces unless they were enabled by name. All tools of the set can be called nevertheless.
    pub fn brief_specs(&self) -> Vec<ToolSpec> {
        let is_told =
            |spec: &ToolSpec| short_descriptions::is_essential(spec) || self.enabled.contains(&spec.name);
        let specs = self.tools.iter().map(|(spec, _)| spec);
        specs.filter(|spec| is_told(spec)).map(short_descriptions::shorten).collect()
    }

    /// Ends in good order what the tools keep running.
    pub async fn close(&self) {
        futures_util::future::join_all(self.tools.iter().map(|(_, tool)| tool.close())).await;
    }

    /// Runs a call by name; an unknown name is answered with the known ones.
    pub async fn run(&self, name: &str, call: ToolInput) -> ToolOutput {
        match self.get(name) {
            Some(tool) => tool.run(call).await,
            None => self.unknown(name),
        }
    }

    fn unknown(&self, name: &str) -> ToolOutput {
        let known: Vec<&str> = self.tools.iter().map(|(spec, _)| spec.name.as_str()).collect();
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

/// The spec of a built-in tool. `parameters` is its JSON Schema.
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

/// Runs file work off the async threads, to its end: a file is written or it is not.
async fn finishing<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static,
{
    if cancel.is_cancelled() {
        return ToolOutput::cancelled();
    }
    settle(tokio::task::spawn_blocking(work).await)
}

fn settle(done: Result<Result<ToolOutput, ToolError>, tokio::task::JoinError>) -> ToolOutput {
    match done {
        Ok(result) => result.unwrap_or_else(ToolOutput::from),
        Err(error) => ToolOutput::error(format!("Error: the tool failed: {error}")),
    }
}

/// Runs file work off the async threads. It is asked to stop when the call is cancelled or dropped.
async fn blocking<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce(&CancellationToken) -> Result<ToolOutput, ToolError> + Send + 'static,
{
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let task = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        done = task => settle(done),
        () = cancel.cancelled() => ToolOutput::cancelled(),
    }
}
