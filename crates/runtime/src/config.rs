//! The agent file, `longhaul.yml`: one agent and everything about how it runs.
//!
//! [`AgentConfig::parse`] is a function of text: it opens no file and reads no environment. Every key is listed
//! once, in `keys`, with its kind, default and meaning; checking, defaults, the reference and the JSON
//! Schema all come from that list. A file with mistakes gives all of them at once, each with its place.

mod agents;
mod closures;
mod duration;
mod error;
mod gateway;
mod hooks;
mod keys;
mod mcp;
mod model;
mod nearest;
mod node;
mod reader;
mod reference;
mod rule_tools;
mod sandbox;
mod schema;
mod section;
mod server;
mod server_name;
#[cfg(test)]
mod tests;

pub use agents::AgentSource;
pub use closures::{RestrictedConfig, UserConfigFile};
pub use error::{ConfigError, ConfigProblem, ConfigProblemKind};
pub use gateway::{
    GatewayAuth, GatewayConfig, GatewayCredentials, GatewayDeferTools, GatewayDialect, GatewayMidstream,
    GatewayRecall, UpstreamConfig, UpstreamHeaders, UpstreamModel,
};
pub use hooks::{HookConfig, HookTarget, HooksConfig};
pub use mcp::{McpCommand, McpHttpEndpoint, McpServerConfig, McpToolFilter, McpTransport};
pub use model::{
    ApprovalRule, ApprovalsConfig, BlobsConfig, CompressionConfig, ContextConfig, Decision, FirstByteTimeout,
    ModelConfig, ModelLimits, ModelPrices, ParallelTools, PromptCacheLife, ProviderKind, ReasoningRetention,
    Recovery, RetryConfig, RunConfig, StrategyKind, StrategyOptions, SummaryWriter, SystemPrompt,
    TelemetryConfig, TokenCounter, ToolsConfig, TriggerConfig,
};
pub use nearest::nearest;
pub use sandbox::SandboxConfig;
pub use server::{RateLimit, ServerConfig};
pub use server_name::is_server_name;

use std::collections::{BTreeMap, BTreeSet};

/// One agent, as its file describes it. Keys of capabilities that this version does not have are checked
/// (only their defaults are accepted) and leave no trace here.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: String,
    /// The system prompt.
    pub system_prompt: SystemPrompt,
    /// The model and where it is.
    pub model: ModelConfig,
    /// Limits of a run.
    pub run: RunConfig,
    /// The settings that keep the context window from overflowing.
    pub context: ContextConfig,
    /// The hooks that are asked during a run.
    pub hooks: HooksConfig,
    /// Limits of tool output.
    pub tools: ToolsConfig,
    /// The sandbox of commands and MCP programs.
    pub sandbox: SandboxConfig,
    /// Limits of stored media and whole outputs.
    pub blobs: BlobsConfig,
    /// The tools that may run without asking.
    pub approvals: ApprovalsConfig,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// The repetition of failed model calls.
    pub retry: RetryConfig,
    /// The declared limits of models, by name; a declaration wins over everything learned.
    pub models: BTreeMap<String, ModelLimits>,
    /// The gateway: whom it answers, and how.
    pub gateway: GatewayConfig,
    /// The server's address, and the clients that it admits.
    pub server: ServerConfig,
    /// The destination of spans and metrics.
    pub telemetry: TelemetryConfig,
    /// More agents, by name. They inherit nothing from this one, and cannot set the server's address, its telemetry or
    /// the size of blobs.
    pub agents: BTreeMap<String, AgentSource>,
}

impl AgentConfig {
    /// Reads an agent file. `file` is its name in messages.
    ///
    /// ```
    /// let config = longhaul::config::AgentConfig::parse("run: { maxSteps: 7 }", "longhaul.yml").unwrap();
    /// assert_eq!(config.run.max_steps, 7);
    /// let error = longhaul::config::AgentConfig::parse("run: { maxSteeps: 7 }", "longhaul.yml").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "longhaul.yml:1:8: unknown key `maxSteeps` in `run`: did you mean `maxSteps`?"
    /// );
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] with every problem found, in the order of the file.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::parse_as(text, file, false)
    }

    /// Reads the file of an agent that a main file names: it has no agents of its own.
    ///
    /// # Errors
    /// As [`AgentConfig::parse`].
    pub fn parse_agent(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::parse_as(text, file, true)
    }

    /// Checks the tools that the approval rules of a file name, for programs whose agents have the built-in tools and
    /// those of MCP servers. A misspelt rule would fit no call, and what it should deny would run. Programs with tools
    /// of their own leave this check out.
    ///
    /// ```
    /// let file = "approvals: { rules: [{ tool: bsh, decision: deny }] }";
    /// let error = longhaul::config::AgentConfig::check_rule_tools(file, "longhaul.yml").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "longhaul.yml:1:30: `approvals.rules[0].tool` cannot be `bsh`: did you mean `bash`?"
    /// );
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] with every rule that names an unknown tool, or an argument that its built-in tool does not
    /// have. A name with `__` or with signs of a glob, and the name of a configured MCP server, may be another party's
    /// and are not checked.
    pub fn check_rule_tools(text: &str, file: &str) -> Result<(), ConfigError> {
        let problems = match node::parse(text) {
            Ok(root) => rule_tools::problems(&root),
            Err(problem) => vec![*problem],
        };
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { file: file.to_owned(), problems }) }
    }

    fn parse_as(text: &str, file: &str, is_inner: bool) -> Result<Self, ConfigError> {
        let root = node::parse(text)
            .map_err(|problem| ConfigError { file: file.to_owned(), problems: vec![*problem] })?;
        let mut reader =
            if is_inner { reader::ConfigReader::of_agent(&root) } else { reader::ConfigReader::new(&root) };
        let config = section::config(&mut reader);
        let problems = reader.finish();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError { file: file.to_owned(), problems }) }
    }

    /// Returns the keys that a file sets, for example `run.maxSteps`, in the spelling of the reference; none if the file
    /// cannot be read.
    pub fn written(text: &str) -> BTreeSet<String> {
        let mut written = BTreeSet::new();
        if let Ok(root) = node::parse(text) {
            note(&root, "", &mut written);
        }
        written
    }

    /// Returns every key with its default and meaning, as a file that parses to [`AgentConfig::default`].
    pub fn reference() -> String {
        reference::render()
    }

    /// The JSON Schema (2020-12) of the file, for editors.
    pub fn json_schema() -> serde_json::Value {
        schema::render()
    }
}

fn note(node: &node::ConfigNode, path: &str, written: &mut BTreeSet<String>) {
    let known = keys::children(path);
    for entry in node.entries() {
        // The closures of a user's file ask for keys by name, so another spelling must not hide one.
        let key = keys::spelled(&entry.key, &known).unwrap_or(&entry.key);
        let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        note(&entry.node, &inner, written);
        written.insert(inner);
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        // Defaults are read like a file, so that the list of keys is their only source.
        section::config(&mut reader::ConfigReader::new(&node::ConfigNode::empty()))
    }
}
