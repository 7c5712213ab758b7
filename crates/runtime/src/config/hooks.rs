//! Hooks, as configured.

use std::fmt;
use std::time::Duration;

use super::mcp::server_of;

/// The hooks of an agent, each `None` unless it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HooksConfig {
    /// The hook that is asked before a compaction.
    pub pre_compact: Option<HookConfig>,
    /// The hook that is asked before a tool runs.
    pub pre_tool_use: Option<HookConfig>,
    /// The hook that is asked after a tool ran.
    pub post_tool_use: Option<HookConfig>,
    /// The hook that is asked about a new message.
    pub user_prompt_submit: Option<HookConfig>,
}

/// A hook of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookConfig {
    /// The target that is asked.
    pub target: HookTarget,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

/// The target of a hook. `Debug` shows neither the command nor the address, except for its server: both may hold a
/// secret.
#[derive(Clone, PartialEq, Eq)]
pub enum HookTarget {
    /// A command line for the shell.
    Command(String),
    /// The address of a server.
    Url(String),
}

impl HooksConfig {
    /// Returns the configured hooks, with their names in the file.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &HookConfig)> {
        let all = [
            ("preCompact", &self.pre_compact),
            ("preToolUse", &self.pre_tool_use),
            ("postToolUse", &self.post_tool_use),
            ("userPromptSubmit", &self.user_prompt_submit),
        ];
        all.into_iter().filter_map(|(name, hook)| Some((name, hook.as_ref()?)))
    }
}

impl HookTarget {
    /// Scheme, host and port of an address.
    pub fn server(&self) -> Option<String> {
        match self {
            Self::Command(_) => None,
            Self::Url(url) => Some(server_of(url)),
        }
    }
}

impl fmt::Debug for HookTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server() {
            None => f.write_str("Command(…)"),
            Some(server) => write!(f, "Url({server})"),
        }
    }
}
