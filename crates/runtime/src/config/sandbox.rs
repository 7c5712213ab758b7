//! The sandbox of the agent's commands and MCP programs.

use crate::sandbox::{ChildLimits, NetworkAccess};

/// The confinement of the agent's commands and MCP programs, besides the rules that always hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// The network access of the processes.
    pub network: NetworkAccess,
    /// The most that each process may use of the machine.
    pub limits: ChildLimits,
}

impl NetworkAccess {
    /// The names, as in the file.
    pub(super) const NAMES: &'static [&'static str] = &["allow", "deny"];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "allow" => Some(Self::Open),
            "deny" => Some(Self::Denied),
            _ => None,
        }
    }
}
